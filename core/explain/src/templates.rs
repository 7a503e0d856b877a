//! Pod templates in kinds that are not built in: a CloneSet, an Argo Rollout, a Knative Service. They are found by their structure.

use api::json;
use serde_json::{Map, Value};

/// A pod template in an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    /// The keys that lead to it.
    pub(crate) path: Vec<String>,
    /// It, as a Pod: its metadata and spec, named after the object.
    pub(crate) pod: Value,
}

/// Objects are not nested deeper; custom ones come from anybody.
const DEPTH_MAX: usize = 12;

/// Returns the pod templates of an object of a kind that is not built in.
///
/// A template is what stands under a key that ends in `template` and has a `spec` with a list of containers.
pub(crate) fn find(object: &Value) -> Vec<Template> {
    let mut found = Vec::new();
    let Some(spec) = json::object(object, &["spec"]) else { return found };
    walk(object, spec, &mut vec!["spec".to_owned()], &mut found);
    found
}

fn walk(object: &Value, members: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<Template>) {
    if path.len() > DEPTH_MAX {
        return;
    }
    for (key, value) in members {
        let Some(inner) = value.as_object() else { continue };
        path.push(key.clone());
        if key.to_lowercase().ends_with("template") && has_containers(value) {
            found.push(Template { path: path.clone(), pod: as_pod(object, value) });
        } else {
            walk(object, inner, path, found);
        }
        path.pop();
    }
}

/// Returns whether a template has containers: things with an image or a name.
fn has_containers(template: &Value) -> bool {
    let containers = json::items(template, &["spec", "containers"]);
    let is_one = |item: &Value| item.get("image").is_some() || item.get("name").is_some();
    !containers.is_empty() && containers.iter().all(is_one)
}

fn as_pod(object: &Value, template: &Value) -> Value {
    let mut metadata = json::object(template, &["metadata"]).cloned().unwrap_or_default();
    for field in ["name", "namespace"] {
        let text = json::text(object, &["metadata", field]);
        metadata.insert(field.to_owned(), Value::String(text.to_owned()));
    }
    serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_are_found_by_structure() {
        let rollout = json!({"kind": "Rollout", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{"name": "x"}]}}}});
        assert_eq!(find(&rollout)[0].path, ["spec", "template"]);
        assert_eq!(find(&rollout)[0].pod["metadata"]["name"], "a");
        let job = json!({"spec": {"jobTargetRef": {"template": {"spec": {"containers": [{"image": "y"}]}}}}});
        assert_eq!(find(&job)[0].path, ["spec", "jobTargetRef", "template"]);
        // Containers that are not a pod's: a list of patches, an empty list.
        assert!(find(&json!({"spec": {"containers": [{"name": "x"}]}})).is_empty());
        assert!(find(&json!({"spec": {"template": {"spec": {"containers": []}}}})).is_empty());
    }
}
