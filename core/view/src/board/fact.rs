//! What a board is told, and how much of it is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{ConfigNode, EndpointSlice, Lease, Node, Pod, PodProbeMarker, Service};

use crate::events::EventObject;
use crate::report::AgentReport;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts of each probe.
    pub attempts: usize,
    /// How long an attempt is kept.
    pub window: Duration,
    /// Events, the newest.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { attempts: 120, window: Duration::from_secs(600), events: 300 }
    }
}

/// How a fact came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was there when we came.
    Listed,
    /// It happened just now.
    Live,
}

/// Something that is known. Keys are `namespace/name`, or the name alone at cluster scope.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A pod is as it says.
    Pod(Arc<Pod>),
    /// A pod is gone.
    PodGone(String),
    /// A Service is as it says.
    Service(Arc<Service>),
    /// A Service is gone.
    ServiceGone(String),
    /// A slice is as it says.
    Slice(Arc<EndpointSlice>),
    /// A slice is gone.
    SliceGone(String),
    /// A node is as it says.
    Node(Arc<Node>),
    /// A node is gone.
    NodeGone(String),
    /// The Lease of a node is as it says.
    Lease(Arc<Lease>),
    /// A node, by its name, has no Lease.
    LeaseGone(String),
    /// A PodProbeMarker is as it says.
    Marker(Arc<PodProbeMarker>),
    /// A PodProbeMarker is gone.
    MarkerGone(String),
    /// The latency profile is as it says.
    Cluster(Arc<ConfigNode>),
    /// There is no latency profile.
    ClusterGone,
    /// The grace that the node lifecycle controller of this process uses where no profile says otherwise.
    DefaultGrace(Duration),
    /// An event is as it says.
    Event(Arc<EventObject>),
    /// An event is gone.
    EventGone(String),
    /// An agent says what its probes did.
    Report(Arc<AgentReport>),
    /// Connections that the proxy has carried, by Service.
    Connections(BTreeMap<String, u64>),
}
