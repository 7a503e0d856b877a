//! A node with one pod: answers what the machine asks for, keeps what it says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::{Pod, ProbeType, Verb, WriteError};
use machine::{Machine, Rng, Time};
use pods::{Effect, Exit, Found, FoundState, Input, PodMachine, Settings};
use probe::Report as Outcome;
use serde_json::{Value, json};

/// When the world begins.
pub(crate) const EPOCH: Time = Time::from_secs(1_000);

/// How an instance stands in the world.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) container: Arc<str>,
    pub(crate) id: Arc<str>,
    pub(crate) number: u64,
    pub(crate) started_at: Time,
    pub(crate) exit: Option<Exit>,
    /// The agent asked it to stop while it stopped itself.
    interrupted: bool,
    /// The machine was told that it runs.
    reported: bool,
}

/// A node with one pod.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) machine: PodMachine,
    /// As the API has it.
    pub(crate) pod: Value,
    pub(crate) settings: Settings,
    /// Every instance that was ever started.
    pub(crate) processes: Vec<Process>,
    /// What was asked for, in short, with the milliseconds since the beginning.
    pub(crate) log: Vec<(i64, String)>,
    pub(crate) events: Vec<(&'static str, String)>,
    pub(crate) writes: Vec<(i64, Value, bool)>,
    /// Attempts under way.
    pub(crate) attempts: BTreeMap<(Arc<str>, ProbeType), u32>,
    pub(crate) released: bool,
    answers: VecDeque<Input>,
    stopping: bool,
    /// Whether the API answers.
    pub(crate) online: bool,
    /// Whether starts and preparations are answered at once.
    pub(crate) eager: bool,
    /// Whether an instance ends with 0 when it is asked to.
    pub(crate) obedient: bool,
}

impl World {
    pub(crate) fn new(spec: Value) -> World {
        World::with(spec, Settings::default())
    }

