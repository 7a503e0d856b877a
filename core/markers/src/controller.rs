//! The marker controller as a machine: objects in, writes out, incrementally.
//!
//! It decides from its cache only, and acts only once all four kinds have been told. Per node, pod and marker at most one
//! request is under way; its answer is taken like any other news, so what the controller wrote is not found again as a
//! difference. A change of one pod costs the work of its node, not of the cluster.

mod markers;
mod nodes;
mod pods;
mod problems;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::marker::{NodePodProbe, PodProbeMarker};
use api::{Event, Node, Pod, Write, WriteError};
use machine::{BackOff, Machine, Time, WorkQueue};

use crate::Key;
use crate::cache::{Cache, Changes};

use markers::MarkerWork;
use nodes::NodeWork;
use pods::PodWork;

/// Changes to one node or marker within this span become one write; of a node, for each part of this many entries: its object
/// is written whole, so that pods which come one by one must not each cost a write of thousands of entries.
const COALESCE: Duration = Duration::from_millis(100);
const COALESCE_ENTRIES: usize = 500;
/// Nodes and markers written at the same time.
const NODES_AT_ONCE: usize = 16;
/// Pods written at the same time: enough to hide the round trip, few enough not to swamp a server.
const PODS_AT_ONCE: usize = 64;
/// The waits after failed requests.
const RETRY: BackOff = BackOff { first: Duration::from_millis(500), last: Duration::from_secs(30) };

/// An object of one of the kinds that the controller watches.
#[derive(Clone, Debug)]
pub enum Object {
    /// A marker.
    Marker(Arc<PodProbeMarker>),
    /// A pod.
    Pod(Arc<Pod>),
    /// A node.
    Node(Arc<Node>),
    /// The object of a node.
    NodePodProbe(Arc<NodePodProbe>),
}

/// A kind that the controller watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Markers.
    Markers,
    /// Pods.
    Pods,
    /// Nodes.
    Nodes,
    /// The objects of nodes.
    NodePodProbes,
}

impl Watched {
    /// Every kind.
    pub const ALL: [Watched; 4] = [Watched::Markers, Watched::Pods, Watched::Nodes, Watched::NodePodProbes];
}

/// What a request is about; there is at most one under way for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The object of a node.
    Node(String),
    /// A pod.
    Pod(Key),
    /// A marker.
    Marker(Key),
}

/// A fact for the controller.
#[derive(Clone, Debug)]
pub enum Input {
    /// An object is new or has changed; telling the same again is harmless.
    Applied(Object),
    /// An object is gone; its last version.
    Deleted(Object),
    /// Every object of a kind has been told, at the start or after a watch was lost.
    Synced(Watched),
    /// A request has ended; with success, the object as the server returned it (none for a deletion).
    Written(Target, Result<Option<Object>, WriteError>),
}

/// Something that must be done for the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a request and tell how it ended with [`Input::Written`].
    Write {
        /// What it is about.
        target: Target,
        /// The request.
        write: Write,
        /// When its cause was seen, for the latency metric.
        since: Time,
    },
    /// Write an event.
    Event(Event),
}

/// The marker controller.
#[derive(Default)]
pub struct Controller {
    cache: Cache,
    synced: BTreeSet<Watched>,
    node_work: BTreeMap<String, NodeWork>,
    pod_work: BTreeMap<Key, PodWork>,
    marker_work: BTreeMap<Key, MarkerWork>,
    nodes: WorkQueue<String>,
    pods: WorkQueue<Key>,
    markers: WorkQueue<Key>,
    drift_suppressed: u64,
}

impl Controller {
    /// Returns a controller that knows nothing yet.
    pub fn new() -> Controller {
        Controller {
            nodes: WorkQueue::new(NODES_AT_ONCE),
            markers: WorkQueue::new(NODES_AT_ONCE),
            pods: WorkQueue::new(PODS_AT_ONCE),
            ..Controller::default()
        }
    }

    /// Returns the same controller for a cluster whose NodePodProbes do not keep these fields of a probe.
    pub fn without_fields(mut self, pruned: BTreeSet<String>) -> Controller {
        self.cache.pruned = pruned;
        self
    }

    /// Returns whether every kind has been told, so that the controller acts.
    pub fn is_synced(&self) -> bool {
        self.synced.len() == Watched::ALL.len()
    }

