//! Rules of `metadata`, the same for every kind: names, labels, annotations, owners, finalizers.
//!
//! `managedFields` is the business of server-side apply and is not judged here. What only the server may set (uid, times,
//! generation) is set by the pipeline before anything here runs; on update it is checked again, so that a mistake there
//! becomes an error and not a changed identity.

use api::field::{Error, Path};
use api::{json, names};
use serde_json::Value;

/// The most bytes that the keys and values of all annotations may have together; Kubernetes API.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;
/// Finalizers that need no prefix; Kubernetes API.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// A check of a name: `None` for a good one, else the rule that it breaks.
pub type NameRule = fn(&str) -> Option<&'static str>;

/// What differs between kinds.
#[derive(Clone, Copy, Debug)]
pub struct MetaRules {
    /// What a name must look like.
    pub name: NameRule,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether a finalizer must have a prefix or be one of those that Kubernetes itself knows.
    pub qualified_finalizers: bool,
}

/// Checks a name that only has to fit into a URL.
pub fn path_segment(name: &str) -> Option<&'static str> {
    match name {
        "." | ".." => Some("may not be '.' or '..'"),
        _ if name.contains('/') => Some("may not contain '/'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// Returns everything that is wrong with the metadata of an object.
pub fn validate_meta(object: &Value, rules: MetaRules) -> Vec<Error> {
    let path = Path::new("metadata");
    let mut errors = Vec::new();
    let Some(meta) = json::object(object, &["metadata"]).map(|_| &object["metadata"]) else {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
        return errors;
    };
    validate_name(meta, rules, &path, &mut errors);
    if json::int(meta, &["generation"]).is_some_and(|generation| generation < 0) {
        errors.push(Error::invalid(
            &path.child("generation"),
            meta["generation"].clone(),
            "must be greater than or equal to 0",
        ));
    }
    validate_labels(meta.get("labels"), &path.child("labels"), &mut errors);
    validate_annotations(meta.get("annotations"), &path.child("annotations"), &mut errors);
    validate_owners(json::items(meta, &["ownerReferences"]), &path.child("ownerReferences"), &mut errors);
    validate_finalizers(json::items(meta, &["finalizers"]), rules.qualified_finalizers, &path.child("finalizers"), &mut errors);
    errors
}

/// Returns everything that is wrong with the metadata of an update, except finalizers added to an object that is being
/// deleted: that is judged with the deletion rules (`registry::meta::validate_finalizers`), for custom resources too.
pub fn validate_meta_update(new: &Value, old: &Value, rules: MetaRules) -> Vec<Error> {
    let mut errors = validate_meta(new, rules);
    let path = Path::new("metadata");
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (is, was) = (json::at(new, &["metadata", key]), json::at(old, &["metadata", key]));
        if is != was {
            errors.push(immutable(&path.child(key), is));
        }
    }
    errors
}

/// Returns the error of a field that may not change.
pub(crate) fn immutable(path: &Path, value: Option<&Value>) -> Error {
    Error::invalid(path, value.cloned().unwrap_or(Value::Null), "field is immutable")
}

fn validate_name(meta: &Value, rules: MetaRules, path: &Path, errors: &mut Vec<Error>) {
    let prefix = json::text(meta, &["generateName"]);
    if !prefix.is_empty()
        && let Some(broken) = (rules.name)(&without_dash(prefix))
    {
        errors.push(Error::invalid(&path.child("generateName"), prefix, broken));
    }
    let name = json::text(meta, &["name"]);
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
    } else if let Some(broken) = (rules.name)(name) {
        errors.push(Error::invalid(&path.child("name"), name, broken));
    }
    let namespace = json::text(meta, &["namespace"]);
    match (rules.namespaced, namespace.is_empty()) {
        (true, true) => errors.push(Error::required(&path.child("namespace"), "")),
        (true, false) => {
            if let Some(broken) = names::dns1123_label(namespace) {
                errors.push(Error::invalid(&path.child("namespace"), namespace, broken));
            }
        }
        (false, true) => {}
        (false, false) => errors.push(Error::forbidden(&path.child("namespace"), "not allowed on this type")),
    }
}

/// A prefix may end with a dash, since something follows.
fn without_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(head) => format!("{head}a"),
        None => prefix.to_owned(),
    }
}

/// Judges a map of labels; errors are on the map, as in Kubernetes.
pub(super) fn validate_labels(labels: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if let Some(broken) = names::qualified_name(key) {
            errors.push(Error::invalid(path, key.as_str(), broken));
        }
        let value = value.as_str().unwrap_or_default();
        if let Some(broken) = names::label_value(value) {
            errors.push(Error::invalid(path, value, broken));
        }
    }
}

/// Judges a map of annotations: the keys, and the size of all together.
pub(super) fn validate_annotations(annotations: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        // Upper case in the prefix is a habit of old annotations that Kubernetes lets pass.
        if let Some(broken) = names::qualified_name(&key.to_ascii_lowercase()) {
            errors.push(Error::invalid(path, key.as_str(), broken));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(Error::too_long(path, ANNOTATIONS_MAX));
    }
}

