//! What the scheduler knows: nodes, what their pods take, and the pods that wait.
//!
//! A pod that is being bound counts as bound until the answer says otherwise, so no two pods are given the same room. A
//! pod that fits nowhere is looked at again when something that matters has changed, and reported again only if the
//! reason is another one.

use std::collections::{BTreeMap, BTreeSet};

use api::{Node, Pod, Timestamp};
use pods::{Decision, Usage, schedule};

use super::SCHEDULER_NAME;

/// A pod, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl PodKey {
    pub(crate) fn of(pod: &Pod) -> PodKey {
        PodKey { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() }
    }
}

/// What must be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Assign the pod to a node.
    Bind { pod: PodKey, uid: String, node: String },
    /// Say that the pod fits nowhere; `since` when, if that is known.
    Report { pod: PodKey, uid: String, message: String, since: Option<Timestamp> },
}

impl Action {
    pub(crate) fn key(&self) -> &PodKey {
        let (Action::Bind { pod, .. } | Action::Report { pod, .. }) = self;
        pod
    }

    pub(crate) fn uid(&self) -> &str {
        let (Action::Bind { uid, .. } | Action::Report { uid, .. }) = self;
        uid
    }
}

/// A pod without a node.
#[derive(Debug)]
struct Waiting {
    pod: Pod,
    /// Why it fits nowhere, as it was last said.
    told: Option<String>,
    /// The node that it is being bound to.
    bound_to: Option<String>,
    failures: u32,
}

/// Whether a kind was listed to its end, and what the list that is being read has named.
#[derive(Debug, Default)]
struct List<K> {
    read: bool,
    named: Option<BTreeSet<K>>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    nodes: BTreeMap<String, Node>,
    waiting: BTreeMap<PodKey, Waiting>,
    /// The pods of each node, those that are being bound included.
    placed: BTreeMap<String, BTreeMap<PodKey, Pod>>,
    /// The node of each of them.
    places: BTreeMap<PodKey, String>,
    usage: BTreeMap<String, Usage>,
    todo: BTreeSet<PodKey>,
    node_list: List<String>,
    pod_list: List<PodKey>,
}

impl Queue {
    /// Returns whether both lists were read, so that decisions may begin.
    pub(crate) fn synced(&self) -> bool {
        self.node_list.read && self.pod_list.read
    }

    /// Notes that a list of all nodes begins or has ended.
    pub(crate) fn nodes_listed(&mut self, ended: bool) {
        if !ended {
            self.node_list.named = Some(BTreeSet::new());
            return;
        }
        self.node_list.read = true;
        let named = self.node_list.named.take().unwrap_or_default();
        let gone: Vec<String> = self.nodes.keys().filter(|name| !named.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.delete_node(name));
    }

    /// Notes that a list of all pods begins or has ended.
    pub(crate) fn pods_listed(&mut self, ended: bool) {
        if !ended {
            self.pod_list.named = Some(BTreeSet::new());
            return;
        }
        self.pod_list.read = true;
        let named = self.pod_list.named.take().unwrap_or_default();
        let known = self.waiting.keys().chain(self.places.keys());
        let gone: Vec<PodKey> = known.filter(|key| !named.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.delete_pod(key));
    }

