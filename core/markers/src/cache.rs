//! The objects of the cluster with the indices that make one change cheap.
//!
//! Every `apply_*` and `remove_*` takes one object and adds to [`Changes`] what must be looked at again; nothing else is.
//! The indices are functions of the objects: the order in which objects came is of no account.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::marker::{ContainerProbe, ContainerProbeState, NodePodProbe, PodProbe, PodProbeMarker};
use api::{Node, Pod};

use crate::mark::{ProbeResult, Trigger};
use crate::{Compiled, Key, Marked, Reason, entries};
use machine::Groups;

/// The label that tells a virtual node, on which no agent runs.
const VIRTUAL_NODE: (&str, &str) = ("type", "virtual-kubelet");

/// What must be looked at again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Nodes whose desired or stored object changed.
    pub(crate) nodes: BTreeSet<String>,
    /// Pods whose marks may have to change.
    pub(crate) pods: BTreeMap<Key, Trigger>,
    /// Markers whose status, finalizer or events may have to change.
    pub(crate) markers: BTreeSet<Key>,
}

impl Changes {
    pub(crate) fn mark(&mut self, pod: &Key, trigger: Trigger) {
        let urgency = self.pods.entry(pod.clone()).or_insert(trigger);
        *urgency = trigger.max(*urgency);
    }
}

/// A marker and the pods that it selects.
pub(crate) struct MarkerEntry {
    pub(crate) compiled: Compiled,
    /// Whether its probes may be written to nodes: only once the finalizer is on it.
    pub(crate) contributes: bool,
    pub(crate) pods: BTreeSet<Key>,
    /// How many of them each node holds.
    pub(crate) nodes: BTreeMap<String, usize>,
}

/// A pod and what the markers want of it.
pub(crate) struct PodEntry {
    pub(crate) pod: Arc<Pod>,
    pub(crate) marked: Marked,
    /// Markers that select it, in order of precedence.
    pub(crate) markers: Vec<Key>,
    /// Its item in the object of its node.
    pub(crate) desired: Option<PodProbe>,
    skips: BTreeSet<(Key, Reason)>,
}

/// What matters of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeFacts {
    pub(crate) deleting: bool,
    pub(crate) is_virtual: bool,
    pub(crate) ready: bool,
}

/// What must be done to the object of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodePodProbeAction {
    /// Make it, with these items.
    Create(Vec<PodProbe>),
    /// Replace its items.
    Update(Vec<PodProbe>),
    /// Delete it.
    Delete,
}

/// The objects of the cluster.
#[derive(Default)]
pub(crate) struct Cache {
    pub(crate) markers: BTreeMap<Key, MarkerEntry>,
    pub(crate) pods: BTreeMap<Key, PodEntry>,
    pub(crate) nodes: BTreeMap<String, NodeFacts>,
    pub(crate) node_pod_probes: BTreeMap<String, Arc<NodePodProbe>>,
    /// Fields of probes that the cluster would prune from entries.
    pub(crate) pruned: BTreeSet<String>,
    /// Pods by node.
    pods_on: Groups<String, Key>,
    /// Pods by the markers that own marks on them.
    pub(crate) marked_by: Groups<Key, Key>,
    /// Nodes whose stored object has entries of a marker.
    pub(crate) carriers: Groups<Key, String>,
    /// Pods with a problem, by marker and reason.
    pub(crate) problems: Groups<(Key, Reason), Key>,
}

impl Cache {
    /// Takes a marker. `contributes`: see [`MarkerEntry`]; it never turns false for the same object.
    pub(crate) fn apply_marker(&mut self, marker: PodProbeMarker, contributes: bool, changes: &mut Changes) {
        let key = Key::of(&marker.metadata);
        changes.markers.insert(key.clone());
        let mut affected = self.pods_of_marker(&key);
        let (mut pods, mut nodes, mut contributes) = (BTreeSet::new(), BTreeMap::new(), contributes);
        if let Some(old) = self.markers.get_mut(&key) {
            let known = &old.compiled.marker;
            if marker.metadata.is_older_than(&known.metadata) {
                return;
            }
            contributes |= old.contributes && known.metadata.uid == marker.metadata.uid;
            if same_marker(known, &marker) && old.contributes == contributes {
                old.compiled.marker = marker;
                return;
            }
            (pods, nodes) = (std::mem::take(&mut old.pods), std::mem::take(&mut old.nodes));
        }
        let entry = MarkerEntry { compiled: Compiled::new(marker), contributes, pods, nodes };
        self.markers.insert(key.clone(), entry);
        affected.extend(self.pods_of_marker(&key));
        self.refresh_all(affected, Trigger::Marker, changes);
    }

