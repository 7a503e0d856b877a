//! Nodes and the pods on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::names::Names;
use crate::membership::NodeFact;

/// A pod, by namespace and name.
pub(crate) type PodKey = (Arc<str>, Arc<str>);

/// The nodes that are known, and which pods are on which node, known or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    nodes: Names<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    known: bool,
    zone: Option<Arc<str>>,
    pods: BTreeSet<PodKey>,
}

impl Nodes {
    /// Returns what is known of a node.
    pub(crate) fn fact(&self, name: &str) -> NodeFact<'_> {
        match self.nodes.get(name) {
            Some(node) if node.known => NodeFact::Known(node.zone.as_ref()),
            _ => NodeFact::Unknown,
        }
    }

    /// Takes a node; returns whether it is new and whether its zone changed.
    pub(crate) fn apply(&mut self, name: &str, zone: Option<&str>) -> (bool, bool) {
        let node = self.nodes.get_or_default(&name.into());
        let (added, changed) = (!node.known, node.zone.as_deref() != zone);
        node.known = true;
        if changed {
            node.zone = zone.map(Arc::from);
        }
        (added, changed)
    }

    /// Forgets a node; its pods stay where they are.
    pub(crate) fn delete(&mut self, name: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            (node.known, node.zone) = (false, None);
            self.tidy(name);
        }
    }

    /// Returns the names of the known nodes.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().filter(|(_, node)| node.known).map(|(name, _)| name)
    }

    /// Returns the pods on a node.
    pub(crate) fn pods(&self, name: &str) -> Vec<PodKey> {
        self.nodes.get(name).map(|node| node.pods.iter().cloned().collect()).unwrap_or_default()
    }

    /// Notes that a pod is on a node; an empty name is none. The pods of a node share its name.
    pub(crate) fn place(&mut self, node: &mut Arc<str>, pod: PodKey) {
        if node.is_empty() {
            return;
        }
        if let Some(name) = self.nodes.kept(node) {
            *node = Arc::clone(name);
        }
        self.nodes.get_or_default(node).pods.insert(pod);
    }

    /// Notes that a pod is no longer on a node.
    pub(crate) fn displace(&mut self, node: &str, pod: &PodKey) {
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.pods.remove(pod);
            self.tidy(node);
        }
    }

    fn tidy(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|node| !node.known && node.pods.is_empty()) {
            self.nodes.remove(name);
        }
    }
}
