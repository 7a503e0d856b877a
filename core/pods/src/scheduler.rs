//! The scheduler of a small plane as a machine: nodes and pods in, bindings and reports out.
//!
//! A pod that is being bound counts as bound until the answer says otherwise, so no two pods are given the same room. A
//! pod that fits nowhere is looked at again when something that matters has changed, and reported again only if the
//! reason is another one. An event of a pod costs no more than that pod, unless it changes what is free.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::write::reference;
use api::{Event, EventType, Node, Pod, Timestamp, Verb, Write, WriteError};
use machine::{BackOff, Machine, Time};
use serde_json::json;

use crate::schedule::{Decision, Usage, schedule};

/// The name by which pods ask for this scheduler; also those that ask for none.
pub const SCHEDULER_NAME: &str = "default-scheduler";
/// The reason of the event for a pod that fits nowhere; Kubernetes.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// The reason of the event for a pod that was assigned; Kubernetes.
pub const SCHEDULED: &str = "Scheduled";

/// The waits after requests that failed.
const RETRY: BackOff = BackOff { first: Duration::from_millis(500), last: Duration::from_secs(30) };

/// A fact.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node was added or changed.
    Node(Arc<Node>),
    /// A node is gone.
    NodeDeleted(String),
    /// Every node has been told.
    NodesSynced,
    /// A pod was added or changed.
    Pod(Arc<Pod>),
    /// A pod is gone.
    PodDeleted {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Every pod has been told.
    PodsSynced,
    /// A write was answered.
    Answered {
        /// Which one.
        id: u64,
        /// How.
        result: Result<(), WriteError>,
    },
}

/// What must be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this, and say how it ended.
    Write(Write),
    /// Write an event.
    Event(Event),
}

/// A pod, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PodKey {
    namespace: String,
    name: String,
}

impl PodKey {
    fn of(pod: &Pod) -> PodKey {
        PodKey { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() }
    }
}

/// A write that is under way.
#[derive(Clone, Debug)]
struct Request {
    pod: PodKey,
    uid: String,
    what: Action,
}

#[derive(Clone, Debug)]
enum Action {
    /// Assign the pod to a node.
    Bind { node: String },
    /// Say that the pod fits nowhere.
    Report { message: String },
}

/// A pod without a node.
#[derive(Debug)]
struct Waiting {
    pod: Arc<Pod>,
    /// Why it fits nowhere, as it was last reported.
    reported: Option<String>,
    /// The node that it is being bound to.
    bound_to: Option<String>,
    failures: u32,
}

/// Where a pod is, and what it takes there.
#[derive(Debug, PartialEq)]
struct Place {
    node: String,
    takes: Usage,
}

/// The scheduler.
#[derive(Debug, Default)]
pub struct Scheduler {
    nodes: BTreeMap<String, Arc<Node>>,
    waiting: BTreeMap<PodKey, Waiting>,
    /// Pods that have a node, those that are being bound included.
    places: BTreeMap<PodKey, Place>,
    usage: BTreeMap<String, Usage>,
    /// Pods to decide about.
    todo: BTreeSet<PodKey>,
    retries: BTreeSet<(Time, PodKey)>,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    nodes_synced: bool,
    pods_synced: bool,
}

impl Scheduler {
    /// Returns whether every node and pod was told, so that decisions may begin.
    pub fn is_synced(&self) -> bool {
        self.nodes_synced && self.pods_synced
    }

