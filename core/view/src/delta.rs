//! What is new: the rows that changed and the keys that went, as they travel to whoever shows them.

use serde::Serialize;

use crate::{EventRow, MarkerRow, NodeRow, PodRow, ProfileRow, ServiceRow, StripRow};

/// What changed among rows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes<R> {
    /// Rows that are new or other than before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<R>,
    /// Keys of rows that went.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

impl<R> Changes<R> {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }
}

impl<R> Default for Changes<R> {
    fn default() -> Changes<R> {
        Changes { put: Vec::new(), gone: Vec::new() }
    }
}

/// What changed on a board.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    /// The revision that this leads to.
    pub revision: u64,
    /// The instant, in milliseconds since the epoch.
    pub at: i64,
    /// This is everything: what was seen before does not count any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Pods.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub pods: Changes<PodRow>,
    /// Strips of attempts; in a delta that is not whole, attempts are added to those that are known.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub strips: Changes<StripRow>,
    /// Services.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub services: Changes<ServiceRow>,
    /// Nodes.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub nodes: Changes<NodeRow>,
    /// PodProbeMarkers.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub markers: Changes<MarkerRow>,
    /// The latency profile.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub profile: Changes<ProfileRow>,
    /// Events.
    #[serde(skip_serializing_if = "Changes::is_empty")]
    pub events: Changes<EventRow>,
}

impl Delta {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        !self.whole
            && self.pods.is_empty()
            && self.strips.is_empty()
            && self.services.is_empty()
            && self.nodes.is_empty()
            && self.markers.is_empty()
            && self.profile.is_empty()
            && self.events.is_empty()
    }
}
