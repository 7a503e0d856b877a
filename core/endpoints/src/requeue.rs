//! Which Services an event queues, and after what delay.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::endpointslice::CONTROLLER_NAME;

use crate::pod::PodRecord;

/// The least delay after an event of a slice: somebody else writes it, and a hurry would only fight them.
const SLICE_DELAY: Duration = Duration::from_secs(1);

/// How long after an event a Service is synced. The window starts with the first event; later ones never extend it.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// How long changes of pods are collected.
    pub batch: Duration,
}

impl Delays {
    /// After an event of a pod or a node.
    pub fn pod(&self) -> Duration {
        self.batch
    }

    /// After an event of the Service itself.
    pub fn service(&self) -> Duration {
        Duration::ZERO
    }

    /// After an event of one of its slices.
    pub fn slice(&self) -> Duration {
        self.batch.max(SLICE_DELAY)
    }
}

/// What an update of a pod changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// Nothing that endpoints depend on.
    Nothing,
    /// Its state.
    View,
    /// Its labels.
    Labels,
    /// Both.
    Both,
}

impl PodChange {
    /// Compares two versions of a pod.
    pub fn between(old: &PodRecord, new: &PodRecord) -> PodChange {
        if old.resource_version == new.resource_version && !new.resource_version.is_empty() {
            return PodChange::Nothing;
        }
        match (new.view_differs(old), new.labels != old.labels) {
            (false, false) => PodChange::Nothing,
            (true, false) => PodChange::View,
            (false, true) => PodChange::Labels,
            (true, true) => PodChange::Both,
        }
    }

    /// Returns the Services to queue, from those that matched the old and match the new labels.
    pub fn services(self, old: &BTreeSet<Arc<str>>, new: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        match self {
            PodChange::Nothing => BTreeSet::new(),
            PodChange::View => new.clone(),
            PodChange::Labels => old.symmetric_difference(new).cloned().collect(),
            PodChange::Both => old.union(new).cloned().collect(),
        }
    }
}

/// The labels of a slice that say whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceOwner<'a> {
    /// The Service; empty: none.
    pub service: &'a str,
    /// The controller; empty: none.
    pub managed_by: &'a str,
}

impl SliceOwner<'_> {
    /// Returns whether this controller looks after the slice.
    pub fn ours(&self) -> bool {
        self.managed_by == CONTROLLER_NAME
    }
}

/// Returns the Services to queue for an event of a slice; `news`: it is not the echo of an own write or delete.
pub fn slice_services<'a>(old: Option<SliceOwner<'a>>, new: Option<SliceOwner<'a>>, news: bool) -> BTreeSet<&'a str> {
    let queued: Vec<&str> = match (old, new) {
        (Some(old), Some(new)) if old.service != new.service => vec![old.service, new.service],
        (Some(old), Some(new)) if old.ours() != new.ours() => vec![new.service],
        (_, Some(slice)) | (Some(slice), None) if slice.ours() && news => vec![slice.service],
        _ => Vec::new(),
    };
    queued.into_iter().filter(|service| !service.is_empty()).collect()
}

/// Returns whether a change of a node queues the Services with pods on it.
///
/// A node that goes queues nothing: one that is deleted and registers again must not empty Services at once.
pub fn node_queues(added: bool, zone_changed: bool) -> bool {
    added || zone_changed
}
