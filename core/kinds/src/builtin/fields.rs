//! Field selectors: which fields of which kind can be selected by, and their values.
//!
//! `metadata.name` and `metadata.namespace` are selectable for every kind (nodes: only the name) and come first.

use api::json;
use serde_json::Value;

use super::Builtin;

/// Returns the labels that a field selector of this kind may name, besides the name and namespace.
const fn labels(kind: Builtin) -> &'static [&'static str] {
    match kind {
        Builtin::Pod => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        Builtin::Node => &["spec.unschedulable"],
        Builtin::Namespace => &["status.phase"],
        Builtin::Service => &["spec.clusterIP", "spec.type"],
        Builtin::Secret => &["type"],
        Builtin::Event => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        Builtin::EventsEvent => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        Builtin::ReplicaSet => &["status.replicas"],
        Builtin::ConfigMap
        | Builtin::ServiceAccount
        | Builtin::Lease
        | Builtin::EndpointSlice
        | Builtin::Deployment
        | Builtin::PodDisruptionBudget
        | Builtin::CustomResourceDefinition => &[],
    }
}

/// Returns whether a field selector of this kind may name the label.
pub fn supported_field_label(kind: Builtin, label: &str) -> bool {
    match label {
        "metadata.name" => true,
        "metadata.namespace" => !matches!(kind, Builtin::Node),
        _ => labels(kind).contains(&label),
    }
}

/// Returns every selectable field of an object with its value; an absent value is the empty text.
pub fn selectable_fields(kind: Builtin, object: &Value) -> Vec<(&'static str, String)> {
    let mut fields = vec![("metadata.name", json::text(object, &["metadata", "name"]).to_owned())];
    if !matches!(kind, Builtin::Node) {
        fields.push(("metadata.namespace", json::text(object, &["metadata", "namespace"]).to_owned()));
    }
    fields.extend(labels(kind).iter().map(|label| (*label, value(object, label))));
    fields
}

fn value(object: &Value, label: &str) -> String {
    match label {
        "spec.hostNetwork" | "spec.unschedulable" => plain(object, label) == Some(&Value::Bool(true)),
        "status.podIP" | "status.podIPs" => return pod_ip(object).to_owned(),
        "status.replicas" => return json::int(object, &["status", "replicas"]).unwrap_or(0).to_string(),
        // An event of the newer style has no source; who reported it stands in, so that both styles can be found.
        "source" => return first_of(object, &[&["source", "component"], &["reportingComponent"]]),
        _ => return plain(object, label).and_then(Value::as_str).unwrap_or_default().to_owned(),
    }
    .to_string()
}

fn plain<'a>(object: &'a Value, label: &str) -> Option<&'a Value> {
    label.split('.').try_fold(object, json::get)
}

fn pod_ip(object: &Value) -> &str {
    match json::items(object, &["status", "podIPs"]).first() {
        Some(first) => json::text(first, &["ip"]),
        None => json::text(object, &["status", "podIP"]),
    }
}

fn first_of(object: &Value, paths: &[&[&str]]) -> String {
    paths.iter().map(|path| json::text(object, path)).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::FieldSelector;
    use serde_json::json;

    fn matches(kind: Builtin, object: &Value, selector: &str) -> bool {
        let fields = selectable_fields(kind, object);
        let selector = FieldSelector::parse(selector).unwrap();
        assert!(selector.requirements.iter().all(|(label, ..)| supported_field_label(kind, label)), "{selector:?}");
        selector.matches_with(|label| fields.iter().find(|(name, _)| *name == label).map(|(_, value)| value.as_str()))
    }

    #[test]
    fn pods_are_found_by_node_phase_and_address() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"nodeName": "n1", "restartPolicy": "Never", "schedulerName": "none", "serviceAccountName": "default"},
            "status": {"phase": "Running", "podIP": "10.11.12.13", "podIPs": [{"ip": "10.11.12.13"}]},
        });
        for selector in [
            "metadata.name=a,metadata.namespace=n",
            "spec.nodeName=n1",
            "status.phase!=Succeeded,status.phase!=Failed",
            "status.podIP=10.11.12.13",
            "status.podIPs=10.11.12.13",
            "spec.hostNetwork=false",
            "spec.restartPolicy=Never,spec.schedulerName=none,spec.serviceAccountName=default",
            "status.nominatedNodeName=",
        ] {
            assert!(matches(Builtin::Pod, &pod, selector), "{selector}");
        }
        assert!(!matches(Builtin::Pod, &pod, "spec.hostNetwork=true"));
        assert!(matches(Builtin::Pod, &json!({}), "spec.nodeName="));
        assert!(!supported_field_label(Builtin::Pod, "spec.hostname"));
    }

    #[test]
    fn nodes_are_found_by_being_schedulable() {
        let node = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}});
        assert!(matches(Builtin::Node, &node, "spec.unschedulable=true"));
        assert!(matches(Builtin::Node, &json!({"spec": {}}), "spec.unschedulable=false"));
        assert!(!supported_field_label(Builtin::Node, "metadata.namespace"));
    }

    #[test]
    fn events_are_found_by_what_they_are_about() {
        let event = json!({"involvedObject": {"kind": "Pod", "name": "web", "uid": "1"}, "type": "Warning", "source": {"component": "kubelet"}});
        assert!(matches(
            Builtin::Event,
            &event,
            "involvedObject.kind=Pod,involvedObject.namespace=,type!=Normal,source=kubelet"
        ));
        assert!(matches(Builtin::Event, &json!({"reportingComponent": "c"}), "source=c,reportingComponent=c"));
        assert!(matches(Builtin::EventsEvent, &json!({"regarding": {"name": "web"}}), "regarding.name=web"));
        assert!(!supported_field_label(Builtin::ConfigMap, "data.k"));
    }

    #[test]
    fn a_replica_set_without_status_has_no_replicas() {
        assert!(matches(Builtin::ReplicaSet, &json!({}), "status.replicas=0"));
        assert!(matches(Builtin::ReplicaSet, &json!({"status": {"replicas": 3}}), "status.replicas=3"));
    }
}
