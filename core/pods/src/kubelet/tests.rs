//! What a status that is older than the runtime's word does, and what happens when the API or the kubelet does not follow.

use super::*;
use crate::messages::{ObservedContainer, ObservedState};
use api::moved::{ANNOTATION_MOVED_PROBES, CONDITION};
use api::{ProbeType, Verb, WriteError};
use probe::Report;
use serde_json::{Value, json};

fn at(ms: i64) -> Time {
    Time::from_millis(ms)
}

fn pod(status: Value) -> Pod {
    let moved = json!({"app": {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}});
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {ANNOTATION_MOVED_PROBES: moved.to_string()}},
        "spec": {"containers": [{"name": "app"}], "readinessGates": [{"conditionType": CONDITION}]},
        "status": status,
    }))
    .unwrap()
}

fn condition(status: &str, message: &str) -> Value {
    json!({"type": CONDITION, "status": status, "reason": "ProbesSucceeded", "message": message})
}

fn running(id: &str) -> Input {
    let state = ObservedState::Running { started_at: at(500) };
    let containers = vec![ObservedContainer { name: "app".into(), id: id.into(), state }];
    Input::Observed(Box::new(Observed { ip: "10.0.0.1".into(), containers }))
}

struct World {
    pod: KubeletPod,
    written: Vec<Value>,
    launched: u32,
}

impl World {
    fn new(status: Value) -> World {
        let pod = KubeletPod::new(pod(status), &Settings::default(), Rng::new(1));
        World { pod, written: Vec::new(), launched: 0 }
    }

    fn step(&mut self, now: Time, input: Option<Input>) {
        let mut out = Vec::new();
        self.pod.step(now, input, &mut out);
        for effect in out {
            match effect {
                Effect::WriteStatus { write, .. } => {
                    let Verb::Strategic(patch) = write.verb else { panic!("{write:?}") };
                    self.written.push(patch["status"]["conditions"][0].clone());
                }
                Effect::Probe { effect: probe::Effect::Launch(launch), .. } => self.launched = launch.attempt,
                _ => {}
            }
        }
    }

    /// Writes succeed at once.
    fn tell(&mut self, ms: i64, input: Input) {
        let before = self.written.len();
        self.step(at(ms), Some(input));
        if self.written.len() > before {
            self.step(at(ms), Some(Input::StatusWritten(Ok(()))));
        }
    }

    fn wait(&mut self, until: i64) {
        while let Some(due) = self.pod.deadline().filter(|due| *due <= at(until)) {
            let before = self.written.len();
            self.step(due, None);
            if self.written.len() > before {
                self.step(due, Some(Input::StatusWritten(Ok(()))));
            }
            assert!(self.pod.deadline() != Some(due), "no busy loop");
        }
    }

    fn answer(&mut self, ms: i64, report: Report) {
        let (container, attempt) = ("app".into(), self.launched);
        self.tell(ms, Input::ProbeFinished { container, probe: ProbeType::Readiness, attempt, report });
    }

    fn statuses(&self) -> Vec<&str> {
        self.written.iter().map(|one| one["status"].as_str().unwrap()).collect()
    }
}

#[test]
fn nothing_is_said_before_the_instances_are_known_and_a_known_one_stays_ready() {
    let mut world = World::new(json!({"conditions": [condition("True", "ready: app=c1")]}));
    world.step(at(1_000), None);
    assert!(world.written.is_empty());
    world.tell(1_001, running("c1"));
    world.wait(1_500);
    assert!(world.written.is_empty(), "{:?}", world.written);
    world.tell(1_600, running("c2"));
    assert_eq!(world.statuses(), ["False"], "another instance is not ready before it was asked");
    assert!(world.written[0]["message"].as_str().unwrap().contains("app=c2"));
    world.answer(1_650, Report::success());
    world.wait(1_700);
    assert_eq!(world.statuses(), ["False", "True"], "a change of readiness waits for no other, but for one of readiness");
}

#[test]
fn what_a_status_shows_counts_only_while_the_runtime_is_away_and_never_an_instance_that_was_replaced() {
    let shows = |id: &str| {
        let state = json!({"running": {"startedAt": "1970-01-01T00:00:00Z"}});
        json!({"podIP": "10.0.0.1", "containerStatuses": [{"name": "app", "containerID": format!("containerd://{id}"), "state": state}]})
    };
    let mut world = World::new(shows("c1"));
    world.tell(1_000, running("c1"));
    world.tell(1_100, running("c2"));
    world.tell(1_200, Input::Applied(Box::new(pod(shows("c1")))));
    assert_eq!(world.pod.containers().next().unwrap().id, Some("c2"));
    world.tell(1_300, Input::RuntimeAway);
    assert_eq!(world.pod.containers().next().unwrap().id, Some("c2"), "the status is old");
    world.tell(1_400, Input::Applied(Box::new(pod(shows("c3")))));
    assert_eq!(world.pod.containers().next().unwrap().id, Some("c3"));
}

