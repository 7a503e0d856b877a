//! The guard of moved readiness probes on a real API server: agents that are lost, that never were, and losses that are not believed.
//! Nodes, Leases and statuses are written by the test, so that there is more than one node.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Test;
use crate::bed::{Bed, Running};
use crate::moved::{CONDITION, condition, micros_now, pods};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("guarding::lost_agents_are_believed_unless_it_may_be_us", lost_agents_are_believed_unless_it_may_be_us)];

/// The agents of the test renew twice a second.
const LEASE_SECONDS: u64 = 4;
const AGENTS: [&str; 4] = ["a", "b", "c", "d"];

/// Nodes that go with the test, also when it fails.
struct Nodes<'a> {
    bed: &'a Bed,
    names: Vec<String>,
}

impl<'a> Nodes<'a> {
    fn new(bed: &'a Bed) -> Nodes<'a> {
        let run = std::process::id();
        let names: Vec<String> = AGENTS.iter().chain(&["empty"]).map(|name| format!("guarded-{run:x}-{name}")).collect();
        for (name, zone) in names.iter().zip(["west", "west", "east", "east", "east"]) {
            let labels = json!({"topology.kubernetes.io/zone": zone});
            bed.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}));
        }
        Nodes { bed, names }
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            self.bed.ask("DELETE", &format!("/api/v1/nodes/{name}"), &Value::Null);
        }
    }
}

/// Makes a pod that looks as if kubelet and agent of its node had found it ready.
fn make_ready_pod(bed: &Bed, namespace: &str, node: &str) {
    let probe = json!({"app": {"httpGet": {"port": 8080}}}).to_string();
    let pod = json!({
        "metadata": {"name": node, "annotations": {"lifesign.dev/moved-probes": probe}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "readinessGates": [{"conditionType": CONDITION}],
            "containers": [{"name": "app", "image": "none"}]},
    });
    bed.send("POST", &pods(namespace), &pod);
    let condition = json!({"type": CONDITION, "status": "True", "reason": "ProbesSucceeded", "message": "ready: app=one",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let container = json!({"name": "app", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "started": true,
        "containerID": "containerd://one", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    let status = json!({"status": {"phase": "Running", "conditions": [condition], "containerStatuses": [container]}});
    bed.send("PATCH", &format!("{}/{node}/status", pods(namespace)), &status);
}

fn renew(bed: &Bed, namespace: &str, node: &str) {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let now = i64::try_from(micros_now()).unwrap();
    let now = api::Timestamp(machine::Time::from_micros(now)).micro();
    let name = format!("lifesign-agent-{node}");
    let spec = json!({"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now});
    if bed.ask("PATCH", &format!("{path}/{name}"), &json!({"spec": spec})).code == 404 {
        bed.send("POST", &path, &json!({"metadata": {"name": name}, "spec": spec}));
    }
}

fn reason(bed: &Bed, namespace: &str, node: &str) -> String {
    let pod = bed.get(&format!("{}/{node}", pods(namespace)));
    condition(&pod, CONDITION)["reason"].as_str().unwrap_or_default().to_owned()
}

/// Returns whether an object of the test has an event of a reason.
fn has_event(bed: &Bed, namespace: &str, name: &str, reason: &str) -> bool {
    let fields = format!("involvedObject.name%3D{name}%2Creason%3D{reason}");
    !bed.list(&format!("/api/v1/namespaces/{namespace}/events?fieldSelector={fields}")).is_empty()
}

fn lost_agents_are_believed_unless_it_may_be_us(bed: &Bed) {
    let namespace = bed.namespace("guarded");
    let namespace = namespace.name.as_str();
    bed.install_definitions();
    let nodes = Nodes::new(bed);
    let empty = nodes.names[4].as_str();
    let began = Instant::now();
    for node in &nodes.names {
        make_ready_pod(bed, namespace, node);
    }
    for node in &nodes.names[..AGENTS.len()] {
        renew(bed, namespace, node);
    }
    let controllers = Running::controllers(bed.kubeconfig(), &["--namespace", namespace]);
    // Agents from this one on renew.
    let (alive_from, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for node in &nodes.names[alive_from.load(Ordering::Relaxed)..AGENTS.len()] {
                    renew(bed, namespace, node);
                }
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check(bed, namespace, &nodes.names, &alive_from);
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
    // Nobody was ever on this node; that is said after a minute.
    bed.until("the event NoAgent", |bed| has_event(bed, namespace, empty, "NoAgent").then_some(()));
    assert!(began.elapsed() >= Duration::from_secs(59), "{:?}", began.elapsed());
    assert_eq!(reason(bed, namespace, empty), "ProbesSucceeded");
    assert!(controllers.stop());
}

fn check(bed: &Bed, namespace: &str, nodes: &[String], alive_from: &AtomicUsize) {
    let reasons =
        |bed: &Bed| -> Vec<String> { nodes[..AGENTS.len()].iter().map(|node| reason(bed, namespace, node)).collect() };
    // Twice the life of a Lease: as long as agents renew nothing is lost.
    let until = Instant::now() + Duration::from_secs(2 * LEASE_SECONDS);
    while Instant::now() < until {
        assert_eq!(reasons(bed), ["ProbesSucceeded"; 4]);
        std::thread::sleep(Duration::from_millis(200));
    }
    alive_from.store(1, Ordering::Relaxed);
    let silent = Instant::now();
    bed.until("the first agent is lost", |bed| (reasons(bed)[0] == "AgentLost").then_some(()));
    println!("lost {} ms after the last renewal, with a Lease of {LEASE_SECONDS} s", silent.elapsed().as_millis());
    // A renewal may have been under way.
    assert!(silent.elapsed() >= Duration::from_millis(LEASE_SECONDS * 1_000 - 600), "{:?}", silent.elapsed());
    assert_eq!(reasons(bed)[1..], ["ProbesSucceeded"; 3]);
    bed.until("events on pod and Node", |bed| {
        let of_node = has_event(bed, "default", &nodes[0], "AgentLost");
        (of_node && has_event(bed, namespace, &nodes[0], "AgentLost")).then_some(())
    });
    // All of them at once: that is us, not them.
    alive_from.store(AGENTS.len(), Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(2 * LEASE_SECONDS);
    while Instant::now() < until {
        assert_eq!(reasons(bed)[1..], ["ProbesSucceeded"; 3]);
        std::thread::sleep(Duration::from_millis(200));
    }
    // Back again: what was judged stays, and an agent's word ends what the guard wrote.
    alive_from.store(0, Ordering::Relaxed);
    let back = json!({"type": CONDITION, "status": "True", "reason": "ProbesSucceeded", "message": "ready: app=one"});
    let back = json!({"status": {"conditions": [back]}});
    // As an agent does: it writes again what was overwritten before its return was seen.
    bed.until("the agent's word holds", |bed| {
        let before = reason(bed, namespace, &nodes[0]);
        bed.send("PATCH", &format!("{}/{}/status", pods(namespace), nodes[0]), &back);
        (before == "ProbesSucceeded").then_some(())
    });
    let until = Instant::now() + Duration::from_secs(LEASE_SECONDS);
    while Instant::now() < until {
        assert_eq!(reasons(bed), ["ProbesSucceeded"; 4]);
        std::thread::sleep(Duration::from_millis(200));
    }
}
