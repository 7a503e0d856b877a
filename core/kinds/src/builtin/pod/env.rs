//! Environment variables of containers.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::{json, names};
use serde_json::Value;

use crate::builtin::check::{Errors, config_key, each, env_name, required, required_shaped, shaped};

/// Fields of the pod that a variable can take its value from.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of the pod that a file can take its content from.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Resources of the container that a variable or a file can take its content from.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Judges `env` and `envFrom` of a container.
pub(super) fn validate_env(container: &Value, path: &Path, errors: &mut Errors) {
    for (variable, path) in each(container, "env", path) {
        required_shaped(variable, "name", env_name, &path, errors);
        let Some(source) = json::get(variable, "valueFrom") else { continue };
        let path = path.child("valueFrom");
        let given: Vec<&str> = SOURCES.into_iter().filter(|key| json::get(source, key).is_some()).collect();
        if !json::text(variable, &["value"]).is_empty() && !given.is_empty() {
            errors.push(Error::invalid(&path, "", "may not be specified when `value` is not empty"));
        } else if given.is_empty() {
            let detail =
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            errors.push(Error::invalid(&path, "", detail));
        } else if given.len() > 1 {
            errors.push(Error::invalid(&path, "", "may not have more than one field specified at a time"));
        }
        for key in given {
            let (source, path) = (&source[key], path.child(key));
            match key {
                "fieldRef" => validate_field_ref(source, &ENV_FIELDS, &path, errors),
                "resourceFieldRef" => validate_resource_ref(source, &path, errors),
                _ => {
                    required_shaped(source, "key", config_key, &path, errors);
                    shaped(source, "name", names::dns1123_subdomain, &path, errors);
                }
            }
        }
    }
    for (source, path) in each(container, "envFrom", path) {
        shaped(source, "prefix", env_name, &path, errors);
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|key| json::get(source, key).is_some()).collect();
        match given.len() {
            0 => errors.push(Error::invalid(&path, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => errors.push(Error::invalid(&path, "", "may not have more than one field specified at a time")),
        }
        for key in given {
            required_shaped(&source[key], "name", names::dns1123_subdomain, &path.child(key), errors);
        }
    }
}

/// Returns a word about every variable that a later one of the same name hides.
pub(in crate::builtin) fn env_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["initContainers", "containers"] {
        for (container, path) in each(spec, list, path) {
            let mut known = BTreeSet::new();
            for (variable, path) in each(container, "env", &path) {
                let name = json::text(variable, &["name"]);
                if !known.insert(name) {
                    warnings
                        .push(format!("{path}: hides previous definition of {name:?}, which may be dropped when using apply"));
                }
            }
        }
    }
    warnings
}

/// Judges what a file of a downward API volume takes its content from.
pub(super) fn validate_file_source(item: &Value, path: &Path, errors: &mut Errors) {
    match (json::get(item, "fieldRef"), json::get(item, "resourceFieldRef")) {
        (Some(_), Some(_)) => {
            errors.push(Error::invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"));
        }
        (Some(field), None) => validate_field_ref(field, &FILE_FIELDS, &path.child("fieldRef"), errors),
        (None, Some(resource)) => {
            required(resource, "containerName", &path.child("resourceFieldRef"), errors);
            validate_resource_ref(resource, &path.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.push(Error::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
}

fn validate_field_ref(source: &Value, supported: &[&str], path: &Path, errors: &mut Errors) {
    required(source, "apiVersion", path, errors);
    let Some(field) = required(source, "fieldPath", path, errors) else { return };
    let path = path.child("fieldPath");
    let Some((map, key)) = field.strip_suffix("']").and_then(|field| field.split_once("['")) else {
        if !supported.contains(&field) {
            errors.push(Error::not_supported(&path, field, supported));
        }
        return;
    };
    match map {
        "metadata.labels" => {
            if let Some(broken) = names::qualified_name(key) {
                errors.push(Error::invalid(&path, key, broken));
            }
        }
        "metadata.annotations" => {
            if let Some(broken) = names::qualified_name(&key.to_ascii_lowercase()) {
                errors.push(Error::invalid(&path, key, broken));
            }
        }
        _ => errors.push(Error::invalid(&path, field, "does not support subscript")),
    }
}

fn validate_resource_ref(source: &Value, path: &Path, errors: &mut Errors) {
    if let Some(resource) = required(source, "resource", path, errors)
        && !RESOURCES.contains(&resource)
        && !resource.starts_with("limits.hugepages-")
        && !resource.starts_with("requests.hugepages-")
    {
        errors.push(Error::not_supported(&path.child("resource"), resource, &RESOURCES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(container: Value) -> Vec<(String, &'static str)> {
        let mut errors = Vec::new();
        validate_env(&container, &Path::new("c"), &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn field(path: &str) -> Value {
        json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}]})
    }

    #[test]
    fn good_variables_pass() {
        for path in ["status.podIP", "metadata.labels['a/b']", "metadata.annotations['Up.Case/b']"] {
            assert_eq!(errors(field(path)), [], "{path}");
        }
        let container = json!({
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "envFrom": [{"secretRef": {"name": "s"}, "prefix": "P_"}],
        });
        assert_eq!(errors(container), []);
    }

    #[test]
    fn a_variable_has_one_source() {
        let error = |variable: Value| errors(json!({ "env": [variable] }));
        assert_eq!(error(json!({"value": "x"})), [("c.env[0].name".to_owned(), "Required")]);
        assert_eq!(error(json!({"name": "a=b"})), [("c.env[0].name".to_owned(), "Invalid")]);
        assert_eq!(error(json!({"name": "A", "valueFrom": {}})), [("c.env[0].valueFrom".to_owned(), "Invalid")]);
        let key = json!({"name": "m", "key": "k"});
        let both = json!({"name": "A", "valueFrom": {"configMapKeyRef": key, "secretKeyRef": key}});
        assert_eq!(error(both), [("c.env[0].valueFrom".to_owned(), "Invalid")]);
        let value_too = json!({"name": "A", "value": "x", "valueFrom": {"secretKeyRef": key}});
        assert_eq!(error(value_too), [("c.env[0].valueFrom".to_owned(), "Invalid")]);
        assert_eq!(errors(json!({"envFrom": [{}]})), [("c.envFrom[0]".to_owned(), "Invalid")]);
    }

    #[test]
    fn a_hidden_variable_is_worth_a_word() {
        let variable = |name: &str| json!({ "name": name });
        let spec = json!({"containers": [{"env": [variable("A"), variable("B"), variable("A")]}]});
        let expected = "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply";
        assert_eq!(env_warnings(&spec, &Path::new("spec")), [expected]);
    }

    #[test]
    fn only_some_fields_can_be_read() {
        assert_eq!(errors(field("spec.hostname")), [("c.env[0].valueFrom.fieldRef.fieldPath".to_owned(), "NotSupported")]);
        assert_eq!(errors(field("metadata.labels")), [("c.env[0].valueFrom.fieldRef.fieldPath".to_owned(), "NotSupported")]);
        assert_eq!(errors(field("spec.x['y']")), [("c.env[0].valueFrom.fieldRef.fieldPath".to_owned(), "Invalid")]);
    }
}
