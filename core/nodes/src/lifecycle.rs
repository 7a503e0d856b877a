//! The node lifecycle controller as a whole: what the API says goes in, writes and events come out.
//!
//! [`Monitor`] decides who is silent and [`Evictor`] when pods leave; here their effects become requests, and the answers come
//! back. A write that failed is not repeated: after a pause the machine is told again what is known, and asks anew for what
//! is still missing. The taints of a node are replaced as a whole, so such a write names the version that it was made from.

mod messages;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::node::Taint;
use api::{Event, Node, Pod, Timestamp, Verb, Write, WriteError};
use machine::{Machine, Time};
use serde_json::json;

use crate::eviction::{self, Evictor};
use crate::monitor::{self, LeaseFacts, Monitor, NodeFacts, ZoneState, unknown_conditions};
use crate::taints::{HealthTaint, TaintEffect};

pub use messages::{Effect, Input, Report};

/// The pause before what could not be written is looked at again.
const PAUSE: Duration = Duration::from_secs(1);

/// A write that is under way.
#[derive(Clone, Debug)]
enum Request {
    Node(Arc<str>),
    Pod(Arc<str>),
    /// The condition that says why a pod goes; its deletion follows.
    Condition {
        key: Arc<str>,
        uid: Arc<str>,
        due: Time,
    },
    Deletion {
        key: Arc<str>,
        uid: Arc<str>,
        due: Time,
    },
}

/// What is told again after a pause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    Node(Arc<str>),
    Pod(Arc<str>),
}

/// The node lifecycle controller.
#[derive(Debug)]
pub struct Lifecycle {
    monitor: Monitor,
    evictor: Evictor,
    nodes: BTreeMap<Arc<str>, (Arc<Node>, Option<Duration>)>,
    pods: BTreeMap<Arc<str>, Arc<Pod>>,
    /// When pods are due to go.
    due: BTreeMap<Arc<str>, Time>,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    again: BTreeSet<(Time, Again)>,
    /// Zones whose disruption was reported.
    disrupted: BTreeSet<Arc<str>>,
}

impl Lifecycle {
    /// Returns a controller that knows nothing yet.
    pub fn new(config: monitor::Config, now: Time) -> Lifecycle {
        Lifecycle {
            monitor: Monitor::new(config, now),
            evictor: Evictor::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            due: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            again: BTreeSet::new(),
            disrupted: BTreeSet::new(),
        }
    }

