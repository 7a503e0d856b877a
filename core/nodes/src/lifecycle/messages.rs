//! What the node lifecycle controller is told and what it wants done.

use std::sync::Arc;
use std::time::Duration;

use api::{Event, Lease, Node, Pod, Write, WriteError};
use machine::Time;

use crate::monitor::{UnknownReason, ZoneState};

/// A fact.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node is there or has changed.
    Node {
        /// The node.
        node: Arc<Node>,
        /// How long this one may be silent, where it has a profile of its own.
        grace: Option<Duration>,
    },
    /// A node is gone.
    NodeDeleted(Arc<str>),
    /// A heartbeat, or another duration.
    Lease(Arc<Lease>),
    /// A Lease is gone.
    LeaseDeleted(Arc<str>),
    /// A pod is there or has changed.
    Pod(Arc<Pod>),
    /// A pod is gone: `namespace/name`.
    PodDeleted(Arc<str>),
    /// How long nodes may be silent from now on.
    SetGrace(Duration),
    /// A write was answered.
    Answered {
        /// Which one.
        id: u64,
        /// How.
        result: Result<(), WriteError>,
    },
}

/// What must be done or told.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this, and say how it ended.
    Write(Write),
    /// Write an event.
    Event(Event),
    /// For logs and metrics.
    Report(Report),
}

/// What people and metrics are told.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A node is silent.
    Silent {
        /// The node.
        node: Arc<str>,
        /// Why it is taken for that.
        reason: UnknownReason,
    },
    /// The health taints of a node change.
    Taints {
        /// The node.
        node: Arc<str>,
        /// Its zone, if its pods are told to go.
        evicts_in: Option<Arc<str>>,
    },
    /// A pod is marked as not ready: its node is silent.
    Marked {
        /// The pod.
        pod: Arc<str>,
        /// The node.
        node: Arc<str>,
    },
    /// A zone has another state.
    Zone {
        /// The zone.
        zone: Arc<str>,
        /// The state.
        state: ZoneState,
    },
    /// The time of a pod has come: it does not tolerate a taint of its node.
    Evicting(Arc<str>),
    /// A pod is gone, so long after it was due.
    Evicted(Duration),
    /// A pod will be evicted then.
    EvictionScheduled {
        /// The pod.
        pod: Arc<str>,
        /// When.
        at: Time,
    },
    /// A pod may stay.
    EvictionCancelled(Arc<str>),
}