    fn take(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Node(node) => self.apply_node(node),
            Input::NodeDeleted(name) => {
                if self.nodes.remove(&name).is_some() {
                    self.look_at_all();
                }
            }
            Input::NodesSynced => self.nodes_synced = true,
            Input::Pod(pod) => self.apply_pod(pod),
            Input::PodDeleted { namespace, name } => self.delete_pod(&PodKey { namespace, name }),
            Input::PodsSynced => self.pods_synced = true,
            Input::Answered { id, result } => self.answered(now, id, result, effects),
        }
    }

    fn apply_node(&mut self, node: Arc<Node>) {
        // Heartbeats change nodes all the time; only these decide.
        let same = |old: &Node| {
            old.ready() == node.ready()
                && old.metadata.deleting() == node.metadata.deleting()
                && old.metadata.labels == node.metadata.labels
                && old.spec == node.spec
                && old.status.allocatable == node.status.allocatable
        };
        let same = self.nodes.get(&node.metadata.name).is_some_and(|old| same(old));
        self.nodes.insert(node.metadata.name.clone(), node);
        if !same {
            self.look_at_all();
        }
    }

    fn apply_pod(&mut self, pod: Arc<Pod>) {
        let key = PodKey::of(&pod);
        if self.waiting.get(&key).is_some_and(|waiting| waiting.pod.metadata.uid != pod.metadata.uid) {
            self.delete_pod(&key);
        }
        if !pod.spec.node_name.is_empty() {
            self.waiting.remove(&key);
            self.todo.remove(&key);
            if self.place(key, &pod.spec.node_name, &pod) {
                self.look_at_all();
            }
            return;
        }
        let ours = matches!(pod.spec.scheduler_name.as_str(), "" | SCHEDULER_NAME);
        if !ours || !pod.spec.scheduling_gates.is_empty() || pod.terminal() || pod.metadata.deleting() {
            self.delete_pod(&key);
            return;
        }
        match self.waiting.get_mut(&key) {
            // It was bound, or is being: this is news from before.
            Some(waiting) if waiting.bound_to.is_some() => {}
            Some(waiting) => {
                waiting.pod = pod;
                self.todo.insert(key);
            }
            None => {
                let reported = unschedulable(&pod).map(|condition| condition.message.clone());
                self.waiting.insert(key.clone(), Waiting { pod, reported, bound_to: None, failures: 0 });
                self.todo.insert(key);
            }
        }
    }

    fn delete_pod(&mut self, key: &PodKey) {
        self.waiting.remove(key);
        self.todo.remove(key);
        if self.displace(key) {
            self.look_at_all();
        }
    }

    fn look_at_all(&mut self) {
        let idle = self.waiting.iter().filter(|(_, waiting)| waiting.bound_to.is_none());
        self.todo.extend(idle.map(|(key, _)| key.clone()));
    }

    /// Puts a pod on its node; returns whether that changes what is free.
    fn place(&mut self, key: PodKey, node: &str, pod: &Pod) -> bool {
        let place = Place { node: node.to_owned(), takes: Usage::of(pod) };
        if self.places.get(&key) == Some(&place) {
            return false;
        }
        self.displace(&key);
        self.usage.entry(place.node.clone()).or_default().add(&place.takes);
        self.places.insert(key, place);
        true
    }

    /// Takes a pod off its node; returns whether it was on one.
    fn displace(&mut self, key: &PodKey) -> bool {
        let Some(place) = self.places.remove(key) else { return false };
        if let Some(usage) = self.usage.get_mut(&place.node) {
            usage.remove(&place.takes);
            if usage.is_nothing() {
                self.usage.remove(&place.node);
            }
        }
        true
    }

    /// Decides about the pods that need it, the oldest first.
    fn decide(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let mut keys: Vec<(Option<Timestamp>, PodKey)> = Vec::new();
        for key in std::mem::take(&mut self.todo) {
            if let Some(waiting) = self.waiting.get(&key) {
                keys.push((waiting.pod.metadata.creation_timestamp, key));
            }
        }
        keys.sort();
        for (_, key) in keys {
            self.decide_one(now, key, effects);
        }
    }

    fn decide_one(&mut self, now: Time, key: PodKey, effects: &mut Vec<Effect>) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let (pod, uid) = (Arc::clone(&waiting.pod), waiting.pod.metadata.uid.clone());
        let what = match schedule(&pod, self.nodes.values().map(|node| &**node), &self.usage) {
            Decision::Bind(node) => {
                waiting.bound_to = Some(node.clone());
                self.place(key.clone(), &node, &pod);
                Action::Bind { node }
            }
            Decision::Unschedulable(message) => {
                if waiting.reported.as_ref() == Some(&message) {
                    return;
                }
                waiting.reported = Some(message.clone());
                Action::Report { message }
            }
        };
        let write = match &what {
            Action::Bind { node } => binding(&key, &uid, node),
            Action::Report { message } => report(&key, &pod, message, now),
        };
        self.next_request += 1;
        let id = self.next_request;
        self.requests.insert(id, Request { pod: key, uid, what });
        effects.push(Effect::Write(Write { id, ..write }));
    }

    fn answered(&mut self, now: Time, id: u64, result: Result<(), WriteError>, effects: &mut Vec<Effect>) {
        let Some(request) = self.requests.remove(&id) else { return };
        let PodKey { namespace, name } = &request.pod;
        if result.is_ok() {
            let (type_, reason, message) = match &request.what {
                Action::Bind { node } => {
                    (EventType::Normal, SCHEDULED, format!("Successfully assigned {namespace}/{name} to {node}"))
                }
                Action::Report { message } => (EventType::Warning, FAILED_SCHEDULING, message.clone()),
            };
            let object = reference::<Pod>(namespace, name, &request.uid);
            effects.push(Effect::Event(Event { object, type_, reason, message }));
        }
        // Another pod of the same name may wait by now.
        let same = |waiting: &&mut Waiting| waiting.pod.metadata.uid == request.uid;
        let Some(waiting) = self.waiting.get_mut(&request.pod).filter(same) else { return };
        let Err(error) = result else {
            waiting.failures = 0;
            return;
        };
        waiting.failures += 1;
        let failures = waiting.failures;
        match request.what {
            Action::Bind { .. } => {
                waiting.bound_to = None;
                self.displace(&request.pod);
                self.look_at_all();
                // Not this one: at once it would fail again.
                self.todo.remove(&request.pod);
            }
            // What could not be said is said next time.
            Action::Report { .. } => waiting.reported = None,
        }
        // Gone, being deleted, or assigned by somebody else: that is told as an event.
        if !matches!(error, WriteError::NotFound | WriteError::Conflict | WriteError::AlreadyExists) {
            self.retries.insert((now + RETRY.after(failures), request.pod));
        }
    }

    fn retry(&mut self, now: Time) {
        while self.retries.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.retries.pop_first() else { return };
            if self.waiting.get(&key).is_some_and(|waiting| waiting.bound_to.is_none()) {
                self.todo.insert(key);
            }
        }
    }
}

impl Machine for Scheduler {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input, effects);
        }
        self.retry(now);
        if self.is_synced() {
            self.decide(now, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.retries.first().map(|(at, _)| *at)
    }
}

fn binding(PodKey { namespace, name }: &PodKey, uid: &str, node: &str) -> Write {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    Write { subresource: "binding", ..Write::to::<Pod>(namespace, name, Verb::Create(binding.into())) }
}

fn report(PodKey { namespace, name }: &PodKey, pod: &Pod, message: &str, now: Time) -> Write {
    let since = unschedulable(pod).and_then(|condition| condition.last_transition_time).unwrap_or(Timestamp(now));
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": since.to_string(),
    });
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
    Write::to::<Pod>(namespace, name, Verb::Strategic(patch)).status()
}

/// Returns the condition that says that a pod fits nowhere.
fn unschedulable(pod: &Pod) -> Option<&api::meta::Condition> {
    pod.condition("PodScheduled").filter(|condition| condition.status == "False" && condition.reason == "Unschedulable")
}
