//! Pod templates: those of built-in kinds by their path, those of others (a CloneSet, an Argo Rollout, a Knative Service) by structure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::{json, probe_rules};
use serde_json::Value;

/// A pod template in an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    /// Where it stands, for example `spec.tasks[0].template`.
    pub(crate) path: String,
    /// It, as a Pod: its metadata and spec, named after the object.
    pub(crate) pod: Value,
}

/// Objects are not nested deeper; custom ones come from anybody.
const DEPTH_MAX: usize = 12;

/// Groups of Kubernetes with a kind that makes pods, the core one first. Other groups have a Job or a StatefulSet too.
const GROUPS: [&str; 4] = ["", "apps", "batch", "extensions"];

/// Returns whether an object is of a group of Kubernetes with a kind that makes pods.
pub(crate) fn is_of_kubernetes(object: &Value) -> bool {
    let group = json::text(object, &["apiVersion"]).rsplit_once('/').map_or("", |(group, _)| group);
    GROUPS.contains(&group)
}

/// Returns the path to the pod spec of a built-in kind.
pub(crate) fn built_in(object: &Value) -> Option<&'static [&'static str]> {
    probe_rules::pod_spec_path(json::text(object, &["kind"])).filter(|_| is_of_kubernetes(object))
}

/// Returns a pod spec that an object makes pods from, with the labels of those pods; a kind that is not built in may have several.
pub(crate) fn pods(object: &Value) -> Vec<(BTreeMap<String, String>, Cow<'_, Value>)> {
    match built_in(object) {
        Some(path) => {
            let spec = json::at(object, path);
            spec.into_iter().map(|spec| (labels(object, path), Cow::Borrowed(spec))).collect()
        }
        None => find(object)
            .into_iter()
            .map(|mut template| (labels(&template.pod, &["spec"]), Cow::Owned(template.pod["spec"].take())))
            .collect(),
    }
}

/// Returns the labels that the pods of an object have; `spec_path` leads to their spec.
pub(crate) fn labels(object: &Value, spec_path: &[&str]) -> BTreeMap<String, String> {
    let template = spec_path.split_last().map_or(&[][..], |(_, template)| template);
    json::at(object, template).map_or_else(BTreeMap::new, |template| texts(template, &["metadata", "labels"]))
}

/// Returns a map of texts, such as labels or a selector.
pub(crate) fn texts(object: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    json::object(object, path).map(|map| map.iter().filter_map(text).collect()).unwrap_or_default()
}

/// Returns the pod templates of an object of a kind that is not built in.
///
/// A template is what stands under a key that ends in `template` and has a `spec` with a list of containers.
pub(crate) fn find(object: &Value) -> Vec<Template> {
    let mut found = Vec::new();
    let spec = json::get(object, "spec").unwrap_or(&Value::Null);
    walk(object, spec, "spec", DEPTH_MAX, &mut found);
    found
}

fn walk(object: &Value, value: &Value, path: &str, depth: usize, found: &mut Vec<Template>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for (key, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        if key.to_lowercase().ends_with("template") && has_containers(inner) {
            found.push(Template { path, pod: as_pod(object, inner) });
        } else {
            walk(object, inner, &path, depth, found);
        }
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        walk(object, inner, &format!("{path}[{index}]"), depth, found);
    }
}

/// Returns whether a template has containers, and says what is run or asked: one that only names containers of its controller does not.
fn has_containers(template: &Value) -> bool {
    let containers = json::items(template, &["spec", "containers"]);
    let is_one = |item: &Value| item.get("image").is_some() || item.get("name").is_some();
    let says = |item: &Value| {
        ["image", "readinessProbe", "livenessProbe", "startupProbe"].iter().any(|field| item.get(field).is_some())
    };
    containers.iter().all(is_one) && containers.iter().any(says)
}

/// The group of Knative, whose probes need no port: they ask the one that the container serves on.
const KNATIVE: &str = "serving.knative.dev/";
/// Where a container of Knative serves that declares no port.
const KNATIVE_PORT: u16 = 8080;

fn with_ports(spec: &mut Value) {
    for container in json::items_mut(spec, &["containers"]).into_iter().flatten() {
        let declared = json::items(container, &["ports"]).first().and_then(|port| port.get("containerPort")).cloned();
        let port = declared.unwrap_or_else(|| KNATIVE_PORT.into());
        for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
            for handler in ["httpGet", "tcpSocket"] {
                let action =
                    container.get_mut(probe).and_then(|probe| probe.get_mut(handler)).filter(|action| !action.is_null());
                let Some(action) = action else { continue };
                if action.get("port").is_none_or(|port| port.is_null() || *port == 0) {
                    json::object_mut(action, &[]).insert("port".to_owned(), port.clone());
                }
            }
        }
    }
}

fn as_pod(object: &Value, template: &Value) -> Value {
    let mut metadata = json::object(template, &["metadata"]).cloned().unwrap_or_default();
    for field in ["name", "namespace"] {
        let text = json::text(object, &["metadata", field]);
        metadata.insert(field.to_owned(), Value::String(text.to_owned()));
    }
    let mut spec = template["spec"].clone();
    if json::text(object, &["apiVersion"]).starts_with(KNATIVE) {
        with_ports(&mut spec);
    }
    serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_are_found_by_structure() {
        let rollout = json!({"kind": "Rollout", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{"name": "x", "image": "y"}]}}}});
        assert_eq!(find(&rollout)[0].path, "spec.template");
        assert_eq!(find(&rollout)[0].pod["metadata"]["name"], "a");
        let job = json!({"spec": {"jobTargetRef": {"template": {"spec": {"containers": [{"image": "y"}]}}}}});
        assert_eq!(find(&job)[0].path, "spec.jobTargetRef.template");
        let tasks = json!({"spec": {"tasks": [{"name": "a"}, {"template": {"spec": {"containers": [{"image": "y"}]}}}]}});
        assert_eq!(find(&tasks)[0].path, "spec.tasks[1].template");
        // Containers that are not a pod's: a list of patches, what a controller completes, an empty list.
        assert!(find(&json!({"spec": {"containers": [{"name": "x"}]}})).is_empty());
        assert!(find(&json!({"spec": {"podTemplate": {"spec": {"containers": [{"name": "x"}]}}}})).is_empty());
        assert!(find(&json!({"spec": {"template": {"spec": {"containers": []}}}})).is_empty());
    }

    #[test]
    fn a_job_of_another_group_is_not_built_in() {
        let of = |version: &str, kind: &str| built_in(&json!({"apiVersion": version, "kind": kind})).is_some();
        assert!(of("batch/v1", "Job") && of("v1", "Pod") && of("apps/v1", "StatefulSet"));
        assert!(!of("batch.volcano.sh/v1alpha1", "Job") && !of("apps.kruise.io/v1beta1", "StatefulSet"));
    }

    #[test]
    fn knative_fills_in_the_port() {
        let service = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"template": {"spec": {"containers": [
            {"image": "x", "readinessProbe": {"httpGet": {"path": "/"}}, "livenessProbe": {"tcpSocket": {"port": 0}}}]}}}});
        let container = &find(&service)[0].pod["spec"]["containers"][0];
        assert_eq!(container["readinessProbe"]["httpGet"]["port"], 8080);
        assert_eq!(container["livenessProbe"]["tcpSocket"]["port"], 8080);
    }
}