    pub(crate) fn apply_node(&mut self, node: Node) {
        let name = node.metadata.name.clone();
        if let Some(named) = &mut self.node_list.named {
            named.insert(name.clone());
        }
        // Heartbeats change nodes all the time; only these decide.
        let decides = |node: &Node| {
            let ready = node.ready().map(str::to_owned);
            (ready, node.metadata.deleting(), node.metadata.labels.clone(), node.spec.clone(), node.status.allocatable.clone())
        };
        let same = self.nodes.get(&name).is_some_and(|old| decides(old) == decides(&node));
        self.nodes.insert(name, node);
        if !same {
            self.look_at_all();
        }
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.look_at_all();
        }
    }

    /// Takes a pod as it is now; one that is `gated` must not be scheduled yet.
    pub(crate) fn apply_pod(&mut self, pod: Pod, gated: bool) {
        let key = PodKey::of(&pod);
        if let Some(named) = &mut self.pod_list.named {
            named.insert(key.clone());
        }
        if self.waiting.get(&key).is_some_and(|waiting| waiting.pod.metadata.uid != pod.metadata.uid) {
            self.delete_pod(&key);
        }
        if !pod.spec.node_name.is_empty() {
            self.waiting.remove(&key);
            self.todo.remove(&key);
            self.place(key, pod);
            return;
        }
        let ours = matches!(pod.spec.scheduler_name.as_str(), "" | SCHEDULER_NAME);
        if !ours || gated || pod.terminal() || pod.metadata.deleting() {
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
                let told = unschedulable(&pod).map(|condition| condition.message.clone());
                self.waiting.insert(key.clone(), Waiting { pod, told, bound_to: None, failures: 0 });
                self.todo.insert(key);
            }
        }
    }

    pub(crate) fn delete_pod(&mut self, key: &PodKey) {
        self.waiting.remove(key);
        self.todo.remove(key);
        if self.displace(key) {
            self.look_at_all();
        }
    }

    /// Looks at a pod again if it still waits.
    pub(crate) fn look_again(&mut self, key: &PodKey) {
        if self.waiting.get(key).is_some_and(|waiting| waiting.bound_to.is_none()) {
            self.todo.insert(key.clone());
        }
    }

    fn look_at_all(&mut self) {
        let idle = self.waiting.iter().filter(|(_, waiting)| waiting.bound_to.is_none());
        self.todo.extend(idle.map(|(key, _)| key.clone()));
    }

    /// Puts a pod on its node; pods that wait are looked at again if that changes what is free.
    fn place(&mut self, key: PodKey, pod: Pod) {
        let node = pod.spec.node_name.clone();
        let before = self.usage.get(&node).cloned();
        if self.places.get(&key).is_some_and(|place| *place != node) {
            self.displace(&key);
        }
        self.places.insert(key.clone(), node.clone());
        self.placed.entry(node.clone()).or_default().insert(key, pod);
        self.count(&node);
        if self.usage.get(&node) != before.as_ref() {
            self.look_at_all();
        }
    }

    /// Takes a pod off its node; returns whether it was on one.
    fn displace(&mut self, key: &PodKey) -> bool {
        let Some(node) = self.places.remove(key) else { return false };
        if let Some(pods) = self.placed.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.placed.remove(&node);
            }
        }
        self.count(&node);
        true
    }

    /// Counts again what the pods of a node take.
    fn count(&mut self, node: &str) {
        let pods = self.placed.get(node).into_iter().flat_map(BTreeMap::values);
        self.usage.remove(node);
        self.usage.extend(Usage::by_node(pods));
    }

    /// Decides about the pods that need it, the oldest first.
    pub(crate) fn decide(&mut self) -> Vec<Action> {
        let mut keys: Vec<(Option<Timestamp>, PodKey)> = Vec::new();
        for key in std::mem::take(&mut self.todo) {
            if let Some(waiting) = self.waiting.get(&key) {
                keys.push((waiting.pod.metadata.creation_timestamp, key));
            }
        }
        keys.sort();
        keys.into_iter().filter_map(|(_, key)| self.decide_one(key)).collect()
    }

    fn decide_one(&mut self, key: PodKey) -> Option<Action> {
        let waiting = self.waiting.get_mut(&key)?;
        let uid = waiting.pod.metadata.uid.clone();
        match schedule(&waiting.pod, self.nodes.values(), &self.usage) {
            Decision::Bind(node) => {
                waiting.bound_to = Some(node.clone());
                let mut pod = waiting.pod.clone();
                pod.spec.node_name.clone_from(&node);
                self.places.insert(key.clone(), node.clone());
                self.placed.entry(node.clone()).or_default().insert(key.clone(), pod);
                self.count(&node);
                Some(Action::Bind { pod: key, uid, node })
            }
            Decision::Unschedulable(message) => {
                if waiting.told.as_ref() == Some(&message) {
                    return None;
                }
                waiting.told = Some(message.clone());
                let since = unschedulable(&waiting.pod).and_then(|condition| condition.last_transition_time);
                Some(Action::Report { pod: key, uid, message, since })
            }
        }
    }

    /// Notes that an action was done.
    pub(crate) fn done(&mut self, action: &Action) {
        if let Some(waiting) = self.meant(action) {
            waiting.failures = 0;
        }
    }

    /// Notes that an action was not done; returns how often, unless it is `over` or concerns nobody any more.
    pub(crate) fn failed(&mut self, action: &Action, over: bool) -> Option<u32> {
        let waiting = self.meant(action)?;
        waiting.failures += 1;
        let failures = waiting.failures;
        match action {
            Action::Bind { .. } => waiting.bound_to = None,
            // What could not be said is said next time.
            Action::Report { .. } => waiting.told = None,
        }
        if matches!(action, Action::Bind { .. }) && self.displace(action.key()) {
            self.look_at_all();
            // Not this one: at once it would fail again.
            self.todo.remove(action.key());
        }
        (!over).then_some(failures)
    }

    /// Returns the pod that an action is about, if it still waits.
    fn meant(&mut self, action: &Action) -> Option<&mut Waiting> {
        self.waiting.get_mut(action.key()).filter(|waiting| waiting.pod.metadata.uid == action.uid())
    }
}

/// Returns the condition that says that a pod fits nowhere.
fn unschedulable(pod: &Pod) -> Option<&api::meta::Condition> {
    pod.condition("PodScheduled").filter(|condition| condition.status == "False" && condition.reason == "Unschedulable")
}

#[cfg(test)]
mod tests;
