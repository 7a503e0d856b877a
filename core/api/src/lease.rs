//! The Lease: heartbeats of nodes, and leader election.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::meta::{Kind, ObjectMeta, Scope};

/// Annotation of an agent's Lease: its version.
pub const ANNOTATION_VERSION: &str = "lifesign.dev/version";
/// Annotation of an agent's Lease: what it can do, separated by commas.
pub const ANNOTATION_CAPABILITIES: &str = "lifesign.dev/capabilities";
/// The capability of an agent that beats as often as its Node asks for.
pub const CAPABILITY_HEARTBEAT_INTERVAL: &str = "heartbeat-interval";

/// A node holds its Lease for as many heartbeats as this.
const BEATS: u32 = 4;

/// Returns how often a node beats that holds its Lease for so long.
pub fn interval_of(lease_duration: Duration) -> Duration {
    lease_duration / BEATS
}

/// Returns how long a node that beats so often holds its Lease.
pub fn duration_of(interval: Duration) -> Duration {
    interval.saturating_mul(BEATS)
}

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

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Lease {
    /// Returns whether the holder says that it can do something.
    pub fn is_capable(&self, capability: &str) -> bool {
        let given = self.metadata.annotations.get(ANNOTATION_CAPABILITIES);
        given.is_some_and(|given| given.split(',').any(|one| one.trim() == capability))
    }
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

impl LeaseSpec {
    /// Returns how long it is held without renewal, if that is given and more than nothing.
    pub fn duration(&self) -> Option<Duration> {
        let seconds = self.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }
}
