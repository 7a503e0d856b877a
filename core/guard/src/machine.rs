//! The machine: Leases, Nodes and pods in, conditions and events out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::event::EventType;
use api::moved::{self, AGENT_LOST};
use api::write::reference;
use api::{Event, Lease, Node, Pod, Write, WriteError};
use machine::{Machine, Time};

use crate::agents::{Agents, node_of};
use crate::pods::{INSTANCE_CHANGED_AFTER, NO_AGENT_AFTER, NO_AGENT_EVERY, RETRY, Waiting, is_not_moved, not_moved};

/// A write that was done is seen within this time.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
/// Pods without a gate of which something was said: so many are remembered.
const REPORTED_MAX: usize = 10_000;

/// An object that the guard follows.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod, of any node.
    Pod(Arc<Pod>),
    /// A node.
    Node(Arc<Node>),
    /// A Lease of the namespace of the agents.
    Lease(Arc<Lease>),
}

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Pods.
    Pods,
    /// Nodes.
    Nodes,
    /// Leases.
    Leases,
}

/// A fact for the guard.
#[derive(Clone, Debug)]
pub enum Input {
    /// An object is new or another than before.
    Applied(Object),
    /// An object is gone.
    Deleted(Object),
    /// Everything of a kind has been told.
    Synced(Watched),
    /// A write has ended.
    Written {
        /// The pod, as in [`Effect::Write`].
        uid: String,
        /// How.
        result: Result<(), WriteError>,
    },
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a request about a pod; answer [`Input::Written`].
    Write {
        /// The pod.
        uid: String,
        /// The request.
        write: Box<Write>,
    },
    /// Write an event.
    Event(Event),
}

/// The guard of moved readiness probes.
#[derive(Debug, Default)]
pub struct Guard {
    synced: BTreeSet<Watched>,
    agents: Agents,
    nodes: BTreeMap<String, Arc<Node>>,
    /// By uid.
    pods: BTreeMap<String, Waiting>,
    by_node: BTreeMap<String, BTreeSet<String>>,
    /// Nodes whose loss was said.
    lost: BTreeSet<String>,
    /// Pods that were told that their probe was not moved.
    reported: BTreeSet<String>,
    /// Pods that want to be looked at.
    timers: BTreeSet<(Time, String)>,
    armed: BTreeMap<String, Time>,
    /// When agents are judged again: not later than the next one may be lost.
    judge_at: Option<Time>,
    /// Agents are gone whose loss is not believed.
    held_back: bool,
}

impl Guard {
    /// Returns a guard that knows nothing yet.
    pub fn new() -> Guard {
        Guard::default()
    }

    /// Returns whether everything has been seen once.
    pub fn is_synced(&self) -> bool {
        self.synced.len() == 3
    }

    /// Returns how many pods wait for the condition of an agent.
    pub fn waiting(&self) -> usize {
        self.pods.len()
    }

    /// Returns how many agents are lost, as far as one can believe it.
    pub fn lost_agents(&self) -> usize {
        self.lost.len()
    }

