//! Ownership: whose an object is, and the patches that adopt or release it.

use api::meta::OwnerReference;
use api::{Kind, ObjectMeta, Selector, Verb, Write};
use serde_json::{Value, json};

/// Returns the reference of the controller of an object.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().find(|owner| owner.controller == Some(true))
}

/// Returns the reference by which an object of kind `K` owns what it makes.
pub(crate) fn owner_reference<K: Kind>(owner: &ObjectMeta) -> Value {
    json!({
        "apiVersion": format!("{}/{}", K::GROUP, K::VERSION), "kind": K::KIND, "name": owner.name, "uid": owner.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the request that makes `owner` the controller of the object `name` with this uid.
pub(crate) fn adopt<O: Kind, K: Kind>(owner: &ObjectMeta, name: &str, uid: &str) -> Write {
    let patch = json!({"metadata": {"uid": uid, "ownerReferences": [owner_reference::<O>(owner)]}});
    Write::to::<K>(&owner.namespace, name, Verb::Strategic(patch))
}

/// Returns the request after which `owner` is not an owner of the object `name` with this uid any more.
pub(crate) fn release<K: Kind>(owner: &ObjectMeta, name: &str, uid: &str) -> Write {
    let patch = json!({"metadata": {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner.uid}]}});
    Write::to::<K>(&owner.namespace, name, Verb::Strategic(patch))
}

/// Returns a request that changes nothing: its answer is the object as it is now, if it still is the very one.
///
/// Asked of an owner before an adoption: whoever deletes an owner and keeps what it owned would otherwise see it adopted by the owner
/// that the watch has not shown as deleted yet, and the collector would delete it.
pub(crate) fn confirm<O: Kind>(object: &ObjectMeta) -> Write {
    Write::to::<O>(&object.namespace, &object.name, Verb::Merge(json!({"metadata": {"uid": object.uid}})))
}

/// Returns whether a selector that must not be empty matches labels.
pub(crate) fn selects(selector: Option<&Selector>, labels: &std::collections::BTreeMap<String, String>) -> bool {
    selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels))
}