    /// Returns who judges silence, for metrics.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    fn take(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Node { node, grace } => {
                let name: Arc<str> = node.metadata.name.as_str().into();
                self.nodes.insert(Arc::clone(&name), (node, grace));
                self.tell_node(now, &name, effects);
            }
            Input::NodeDeleted(name) => {
                self.step_monitor(now, Some(monitor::Input::NodeDeleted(Arc::clone(&name))), effects);
                self.nodes.remove(&name);
                self.step_evictor(now, Some(eviction::Input::NodeDeleted(name)), effects);
            }
            Input::Lease(lease) => self.step_monitor(now, Some(monitor::Input::Lease(LeaseFacts::read(&lease))), effects),
            Input::LeaseDeleted(name) => self.step_monitor(now, Some(monitor::Input::LeaseDeleted(name)), effects),
            Input::Pod(pod) => {
                let key: Arc<str> = pod.metadata.key().into();
                self.pods.insert(Arc::clone(&key), pod);
                self.tell_pod(now, &key, effects);
            }
            Input::PodDeleted(key) => {
                self.pods.remove(&key);
                self.due.remove(&key);
                self.step_monitor(now, Some(monitor::Input::PodDeleted(Arc::clone(&key))), effects);
                self.step_evictor(now, Some(eviction::Input::PodDeleted(key)), effects);
            }
            Input::SetGrace(grace) => {
                let config = *self.monitor.config();
                if config.grace != grace {
                    let config = monitor::Config { grace, ..config };
                    self.step_monitor(now, Some(monitor::Input::Configure(config)), effects);
                }
            }
            Input::Answered { id, result } => self.answered(now, id, result, effects),
        }
    }

    fn tell_node(&mut self, now: Time, name: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some((node, grace)) = self.nodes.get(name) else { return };
        let (facts, input) = (NodeFacts { grace: *grace, ..NodeFacts::read(node) }, eviction::Input::node(node));
        self.step_monitor(now, Some(monitor::Input::Node(facts)), effects);
        self.step_evictor(now, Some(input), effects);
    }

    fn tell_pod(&mut self, now: Time, key: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get(key) else { return };
        let (facts, input) = (monitor::MonitoredPod::read(pod), eviction::EvictionPod::read(pod));
        self.step_monitor(now, Some(monitor::Input::Pod(facts)), effects);
        self.step_evictor(now, Some(eviction::Input::Pod(input)), effects);
    }

    fn step_monitor(&mut self, now: Time, input: Option<monitor::Input>, effects: &mut Vec<Effect>) {
        let mut decided = Vec::new();
        self.monitor.step(now, input, &mut decided);
        for effect in decided {
            if self.is_news(&effect) {
                effects.extend(effect.event().map(|event| Effect::Event(self.with_uid(event))));
                self.carry_out(now, effect, effects);
            }
        }
    }

    /// Returns whether an effect is to be reported: a zone whose nodes have posted no status yet is new, not disrupted.
    fn is_news(&mut self, effect: &monitor::Effect) -> bool {
        match effect {
            monitor::Effect::Zone { zone, state: ZoneState::Normal } => self.disrupted.remove(zone),
            monitor::Effect::Zone { zone, .. } => {
                let news = self.has_posted(Some(zone));
                if news {
                    self.disrupted.insert(Arc::clone(zone));
                }
                news
            }
            monitor::Effect::FullDisruption => self.has_posted(None),
            _ => true,
        }
    }

    /// Returns whether a node of a zone, or of any, has ever posted a status.
    fn has_posted(&self, zone: Option<&Arc<str>>) -> bool {
        self.nodes.values().any(|(node, _)| {
            let facts = NodeFacts::read(node);
            zone.is_none_or(|zone| facts.zone == *zone) && facts.ready.is_some_and(|ready| !ready.never_updated)
        })
    }

    /// Returns an event that names its object by uid as well: without it `kubectl describe` does not show the event.
    fn with_uid(&self, mut event: Event) -> Event {
        let uid = match event.object.kind.as_str() {
            "Pod" => {
                let key = format!("{}/{}", event.object.namespace, event.object.name);
                self.pods.get(key.as_str()).map(|pod| pod.metadata.uid.clone())
            }
            // The cluster's own Node of the profiles has the same kind, but not the same version.
            _ if event.object.api_version == "v1" => {
                self.nodes.get(event.object.name.as_str()).map(|(node, _)| node.metadata.uid.clone())
            }
            _ => None,
        };
        event.object.uid = uid.unwrap_or_default();
        event
    }

    fn carry_out(&mut self, now: Time, effect: monitor::Effect, effects: &mut Vec<Effect>) {
        match effect {
            monitor::Effect::SetUnknown { node, reason } => {
                let Some((known, _)) = self.nodes.get(&node) else { return };
                let conditions = unknown_conditions(&known.status.conditions, known.metadata.creation_timestamp, reason, now);
                let patch = json!({"metadata": {"uid": known.metadata.uid}, "status": {"conditions": conditions}});
                let write = Write::to::<Node>("", &*node, Verb::Strategic(patch)).status();
                effects.push(Effect::Report(Report::Silent { node: Arc::clone(&node), reason }));
                self.send(Request::Node(node), write, effects);
            }
            monitor::Effect::Taints { node, add, remove } => {
                let Some((known, _)) = self.nodes.get(&node) else { return };
                let taints = with_health_taints(&known.spec.taints, &add, &remove);
                let evicts = add.iter().any(|taint| taint.effect == TaintEffect::NoExecute);
                let evicts_in = evicts.then(|| NodeFacts::read(known).zone);
                let metadata = json!({"uid": known.metadata.uid, "resourceVersion": known.metadata.resource_version});
                let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
                let write = Write::to::<Node>("", &*node, Verb::Merge(patch));
                effects.push(Effect::Report(Report::Taints { node: Arc::clone(&node), evicts_in }));
                self.send(Request::Node(node), write, effects);
            }
            monitor::Effect::MarkPod { key, node } => {
                let condition = json!({
                    "type": "Ready", "status": "False", "reason": "NodeNotReady",
                    "lastTransitionTime": Timestamp(now).to_string(),
                });
                let write = to_pod(&key, Verb::Strategic(json!({"status": {"conditions": [condition]}}))).status();
                effects.push(Effect::Report(Report::Marked { pod: Arc::clone(&key), node }));
                self.send(Request::Pod(key), write, effects);
            }
            monitor::Effect::Zone { zone, state } => effects.push(Effect::Report(Report::Zone { zone, state })),
            monitor::Effect::Isolated
            | monitor::Effect::Connected
            | monitor::Effect::FullDisruption
            | monitor::Effect::Recovering
            | monitor::Effect::Registered(_)
            | monitor::Effect::Removing(_)
            | monitor::Effect::NotReady(_) => {}
        }
    }

    fn step_evictor(&mut self, now: Time, input: Option<eviction::Input>, effects: &mut Vec<Effect>) {
        let mut decided = Vec::new();
        self.evictor.step(now, input, &mut decided);
        for effect in decided {
            effects.extend(effect.event().map(Effect::Event));
            match effect {
                eviction::Effect::Evict { key, uid } => {
                    let condition = json!({
                        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                        "message": "Taint manager: deleting due to NoExecute taint",
                        "lastTransitionTime": Timestamp(now).to_string(),
                    });
                    let patch = json!({"metadata": {"uid": &*uid}, "status": {"conditions": [condition]}});
                    let write = to_pod(&key, Verb::Strategic(patch)).status();
                    let due = self.due.remove(&key).unwrap_or(now);
                    effects.push(Effect::Report(Report::Evicting(Arc::clone(&key))));
                    self.send(Request::Condition { key, uid, due }, write, effects);
                }
                eviction::Effect::Scheduled { key, at } => {
                    self.due.insert(Arc::clone(&key), at);
                    effects.push(Effect::Report(Report::EvictionScheduled { pod: key, at }));
                }
                eviction::Effect::Cancelled { key } => {
                    self.due.remove(&key);
                    effects.push(Effect::Report(Report::EvictionCancelled(key)));
                }
            }
        }
    }

    fn send(&mut self, request: Request, write: Write, effects: &mut Vec<Effect>) {
        self.next_request += 1;
        let id = self.next_request;
        self.requests.insert(id, request);
        effects.push(Effect::Write(Write { id, ..write }));
    }

    fn answered(&mut self, now: Time, id: u64, result: Result<(), WriteError>, effects: &mut Vec<Effect>) {
        let Some(request) = self.requests.remove(&id) else { return };
        match (request, result) {
            (Request::Node(_) | Request::Pod(_), Ok(()) | Err(WriteError::NotFound)) => {}
            (Request::Node(name), Err(_)) => drop(self.again.insert((now + PAUSE, Again::Node(name)))),
            (Request::Pod(key), Err(_)) => drop(self.again.insert((now + PAUSE, Again::Pod(key)))),
            (Request::Condition { key, uid, due }, Ok(())) => {
                let write = to_pod(&key, Verb::delete(&*uid));
                self.send(Request::Deletion { key, uid, due }, write, effects);
            }
            // Gone, or another pod by now: either way this one is evicted.
            (
                Request::Condition { due, .. } | Request::Deletion { due, .. },
                Ok(()) | Err(WriteError::NotFound | WriteError::Conflict),
            ) => effects.push(Effect::Report(Report::Evicted(now.since(due)))),
            (Request::Condition { key, uid, due } | Request::Deletion { key, uid, due }, Err(_)) => {
                self.due.insert(Arc::clone(&key), due);
                self.step_evictor(now, Some(eviction::Input::Failed { key, uid }), effects);
            }
        }
    }
}