#[test]
fn a_kubelet_that_does_not_follow_is_told_again_and_so_is_an_api_that_shows_something_else() {
    let mut world = World::new(json!({}));
    world.tell(1_000, running("c1"));
    world.answer(1_010, Report::success());
    assert_eq!(world.statuses(), ["True"]);
    assert!(world.written[0]["lastTransitionTime"].is_string());
    let written = world.written[0].clone();
    let missed =
        json!({"conditions": [written, {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]});
    world.tell(1_100, Input::Applied(Box::new(pod(missed))));
    world.wait(2_099);
    assert_eq!(world.written.len(), 1);
    world.wait(2_100);
    let again = &world.written[1];
    assert_eq!((&again["status"], again["lastTransitionTime"].is_null()), (&json!("True"), true), "{again}");
    assert!(again["lastProbeTime"].is_string(), "without a difference nobody would be told");
    world.tell(2_200, Input::Applied(Box::new(pod(json!({"conditions": [condition("Unknown", "AgentLost")]})))));
    world.wait(5_000);
    let last = world.written.last().unwrap();
    assert_eq!((&last["status"], last["lastTransitionTime"].is_string()), (&json!("True"), true), "{last}");
}

#[test]
fn an_api_that_is_away_gets_the_latest_word_and_one_that_refuses_is_not_stormed() {
    let before = json!({"conditions": [condition("True", "ready: app=c0")]});
    let mut world = World::new(before.clone());
    world.step(at(1_000), Some(running("c1")));
    world.step(at(1_001), Some(Input::StatusWritten(Err(WriteError::Failed))));
    assert_eq!(world.written.len(), 1);
    world.answer(1_010, Report::success());
    assert_eq!(world.written.len(), 1, "the retry carries it");
    world.wait(1_300);
    assert_eq!(world.statuses(), ["False", "True"]);
    let mut refused = World::new(before);
    refused.step(at(1_000), Some(running("c1")));
    let mut now = at(1_000);
    refused.step(now, Some(Input::StatusWritten(Err(WriteError::Invalid))));
    for _ in 0..20 {
        let Some(due) = refused.pod.deadline().filter(|due| *due <= at(20_000)) else { break };
        now = due;
        refused.step(now, None);
        refused.step(now, Some(Input::StatusWritten(Err(WriteError::Invalid))));
    }
    assert!(refused.written.len() < 6, "{}", refused.written.len());
}

#[test]
fn a_container_that_has_run_for_long_is_probed_before_it_is_told_why() {
    let mut world = World::new(json!({}));
    world.tell(60_000, running("c1"));
    world.answer(60_010, Report::failure("no"));
    world.wait(60_999);
    assert!(world.written.is_empty(), "{:?}", world.written);
    world.wait(61_000);
    assert_eq!(world.statuses(), ["False"]);
}

#[test]
fn a_startup_probe_of_the_kubelet_gates_and_probes_that_cannot_be_read_are_said() {
    let mut with_startup = pod(json!({}));
    with_startup.spec.containers[0].startup_probe = Some(Probe::default());
    let mut world =
        World { pod: KubeletPod::new(with_startup.clone(), &Settings::default(), Rng::new(1)), written: vec![], launched: 0 };
    world.tell(1_000, running("c1"));
    world.wait(6_000);
    assert_eq!((world.launched, world.written.len()), (0, 1));
    assert!(world.written[0]["message"].as_str().unwrap().contains("its startup probe has not succeeded"));
    let status = json!([{"name": "app", "containerID": "containerd://c1", "started": true}]);
    with_startup.status.container_statuses = serde_json::from_value(status).unwrap();
    world.tell(6_100, Input::Applied(Box::new(with_startup)));
    assert!(world.launched > 0, "attempts begin at once");
    let mut broken = pod(json!({}));
    broken.metadata.annotations.insert(ANNOTATION_MOVED_PROBES.to_owned(), "{".to_owned());
    let mut world = World { pod: KubeletPod::new(broken, &Settings::default(), Rng::new(1)), written: vec![], launched: 0 };
    world.tell(1_000, Input::RuntimeAway);
    world.wait(6_000);
    assert!(world.written[0]["message"].as_str().unwrap().contains("cannot be read"), "{:?}", world.written);
}
