//! What scripts of the world do not reach: lost writes, foreign writes, events, reading of objects.

use api::Timestamp;

use super::*;
use crate::taints::{Health, HealthTaint, TaintEffect};

fn at(seconds: i64) -> Time {
    Time::from_secs(seconds)
}

fn facts(name: &str, status: Ready, heartbeat: i64) -> NodeFacts {
    let ready = ReadyFacts { status, heartbeat: Some(Timestamp(at(heartbeat))), never_updated: false };
    NodeFacts { ready: Some(ready), ..NodeFacts::new(name) }
}

/// Two ready nodes; then only `b` is heard, until `a` is Unknown at 45.
fn a_is_silent() -> Monitor {
    let mut monitor = Monitor::new(Config::default(), Time::ZERO);
    let mut effects = Vec::new();
    for name in ["a", "b"] {
        monitor.step(at(0), Some(Input::Node(facts(name, Ready::True, 0))), &mut effects);
    }
    monitor.step(at(40), Some(Input::Node(facts("b", Ready::True, 40))), &mut effects);
    effects.clear();
    assert_eq!(monitor.deadline(), Some(at(45)));
    monitor.step(at(45), None, &mut effects);
    assert!(effects.contains(&Effect::SetUnknown { node: "a".into(), reason: UnknownReason::StoppedPosting }));
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::NotReady("a".into())).count(), 1);
    monitor
}

fn tell(monitor: &mut Monitor, now: i64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    monitor.step(at(now), Some(input), &mut effects);
    effects
}

#[test]
fn a_stale_view_of_a_node_does_not_raise_the_dead() {
    let mut monitor = a_is_silent();
    let effects = tell(&mut monitor, 46, Input::Node(facts("a", Ready::True, 0)));
    assert_eq!(monitor.ready(monitor.id("a").unwrap()), Some(Ready::Unknown));
    let again = |effect: &Effect| matches!(effect, Effect::SetUnknown { node, .. } if **node == *"a");
    assert!(effects.iter().any(again), "the write is asked for again: {effects:?}");
    let taints = effects.iter().find_map(|effect| match effect {
        Effect::Taints { add, remove, .. } => Some((add.clone(), remove.clone())),
        _ => None,
    });
    let since = HealthTaint { health: Health::Unreachable, effect: TaintEffect::NoExecute, time_added: Some(at(45)) };
    assert!(taints.is_some_and(|(add, _)| add.contains(&since)), "with the instant of the first time");
}

#[test]
fn a_new_post_does() {
    let mut monitor = a_is_silent();
    tell(&mut monitor, 46, Input::Node(facts("a", Ready::True, 46)));
    assert_eq!(monitor.ready(monitor.id("a").unwrap()), Some(Ready::True));
}

#[test]
fn a_pod_that_could_not_be_marked_is_marked_when_it_is_seen_ready_again() {
    let mut monitor = a_is_silent();
    let pod = || Input::Pod(MonitoredPod { key: "default/p".into(), node: "a".into(), ready: true });
    let mark = Effect::MarkPod { key: "default/p".into(), node: "a".into() };
    assert_eq!(tell(&mut monitor, 46, pod()), std::slice::from_ref(&mark));
    assert_eq!(mark.event().map(|event| event.reason), Some("NodeNotReady"));
    assert_eq!(tell(&mut monitor, 47, pod()), [mark]);
    assert_eq!(tell(&mut monitor, 48, Input::PodDeleted("default/p".into())), []);
}

#[test]
fn a_node_of_the_same_name_with_another_uid_is_another_node() {
    let mut monitor = a_is_silent();
    let effects = tell(&mut monitor, 50, Input::Node(NodeFacts { uid: "2".into(), ..facts("a", Ready::True, 50) }));
    assert!(effects.contains(&Effect::Removing("a".into())) && effects.contains(&Effect::Registered("a".into())));
    assert_eq!(monitor.last_seen(monitor.id("a").unwrap()), at(50));
}