impl Machine for Lifecycle {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input, effects);
        }
        while self.again.first().is_some_and(|(at, _)| *at <= now) {
            match self.again.pop_first() {
                Some((_, Again::Node(name))) => self.tell_node(now, &name, effects),
                Some((_, Again::Pod(key))) => self.tell_pod(now, &key, effects),
                None => {}
            }
        }
        if self.monitor.deadline().is_some_and(|at| at <= now) {
            self.step_monitor(now, None, effects);
        }
        if self.evictor.deadline().is_some_and(|at| at <= now) {
            self.step_evictor(now, None, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let again = self.again.first().map(|(at, _)| *at);
        [self.monitor.deadline(), self.evictor.deadline(), again].into_iter().flatten().min()
    }
}

/// Returns the taints of a node with its health taints changed; those of others stay as they are.
fn with_health_taints(taints: &[Taint], add: &[HealthTaint], remove: &[HealthTaint]) -> Vec<Taint> {
    let changes = |taint: &Taint| {
        remove.iter().chain(add).any(|health| health.health.key() == taint.key && health.effect.name() == taint.effect)
    };
    let kept = taints.iter().filter(|taint| !changes(taint)).cloned();
    kept.chain(add.iter().map(HealthTaint::taint)).collect()
}

fn to_pod(key: &str, verb: Verb) -> Write {
    let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
    Write::to::<Pod>(namespace, name, verb)
}
