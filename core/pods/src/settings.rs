//! What a node decides about all its pods, and the constants of this crate.

use std::time::Duration;

use probe::{BackOffSteps, NodePolicy};

/// The least time between the signal to stop and the kill; kubelet `minimumGracePeriodInSeconds`.
pub(crate) const AFTER_SIGNAL_MIN: Duration = Duration::from_secs(2);
/// `terminationGracePeriodSeconds` where it is absent; Kubernetes default.
pub(crate) const GRACE_SECONDS: i64 = 30;
/// A deletion has at least this grace on the node; kubelet.
pub(crate) const DELETION_GRACE_SECONDS_MIN: i64 = 1;
/// What is left of the grace for the container itself when the slices do not follow; drain handshake.
pub(crate) const AFTER_DRAIN: Duration = Duration::from_secs(1);
/// A change within this time after the last write is merged with others; spec probes 6.
pub(crate) const WRITE_WINDOW: Duration = Duration::from_millis(100);
/// The first wait after a write that failed, doubled up to [`RETRY_WRITE_MAX`]; spec probes 4.7.
pub(crate) const RETRY_WRITE: Duration = Duration::from_millis(200);
/// The longest wait after a write that failed.
pub(crate) const RETRY_WRITE_MAX: Duration = Duration::from_secs(10);
/// How often what somebody else wrote into the status is put right, at most; kubelet `syncPeriod` of its status manager.
pub(crate) const RESTORE_INTERVAL: Duration = Duration::from_secs(10);
/// The first wait after a container or its pod could not be set up, doubled up to [`RETRY_SETUP_MAX`].
pub(crate) const RETRY_SETUP: Duration = Duration::from_secs(1);
/// The longest wait after a container or its pod could not be set up.
pub(crate) const RETRY_SETUP_MAX: Duration = Duration::from_secs(10);

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

/// A wait that doubles with every failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubling(u32);

impl Doubling {
    /// Returns the wait after one more failure.
    pub(crate) fn next(&mut self, first: Duration, max: Duration) -> Duration {
        let wait = first.saturating_mul(1 << self.0.min(20)).min(max);
        self.0 = self.0.saturating_add(1);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_maximum() {
        let mut doubling = Doubling::default();
        let waits: Vec<u64> = (0..6).map(|_| doubling.next(RETRY_SETUP, RETRY_SETUP_MAX).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }
}
