//! The agent's side of markers as a machine: runs what the spec of its NodePodProbe asks, reports states in the status.
//!
//! One worker per (pod uid, entry). The shell tells what the spec says and what containers do, launches attempts, and
//! writes the status. Nothing is lost when the shell is late: states are kept here, and a write always carries all of them.

mod known;
mod messages;
mod reports;
mod status;
mod view;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::marker::{NodePodProbe, NodePodProbeStatus, PodProbe, PodProbeStatus, ProbeState};
use api::write::reference;
use api::{Event, EventType, Pod};
use machine::{Machine, Rng, Time};
use probe::NodePolicy;

use known::{Instance, Instances, Pods};
pub use messages::{ContainerNews, Effect, Finished, Input, Launch, Runtime, WorkerKey, status_write};
use reports::{ReportResult, Reported, Reports};
use status::Writer;
pub use view::View;
use worker::{EntryChange, Worker};

/// The agent's side of markers.
pub struct Agent {
    node: NodePolicy,
    rng: Rng,
    /// The object that the agent acts on: uid and generation.
    acting_on: Option<(String, i64)>,
    pods: Pods,
    workers: BTreeMap<WorkerKey, Worker>,
    instances: Instances,
    /// When each worker wants to be looked at.
    timers: BTreeSet<(Time, WorkerKey)>,
    armed: BTreeMap<WorkerKey, Time>,
    writer: Writer,
    messages_suppressed: u64,
}

impl Agent {
    /// Returns an agent that knows nothing yet. `rng` spreads the first attempts after a restart.
    pub fn new(node: NodePolicy, rng: Rng) -> Agent {
        Agent {
            node,
            rng,
            acting_on: None,
            pods: Pods::default(),
            workers: BTreeMap::new(),
            instances: Instances::default(),
            timers: BTreeSet::new(),
            armed: BTreeMap::new(),
            writer: Writer::default(),
            messages_suppressed: 0,
        }
    }

    /// Returns whether an attempt of a worker may start now.
    pub fn is_eligible(&self, now: Time, key: &WorkerKey) -> bool {
        let ip = self.pods.ip(&key.uid);
        self.workers.get(key).is_some_and(|worker| worker.is_eligible(now, self.instances.of(key, worker), ip))
    }

    /// Returns how many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns how many texts the rate limit has held back, for the metric.
    pub fn messages_suppressed(&self) -> u64 {
        self.messages_suppressed
    }

