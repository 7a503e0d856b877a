//! What is decided when, without an API.

use super::*;
use serde_json::{Value, json};

fn pod(name: &str, spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "d", "uid": format!("uid-{name}")}, "spec": spec}))
        .unwrap()
}

fn wants(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

fn node(name: &str, cpu: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": cpu, "pods": 10}},
    }))
    .unwrap()
}

fn queue(nodes: impl IntoIterator<Item = Node>) -> Queue {
    let mut queue = Queue::default();
    queue.nodes_listed(false);
    nodes.into_iter().for_each(|node| queue.apply_node(node));
    queue.nodes_listed(true);
    queue.pods_listed(false);
    queue.pods_listed(true);
    queue
}

fn bound(actions: &[Action]) -> Vec<(&str, &str)> {
    let bind = |action: &'_ Action| matches!(action, Action::Bind { .. });
    assert!(actions.iter().all(bind), "{actions:?}");
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Bind { pod, node, .. } => Some((pod.name.as_str(), node.as_str())),
            Action::Report { .. } => None,
        })
        .collect()
}

#[test]
fn room_that_is_being_taken_is_not_given_again() {
    let mut queue = queue([node("a", "1"), node("b", "1")]);
    queue.apply_pod(pod("x", wants("1")), false);
    queue.apply_pod(pod("y", wants("1")), false);
    assert_eq!(bound(&queue.decide()), [("x", "a"), ("y", "b")]);
    queue.apply_pod(pod("x", wants("1")), false);
    assert_eq!(queue.decide(), [], "an old state of a pod that is being bound");
    queue.apply_pod(pod("z", wants("1")), false);
    let actions = queue.decide();
    assert!(
        matches!(&actions[..], [Action::Report { message, .. }] if message == "0/2 nodes are available: 2 Insufficient cpu.")
    );
}

#[test]
fn a_reason_is_told_once_and_room_is_used_when_it_comes() {
    let mut queue = queue([node("a", "1")]);
    queue.apply_pod(pod("big", json!({"nodeName": "a", "containers": wants("1")["containers"]})), false);
    queue.apply_pod(pod("x", wants("1")), false);
    assert_eq!(queue.decide().len(), 1);
    queue.apply_node(node("a", "1"));
    assert_eq!(queue.decide(), [], "a heartbeat changes nothing");
    queue.apply_node(node("b", "500m"));
    assert_eq!(queue.decide().len(), 1, "another reason");
    queue.delete_pod(&PodKey { namespace: "d".into(), name: "big".into() });
    assert_eq!(bound(&queue.decide()), [("x", "a")]);
}

#[test]
fn what_a_status_says_already_is_not_said_again() {
    let mut queue = queue([]);
    let mut waits = pod("x", wants("1"));
    waits.status = serde_json::from_value(json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes available to schedule pods",
    }]}))
    .unwrap();
    queue.apply_pod(waits, false);
    assert_eq!(queue.decide(), []);
}

#[test]
fn a_failed_binding_gives_the_room_back() {
    let mut queue = queue([node("a", "1")]);
    queue.apply_pod(pod("x", wants("1")), false);
    let actions = queue.decide();
    assert_eq!(queue.failed(&actions[0], false), Some(1));
    assert_eq!(queue.decide(), [], "not at once");
    queue.look_again(actions[0].key());
    let actions = queue.decide();
    assert_eq!(bound(&actions), [("x", "a")]);
    assert_eq!(queue.failed(&actions[0], true), None, "somebody else has it");
}

#[test]
fn pods_of_others_are_left_alone() {
    let mut queue = queue([node("a", "1")]);
    queue.apply_pod(pod("other", json!({"schedulerName": "mine", "containers": []})), false);
    queue.apply_pod(pod("gated", wants("1")), true);
    let mut going = pod("going", wants("1"));
    going.metadata.deletion_timestamp = Some(Timestamp(machine::Time::ZERO));
    queue.apply_pod(going, false);
    assert_eq!(queue.decide(), []);
}

#[test]
fn what_a_new_list_does_not_name_is_gone() {
    let mut queue = queue([node("a", "1")]);
    queue.apply_pod(pod("big", json!({"nodeName": "a", "containers": wants("1")["containers"]})), false);
    queue.apply_pod(pod("x", wants("1")), false);
    queue.decide();
    queue.pods_listed(false);
    queue.apply_pod(pod("x", wants("1")), false);
    queue.pods_listed(true);
    assert_eq!(bound(&queue.decide()), [("x", "a")]);
}