    pub(crate) fn with(spec: Value, settings: Settings) -> World {
        let meta = json!({"name": "web", "namespace": "shop", "uid": "u1", "generation": 1});
        let pod = json!({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}});
        let machine = make(EPOCH, &pod, Vec::new(), &settings, 1);
        World {
            now: EPOCH,
            machine,
            pod,
            settings,
            processes: Vec::new(),
            log: Vec::new(),
            events: Vec::new(),
            writes: Vec::new(),
            attempts: BTreeMap::new(),
            released: false,
            answers: VecDeque::new(),
            stopping: false,
            online: true,
            eager: true,
            obedient: true,
        }
    }

    /// Makes a machine anew from what the API and the node have, as an agent that was started again does.
    pub(crate) fn restart_agent(&mut self) {
        let found = self.found();
        self.stopping = false;
        self.machine = make(self.now, &self.pod, found, &self.settings, 2);
        self.attempts.clear();
        self.log.clear();
        self.events.clear();
        self.writes.clear();
    }

    fn found(&self) -> Vec<Found> {
        let found = |process: &Process| Found {
            container: process.container.to_string(),
            number: process.number,
            id: process.id.to_string(),
            interrupted: process.interrupted,
            state: match &process.exit {
                Some(exit) => FoundState::Ended(exit.clone()),
                None => FoundState::Running { started_at: process.started_at },
            },
        };
        self.processes.iter().map(found).collect()
    }

    /// Takes a step, and what follows from it at the same instant: answers come after everything that was asked for.
    pub(crate) fn step(&mut self, input: Option<Input>) {
        if let Some(Input::Started { id, .. }) = &input {
            self.processes.iter_mut().filter(|process| process.id == *id).for_each(|process| process.reported = true);
        }
        let mut effects = Vec::new();
        let seen = |machine: &PodMachine| (machine.revision(), format!("{:?}", machine.containers().collect::<Vec<_>>()));
        let before = seen(&self.machine);
        self.machine.step(self.now, input, &mut effects);
        let after = seen(&self.machine);
        assert!(before.0 != after.0 || before.1 == after.1, "unnoticed: {} -> {}", before.1, after.1);
        for effect in effects {
            self.perform(effect);
        }
        while let Some(answer) = self.answers.pop_front() {
            self.step(Some(answer));
        }
    }

    pub(crate) fn tell(&mut self, input: Input) {
        self.step(Some(input));
    }

    /// Begins, if it has not begun.
    pub(crate) fn begin(mut self) -> World {
        self.step(None);
        self
    }

    /// Lets time pass, with every deadline on the way.
    pub(crate) fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        let mut rounds = 0;
        while let Some(deadline) = self.machine.deadline().filter(|deadline| *deadline <= until) {
            rounds += 1;
            assert!(rounds < 100_000, "the machine never comes to rest");
            self.now = self.now.max(deadline);
            self.step(None);
        }
        self.now = until;
    }

    /// Lets time pass up to the next deadline.
    pub(crate) fn pass_to_deadline(&mut self) {
        if let Some(deadline) = self.machine.deadline() {
            self.pass(deadline.since(self.now));
        }
    }

    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.pass(Duration::from_millis(ms));
    }

    fn perform(&mut self, effect: Effect) {
        let at = i64::try_from(self.now.since(EPOCH).as_millis()).expect("a test is short");
        let mut record = |text: String| self.log.push((at, text));
        match effect {
            Effect::Prepare => {
                record("prepare".to_owned());
                if self.eager {
                    self.answers.push_back(Input::Prepared { ip: "127.88.0.7".to_owned() });
                }
            }
            Effect::Start { container, number, id } => {
                record(format!("start {container} {number}"));
                assert!(self.process(&container).is_none(), "two instances of {container} at once");
                let process = Process {
                    container: container.clone(),
                    id: id.clone(),
                    number,
                    started_at: self.now,
                    exit: None,
                    interrupted: false,
                    reported: false,
                };
                assert!(self.processes.iter().all(|other| other.id != id), "{id} was used before");
                self.processes.push(process);
                if self.eager {
                    self.answers.push_back(Input::Started { container, id, at: self.now });
                }
            }
            Effect::Hook { container, hook, .. } => record(format!("hook {container} {hook:?}")),
            Effect::CancelHook { container, hook, .. } => record(format!("cancel {container} {hook:?}")),
            Effect::Signal { container, signal, .. } => {
                record(format!("signal {container} {signal}"));
                let stopping = self.stopping;
                for process in
                    self.processes.iter_mut().filter(|process| process.container == container && process.exit.is_none())
                {
                    process.interrupted = stopping;
                }
                if self.obedient {
                    self.end(&container, 0);
                }
            }
            Effect::Kill { container, .. } => {
                record(format!("kill {container}"));
                self.end(&container, 137);
            }
            Effect::Probe { container, effect } => match effect {
                probe::Effect::Launch(launch) => {
                    let before = self.attempts.insert((container.clone(), launch.probe), launch.attempt);
                    assert_eq!(before, None, "two attempts of {container} {:?} at once", launch.probe);
                    record(format!("launch {container} {}", launch.probe.name()));
                }
                probe::Effect::Cancel { probe, .. } => {
                    self.attempts.remove(&(container, probe));
                }
                probe::Effect::Kill { .. } | probe::Effect::Event { .. } => panic!("{container}: {effect:?}"),
                _ => {}
            },
            Effect::WriteStatus { write, urgent } => {
                let Verb::Strategic(patch) = write.verb else { panic!("{:?}", write.verb) };
                assert_eq!((write.subresource, patch["metadata"]["uid"].as_str()), ("status", Some("u1")));
                record("write".to_owned());
                let result = if self.online { Ok(()) } else { Err(WriteError::Failed) };
                if self.online {
                    merge_status(&mut self.pod["status"], &patch["status"]);
                    self.writes.push((at, patch["status"].clone(), urgent));
                }
                self.answers.push_back(Input::StatusWritten(result));
            }
            Effect::DeletePod { uid, .. } => {
                record(format!("delete {uid}"));
                let result = if self.online { Ok(()) } else { Err(WriteError::Failed) };
                self.answers.push_back(Input::PodDeleted(result));
                if self.online {
                    self.answers.push_back(Input::Gone);
                }
            }
            Effect::Event { event, count } => {
                assert!(count >= 1);
                self.events.push((event.reason, event.message));
            }
            Effect::TearDown => record("tear down".to_owned()),
            Effect::Release => {
                record("release".to_owned());
                self.released = true;
            }
        }
    }

    /// Returns the instance that is being started, if one is.
    pub(crate) fn starting(&self) -> Option<usize> {
        self.processes.iter().position(|process| process.exit.is_none() && !process.reported)
    }

    /// Returns the instance of a container that runs.
    pub(crate) fn process(&self, container: &str) -> Option<&Process> {
        self.processes.iter().find(|process| &*process.container == container && process.exit.is_none())
    }

    /// Lets the instance of a container end.
    pub(crate) fn exit(&mut self, container: &str, exit_code: i32) {
        self.end(container, exit_code);
        let answer = self.answers.pop_back();
        self.step(answer);
    }

    fn end(&mut self, container: &str, exit_code: i32) {
        let now = self.now;
        let Some(process) =
            self.processes.iter_mut().find(|process| &*process.container == container && process.exit.is_none())
        else {
            return;
        };
        let reason = if exit_code == 0 { "Completed" } else { "Error" }.to_owned();
        let exit =
            Exit { exit_code, signal: None, reason, message: String::new(), started_at: process.started_at, finished_at: now };
        process.exit = Some(exit.clone());
        let (container, id) = (process.container.clone(), process.id.clone());
        self.answers.push_back(Input::Exited { container, id, exit });
    }

    /// Lets the hook of a container end.
    pub(crate) fn hook_ends(&mut self, container: &str, hook: pods::Hook, result: Result<(), String>) {
        let process = self.process(container).expect("its hook runs");
        let (container, id) = (process.container.clone(), process.id.clone());
        self.tell(Input::HookFinished { container, id, hook, result });
    }

    /// Lets the attempt of a probe complete.
    pub(crate) fn answer(&mut self, container: &str, probe: ProbeType, report: Outcome) {
        let key = (Arc::from(container), probe);
        let attempt = self.attempts.remove(&key).unwrap_or_else(|| panic!("no attempt of {key:?} runs"));
        self.tell(Input::ProbeFinished { container: key.0, probe, attempt, report });
    }

    /// Stops the agent.
    pub(crate) fn stop_agent(&mut self) {
        self.stopping = true;
        self.tell(Input::Stop);
    }

    /// Changes the pod in the API and tells the machine.
    pub(crate) fn apply(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.pod);
        self.tell(Input::Applied(Box::new(view(&self.pod))));
    }

    pub(crate) fn delete(&mut self, grace: i64) {
        self.apply(|pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2031-01-01T00:00:00Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        });
    }

    /// Returns what was asked for with these words, with the milliseconds since the beginning.
    pub(crate) fn effects_of(&self, words: &[&str]) -> Vec<String> {
        let wanted = |text: &str| words.iter().any(|word| text.starts_with(word));
        self.log.iter().filter(|(_, text)| wanted(text)).map(|(at, text)| format!("{at} {text}")).collect()
    }

    pub(crate) fn status(&self) -> &Value {
        &self.pod["status"]
    }

    /// Returns the stored status of a container.
    pub(crate) fn container(&self, name: &str) -> Value {
        let lists = ["initContainerStatuses", "containerStatuses"];
        let all = lists.iter().flat_map(|list| self.status()[list].as_array().cloned().unwrap_or_default());
        all.into_iter().find(|status| status["name"] == name).unwrap_or_default()
    }

    /// Returns the stored status of a condition.
    pub(crate) fn condition(&self, type_: &str) -> String {
        let conditions = self.status()["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_);
        found.map(|condition| condition["status"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    }

    pub(crate) fn noted(&self, reason: &str) -> usize {
        self.events.iter().filter(|(noted, _)| *noted == reason).count()
    }
}

pub(crate) fn view(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).expect("tests write pods")
}

fn make(now: Time, pod: &Value, found: Vec<Found>, settings: &Settings, seed: u64) -> PodMachine {
    PodMachine::new(now, view(pod), found, Arc::new(settings.clone()), Rng::new(seed))
}

/// Applies a patch as the API does: conditions are merged by their type, other lists replaced, null removes.
fn merge_status(status: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().expect("a status is an object") {
        if key == "conditions" {
            let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
            let mut conditions = list(&status["conditions"]);
            for patched in list(value) {
                let known = conditions.iter().position(|condition| condition["type"] == patched["type"]);
                let at = known.unwrap_or_else(|| {
                    conditions.push(json!({}));
                    conditions.len() - 1
                });
                merge(&mut conditions[at], &patched);
            }
            status["conditions"] = Value::from(conditions);
        } else {
            merge(status, &json!({key: value}));
        }
    }
}

fn merge(into: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().expect("a patch is an object") {
        if value.is_null() {
            into.as_object_mut().expect("an object is patched").remove(key);
        } else {
            into[key] = value.clone();
        }
    }
}

/// Returns a container with more members.
pub(crate) fn container(name: &str, more: Value) -> Value {
    let mut container = json!({"name": name, "image": "demo"});
    for (key, value) in more.as_object().expect("members of a container") {
        container[key] = value.clone();
    }
    container
}

/// Returns a plain container.
pub(crate) fn plain(name: &str) -> Value {
    container(name, json!({}))
}

/// Returns a sidecar.
pub(crate) fn sidecar(name: &str) -> Value {
    container(name, json!({"restartPolicy": "Always"}))
}