    /// Returns how many pods each marker selects, for the metric.
    pub fn matched_pods(&self) -> impl Iterator<Item = (&Key, usize)> {
        self.cache.markers.iter().map(|(key, entry)| (key, entry.pods.len()))
    }

    /// Returns how many pods a marker selects; `None`: there is no such marker.
    pub fn matched(&self, marker: &Key) -> Option<usize> {
        self.cache.markers.get(marker).map(|entry| entry.pods.len())
    }

    /// Returns how often a correction of drift was put off, for the metric.
    pub fn drift_suppressed(&self) -> u64 {
        self.drift_suppressed
    }

    fn take(&mut self, now: Time, input: Input) {
        let mut changes = Changes::default();
        match input {
            Input::Applied(object) => self.apply(object, &mut changes),
            Input::Deleted(object) => self.delete(&object, &mut changes),
            Input::Synced(kind) => drop(self.synced.insert(kind)),
            Input::Written(target, result) => {
                let error = match result {
                    Ok(object) => {
                        object.into_iter().for_each(|object| self.apply(object, &mut changes));
                        None
                    }
                    Err(error) => Some(error),
                };
                match target {
                    Target::Node(name) => self.node_written(now, &name, error, &mut changes),
                    Target::Pod(key) => self.pod_written(now, &key, error),
                    Target::Marker(key) => self.marker_written(now, &key, error),
                }
            }
        }
        self.note_changes(now, changes);
    }

    fn apply(&mut self, object: Object, changes: &mut Changes) {
        match object {
            Object::Marker(marker) => {
                let finalizers = &marker.metadata.finalizers;
                let contributes = finalizers.iter().any(|finalizer| finalizer == api::marker::MARKER_FINALIZER);
                self.cache.apply_marker(Arc::unwrap_or_clone(marker), contributes, changes);
            }
            Object::Pod(pod) => self.cache.apply_pod(pod, changes),
            Object::Node(node) => self.cache.apply_node(&node, changes),
            Object::NodePodProbe(object) => self.cache.apply_node_pod_probe(object, changes),
        }
    }

    fn delete(&mut self, object: &Object, changes: &mut Changes) {
        // An object of that name that was made since is not the one that went.
        let same = |known: Option<&str>, uid: &str| known.is_none_or(|known| known == uid || uid.is_empty());
        match object {
            Object::Marker(marker) => {
                let key = Key::of(&marker.metadata);
                let known = self.cache.markers.get(&key).map(|entry| entry.compiled.marker.metadata.uid.as_str());
                if same(known, &marker.metadata.uid) {
                    self.cache.remove_marker(&key, changes);
                }
            }
            Object::Pod(pod) => {
                let key = Key::of(&pod.metadata);
                if same(self.cache.pods.get(&key).map(|entry| entry.pod.metadata.uid.as_str()), &pod.metadata.uid) {
                    self.cache.remove_pod(&key, changes);
                }
            }
            Object::Node(node) => self.cache.remove_node(&node.metadata.name, changes),
            Object::NodePodProbe(object) => {
                let name = &object.metadata.name;
                let known = self.cache.node_pod_probes.get(name).map(|known| known.metadata.uid.as_str());
                if same(known, &object.metadata.uid) {
                    self.cache.remove_node_pod_probe(name, changes);
                }
            }
        }
    }

    fn note_changes(&mut self, now: Time, changes: Changes) {
        for name in changes.nodes {
            self.node_changed(now, name);
        }
        for (key, trigger) in changes.pods {
            self.pod_changed(now, key, trigger);
        }
        for key in changes.markers {
            self.marker_changed(now, key);
        }
    }
}

impl Machine for Controller {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input);
        }
        if !self.is_synced() {
            return;
        }
        // Finalizers go first: a probe may reach a node only when its marker cannot vanish unseen.
        while let Some(key) = self.markers.pop(now) {
            self.run_marker(now, key, effects);
        }
        while let Some(name) = self.nodes.pop(now) {
            self.run_node(now, name, effects);
        }
        while let Some(key) = self.pods.pop(now) {
            self.run_pod(now, key, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        if !self.is_synced() {
            return None;
        }
        [self.markers.deadline(), self.nodes.deadline(), self.pods.deadline()].into_iter().flatten().min()
    }
}