    fn take(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Spec(object) => self.spec(now, *object, effects),
            Input::NoSpec => {
                self.set_pods(now, Vec::new(), &BTreeMap::new(), effects);
                self.acting_on = None;
                self.writer.dirty = false;
            }
            Input::Container(news) => self.container(now, news, effects),
            Input::PodGone { uid } => {
                self.instances.0.remove(&uid);
                for key in self.workers.keys().filter(|key| key.uid == uid).cloned().collect::<Vec<_>>() {
                    self.after(now, &key, ReportResult::Nothing, false, effects);
                }
            }
            Input::Finished(end) => self.finished(now, &end, effects),
            Input::Written(result) => self.writer.ended(now, result.err()),
        }
    }

    fn spec(&mut self, now: Time, object: NodePodProbe, effects: &mut Vec<Effect>) {
        let mut prior = BTreeMap::new();
        let version = (object.metadata.uid, object.metadata.generation);
        match &self.acting_on {
            Some((uid, generation)) if *uid == version.0 => {
                // A watch that was set up again may begin with an old version. What our own write of the status brings back
                // has the spec that is acted on already, of thousands of entries perhaps.
                if version.1 < *generation || (version.1 == *generation && object.spec.pod_probes == self.pods.items) {
                    return;
                }
                self.writer.dirty |= version.1 != *generation;
            }
            known => {
                if known.is_none() {
                    prior = states(&object.status);
                }
                self.writer.found(object.status);
            }
        }
        self.acting_on = Some(version);
        self.set_pods(now, object.spec.pod_probes, &prior, effects);
    }

    /// Starts, changes and stops workers so that there is one for each entry.
    fn set_pods(&mut self, now: Time, pods: Vec<PodProbe>, prior: &BTreeMap<WorkerKey, Reported>, effects: &mut Vec<Effect>) {
        self.pods = Pods::new(pods);
        let wanted: BTreeSet<WorkerKey> = self.pods.items.iter().flat_map(keys).collect();
        let gone: Vec<WorkerKey> = self.workers.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            let worker = self.workers.remove(&key).expect("its key was just found");
            self.disarm(&key);
            if worker.schedule.running().is_some() {
                effects.push(Effect::Abandon(key.clone()));
            }
            self.writer.dirty |= worker.reports.last.is_some();
            effects.push(Effect::Stopped(key));
        }
        let entries: Vec<_> = self.pods.items.iter().flat_map(|item| keys(item).zip(item.probes.iter().cloned())).collect();
        for (key, entry) in entries {
            let ip = self.pods.ip(&key.uid);
            let (result, abandoned) = match self.workers.get_mut(&key) {
                Some(worker) => {
                    let instance = self.instances.get(&key.uid, &entry.container_name);
                    let (change, result, abandoned) = worker.update(now, &entry, ip, instance, &self.node);
                    if change != EntryChange::None {
                        effects.push(Effect::Updated(key.clone()));
                    }
                    (result, abandoned)
                }
                None => {
                    let reports = prior.get(&key).cloned().map(Reports::restored).unwrap_or_default();
                    let mut worker = Worker::new(now, entry, ip, reports, &self.node.gates);
                    effects.push(Effect::Started(key.clone()));
                    let refused = worker.tell_refusal(now);
                    let seen = self.instances.of(&key, &worker);
                    let result = match seen.filter(|_| refused == ReportResult::Nothing) {
                        Some(instance) => worker.container(now, instance),
                        None => (refused, false),
                    };
                    self.workers.insert(key.clone(), worker);
                    result
                }
            };
            self.after(now, &key, result, abandoned, effects);
        }
    }

    fn container(&mut self, now: Time, news: ContainerNews, effects: &mut Vec<Effect>) {
        let known = self.instances.get(&news.uid, &news.name);
        let seen = known.and_then(|known| known.id.clone());
        let id = if news.id.is_empty() { seen } else { Some(news.id.into()) };
        let started_at = news.started_at.or(known.map(|known| known.started_at)).unwrap_or(now);
        let instance = Instance { id, runtime: news.runtime, started_at, started: news.started };
        self.instances.0.entry(news.uid.clone()).or_default().insert(news.name.clone(), instance.clone());
        let range = WorkerKey { uid: news.uid.clone(), entry: String::new() }..;
        let here = self.workers.range_mut(range).take_while(|(key, _)| key.uid == news.uid);
        let mut result = Vec::new();
        for (key, worker) in here.filter(|(_, worker)| worker.entry.container_name == news.name) {
            if worker.refusal().is_none() {
                result.push((key.clone(), worker.container(now, &instance)));
            }
        }
        for (key, (result, abandoned)) in result {
            self.after(now, &key, result, abandoned, effects);
        }
    }

    fn finished(&mut self, now: Time, end: &Finished, effects: &mut Vec<Effect>) {
        let stale = || Effect::Stale(end.worker.clone());
        let Some(worker) = self.workers.get_mut(&end.worker) else { return effects.push(stale()) };
        let instance = self.instances.of(&end.worker, worker);
        let Some((result, overran)) = worker.finished(now, end, instance, &self.node) else { return effects.push(stale()) };
        if overran {
            effects.push(Effect::Overran(end.worker.clone()));
        }
        self.after(now, &end.worker, result, false, effects);
    }

    /// Does what follows from news of a worker: reports, gate, timer.
    fn after(&mut self, now: Time, key: &WorkerKey, result: ReportResult, abandoned: bool, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        let (instance, ip) = (self.instances.of(key, worker), self.pods.ip(&key.uid));
        let rng = &mut self.rng;
        let closed = worker.gate(now, instance, ip, &self.node, || rng.fraction());
        if abandoned || closed {
            effects.push(Effect::Abandon(key.clone()));
        }
        let due = [worker.schedule.due(), worker.reports.deadline()].into_iter().flatten().min();
        match result {
            ReportResult::Nothing => {}
            ReportResult::Waiting => self.messages_suppressed += 1,
            ReportResult::Again | ReportResult::Changed => {
                self.writer.dirty = true;
                let last = worker.reports.last.clone().expect("it was just reported");
                self.tell(key, &last, result == ReportResult::Changed, effects);
            }
        }
        self.arm(key, due);
    }

    fn tell(&self, key: &WorkerKey, last: &Reported, changed: bool, effects: &mut Vec<Effect>) {
        let reason = match last.state {
            ProbeState::Succeeded => Some("KruiseProbeSucceeded"),
            ProbeState::Failed => Some("KruiseProbeFailed"),
            ProbeState::Unknown => None,
        };
        let pod = self.pods.get(&key.uid);
        if let (Some(reason), Some(pod), true) = (reason, pod, changed) {
            let object = reference::<Pod>(&pod.namespace, &pod.name, &pod.uid);
            let container = self.workers.get(key).map(|worker| worker.entry.container_name.as_str()).unwrap_or_default();
            let output = if last.message.is_empty() { "no output" } else { &last.message };
            let message = format!("{} on container {container}: {output}", key.entry);
            effects.push(Effect::Event(Event { object, type_: EventType::Normal, reason, message }));
        }
        let (worker, state, message) = (key.clone(), last.state, last.message.clone());
        effects.push(Effect::Reported { worker, state, message, changed });
    }

    fn arm(&mut self, key: &WorkerKey, due: Option<Time>) {
        self.disarm(key);
        if let Some(due) = due {
            self.timers.insert((due, key.clone()));
            self.armed.insert(key.clone(), due);
        }
    }

    fn disarm(&mut self, key: &WorkerKey) {
        if let Some(due) = self.armed.remove(key) {
            self.timers.remove(&(due, key.clone()));
        }
    }

    /// Does what is due for one worker.
    fn fire(&mut self, now: Time, key: &WorkerKey, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(key) else { return };
        let result = worker.reports.release(now);
        if let Some(due) = worker.launch(now) {
            let pod = self.pods.get(&key.uid).expect("a worker belongs to an item");
            let instance = self.instances.of(key, worker).expect("without one the gate is closed");
            effects.push(Effect::Launch(Box::new(Launch {
                worker: key.clone(),
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                ip: pod.ip.clone(),
                container: worker.entry.container_name.clone(),
                container_id: instance.id.as_deref().unwrap_or_default().to_owned(),
                probe: Arc::clone(&worker.probe),
                timeout: worker.timing.timeout,
                due,
            })));
        }
        self.after(now, key, result, false, effects);
    }

    /// Returns the status as it should be: entries in the order of the spec, only what has a state.
    fn content(&self) -> NodePodProbeStatus {
        let item = |pod: &PodProbe| {
            let states = keys(pod).filter_map(|key| Some(self.workers.get(&key)?.reports.last.as_ref()?.stored(&key.entry)));
            PodProbeStatus {
                name: pod.name.clone(),
                namespace: pod.namespace.clone(),
                uid: pod.uid.clone(),
                probe_states: states.collect(),
            }
        };
        NodePodProbeStatus {
            observed_generation: self.acting_on.as_ref().map(|(_, generation)| *generation),
            pod_probe_statuses: self.pods.items.iter().map(item).filter(|item| !item.probe_states.is_empty()).collect(),
        }
    }
}

