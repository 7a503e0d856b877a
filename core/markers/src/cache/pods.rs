//! Pods in the cache: which markers select one, and what its node shall probe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Pod;
use api::marker::{MARKED, PodProbe};

use super::{Cache, Changes, NodeFacts, PodEntry};
use crate::mark::Trigger;
use crate::{Compiled, Key, Marked, Reason, entries};

impl Cache {
    /// Takes a pod.
    pub(crate) fn apply_pod(&mut self, pod: Arc<Pod>, changes: &mut Changes) {
        let key = Key::of(&pod.metadata);
        match self.pods.get(&key) {
            Some(old) if pod.metadata.is_older_than(&old.pod.metadata) => return,
            Some(old) if old.pod.metadata.uid != pod.metadata.uid || old.pod.spec.node_name != pod.spec.node_name => {
                self.remove_pod(&key, changes);
            }
            _ => {}
        }
        let marked = pod.metadata.annotations.get(MARKED).map(|text| Marked::parse(text)).unwrap_or_default();
        let owners = |marked: &Marked| marked.markers().map(|name| Key::new(&key.namespace, name)).collect::<BTreeSet<Key>>();
        let (selection, marks) = match self.pods.get_mut(&key) {
            None => {
                self.marked_by.replace(&key, &BTreeSet::new(), &owners(&marked));
                self.pods_on.insert(&pod.spec.node_name, &key);
                let entry = PodEntry { pod, marked, markers: Vec::new(), desired: None, skips: BTreeSet::new() };
                self.pods.insert(key.clone(), entry);
                (true, true)
            }
            Some(entry) => {
                self.marked_by.replace(&key, &owners(&entry.marked), &owners(&marked));
                let changed = (selection_differs(&entry.pod, &pod), marks_differ(&entry.pod, &pod));
                (entry.pod, entry.marked) = (pod, marked);
                changed
            }
        };
        if selection {
            self.refresh_pod(&key, changes);
        }
        if marks {
            changes.mark(&key, Trigger::Pod);
        }
    }

    /// Forgets a pod.
    pub(crate) fn remove_pod(&mut self, key: &Key, changes: &mut Changes) {
        let Some(entry) = self.pods.remove(key) else { return };
        let node = &entry.pod.spec.node_name;
        self.pods_on.remove(node, key);
        if !entry.markers.is_empty() {
            changes.nodes.insert(node.clone());
        }
        self.deselect(key, node, &entry.markers, changes);
        for problem in &entry.skips {
            self.problems.remove(problem, key);
        }
        for marker in entry.marked.markers() {
            let marker = Key::new(&key.namespace, marker);
            self.marked_by.remove(&marker, key);
            changes.markers.insert(marker);
        }
        changes.mark(key, Trigger::Pod);
    }

    /// Decides anew which markers select a pod and what its node shall probe.
    pub(super) fn refresh_pod(&mut self, key: &Key, changes: &mut Changes) {
        let Some(entry) = self.pods.get(key) else { return };
        let facts = self.nodes.get(&entry.pod.spec.node_name).copied();
        let mut selecting: Vec<&Compiled> = Vec::new();
        if selectable(&entry.pod, facts) {
            let living = self.markers_in(&key.namespace).into_iter().filter(|marker| marker.lives());
            selecting = living.filter(|marker| marker.matches(&entry.pod.metadata.labels)).collect();
            selecting.sort_by(|a, b| a.precedence(b));
        }
        // A virtual node has no desired spec.
        let runs = facts.is_some_and(|facts| !facts.is_virtual);
        let contributing = selecting.iter().copied().filter(|marker| runs && self.markers[&marker.key].contributes);
        let (desired, skips) = wanted(&entry.pod, contributing, &self.pruned);
        let markers: Vec<Key> = selecting.iter().map(|marker| marker.key.clone()).collect();
        self.store(key, markers, desired, skips, changes);
    }

