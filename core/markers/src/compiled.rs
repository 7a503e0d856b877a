//! A marker with its selector ready for use.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use api::marker::MARKER_FINALIZER;
use api::{PodProbeMarker, Selector};

use crate::Key;

/// A marker with its selector ready for use.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The marker.
    pub marker: PodProbeMarker,
    /// Its name.
    pub key: Key,
    selector: Option<Selector>,
}

impl Compiled {
    /// Prepares a marker. An empty or malformed selector selects nothing.
    pub fn new(marker: PodProbeMarker) -> Compiled {
        let selector = marker.spec.selector.as_ref().filter(|selector| !selector.is_empty()).and_then(|s| s.compile());
        Compiled { key: Key::of(&marker.metadata), selector, marker }
    }

    /// Returns whether the selector matches labels of a pod in the marker's namespace.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Returns whether the marker is not being deleted.
    pub fn lives(&self) -> bool {
        !self.marker.metadata.deleting()
    }

    /// Returns whether our finalizer is on the marker.
    pub fn has_finalizer(&self) -> bool {
        self.marker.metadata.finalizers.iter().any(|finalizer| finalizer == MARKER_FINALIZER)
    }

    /// Orders markers by precedence: the older, then the lower name, goes first.
    pub fn precedence(&self, other: &Compiled) -> Ordering {
        let rank = |marker: &Compiled| marker.marker.metadata.creation_timestamp;
        rank(self).cmp(&rank(other)).then_with(|| self.key.cmp(&other.key))
    }
}
