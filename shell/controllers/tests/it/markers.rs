//! The marker controller on a paused clock: from a marker to the probes of a node to a marked pod.

use serde_json::{Value, json};

use crate::support::Paused;

const NODE: &str = "/apis/apps.kruise.io/v1alpha1/nodepodprobes/n";
const POD: &str = "/api/v1/namespaces/default/pods/p";

#[tokio::test(start_paused = true)]
async fn a_marker_reaches_its_node_and_the_answer_marks_the_pod() {
    let plane = Paused::start(|config| config.markers = true).await;
    plane.node("n").await;
    plane.pod("p", "n", json!([])).await;
    let marker = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "probes": [{
            "name": "p", "containerName": "app", "probe": {"exec": {"command": ["check"]}, "periodSeconds": 5},
            "markerPolicy": [{"state": "Succeeded", "labels": {"up": "yes"}}], "podConditionType": "x.io/p",
        }]},
    });
    plane.create("/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers", marker).await;
    let asked = |object: &Value| object["spec"]["podProbes"][0]["probes"][0]["name"] == "m#p";
    let (object, _) = plane.until(NODE, "asked for the probe", asked).await;
    let state = json!({
        "name": "m#p", "state": "Succeeded", "message": "fine",
        "lastProbeTime": "2026-11-15T12:00:00Z", "lastTransitionTime": "2026-11-15T12:00:00Z",
    });
    let item =
        json!({"name": "p", "namespace": "default", "uid": object["spec"]["podProbes"][0]["uid"], "probeStates": [state]});
    let status = json!({"observedGeneration": object["metadata"]["generation"], "podProbeStatuses": [item]});
    plane.patch(&format!("{NODE}/status"), json!({"status": status})).await;
    plane.until(POD, "labelled", |pod| pod["metadata"]["labels"]["up"] == "yes").await;
    let events = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "x.io/p" && condition["status"] == "True")
    };
    plane.until(POD, "told its condition", events).await;
}
