//! What is asked of stored objects without reading them again: labels, identity, owners, deletion.

use std::collections::BTreeMap;

use serde_json::Value;

use api::json;

/// The indexed part of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`; empty at cluster scope.
    pub namespace: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.ownerReferences`, in order.
    pub owners: Vec<Owner>,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
}

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// The very owner.
    pub uid: String,
    /// Whether foreground deletion of the owner waits for this object.
    pub blocks: bool,
}

impl Index {
    /// Returns the index of an object.
    pub fn of(object: &Value) -> Index {
        let text = |path: &[&str]| json::text(object, path).to_owned();
        let labels = json::object(object, &["metadata", "labels"])
            .map(|labels| labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect())
            .unwrap_or_default();
        let owners = json::items(object, &["metadata", "ownerReferences"])
            .iter()
            .map(|owner| Owner {
                api_version: json::text(owner, &["apiVersion"]).to_owned(),
                kind: json::text(owner, &["kind"]).to_owned(),
                name: json::text(owner, &["name"]).to_owned(),
                uid: json::text(owner, &["uid"]).to_owned(),
                blocks: json::boolean(owner, &["blockOwnerDeletion"]).unwrap_or(false),
            })
            .collect();
        let finalizers = json::items(object, &["metadata", "finalizers"])
            .iter()
            .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
            .collect();
        Index {
            name: text(&["metadata", "name"]),
            namespace: text(&["metadata", "namespace"]),
            uid: text(&["metadata", "uid"]),
            labels,
            owners,
            deleting: json::at(object, &["metadata", "deletionTimestamp"]).is_some(),
            finalizers,
        }
    }
}