    /// Forgets a marker.
    pub(crate) fn remove_marker(&mut self, key: &Key, changes: &mut Changes) {
        let affected = self.pods_of_marker(key);
        if self.markers.remove(key).is_some() {
            changes.markers.insert(key.clone());
            self.refresh_all(affected, Trigger::Marker, changes);
        }
    }

    /// Returns the pods that a marker matches, selects or has marked.
    fn pods_of_marker(&self, key: &Key) -> BTreeSet<Key> {
        let mut pods: BTreeSet<Key> = self.marked_by.get(key).cloned().collect();
        if let Some(entry) = self.markers.get(key) {
            pods.extend(entry.pods.iter().cloned());
            let here = self.pods.range(Key::first(&key.namespace)..).take_while(|(pod, _)| pod.namespace == key.namespace);
            let matched = here.filter(|(_, pod)| entry.compiled.matches(&pod.pod.metadata.labels));
            pods.extend(matched.map(|(pod, _)| pod.clone()));
        }
        pods
    }

    fn refresh_all(&mut self, pods: BTreeSet<Key>, trigger: Trigger, changes: &mut Changes) {
        for pod in pods {
            self.refresh_pod(&pod, changes);
            changes.mark(&pod, trigger);
        }
    }

    /// Takes a node.
    pub(crate) fn apply_node(&mut self, node: &Node, changes: &mut Changes) {
        let facts = NodeFacts {
            deleting: node.metadata.deleting(),
            is_virtual: node.metadata.labels.get(VIRTUAL_NODE.0).is_some_and(|value| value == VIRTUAL_NODE.1),
            ready: node.ready() == Some("True"),
        };
        let name = &node.metadata.name;
        if self.nodes.insert(name.clone(), facts) != Some(facts) {
            self.node_changed(name, changes);
        }
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&mut self, name: &str, changes: &mut Changes) {
        if self.nodes.remove(name).is_some() {
            self.node_changed(name, changes);
        }
    }

    fn node_changed(&mut self, name: &str, changes: &mut Changes) {
        changes.nodes.insert(name.to_owned());
        for pod in self.pods_on.get(name).cloned().collect::<Vec<_>>() {
            self.refresh_pod(&pod, changes);
        }
    }

    /// Takes the object of a node. Pods whose states changed, or became usable, must be marked.
    pub(crate) fn apply_node_pod_probe(&mut self, object: Arc<NodePodProbe>, changes: &mut Changes) {
        let name = object.metadata.name.clone();
        if self.node_pod_probes.get(&name).is_some_and(|old| object.metadata.is_older_than(&old.metadata)) {
            return;
        }
        let old = self.node_pod_probes.insert(name.clone(), object).unwrap_or_default();
        let new = &self.node_pod_probes[&name];
        let spec_changed = old.spec != new.spec || old.metadata.uid != new.metadata.uid;
        let all = spec_changed || trusted(&old) != trusted(new);
        let (before, after) = (states(&old), states(new));
        for pod in self.pods_on.get(&name) {
            let uid = self.pods[pod].pod.metadata.uid.as_str();
            if all || before.get(uid) != after.get(uid) {
                changes.mark(pod, Trigger::Result);
            }
        }
        if spec_changed {
            changes.nodes.insert(name.clone());
            let (before, after) = (carried(&old), carried(new));
            self.carriers.replace(&name, &before, &after);
            changes.markers.extend(before.difference(&after).cloned());
        }
    }

    /// Forgets the object of a node.
    pub(crate) fn remove_node_pod_probe(&mut self, name: &str, changes: &mut Changes) {
        if let Some(old) = self.node_pod_probes.remove(name) {
            let before = carried(&old);
            self.carriers.replace(&name.to_owned(), &before, &BTreeSet::new());
            changes.markers.extend(before);
            changes.nodes.insert(name.to_owned());
        }
    }

