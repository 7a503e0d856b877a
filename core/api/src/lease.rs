//! The Lease: heartbeats of nodes, and leader election.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::meta::{Kind, ObjectMeta, Scope};

/// A lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Who holds it, and for how long.
    pub spec: LeaseSpec,
}

impl Kind for Lease {
    const GROUP: &'static str = "coordination.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Lease";
    const PLURAL: &'static str = "leases";
    const SCOPE: Scope = Scope::Namespaced;
}

/// Who holds a lease, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// The holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// How long it is held without renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i64>,
    /// When the holder got it; microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<Timestamp>,
    /// When the holder last renewed it; microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<Timestamp>,
    /// How often the holder changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i64>,
}