    fn take(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Applied(Object::Pod(pod)) => self.pod(now, &pod, out),
            Input::Deleted(Object::Pod(pod)) => self.forget(&pod.metadata.uid),
            Input::Applied(Object::Node(node)) => {
                self.agents.node_seen(&node);
                self.nodes.insert(node.metadata.name.clone(), node);
            }
            Input::Deleted(Object::Node(node)) => {
                self.agents.node_gone(&node.metadata.name);
                self.nodes.remove(&node.metadata.name);
            }
            Input::Applied(Object::Lease(lease)) => {
                if let Some(node) = self.agents.renew(now, &lease) {
                    let expires = self.agents.lives_until(&node);
                    self.judge_at = [self.judge_at, expires].into_iter().flatten().min();
                    if self.lost.remove(&node) {
                        self.look_at_node(now, &node, out);
                    }
                }
            }
            Input::Deleted(Object::Lease(lease)) => {
                if let Some(node) = node_of(&lease) {
                    self.agents.remove(node);
                    self.lost.remove(node);
                }
            }
            Input::Synced(watched) => {
                let was = self.is_synced();
                self.synced.insert(watched);
                if !was && self.is_synced() {
                    let all: Vec<String> = self.pods.keys().cloned().collect();
                    all.iter().for_each(|uid| self.look(now, uid, out));
                }
            }
            Input::Written { uid, result } => {
                if let Some(waiting) = self.pods.get_mut(&uid) {
                    waiting.writing = false;
                    match result {
                        // The watch will show it; only if it does not, it is said again.
                        Ok(()) => (waiting.failures, waiting.retry_at) = (0, Some(now + SHOWN_WITHIN)),
                        Err(_) => {
                            waiting.failures += 1;
                            waiting.retry_at = Some(now + RETRY.after(waiting.failures));
                        }
                    }
                    self.look(now, &uid, out);
                }
            }
        }
    }

    fn pod(&mut self, now: Time, pod: &Pod, out: &mut Vec<Effect>) {
        let uid = pod.metadata.uid.clone();
        if is_not_moved(pod) && self.reported.len() < REPORTED_MAX && self.reported.insert(uid.clone()) {
            out.push(Effect::Event(not_moved(pod)));
        }
        let waits = pod.metadata.annotations.contains_key(moved::ANNOTATION_MOVED_PROBES) && moved::is_gated(pod);
        if !waits || pod.terminal() || pod.spec.node_name.is_empty() {
            return self.forget_waiting(&uid);
        }
        let slim = slim(pod);
        let waiting = self.pods.entry(uid.clone()).or_insert_with(|| Waiting::new(now, slim.clone()));
        waiting.take(now, slim);
        self.by_node.entry(pod.spec.node_name.clone()).or_default().insert(uid.clone());
        self.look(now, &uid, out);
    }

    fn forget(&mut self, uid: &str) {
        self.reported.remove(uid);
        self.forget_waiting(uid);
    }

    fn forget_waiting(&mut self, uid: &str) {
        let Some(waiting) = self.pods.remove(uid) else { return };
        self.arm(uid, None);
        if let Some(here) = self.by_node.get_mut(waiting.node()) {
            here.remove(uid);
            if here.is_empty() {
                self.by_node.remove(waiting.node());
            }
        }
    }

    fn arm(&mut self, uid: &str, at: Option<Time>) {
        if let Some(before) = self.armed.remove(uid) {
            self.timers.remove(&(before, uid.to_owned()));
        }
        if let Some(at) = at {
            self.armed.insert(uid.to_owned(), at);
            self.timers.insert((at, uid.to_owned()));
        }
    }

    fn look_at_node(&mut self, now: Time, node: &str, out: &mut Vec<Effect>) {
        let here: Vec<String> = self.by_node.get(node).into_iter().flatten().cloned().collect();
        here.iter().for_each(|uid| self.look(now, uid, out));
    }

    /// Does what a pod needs now, and sees to it that it is looked at again when that may change.
    fn look(&mut self, now: Time, uid: &str, out: &mut Vec<Effect>) {
        if !self.is_synced() {
            return;
        }
        let Some(waiting) = self.pods.get_mut(uid) else { return };
        let lost = self.lost.contains(waiting.node());
        let mut due = Vec::new();
        if !waiting.writing && waiting.retry_at.is_none_or(|at| at <= now) {
            if let Some(write) = waiting.wanted(now, lost) {
                (waiting.writing, waiting.retry_at) = (true, None);
                if waiting.failures == 0 {
                    out.push(Effect::Event(if lost { waiting.agent_lost() } else { waiting.instance_changed() }));
                }
                out.push(Effect::Write { uid: uid.to_owned(), write: Box::new(write) });
            }
        } else {
            due.extend(waiting.retry_at);
        }
        due.extend(waiting.changed_since.map(|since| since + INSTANCE_CHANGED_AFTER).filter(|at| *at > now));
        // Also an agent that was never there.
        let silent_since = self.agents.lives_until(waiting.node()).unwrap_or(waiting.since);
        let first = silent_since + NO_AGENT_AFTER;
        let say_at = waiting.no_agent_said.filter(|at| *at >= first).map_or(first, |at| at + NO_AGENT_EVERY);
        if say_at <= now {
            waiting.no_agent_said = Some(now);
            out.push(Effect::Event(waiting.no_agent()));
            due.push(now + NO_AGENT_EVERY);
        } else {
            due.push(say_at);
        }
        self.arm(uid, due.into_iter().min());
    }

    /// Judges the agents again: one that is lost now, or whose loss is believed now.
    fn judge_agents(&mut self, now: Time, out: &mut Vec<Effect>) {
        let nodes: Vec<String> = self.nodes.keys().filter(|name| !self.lost.contains(*name)).cloned().collect();
        for name in nodes {
            if self.agents.is_lost(now, &name) {
                self.lost.insert(name.clone());
                let pods = self.by_node.get(&name).map_or(0, BTreeSet::len);
                let uid = self.nodes.get(&name).map(|node| node.metadata.uid.clone()).unwrap_or_default();
                let message =
                    format!("The lifesign agent of this node is gone; {pods} pods with moved readiness probes are not ready");
                let object = reference::<Node>("", &name, &uid);
                out.push(Effect::Event(Event { object, type_: EventType::Warning, reason: AGENT_LOST, message }));
                self.look_at_node(now, &name, out);
            }
        }
        self.judge_at = self.agents.next_loss(now);
        self.held_back = self.agents.gone(now).any(|name| self.nodes.contains_key(name) && !self.lost.contains(name));
    }
}

impl Machine for Guard {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, out: &mut Vec<Effect>) {
        // While all agents live, none of their renewals costs a look at the others.
        let about_agents = matches!(&input, Some(Input::Applied(Object::Lease(_) | Object::Node(_)) | Input::Deleted(_)));
        let synced = matches!(&input, Some(Input::Synced(_)));
        if let Some(input) = input {
            self.take(now, input, out);
        }
        let due = self.judge_at.is_some_and(|at| at <= now);
        if self.is_synced() && (synced || due || (about_agents && self.held_back)) {
            self.judge_agents(now, out);
        }
        while let Some((_, uid)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.look(now, &uid, out);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let judge_at = self.judge_at.filter(|_| self.is_synced());
        [self.timers.first().map(|(at, _)| *at), judge_at].into_iter().flatten().min()
    }
}

/// Returns what the guard reads of a pod.
fn slim(pod: &Pod) -> Pod {
    let mut kept = Pod::default();
    kept.metadata.name.clone_from(&pod.metadata.name);
    kept.metadata.namespace.clone_from(&pod.metadata.namespace);
    kept.metadata.uid.clone_from(&pod.metadata.uid);
    kept.spec.node_name.clone_from(&pod.spec.node_name);
    kept.status.conditions = pod.condition(moved::CONDITION).cloned().into_iter().collect();
    kept.status.container_statuses.clone_from(&pod.status.container_statuses);
    kept.status.init_container_statuses.clone_from(&pod.status.init_container_statuses);
    kept
}