impl Machine for Agent {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input, effects);
        }
        while let Some((_, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.disarm(&key);
            self.fire(now, &key, effects);
        }
        if self.acting_on.is_some() && self.writer.deadline().is_some_and(|at| at <= now) {
            let content = self.content();
            effects.extend(self.writer.due(now, || content).map(|status| Effect::Write(Box::new(status))));
        }
    }

    fn deadline(&self) -> Option<Time> {
        let write = self.writer.deadline().filter(|_| self.acting_on.is_some());
        [self.timers.first().map(|(at, _)| *at), write].into_iter().flatten().min()
    }
}

/// Returns whether a pod is the daemon of OpenKruise, which reports marker probes of its node, and runs or is about to.
pub fn is_kruise_daemon(pod: &Pod) -> bool {
    let owned = pod.metadata.owner_references.iter().any(|owner| owner.kind == "DaemonSet" && owner.name == "kruise-daemon");
    owned && !pod.terminal()
}

/// Returns the keys of an item's workers.
fn keys(item: &PodProbe) -> impl Iterator<Item = WorkerKey> + '_ {
    item.probes.iter().map(|entry| WorkerKey { uid: item.uid.clone(), entry: entry.name.clone() })
}

/// Returns the states that a status holds.
fn states(status: &NodePodProbeStatus) -> BTreeMap<WorkerKey, Reported> {
    let items = status.pod_probe_statuses.iter();
    items
        .flat_map(|item| {
            item.probe_states
                .iter()
                .map(|state| (WorkerKey { uid: item.uid.clone(), entry: state.name.clone() }, Reported::restored(state)))
        })
        .collect()
}
