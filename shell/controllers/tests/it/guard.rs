//! The guard of moved readiness probes on a paused clock: a Lease that is not renewed, a container that was started again.

use std::time::Duration;

use api::moved::{ANNOTATION_MOVED_PROBES, CONDITION, agent_lease};
use serde_json::{Value, json};

use crate::support::Paused;

const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn condition(pod: &Value) -> (String, String) {
    let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|one| one["type"] == CONDITION).cloned().unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn shows(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn lease(plane: &Paused) -> Value {
    let now = api::Timestamp(plane.clock.now()).micro();
    json!({"holderIdentity": "agent", "leaseDurationSeconds": 40, "renewTime": now})
}

/// Makes a pod whose container was judged to be ready.
async fn judged_pod(plane: &Paused, name: &str) {
    let pod = json!({
        "metadata": {"name": name, "annotations": {ANNOTATION_MOVED_PROBES: "{\"app\": {\"tcpSocket\": {\"port\": 80}}}"}},
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": CONDITION}], "containers": [{"name": "app", "image": "none"}]},
    });
    plane.create(PODS, pod).await;
    let now = api::Timestamp(plane.clock.now()).to_string();
    let judged = json!({"type": CONDITION, "status": "True", "reason": "ProbesSucceeded", "message": "ready: app=c1",
        "lastTransitionTime": now});
    let status = json!({"phase": "Running", "conditions": [judged], "containerStatuses": [container("c1", &now)]});
    plane.patch(&format!("{PODS}/{name}/status"), json!({"status": status})).await;
}

fn container(id: &str, started_at: &str) -> Value {
    json!({"name": "app", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "containerID": format!("containerd://{id}"),
        "state": {"running": {"startedAt": started_at}}})
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_agent_and_restarted_containers_are_not_ready() {
    let plane = Paused::start(|config| config.guard = Some("default".to_owned())).await;
    plane.node("n1").await;
    plane.create(LEASES, json!({"metadata": {"name": agent_lease("n1")}, "spec": lease(&plane)})).await;
    judged_pod(&plane, "kept").await;
    judged_pod(&plane, "again").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(condition(&plane.get(&format!("{PODS}/kept")).await), shows("True", "ProbesSucceeded"));

    let now = api::Timestamp(plane.clock.now()).to_string();
    let restarted = json!({"status": {"containerStatuses": [container("c2", &now)]}});
    plane.patch(&format!("{PODS}/again/status"), restarted).await;
    let changed = shows("False", "InstanceChanged");
    let (_, after) = plane.until(&format!("{PODS}/again"), "changed", |pod| condition(pod) == changed).await;
    assert!((1..=5).contains(&after.as_secs()), "{after:?}");

    let lost = shows("Unknown", "AgentLost");
    let (pod, after) = plane.until(&format!("{PODS}/kept"), "lost", |pod| condition(pod) == lost).await;
    assert!(after <= Duration::from_secs(20), "{after:?}");
    assert!(pod["status"]["conditions"].as_array().unwrap().len() == 1, "nothing else is touched: {pod:#}");
    let events = plane.get("/api/v1/events").await;
    let reasons: Vec<String> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| format!("{} {}", event["involvedObject"]["kind"].as_str().unwrap(), event["reason"].as_str().unwrap()))
        .collect();
    for expected in ["Node AgentLost", "Pod AgentLost", "Pod InstanceChanged"] {
        assert!(reasons.iter().any(|reason| reason == expected), "{expected}: {reasons:?}");
    }
    // Its return ends it: what the agent says then stays.
    plane.patch(&format!("{LEASES}/{}", agent_lease("n1")), json!({"spec": lease(&plane)})).await;
    let back = json!({"status": {"conditions": [{"type": CONDITION, "status": "True", "reason": "ProbesSucceeded",
        "message": "ready: app=c1"}]}});
    plane.patch(&format!("{PODS}/kept/status"), back).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(condition(&plane.get(&format!("{PODS}/kept")).await), shows("True", "ProbesSucceeded"));
}
