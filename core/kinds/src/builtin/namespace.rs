//! Namespaces: their label, their finalizers, their phase.

use api::field::Path;
use api::json;
use serde_json::{Value, json};

use super::check::{Errors, each};
use super::fill::copy;
use super::meta::finalizer_error;

/// The label by which selectors find a namespace by name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer that the namespace controller removes when nothing is left.
pub(super) const FINALIZER: &str = "kubernetes";

/// Makes a new namespace active, held by the namespace controller.
pub(super) fn prepare_create(namespace: &mut Value) {
    json::object_mut(namespace, &[]).insert("status".to_owned(), json!({"phase": "Active"}));
    let finalizers = json::object_mut(namespace, &["spec"]).entry("finalizers").or_insert(Value::Null);
    match finalizers.as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|finalizer| finalizer == FINALIZER) => {}
        Some(finalizers) => finalizers.push(FINALIZER.into()),
        None => *finalizers = json!([FINALIZER]),
    }
}

/// Sets the label of the name, whatever the user wrote there.
pub(super) fn default(namespace: &mut Value) {
    let name = json::text(namespace, &["metadata", "name"]).to_owned();
    if !name.is_empty() {
        json::object_mut(namespace, &["metadata", "labels"]).insert(NAME_LABEL.to_owned(), name.into());
    }
}

/// Keeps the finalizers of the spec, which only `/finalize` may change.
pub(super) fn keep_finalizers(new: &mut Value, old: &Value) {
    copy(old.get("spec"), "finalizers", json::object_mut(new, &["spec"]));
}

/// Judges the finalizers of the spec.
pub(super) fn validate(namespace: &Value, errors: &mut Errors) {
    for (finalizer, path) in each(&namespace["spec"], "finalizers", &Path::new("spec")) {
        errors.extend(finalizer_error(finalizer.as_str().unwrap_or_default(), true, &path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_active_and_labelled() {
        let mut namespace =
            json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "lie"}}, "status": {"phase": "Terminating"}});
        prepare_create(&mut namespace);
        default(&mut namespace);
        let expected = json!({
            "metadata": {"name": "a", "labels": {NAME_LABEL: "a"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        assert_eq!(namespace, expected);
        let mut namespace = json!({"spec": {"finalizers": ["a/b"]}});
        prepare_create(&mut namespace);
        assert_eq!(namespace["spec"]["finalizers"], json!(["a/b", "kubernetes"]));
    }

    #[test]
    fn finalizers_of_the_spec_are_judged() {
        let mut errors = Vec::new();
        validate(&json!({"spec": {"finalizers": ["kubernetes", "a/b", "odd", ""]}}), &mut errors);
        let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["spec.finalizers[2]", "spec.finalizers[3]"]);
    }
}
