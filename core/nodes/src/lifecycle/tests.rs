//! The node lifecycle controller, one rule each.

use super::*;
use crate::taints::Health;
use serde_json::Value;

const BEAT: i64 = 10;

fn node(version: &str, taints: Value) -> Input {
    let node = json!({
        "metadata": {"name": "n", "uid": "u", "resourceVersion": version},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    Input::Node { node: Arc::new(serde_json::from_value(node).unwrap()), grace: None }
}

fn lease(now: Time) -> Input {
    let lease = json!({
        "metadata": {"name": "n", "namespace": "kube-node-lease"},
        "spec": {"leaseDurationSeconds": 40, "renewTime": Timestamp(now).micro()},
    });
    Input::Lease(Arc::new(serde_json::from_value(lease).unwrap()))
}

struct World {
    lifecycle: Lifecycle,
    now: Time,
}

impl World {
    fn step(&mut self, input: Option<Input>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.lifecycle.step(self.now, input, &mut effects);
        effects
    }

    /// Goes on to the next deadline until there is a write; returns the writes.
    fn until_write(&mut self) -> Vec<Write> {
        for _ in 0..1000 {
            self.now = self.now.max(self.lifecycle.deadline().expect("something is due"));
            let writes = writes(self.step(None));
            if !writes.is_empty() {
                return writes;
            }
        }
        panic!("nothing is written");
    }
}

fn writes(effects: Vec<Effect>) -> Vec<Write> {
    let write = |effect| match effect {
        Effect::Write(write) => Some(write),
        _ => None,
    };
    effects.into_iter().filter_map(write).collect()
}

fn world() -> World {
    let now = Time::from_secs(1_000);
    let mut world = World { lifecycle: Lifecycle::new(monitor::Config::default(), now), now };
    // Somebody else beats, so that the silence of one is not the isolation of all.
    world.step(Some(node("1", json!([{"key": "mine", "effect": "NoSchedule"}]))));
    world.step(Some(lease(now)));
    world
}

#[test]
fn taints_of_others_stay_and_a_health_taint_is_there_once() {
    let of = |health, effect| HealthTaint { health, effect, time_added: None };
    let mine = Taint { key: "mine".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let old = of(Health::NotReady, TaintEffect::NoExecute);
    let new = of(Health::Unreachable, TaintEffect::NoExecute);
    let taints = with_health_taints(&[mine.clone(), old.taint(), new.taint()], &[new], &[old]);
    assert_eq!(taints, [mine, new.taint()]);
}

#[test]
fn a_refused_write_is_asked_for_again_from_what_is_known() {
    let mut world = world();
    for _ in 0..3 {
        world.now += Duration::from_secs(BEAT.unsigned_abs());
        let beat = lease(world.now);
        world.step(Some(beat));
    }
    let first = world.until_write();
    let silent = first.iter().find(|write| write.subresource == "status").expect("it is silent").clone();
    assert_eq!(silent.path(), "/api/v1/nodes/n/status");
    let answered = world.step(Some(Input::Answered { id: silent.id, result: Err(WriteError::Failed) }));
    assert_eq!(writes(answered), [], "not at once");
    let again = world.until_write();
    let again = again.iter().find(|write| write.subresource == "status").expect("it is asked for again");
    assert!(again.id > silent.id);
    world.step(Some(Input::Answered { id: again.id, result: Ok(()) }));
}

fn new_node(conditions: Value) -> Input {
    let node = json!({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": conditions}});
    Input::Node { node: Arc::new(serde_json::from_value(node).unwrap()), grace: None }
}

fn reasons(effects: &[Effect]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for effect in effects {
        match effect {
            Effect::Event(event) => found.push((event.reason, event.object.uid.as_str())),
            Effect::Report(Report::Zone { state, .. }) => found.push(("zone", state.name())),
            _ => {}
        }
    }
    found
}

#[test]
fn a_cluster_that_is_being_set_up_is_not_disrupted_and_its_events_name_the_node_by_uid() {
    let now = Time::from_secs(1_000);
    let mut world = World { lifecycle: Lifecycle::new(monitor::Config::default(), now), now };
    assert_eq!(reasons(&world.step(Some(new_node(json!([]))))), [("RegisteredNode", "u")]);
    assert_eq!(reasons(&world.step(Some(new_node(json!([{"type": "Ready", "status": "True"}]))))), []);
    let down = world.step(Some(new_node(json!([{"type": "Ready", "status": "False"}]))));
    assert_eq!(reasons(&down), [("NodeNotReady", "u"), ("zone", "FullDisruption"), ("FullDisruption", "")]);
    let gone = world.step(Some(Input::NodeDeleted("n".into())));
    assert_eq!(reasons(&gone), [("RemovingNode", "u")]);
}
