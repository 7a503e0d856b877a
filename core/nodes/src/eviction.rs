//! Eviction from tainted nodes: when each pod leaves, and that it does.
//!
//! The instant of a pod follows from what the API says (since when the taint is there, since when the pod is bound), so a
//! restart does not begin the countdown again. A failed deletion is tried again until the pod is gone or may stay; the
//! upstream controller gives up after five tries within 50 ms.

mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::node::Taint;
use api::pod::Toleration;
use api::{Event, EventType, Node, ObjectReference, Pod};
use machine::{BackOff, Failures, Machine, Time};

pub use schedule::{Due, Schedule};

use crate::taints::Health;

/// The waits after a failed deletion.
const RETRY: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_secs(60) };

/// What the evictor needs to know of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionPod {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Unique for ever; the precondition of the deletion.
    pub uid: Arc<str>,
    /// The node; empty while it is not bound.
    pub node: Arc<str>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// When it was bound: the transition of PodScheduled to True.
    pub bound_at: Option<Time>,
    /// Whether it is being deleted already.
    pub deleting: bool,
}

impl EvictionPod {
    /// Reads a pod.
    pub fn read(pod: &Pod) -> EvictionPod {
        let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
        EvictionPod {
            key: pod.metadata.key().into(),
            uid: pod.metadata.uid.as_str().into(),
            node: pod.spec.node_name.as_str().into(),
            tolerations: pod.spec.tolerations.clone(),
            bound_at: scheduled.and_then(|condition| condition.last_transition_time).map(|stamp| stamp.0),
            deleting: pod.metadata.deleting(),
        }
    }
}

/// A fact for the evictor.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node is there or has changed: its complete taints.
    Node {
        /// Name.
        name: Arc<str>,
        /// All of its taints.
        taints: Vec<Taint>,
        /// Whether its condition Ready is `True`.
        ready: bool,
    },
    /// A node object is gone. Its pods must go all the same, so this stops nothing.
    NodeDeleted(Arc<str>),
    /// A pod is there or has changed.
    Pod(EvictionPod),
    /// A pod object is gone.
    PodDeleted(Arc<str>),
    /// The deletion that [`Effect::Evict`] asked for has failed.
    Failed {
        /// The pod.
        key: Arc<str>,
        /// The very one.
        uid: Arc<str>,
    },
}

impl Input {
    /// Reads a node.
    pub fn node(node: &Node) -> Input {
        Input::Node {
            name: node.metadata.name.as_str().into(),
            taints: node.spec.taints.clone(),
            ready: node.ready() == Some("True"),
        }
    }
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Set condition `DisruptionTarget` (reason `DeletionByTaintManager`), then delete with the UID as precondition.
    Evict {
        /// The pod.
        key: Arc<str>,
        /// The very one.
        uid: Arc<str>,
    },
    /// The pod will be evicted at a later instant; for logs.
    Scheduled {
        /// The pod.
        key: Arc<str>,
        /// When.
        at: Time,
    },
    /// A scheduled eviction no longer applies.
    Cancelled {
        /// The pod.
        key: Arc<str>,
    },
}

impl Effect {
    /// Returns the event to be written about it.
    pub fn event(&self) -> Option<Event> {
        let (key, words) = match self {
            Effect::Evict { key, .. } => (key, "Marking for deletion Pod"),
            Effect::Cancelled { key } => (key, "Cancelling deletion of Pod"),
            Effect::Scheduled { .. } => return None,
        };
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Some(Event {
            object: ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..ObjectReference::default()
            },
            type_: EventType::Normal,
            reason: "TaintManagerEviction",
            message: format!("{words} {key}"),
        })
    }
}

/// Evicts pods from tainted nodes.
#[derive(Clone, Debug, Default)]
pub struct Evictor {
    nodes: BTreeMap<Arc<str>, NodeEntry>,
    pods: BTreeMap<Arc<str>, PodEntry>,
    /// What happens next, by instant and pod.
    timers: BTreeSet<(Time, Arc<str>)>,
}

#[derive(Clone, Debug, Default)]
struct NodeEntry {
    /// NoExecute taints only.
    taints: Vec<Taint>,
    pods: BTreeSet<Arc<str>>,
    /// Whether the object is there; its taints are remembered beyond as long as it has pods.
    exists: bool,
}

#[derive(Clone, Debug)]
struct PodEntry {
    facts: EvictionPod,
    schedule: Schedule,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Stays for the time being.
    Idle,
    /// Waits for its instant.
    Scheduled(Time),
    /// The deletion is under way.
    Evicting { failures: Failures },
    /// The deletion has failed and is tried again.
    Retry { at: Time, failures: Failures },
}

impl Stage {
    const fn timer(self) -> Option<Time> {
        match self {
            Stage::Scheduled(at) | Stage::Retry { at, .. } => Some(at),
            Stage::Idle | Stage::Evicting { .. } => None,
        }
    }
}

impl Evictor {
    /// Returns an evictor that knows nothing yet.
    pub fn new() -> Evictor {
        Evictor::default()
    }

