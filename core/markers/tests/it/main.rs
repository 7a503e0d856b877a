//! The marker cores against a small cluster in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its own objects has failed")]

mod agent;
mod controller;
mod crds;
mod laws;
mod odd;
mod support;

use serde_json::{Value, json};

/// A ready node.
fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A running pod with a container `app`.
fn pod(name: &str, node: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Initialized", "status": "True"}]},
    })
}

/// A marker with one probe `p` that keeps label `up` and condition `x.io/<name>`.
fn marker(name: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "probes": [{
            "name": "p", "containerName": "app", "probe": {"exec": {"command": ["check", name]}},
            "podConditionType": format!("x.io/{name}"),
            "markerPolicy": [
                {"state": "Succeeded", "labels": {"up": "yes"}},
                {"state": "Failed", "labels": {"up": "no"}, "annotations": {"why": name}},
            ],
        }]},
    })
}

/// What an agent says about one probe of every pod of a node.
fn states(object: &Value, entry: &str, state: &str, message: &str) -> Value {
    let items: Vec<Value> = object["spec"]["podProbes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| {
            json!({"name": item["name"], "namespace": item["namespace"], "uid": item["uid"], "probeStates": [{
                "name": entry, "state": state, "message": message,
                "lastProbeTime": "2027-01-15T08:00:00Z", "lastTransitionTime": "2027-01-15T08:00:00Z",
            }]})
        })
        .collect();
    json!({"observedGeneration": object["metadata"]["generation"], "podProbeStatuses": items})
}
