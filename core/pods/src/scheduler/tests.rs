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

fn on(node: &str, cpu: &str) -> Value {
    json!({"nodeName": node, "containers": wants(cpu)["containers"]})
}

fn node(name: &str, cpu: &str) -> Input {
    let node = json!({
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": cpu, "pods": 10}},
    });
    Input::Node(Arc::new(serde_json::from_value(node).unwrap()))
}

/// A scheduler at an instant.
struct World {
    scheduler: Scheduler,
    now: Time,
}

impl World {
    fn new(nodes: impl IntoIterator<Item = Input>) -> World {
        let mut world = World { scheduler: Scheduler::default(), now: Time::from_secs(100) };
        let inputs = nodes.into_iter().chain([Input::NodesSynced, Input::PodsSynced]);
        inputs.for_each(|input| assert_eq!(world.step(Some(input)), []));
        world
    }

    fn step(&mut self, input: Option<Input>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, input, &mut effects);
        effects
    }

    fn pod(&mut self, pod: Pod) -> Vec<Effect> {
        self.step(Some(Input::Pod(Arc::new(pod))))
    }

    fn answer(&mut self, write: &Write, result: Result<(), WriteError>) -> Vec<Effect> {
        self.step(Some(Input::Answered { id: write.id, result }))
    }
}

fn writes(effects: &[Effect]) -> Vec<&Write> {
    let mut writes = Vec::new();
    for effect in effects {
        if let Effect::Write(write) = effect {
            writes.push(write);
        }
    }
    writes
}

/// Returns what effects bind: pod and node.
fn bound(effects: &[Effect]) -> Vec<(String, String)> {
    let bind = |write: &&Write| match &write.verb {
        Verb::Create(api::write::Body::Json(body)) => {
            assert_eq!(write.path(), format!("/api/v1/namespaces/d/pods/{}/binding", write.name));
            (write.name.clone(), body["target"]["name"].as_str().unwrap().to_owned())
        }
        verb => panic!("{verb:?}"),
    };
    writes(effects).iter().map(bind).collect()
}

/// Returns the one reason that effects report.
fn reported(effects: &[Effect]) -> String {
    match writes(effects)[..] {
        [Write { verb: Verb::Strategic(patch), .. }] => {
            patch["status"]["conditions"][0]["message"].as_str().unwrap().to_owned()
        }
        ref other => panic!("{other:?}"),
    }
}

fn pairs<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(pod, node)| ((*pod).to_owned(), (*node).to_owned())).collect()
}

#[test]
fn nothing_is_decided_before_everything_is_known() {
    let mut world = World { scheduler: Scheduler::default(), now: Time::from_secs(100) };
    assert_eq!(world.pod(pod("x", wants("1"))), []);
    assert_eq!(world.step(Some(Input::PodsSynced)), []);
    assert_eq!(world.step(Some(node("a", "1"))), []);
    assert_eq!(bound(&world.step(Some(Input::NodesSynced))), pairs(&[("x", "a")]));
}

#[test]
fn room_that_is_being_taken_is_not_given_again() {
    let mut world = World::new([node("a", "1"), node("b", "1")]);
    assert_eq!(bound(&world.pod(pod("x", wants("1")))), pairs(&[("x", "a")]));
    assert_eq!(bound(&world.pod(pod("y", wants("1")))), pairs(&[("y", "b")]));
    assert_eq!(world.pod(pod("x", wants("1"))), [], "an old state of a pod that is being bound");
    assert_eq!(reported(&world.pod(pod("z", wants("1")))), "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn a_reason_is_reported_once_and_room_is_used_when_it_comes() {
    let mut world = World::new([node("a", "1")]);
    assert_eq!(world.pod(pod("big", on("a", "1"))), []);
    let effects = world.pod(pod("x", wants("1")));
    assert_eq!(reported(&effects), "0/1 nodes are available: 1 Insufficient cpu.");
    let answered = world.answer(writes(&effects)[0], Ok(()));
    assert!(
        matches!(&answered[..], [Effect::Event(event)] if event.reason == FAILED_SCHEDULING && event.type_ == EventType::Warning)
    );
    assert_eq!(world.step(Some(node("a", "1"))), [], "a heartbeat changes nothing");
    assert_eq!(world.pod(pod("big", on("a", "1"))), [], "nor does a pod that takes what it took");
    assert_eq!(reported(&world.step(Some(node("b", "500m")))), "0/2 nodes are available: 2 Insufficient cpu.");
    let gone = Input::PodDeleted { namespace: "d".into(), name: "big".into() };
    assert_eq!(bound(&world.step(Some(gone))), pairs(&[("x", "a")]));
    assert_eq!(world.scheduler.usage["a"].pods, 1, "what is gone takes nothing");
}

#[test]
fn what_a_status_says_already_is_not_said_again() {
    let mut world = World::new([]);
    let mut waits = pod("x", wants("1"));
    waits.status = serde_json::from_value(json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes available to schedule pods",
    }]}))
    .unwrap();
    assert_eq!(world.pod(waits), []);
}

#[test]
fn a_failed_binding_gives_the_room_back_and_is_tried_again_later() {
    let mut world = World::new([node("a", "1")]);
    let effects = world.pod(pod("x", wants("1")));
    assert_eq!(world.answer(writes(&effects)[0], Err(WriteError::Failed)), [], "not at once");
    assert_eq!(world.scheduler.deadline(), Some(world.now + Duration::from_millis(500)));
    world.now = world.scheduler.deadline().unwrap();
    let effects = world.step(None);
    assert_eq!(bound(&effects), pairs(&[("x", "a")]));
    assert_eq!(world.answer(writes(&effects)[0], Err(WriteError::Conflict)), [], "somebody else has it");
    assert_eq!(world.scheduler.deadline(), None);
    assert_eq!(bound(&world.pod(pod("y", wants("1")))), pairs(&[("y", "a")]), "the room is free");
}

#[test]
fn a_binding_is_told_as_an_event() {
    let mut world = World::new([node("a", "1")]);
    let effects = world.pod(pod("x", wants("1")));
    let answered = world.answer(writes(&effects)[0], Ok(()));
    let [Effect::Event(event)] = &answered[..] else { panic!("{answered:?}") };
    assert_eq!((event.reason, event.message.as_str()), (SCHEDULED, "Successfully assigned d/x to a"));
    assert_eq!(event.object.uid, "uid-x");
}

#[test]
fn pods_of_others_are_left_alone() {
    let mut world = World::new([node("a", "1")]);
    assert_eq!(world.pod(pod("other", json!({"schedulerName": "mine", "containers": []}))), []);
    assert_eq!(world.pod(pod("gated", json!({"schedulingGates": [{"name": "g"}], "containers": []}))), []);
    let mut going = pod("going", wants("1"));
    going.metadata.deletion_timestamp = Some(Timestamp(Time::ZERO));
    assert_eq!(world.pod(going), []);
}