#[test]
fn a_lease_before_its_node_is_remembered() {
    let mut monitor = Monitor::new(Config::default(), Time::ZERO);
    let lease = LeaseFacts {
        node: "a".into(),
        renew_time: Some(Timestamp(at(1))),
        resource_version: "7".into(),
        duration: Some(Duration::from_secs(240)),
    };
    tell(&mut monitor, 0, Input::Lease(lease.clone()));
    tell(&mut monitor, 5, Input::Node(facts("a", Ready::True, 0)));
    tell(&mut monitor, 9, Input::Lease(lease));
    assert_eq!(monitor.last_seen(monitor.id("a").unwrap()), at(5), "the same Lease again is not a heartbeat");
    assert_eq!(monitor.deadline(), Some(at(250)), "the grace is that of the Lease");
}

#[test]
fn objects_are_read_as_the_api_has_them() {
    let node: api::Node = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "n", "uid": "u", "labels": {
            "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1",
            "node-role.kubernetes.io/control-plane": ""}, "annotations": {"lifesign.dev/offline-policy": "Keep"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}]},
    }))
    .unwrap();
    let facts = NodeFacts::read(&node);
    assert_eq!((&*facts.zone, facts.control_plane, facts.keep, facts.excluded), ("eu:eu-1", true, true, false));
    assert_eq!(facts.ready, Some(ReadyFacts { status: Ready::Unknown, heartbeat: None, never_updated: true }));
    assert_eq!(facts.taints.len(), 1);
}

#[test]
fn unknown_conditions_keep_the_heartbeat_and_leave_the_network_alone() {
    let ready = api::meta::Condition {
        type_: "Ready".into(),
        status: "True".into(),
        last_heartbeat_time: Some(Timestamp(at(7))),
        ..Default::default()
    };
    let written = unknown_conditions(&[ready], Some(Timestamp(at(1))), UnknownReason::StoppedPosting, at(99));
    let types: Vec<&str> = written.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]);
    assert_eq!(written[0].last_heartbeat_time, Some(Timestamp(at(7))));
    assert_eq!(written[1].last_heartbeat_time, Some(Timestamp(at(1))));
    assert_eq!(unknown_conditions(&written, None, UnknownReason::StoppedPosting, at(100)), []);
}

#[test]
fn a_node_with_a_grace_of_its_own_is_judged_by_it_and_by_the_common_one_afterwards() {
    let own = |heartbeat: i64, grace: Option<u64>| {
        Input::Node(NodeFacts { grace: grace.map(Duration::from_secs), ..facts("a", Ready::True, heartbeat) })
    };
    let mut monitor = Monitor::new(Config::default(), Time::ZERO);
    tell(&mut monitor, 0, own(0, None));
    let mut clock = 0;
    // The other one is heard all the time, so that nobody thinks of isolation.
    let mut until = |monitor: &mut Monitor, end: i64| {
        while clock < end {
            clock += 5;
            tell(monitor, clock, Input::Node(facts("b", Ready::True, clock)));
        }
        monitor.ready(monitor.id("a").expect("it is there"))
    };
    // Raised in the middle of a silence: it counts for that one.
    until(&mut monitor, 30);
    tell(&mut monitor, 30, own(0, Some(120)));
    assert_eq!(until(&mut monitor, 60), Some(Ready::True), "longer than the common grace");
    // A change of the common grace does not touch it.
    tell(&mut monitor, 60, Input::Configure(Config { grace: Duration::from_secs(50), ..Config::default() }));
    assert_eq!(until(&mut monitor, 120), Some(Ready::True));
    assert_eq!(until(&mut monitor, 125), Some(Ready::Unknown), "but not than its own");
    // Heard again; the own grace goes, which counts from the next heartbeat on.
    tell(&mut monitor, 125, own(125, Some(120)));
    tell(&mut monitor, 125, own(125, None));
    assert_eq!(until(&mut monitor, 200), Some(Ready::True), "lowered: not for a silence that has begun");
    tell(&mut monitor, 200, own(200, None));
    assert_eq!(until(&mut monitor, 250), Some(Ready::True));
    assert_eq!(until(&mut monitor, 255), Some(Ready::Unknown), "fifty seconds are the common grace");
}