    fn store(
        &mut self,
        key: &Key,
        markers: Vec<Key>,
        desired: Option<PodProbe>,
        skips: BTreeSet<(Key, Reason)>,
        changes: &mut Changes,
    ) {
        let entry = self.pods.get_mut(key).expect("the caller has found it");
        let node = entry.pod.spec.node_name.clone();
        if entry.desired != desired || entry.markers.is_empty() != markers.is_empty() {
            changes.nodes.insert(node.clone());
            entry.desired = desired;
            // A state that was held may be the answer to what is asked now.
            changes.mark(key, Trigger::Result);
        }
        let old_skips = std::mem::replace(&mut entry.skips, skips.clone());
        let old_markers = std::mem::replace(&mut entry.markers, markers.clone());
        self.problems.replace(key, &old_skips, &skips);
        changes.markers.extend(skips.difference(&old_skips).map(|(marker, _)| marker.clone()));
        let gone: Vec<Key> = old_markers.iter().filter(|marker| !markers.contains(marker)).cloned().collect();
        self.deselect(key, &node, &gone, changes);
        for marker in markers.iter().filter(|marker| !old_markers.contains(marker)) {
            let entry = self.markers.get_mut(marker).expect("a marker that selects is in the cache");
            if entry.pods.insert(key.clone()) {
                *entry.nodes.entry(node.clone()).or_default() += 1;
            }
            changes.markers.insert(marker.clone());
        }
    }

    /// Takes a pod out of the selection of markers.
    fn deselect(&mut self, pod: &Key, node: &str, markers: &[Key], changes: &mut Changes) {
        for key in markers {
            changes.markers.insert(key.clone());
            let Some(entry) = self.markers.get_mut(key) else { continue };
            if entry.pods.remove(pod)
                && let Some(count) = entry.nodes.get_mut(node)
            {
                *count -= 1;
                if *count == 0 {
                    entry.nodes.remove(node);
                }
            }
        }
    }
}

/// Returns whether a marker that matches the pod's labels selects it.
fn selectable(pod: &Pod, node: Option<NodeFacts>) -> bool {
    !pod.metadata.deleting()
        && !pod.terminal()
        && pod.condition_true("Initialized")
        && !pod.spec.node_name.is_empty()
        && node.is_some_and(|facts| !facts.deleting)
}

/// Returns the item of a pod, without the fields that would be pruned, and what is not in it.
fn wanted<'a>(
    pod: &Pod,
    markers: impl Iterator<Item = &'a Compiled>,
    pruned: &BTreeSet<String>,
) -> (Option<PodProbe>, BTreeSet<(Key, Reason)>) {
    let (mut probes, mut skips) = (Vec::new(), BTreeSet::new());
    for marker in markers {
        for probe in &marker.marker.spec.probes {
            match entries::entry(&marker.marker, probe, pod) {
                Ok(mut entry) => {
                    if let Some(members) = entry.probe.as_object_mut() {
                        members.retain(|name, _| !pruned.contains(name));
                    }
                    probes.push(entry);
                }
                Err(skip) => drop(skips.insert((marker.key.clone(), Reason::from(skip)))),
            }
        }
    }
    let item = (!probes.is_empty()).then(|| PodProbe {
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        ip: pod.status.pod_ip.clone(),
        probes,
    });
    (item, skips)
}

/// Returns whether a change of a pod can change its selection or its item.
fn selection_differs(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| (pod.metadata.deleting(), pod.terminal(), pod.condition_true("Initialized"));
    facts(old) != facts(new)
        || old.metadata.labels != new.metadata.labels
        || old.status.pod_ip != new.status.pod_ip
        || old.spec != new.spec
}

/// Returns whether a change of a pod can be a change of marks.
fn marks_differ(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| (pod.metadata.deleting(), pod.terminal());
    // Heartbeat times of conditions say nothing.
    let conditions = |pod: &Pod| -> BTreeMap<String, (String, String)> {
        let all = pod.status.conditions.iter();
        all.map(|condition| (condition.type_.clone(), (condition.status.clone(), condition.message.clone()))).collect()
    };
    facts(old) != facts(new)
        || old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || conditions(old) != conditions(new)
}