    /// Returns what must be done to the object of a node, `None` if nothing.
    pub(crate) fn action(&self, name: &str) -> Option<NodePodProbeAction> {
        let stored = self.node_pod_probes.get(name);
        let normal = self.nodes.get(name).filter(|facts| !facts.deleting && !facts.is_virtual);
        let items = || self.pods_on.get(name).filter_map(|pod| self.pods[pod].desired.as_ref());
        match (normal, stored) {
            (None, stored) => stored.map(|_| NodePodProbeAction::Delete),
            (Some(facts), None) => {
                let selected = || self.pods_on.get(name).any(|pod| !self.pods[pod].markers.is_empty());
                (facts.ready || selected()).then(|| NodePodProbeAction::Create(items().cloned().collect()))
            }
            (Some(_), Some(stored)) => {
                let same = entries::same_spec(&stored.spec.pod_probes, items());
                (!same).then(|| NodePodProbeAction::Update(items().cloned().collect()))
            }
        }
    }

    /// Returns the states of a pod's probes, each with whether it may be used.
    pub(crate) fn results(&self, pod: &PodEntry) -> Vec<ProbeResult> {
        let Some(object) = self.node_pod_probes.get(&pod.pod.spec.node_name) else { return Vec::new() };
        let uid = &pod.pod.metadata.uid;
        let states =
            object.status.pod_probe_statuses.iter().filter(|item| item.uid == *uid).flat_map(|item| &item.probe_states);
        let stored = object.spec.pod_probes.iter().find(|item| item.uid == *uid);
        let (stored, desired) = (by_name(stored), by_name(pod.desired.as_ref()));
        let fresh = |name: &str| {
            let asked = stored.get(name).zip(desired.get(name));
            trusted(object) && asked.is_some_and(|(stored, desired)| entries::same_entry(stored, desired))
        };
        let result = |state: &ContainerProbeState| ProbeResult {
            owner: state.name.clone(),
            state: state.state,
            message: state.message.clone(),
            last_probe_time: state.last_probe_time,
            last_transition_time: state.last_transition_time,
            fresh: fresh(&state.name),
        };
        states.map(result).collect()
    }

    /// Returns the markers that select a pod on a node.
    pub(crate) fn markers_on(&self, node: &str) -> BTreeSet<Key> {
        self.pods_on.get(node).flat_map(|pod| self.pods[pod].markers.iter().cloned()).collect()
    }

    /// Returns the markers of a namespace.
    pub(crate) fn markers_in(&self, namespace: &str) -> Vec<&Compiled> {
        let here = self.markers.range(Key::first(namespace)..).take_while(|(key, _)| key.namespace == namespace);
        here.map(|(_, entry)| &entry.compiled).collect()
    }
}

/// Returns whether the agent has seen the spec that is stored; one that reports no generation is trusted.
fn trusted(object: &NodePodProbe) -> bool {
    object.status.observed_generation.is_none_or(|seen| seen == object.metadata.generation)
}

/// Returns the states in an object of a node, by pod uid.
fn states(object: &NodePodProbe) -> BTreeMap<&str, &[ContainerProbeState]> {
    object.status.pod_probe_statuses.iter().map(|item| (item.uid.as_str(), item.probe_states.as_slice())).collect()
}

/// Returns the entries of an item by name; of repeated names the first counts.
fn by_name(item: Option<&PodProbe>) -> BTreeMap<&str, &ContainerProbe> {
    item.into_iter().flat_map(|item| &item.probes).rev().map(|entry| (entry.name.as_str(), entry)).collect()
}

/// Returns the markers that an object of a node has entries of.
fn carried(object: &NodePodProbe) -> BTreeSet<Key> {
    let entries = object.spec.pod_probes.iter().flat_map(|item| item.probes.iter().map(move |entry| (item, entry)));
    let marker = |(item, entry): (&PodProbe, &ContainerProbe)| {
        api::marker::split_entry(&entry.name).map(|(marker, _)| Key::new(&item.namespace, marker))
    };
    entries.filter_map(marker).collect()
}

/// Returns whether two versions of a marker want the same of every pod.
fn same_marker(old: &PodProbeMarker, new: &PodProbeMarker) -> bool {
    let rank =
        |marker: &PodProbeMarker| (marker.metadata.creation_timestamp, marker.metadata.deleting(), marker.removes_marks());
    old.spec == new.spec && rank(old) == rank(new) && old.metadata.uid == new.metadata.uid
}