    /// Takes a fact and does what follows from it at once; timers that are due are left to [`Machine::step`].
    pub fn apply(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Node { name, mut taints, ready } => {
                // A health taint on a ready node is a leftover, for example of a controller that was away when the node
                // came back. Whoever put it there is about to remove it; its instant may be long past.
                taints.retain(|taint| taint.effect == "NoExecute" && !(ready && Health::from_key(&taint.key).is_some()));
                let node = self.nodes.entry(name).or_default();
                node.exists = true;
                if node.taints != taints {
                    node.taints = taints;
                    for key in node.pods.clone() {
                        self.evaluate(now, &key, effects);
                    }
                }
            }
            Input::NodeDeleted(name) => {
                if let Some(node) = self.nodes.get_mut(&name) {
                    node.exists = false;
                    self.forget_if_unused(&name);
                }
            }
            Input::Pod(facts) => self.pod(now, facts, effects),
            Input::PodDeleted(key) => self.remove(&key),
            Input::Failed { key, uid } => {
                if let Some(pod) = self.pods.get(&key).filter(|pod| pod.facts.uid == uid)
                    && let Stage::Evicting { mut failures } = pod.stage
                {
                    self.set_stage(&key, Stage::Retry { at: now + failures.next(RETRY), failures });
                }
            }
        }
    }

    fn pod(&mut self, now: Time, facts: EvictionPod, effects: &mut Vec<Effect>) {
        let key = facts.key.clone();
        let known = self.pods.get(&key);
        if known.is_some_and(|pod| pod.facts == facts) {
            return;
        }
        if known.is_some_and(|pod| pod.facts.uid != facts.uid || pod.facts.node != facts.node) {
            self.remove(&key); // another pod of the same name
        }
        if !facts.node.is_empty() {
            self.nodes.entry(facts.node.clone()).or_default().pods.insert(key.clone());
        }
        match self.pods.get_mut(&key) {
            Some(pod) => {
                if pod.facts.tolerations != facts.tolerations {
                    pod.schedule.tolerations_changed();
                }
                pod.facts = facts;
            }
            None => {
                self.pods.insert(key.clone(), PodEntry { facts, schedule: Schedule::default(), stage: Stage::Idle });
            }
        }
        self.evaluate(now, &key, effects);
    }

    fn remove(&mut self, key: &Arc<str>) {
        self.set_stage(key, Stage::Idle);
        if let Some(pod) = self.pods.remove(key)
            && let Some(node) = self.nodes.get_mut(&pod.facts.node)
        {
            node.pods.remove(key);
            self.forget_if_unused(&pod.facts.node);
        }
    }

    fn forget_if_unused(&mut self, name: &Arc<str>) {
        if self.nodes.get(name).is_some_and(|node| !node.exists && node.pods.is_empty()) {
            self.nodes.remove(name);
        }
    }

    fn set_stage(&mut self, key: &Arc<str>, stage: Stage) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        if let Some(at) = pod.stage.timer() {
            self.timers.remove(&(at, key.clone()));
        }
        pod.stage = stage;
        if let Some(at) = stage.timer() {
            self.timers.insert((at, key.clone()));
        }
    }

    /// Decides about one pod from its tolerations and the taints of its node.
    fn evaluate(&mut self, now: Time, key: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        if pod.facts.deleting {
            self.set_stage(key, Stage::Idle);
            return;
        }
        let taints = self.nodes.get(&pod.facts.node).map_or(&[][..], |node| &node.taints);
        let due = pod.schedule.update(now, taints, &pod.facts.tolerations, pod.facts.bound_at);
        match (due, pod.stage) {
            (Due::Never, Stage::Idle) | (Due::Now | Due::At(_), Stage::Evicting { .. } | Stage::Retry { .. }) => {}
            // The deletion may have happened: the next we hear of the pod tells.
            (Due::Never, Stage::Evicting { .. }) => self.set_stage(key, Stage::Idle),
            (Due::Never, Stage::Scheduled(_) | Stage::Retry { .. }) => {
                self.set_stage(key, Stage::Idle);
                effects.push(Effect::Cancelled { key: key.clone() });
            }
            (Due::At(at), Stage::Scheduled(before)) if at == before => {}
            (Due::At(at), Stage::Idle | Stage::Scheduled(_)) => {
                self.set_stage(key, Stage::Scheduled(at));
                effects.push(Effect::Scheduled { key: key.clone(), at });
            }
            (Due::Now, Stage::Idle | Stage::Scheduled(_)) => self.evict(key, Failures::default(), effects),
        }
    }

    fn evict(&mut self, key: &Arc<str>, failures: Failures, effects: &mut Vec<Effect>) {
        self.set_stage(key, Stage::Evicting { failures });
        if let Some(pod) = self.pods.get(key) {
            effects.push(Effect::Evict { key: key.clone(), uid: pod.facts.uid.clone() });
        }
    }
}

impl Machine for Evictor {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        // Facts first: at an equal instant the removal of a taint wins over the timer.
        if let Some(input) = input {
            self.apply(now, input, effects);
        }
        while let Some((at, key)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            let failures = match self.pods.get(&key).map(|pod| pod.stage) {
                Some(Stage::Retry { failures, .. }) => failures,
                _ => Failures::default(),
            };
            self.timers.remove(&(at, key.clone()));
            self.evict(&key, failures, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests;
