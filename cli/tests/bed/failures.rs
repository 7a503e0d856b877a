//! What is a failure and what only looks like one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::{Bed, CLUSTER, PODS, condition, condition_of, seconds};

/// The shortest grace, that of Medium, is twelve seconds.
const SPEED: u32 = 10;

/// Seconds of the plane, in time of the world.
fn plane_seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds / f64::from(SPEED))
}

/// How late a plane on a busy machine may be, in its own seconds: twelve of the world. Far less than what tells the values of
/// Medium from those of another profile (a grace of 300 s, a toleration of 300 s).
const SLACK: i64 = 120;

#[test]
fn a_killed_agent_is_found_after_the_grace_and_its_pods_are_evicted_after_the_toleration_of_the_profile() {
    let mut bed = Bed::start(5, SPEED);
    bed.set_profile("MediumUpdateAverageReaction", |_| ());
    bed.run_pod("doomed", "edge-2", &[]);
    bed.run_pod("safe", "edge-1", &[]);
    bed.agents[1].kill();
    let node = bed.until("edge-2 is Unknown", || {
        let node = bed.get("/api/v1/nodes/edge-2");
        (condition(&node, "Ready") == "Unknown").then_some(node)
    });
    // All on the clock of the plane: its API server, its controllers and its metrics share one. The last heartbeat was heard
    // between these two instants.
    let earliest = bed.now();
    let silence = bed.silence("edge-2");
    let latest = bed.now() + 1;
    let (earliest, latest) = (earliest - silence.ceil() as i64, latest - silence.floor() as i64);
    let unknown = seconds(&condition_of(&node, "Ready")["lastTransitionTime"]);
    // Recorded times are cut to whole seconds.
    assert!(unknown + 1 > earliest + 120, "silent since {earliest} at the earliest, found dead at {unknown}");
    assert!(unknown <= latest + 120 + 5 + SLACK, "silent since {latest} at the latest, found dead at {unknown}");
    let pod = bed.until("doomed is evicted", || {
        let pod = bed.get(&format!("{PODS}/doomed"));
        pod["metadata"]["deletionTimestamp"].is_string().then_some(pod)
    });
    let taints = bed.get("/api/v1/nodes/edge-2")["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let drives_out = |taint: &&Value| taint["effect"] == "NoExecute" && taint["key"] == "node.kubernetes.io/unreachable";
    let tainted = seconds(&taints.iter().find(drives_out).expect("the taint that drives pods out")["timeAdded"]);
    // Condition and taint are written side by side, and either may have been tried again.
    assert!((unknown - SLACK..=unknown + SLACK).contains(&tainted), "found dead at {unknown}, tainted at {tainted}");
    let evicted = seconds(&condition_of(&pod, "DisruptionTarget")["lastTransitionTime"]);
    assert!((tainted + 60..=tainted + 60 + SLACK).contains(&evicted), "tainted at {tainted}, evicted at {evicted}");
    // The time of the deletion is that of its end: after the grace of the pod.
    let deleted = seconds(&pod["metadata"]["deletionTimestamp"]);
    assert!((evicted + 1..=evicted + 1 + SLACK).contains(&deleted), "evicted at {evicted}, deleted at {deleted}");
    assert_eq!(condition(&pod, "DisruptionTarget"), "True");
    assert_eq!(condition(&pod, "Ready"), "False", "its endpoints were withdrawn first");
    let safe = bed.get(&format!("{PODS}/safe"));
    assert!(safe["metadata"]["deletionTimestamp"].is_null() && condition(&safe, "Ready") == "True", "{safe:#}");
    let ready = bed.ready();
    assert!(["edge-1", "edge-3", "edge-4", "edge-5"].iter().all(|name| ready.iter().any(|ready| ready == name)), "{ready:?}");
    assert!(bed.events().contains(&"NodeNotReady".to_owned()));
}

#[test]
fn an_agent_that_was_stopped_and_goes_on_is_ready_at_once_and_keeps_its_pods() {
    let bed = Bed::start(3, SPEED);
    bed.run_pod("kept", "edge-2", &[]);
    bed.agents[1].signal(rustix::process::Signal::STOP);
    bed.until("edge-2 is Unknown and its pod not ready", || {
        let unknown = condition(&bed.get("/api/v1/nodes/edge-2"), "Ready") == "Unknown";
        (unknown && condition(&bed.get(&format!("{PODS}/kept")), "Ready") == "False").then_some(())
    });
    bed.agents[1].signal(rustix::process::Signal::CONT);
    let went_on = bed.now();
    bed.until("edge-2 is ready again", || {
        let node = bed.get("/api/v1/nodes/edge-2");
        let untainted = node["spec"]["taints"].as_array().is_none_or(Vec::is_empty);
        (condition(&node, "Ready") == "True" && untainted).then_some(())
    });
    // Left to the next full status it would take the rest of 300 s.
    let recovered = bed.now();
    assert!(recovered <= went_on + SLACK / 2, "went on at {went_on}, ready at {recovered}");
    let pod = bed.until("its pod is ready again", || {
        let pod = bed.get(&format!("{PODS}/kept"));
        (condition(&pod, "Ready") == "True").then_some(pod)
    });
    assert!(pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["containerStatuses"][0]["restartCount"] == 0);
    // Whatever somebody writes by hand lasts as short.
    for status in ["False", "Unknown"] {
        let path = "/api/v1/nodes/edge-2/status";
        let wrong = json!([{"type": "Ready", "status": status, "reason": "ByHand"}]);
        bed.call("PATCH", path, &json!({"status": {"conditions": wrong}}));
        let written = bed.now();
        bed.until("edge-2 says again what it is", || {
            (condition(&bed.get("/api/v1/nodes/edge-2"), "Ready") == "True").then_some(())
        });
        let posted = bed.now();
        assert!(posted <= written + SLACK / 2, "{status} at {written}, put right at {posted}");
    }
}

#[test]
fn a_control_plane_that_is_cut_off_from_everybody_marks_nobody() {
    let bed = Bed::start(4, SPEED);
    // Less patient than Default has it, so that it need not be watched for long.
    let soon = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60});
    let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(soon);
    for agent in &bed.agents {
        bed.run_pod(&format!("on-{}", agent.name), &agent.name, &tolerations);
    }
    bed.agents.iter().for_each(|agent| agent.link.cut());
    let unknown = || {
        let nodes = bed.items("/api/v1/nodes");
        nodes.iter().filter(|node| condition(node, "Ready") == "Unknown").count()
    };
    bed.until("all workers are Unknown", || (unknown() == 4).then_some(()));
    // Far longer than marking (a node every 10 s) and toleration would take for all four.
    let until = Instant::now() + plane_seconds(150.0);
    while Instant::now() < until {
        for pod in bed.items(PODS) {
            assert!(pod["metadata"]["deletionTimestamp"].is_null() && condition(&pod, "Ready") == "True", "{pod:#}");
        }
        for node in bed.items("/api/v1/nodes") {
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            assert!(taints.iter().all(|taint| taint["effect"] != "NoExecute"), "{node:#}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(bed.events().contains(&"ControlPlaneIsolated".to_owned()), "{:?}", bed.events());
    bed.agents.iter().for_each(|agent| agent.link.mend());
    bed.until("all are ready again", || (bed.ready().len() == 5).then_some(()));
    bed.until("the control plane knows", || bed.events().contains(&"ControlPlaneConnected".to_owned()).then_some(()));
    assert_eq!(bed.items(PODS).len(), 4, "every pod is still there");
}

/// Returns status and reason of a condition of an owner.
fn owned(cluster: &Value, owner: &str, type_: &str) -> (String, String) {
    let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["owner"] == owner && condition["type"] == type_);
    let text = |name: &str| found.and_then(|condition| condition[name].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

#[test]
fn a_rollout_that_loses_nodes_goes_back_to_default_until_it_is_tried_again() {
    let bed = Bed::start(4, SPEED);
    // Paused, so that it cannot be over before the nodes are lost; that counts all the same.
    let desired = json!({
        "metadata": {"annotations": {"lifesign.dev/paused": "true"}},
        "spec": {"workerLatencyProfile": "MediumUpdateAverageReaction"},
    });
    bed.call("PATCH", CLUSTER, &desired);
    bed.until("the rollout is paused", || {
        let (status, reason) = owned(&bed.get(CLUSTER), "MachineConfigOperator", "Progressing");
        (status == "False" && reason == "RolloutPaused").then_some(())
    });
    bed.agents[2..].iter().for_each(|agent| agent.link.cut());
    let cluster = bed.until("the owner of the nodes is degraded", || {
        let cluster = bed.get(CLUSTER);
        (owned(&cluster, "MachineConfigOperator", "Degraded").0 == "True").then_some(cluster)
    });
    assert_eq!(owned(&cluster, "MachineConfigOperator", "Degraded").1, "NodesLostDuringRollout");
    let (status, reason) = owned(&cluster, "KubeAPIServerOperator", "Degraded");
    assert!(status == "False" && ["RollingBackToDefault", "RolledBackToDefault"].contains(&reason.as_str()), "{reason}");
    assert_eq!(cluster["spec"]["workerLatencyProfile"], "MediumUpdateAverageReaction", "the spec is not touched");
    assert!(cluster["metadata"]["annotations"]["lifesign.dev/rolled-back-generation"].is_string(), "{cluster:#}");
    bed.until("it is said", || bed.events().contains(&"LatencyProfileRolledBack".to_owned()).then_some(()));
    bed.agents[2..].iter().for_each(|agent| agent.link.mend());
    bed.until("all are ready again", || (bed.ready().len() == 5).then_some(()));
    let degraded = owned(&bed.get(CLUSTER), "MachineConfigOperator", "Degraded");
    assert_eq!(degraded.0, "True", "sticky, also when the nodes are back");
    bed.call("PATCH", CLUSTER, &json!({"metadata": {"annotations": {"lifesign.dev/paused": null, "lifesign.dev/retry": "1"}}}));
    bed.set_profile("MediumUpdateAverageReaction", |_| ());
    assert_eq!(owned(&bed.get(CLUSTER), "MachineConfigOperator", "Degraded").0, "False");
}
