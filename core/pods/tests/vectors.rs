//! Runs the vectors of pods that a kubelet runs.

use std::process::ExitCode;
use std::sync::Arc;

use api::moved::{ANNOTATION_MOVED_PROBES, CONDITION};
use api::{Pod, ProbeType, Timestamp, Verb};
use machine::{Machine, Rng, Time};
use pods::{Effect, Input, KubeletPod, Observed, ObservedContainer, ObservedState, Settings};
use probe::Report;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Suite, Verdict, same};

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).file("cluster/condition", check).run()
}

type Case = testkit::Case<Given, Vec<String>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    /// The moved probes.
    probes: Value,
    /// The containers of the spec.
    containers: Value,
    #[serde(default)]
    condition: Option<Value>,
    events: Vec<Event>,
    until: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Event {
    at: i64,
    /// What the runtime shows: container, ID, and whether it runs.
    #[serde(default)]
    runtime: Option<Vec<(String, String, bool)>>,
    #[serde(default)]
    runtime_away: bool,
    /// The status of the pod, and whether it is being deleted.
    #[serde(default)]
    status: Option<Value>,
    #[serde(default)]
    deleted: bool,
    /// From now on attempts of this container succeed or fail.
    #[serde(default)]
    answers: Option<(String, bool)>,
}

struct World {
    machine: KubeletPod,
    given: Value,
    conditions: Vec<Value>,
    status: Value,
    deleted: bool,
    failing: Vec<String>,
    written: Vec<String>,
}

impl World {
    fn pod(&self) -> Pod {
        let mut pod = self.given.clone();
        pod["status"] = self.status.clone();
        pod["status"]["conditions"] = json!(self.conditions);
        if self.deleted {
            pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        serde_json::from_value(pod).expect("a pod")
    }

    fn step(&mut self, now: Time, input: Option<Input>) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.machine.step(now, input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::WriteStatus { write, .. } => {
                        let Verb::Strategic(patch) = write.verb else { panic!("{write:?}") };
                        self.merge(now, &patch["status"]["conditions"][0]);
                        inputs.push(Some(Input::Applied(Box::new(self.pod()))));
                        inputs.push(Some(Input::StatusWritten(Ok(()))));
                    }
                    Effect::Probe { container, effect: probe::Effect::Launch(launch) } => {
                        let failing = self.failing.iter().any(|name| **name == *container);
                        let report = if failing { Report::failure("no") } else { Report::success() };
                        let (probe, attempt) = (ProbeType::Readiness, launch.attempt);
                        inputs.push(Some(Input::ProbeFinished { container, probe, attempt, report }));
                    }
                    _ => {}
                }
            }
        }
    }

    /// The API merges conditions by their type.
    fn merge(&mut self, now: Time, patch: &Value) {
        let text = |key: &str| patch[key].as_str().unwrap_or_default();
        let turned = if patch["lastTransitionTime"].is_null() { "" } else { " turned" };
        let (status, reason, message) = (text("status"), text("reason"), text("message"));
        self.written.push(format!("{} {status}{turned} {reason}: {message}", now.as_millis()));
        let known = self.conditions.iter_mut().find(|known| known["type"] == patch["type"]);
        match known {
            Some(known) => known.as_object_mut().expect("an object").extend(patch.as_object().expect("an object").clone()),
            None => self.conditions.push(patch.clone()),
        }
    }

    fn take(&mut self, event: Event) {
        let now = Time::from_millis(event.at);
        if let Some((name, succeeds)) = event.answers {
            self.failing.retain(|known| *known != name);
            if !succeeds {
                self.failing.push(name);
            }
        }
        if event.runtime_away {
            self.step(now, Some(Input::RuntimeAway));
        }
        if let Some(shown) = event.runtime {
            let container = |(name, id, runs): (String, String, bool)| ObservedContainer {
                state: if runs { ObservedState::Running { started_at: now } } else { ObservedState::Ended },
                name,
                id,
            };
            let observed = Observed { ip: "10.0.0.1".into(), containers: shown.into_iter().map(container).collect() };
            self.step(now, Some(Input::Observed(Box::new(observed))));
        }
        self.deleted |= event.deleted;
        if event.status.is_some() || event.deleted {
            self.status = event.status.unwrap_or_else(|| self.status.clone());
            self.step(now, Some(Input::Applied(Box::new(self.pod()))));
        }
    }
}

fn check(case: Case) -> Verdict {
    let given = json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {ANNOTATION_MOVED_PROBES: case.given.probes.to_string()}},
        "spec": {"containers": case.given.containers, "readinessGates": [{"conditionType": CONDITION}]},
    });
    let condition = case.given.condition.map(|mut condition| {
        condition["type"] = CONDITION.into();
        condition["lastTransitionTime"] = Timestamp(Time::ZERO).to_string().into();
        condition
    });
    let mut pod = given.clone();
    pod["status"] = json!({"conditions": condition.iter().collect::<Vec<_>>()});
    let first: Pod = serde_json::from_value(pod).map_err(|error| error.to_string())?;
    let settings = Arc::new(Settings::default());
    let mut world = World {
        machine: KubeletPod::new(first, &settings, Rng::new(7)),
        given,
        conditions: condition.into_iter().collect(),
        status: json!({}),
        deleted: false,
        failing: Vec::new(),
        written: Vec::new(),
    };
    let mut events = case.given.events.into_iter().peekable();
    loop {
        let next = events.peek().map(|event| Time::from_millis(event.at));
        let due = world.machine.deadline();
        let Some(now) = [next, due].into_iter().flatten().min().filter(|now| *now <= Time::from_millis(case.given.until))
        else {
            break;
        };
        match events.next_if(|event| Time::from_millis(event.at) <= now) {
            Some(event) => world.take(event),
            None => {
                world.step(now, None);
                if world.machine.deadline().is_some_and(|due| due <= now) {
                    return Err(format!("a busy loop at {now}"));
                }
            }
        }
    }
    same(&json!(case.expect), &json!(world.written))
}
