//! What a node decides about all its pods, and the constants of this crate.

use std::time::Duration;

use machine::BackOff;
use probe::{BackOffSteps, NodePolicy};

/// The least time between the signal to stop and the kill; kubelet `minimumGracePeriodInSeconds`.
pub(crate) const AFTER_SIGNAL_MIN: Duration = Duration::from_secs(2);
/// `terminationGracePeriodSeconds` where it is absent; Kubernetes default.
pub(crate) const GRACE_SECONDS: i64 = 30;
/// A deletion has at least this grace on the node; kubelet.
pub(crate) const DELETION_GRACE_SECONDS_MIN: i64 = 1;
/// What is left of the grace for the container itself when the slices do not follow; drain handshake.
pub(crate) const AFTER_DRAIN: Duration = Duration::from_secs(1);
/// A change within this time after the last write is merged with others.
pub(crate) const WRITE_WINDOW: Duration = Duration::from_millis(100);
/// The waits after a write that failed.
pub(crate) const RETRY_WRITE: BackOff = BackOff { first: Duration::from_millis(200), last: Duration::from_secs(10) };
/// How often what somebody else wrote into the status is put right, at most; kubelet `syncPeriod` of its status manager.
pub(crate) const RESTORE_INTERVAL: Duration = Duration::from_secs(10);
/// The waits after a container or its pod could not be set up.
pub(crate) const RETRY_SETUP: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_secs(10) };

/// What a node decides about all its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// About probes.
    pub node: NodePolicy,
    /// How long containers that end wait before they are started again.
    pub back_off: BackOffSteps,
    /// How long the stop signal of a deleted pod waits for the slices to show it as terminating; `None`: not at all.
    pub drain_wait: Option<Duration>,
    /// The node's own address.
    pub host_ip: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node: NodePolicy::default(),
            back_off: BackOffSteps::default(),
            drain_wait: None,
            host_ip: "127.0.0.1".to_owned(),
        }
    }
}