fn validate_owners(owners: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let mut controller: Option<&str> = None;
    for (index, owner) in owners.iter().enumerate() {
        let here = path.index(index);
        let text = |key| json::text(owner, &[key]);
        let api_version = text("apiVersion");
        match api_version.split_once('/') {
            _ if api_version.is_empty() => {
                errors.push(Error::invalid(&here.child("apiVersion"), "", "version must not be empty"));
            }
            Some((group, version)) if group.is_empty() || version.is_empty() || version.contains('/') => {
                errors.push(Error::invalid(&here.child("apiVersion"), api_version, "must be version or group/version"));
            }
            _ => {}
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                errors.push(Error::invalid(&here.child(key), "", format!("{key} must not be empty")));
            }
        }
        if text("kind") == "Event" && ["v1", "events.k8s.io/v1"].contains(&api_version) {
            errors.push(Error::invalid(&here, owner.clone(), "an Event is disallowed from being an owner"));
        }
        if json::boolean(owner, &["controller"]) == Some(true)
            && let Some(other) = controller.replace(text("name"))
        {
            let detail = format!(
                "only one reference can have controller set to true; found \"true\" in references for {other} and {}",
                text("name")
            );
            errors.push(Error::invalid(path, owners.to_vec(), detail));
        }
    }
}

fn validate_finalizers(finalizers: &[Value], qualified: bool, path: &Path, errors: &mut Vec<Error>) {
    for (index, finalizer) in finalizers.iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        if let Some(error) = finalizer_error(finalizer, qualified, &path.index(index)) {
            errors.push(error);
        }
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizers orphan and foregroundDeletion cannot both be set";
        errors.push(Error::invalid(path, finalizers.to_vec(), detail));
    }
}

/// Returns what is wrong with one finalizer.
pub(super) fn finalizer_error(finalizer: &str, qualified: bool, path: &Path) -> Option<Error> {
    if let Some(broken) = names::qualified_name(finalizer) {
        return Some(Error::invalid(path, finalizer, broken));
    }
    (qualified && !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer))
        .then(|| Error::invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: MetaRules = MetaRules { name: names::dns1123_subdomain, namespaced: true, qualified_finalizers: true };

    fn paths(errors: &[Error]) -> Vec<(&str, &'static str)> {
        errors.iter().map(|error| (error.path.as_str(), error.kind.name())).collect()
    }

    fn meta(meta: Value) -> Vec<Error> {
        validate_meta(&json!({ "metadata": meta }), RULES)
    }

    #[test]
    fn a_name_is_required_and_must_fit() {
        assert_eq!(paths(&meta(json!({"namespace": "n"}))), [("metadata.name", "Required")]);
        let errors = meta(json!({"namespace": "n", "name": "Bad_Name"}));
        assert_eq!(paths(&errors), [("metadata.name", "Invalid")]);
        assert!(errors[0].message().starts_with("Invalid value: \"Bad_Name\""), "{}", errors[0]);
        assert_eq!(paths(&validate_meta(&json!({}), RULES)), [("metadata.name", "Required")]);
        assert!(meta(json!({"namespace": "n", "name": "gen-x", "generateName": "gen-"})).is_empty());
    }

    #[test]
    fn labels_annotations_and_finalizers_are_judged() {
        let errors = meta(json!({
            "namespace": "n", "name": "a", "labels": {"x": "no spaces"}, "annotations": {"a b": "", "Big/k": "v".repeat(300_000)},
            "finalizers": ["not a name", "hold", "example.com/hold"],
        }));
        assert_eq!(
            paths(&errors),
            [
                ("metadata.labels", "Invalid"),
                ("metadata.annotations", "Invalid"),
                ("metadata.annotations", "TooLong"),
                ("metadata.finalizers[0]", "Invalid"),
                ("metadata.finalizers[1]", "Invalid"),
            ]
        );
    }

    #[test]
    fn an_owner_needs_its_fields_and_only_one_controls() {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x"});
        let errors = meta(json!({"namespace": "n", "name": "a", "ownerReferences": [owner]}));
        assert_eq!(paths(&errors), [("metadata.ownerReferences[0].uid", "Invalid")]);
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": true});
        let errors = meta(json!({"namespace": "n", "name": "a", "ownerReferences": [owner, owner]}));
        assert_eq!(paths(&errors), [("metadata.ownerReferences", "Invalid")]);
    }

    #[test]
    fn identity_does_not_change() {
        let old = json!({"metadata": {"namespace": "n", "name": "a", "uid": "1"}});
        let new = json!({"metadata": {"namespace": "n", "name": "a", "uid": "2"}});
        assert_eq!(paths(&validate_meta_update(&new, &old, RULES)), [("metadata.uid", "Invalid")]);
    }
}
