//! How dangerous the values of a node are under a grace.
//!
//! Decided with integers only, so that a borderline never depends on rounding.

use std::time::Duration;

use api::lease::interval_of;

use crate::profile::Owner;

/// A grace up to here may end before a client has noticed a dead connection and opened another (30 s + 15 s).
const RECONNECT: Duration = Duration::from_secs(45);

/// How likely a healthy node is taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// At least four heartbeats fit into the grace.
    Safe,
    /// One to three do: a short disturbance is enough.
    Elevated,
    /// Not even one does, jitter of 4 % included.
    Certain,
}

impl Class {
    /// Every class, from harmless to fatal.
    pub const ALL: [Class; 3] = [Class::Safe, Class::Elevated, Class::Certain];

    /// Returns the class of a heartbeat interval under a grace.
    pub const fn of(interval: Duration, grace: Duration) -> Class {
        let (interval, grace) = (interval.as_micros(), grace.as_micros());
        if 100 * grace <= 104 * interval {
            Class::Certain
        } else if grace < 4 * interval {
            Class::Elevated
        } else {
            Class::Safe
        }
    }

    /// Returns the word of the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Safe => "Safe",
            Class::Elevated => "Elevated",
            Class::Certain => "Certain",
        }
    }
}

/// Returns how many intervals fit into a grace.
pub const fn chances(interval: Duration, grace: Duration) -> u64 {
    match interval.as_micros() {
        0 => u64::MAX,
        interval => (grace.as_micros() / interval) as u64,
    }
}

/// Something to know; never blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advisory {
    /// The grace is shorter than the recovery of a dead connection may take.
    GraceBelowReconnect,
    /// The Lease is renewed more often than the status is computed: slowing down had no effect.
    LeaseNotTied,
    /// A node that is back posts its status only after its pods are evicted.
    RecoveryRace,
    /// Full status posts come nearly as often as Leases.
    StatusPostsTooOften,
}

impl Advisory {
    /// Returns the word of the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Advisory::GraceBelowReconnect => "GraceBelowReconnect",
            Advisory::LeaseNotTied => "LeaseNotTied",
            Advisory::RecoveryRace => "RecoveryRace",
            Advisory::StatusPostsTooOften => "StatusPostsTooOften",
        }
    }

    /// Returns what it means, and what helps.
    pub const fn text(self) -> &'static str {
        match self {
            Advisory::GraceBelowReconnect => {
                "the grace may end before a client has noticed a dead connection (up to 45s); \
                 --default-node-monitor-grace-period=50s helps"
            }
            Advisory::LeaseNotTied => {
                "a kubelet renews its Lease more often than it computes its status: slowing it down saves no traffic"
            }
            Advisory::RecoveryRace => {
                "a kubelet that is back posts its status up to 62s later, its pods are evicted 60s after the taint: \
                 a node that lives can lose its pods"
            }
            Advisory::StatusPostsTooOften => {
                "a kubelet posts its whole status nearly as often as its Lease; nodeStatusReportFrequency: 5m helps"
            }
        }
    }

    /// Returns who answers for it.
    pub const fn owner(self) -> Owner {
        match self {
            Advisory::GraceBelowReconnect => Owner::KubeControllerManager,
            Advisory::LeaseNotTied | Advisory::RecoveryRace | Advisory::StatusPostsTooOften => Owner::MachineConfig,
        }
    }
}

/// The settings of one node, and the grace that it lives under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeValues {
    /// How often the status is computed; more than zero.
    pub update: Duration,
    /// How often an unchanged status is posted; absent: with every computation.
    pub report: Option<Duration>,
    /// The duration of the Lease; absent: none is sent.
    pub lease_duration: Option<Duration>,
    /// How long the controller manager waits.
    pub grace: Duration,
    /// How long pods tolerate an unreachable node, if known.
    pub unreachable_seconds: Option<i64>,
    /// Whether the node posts its status as soon as it is back (our agent does).
    pub recovery_post: bool,
}

/// What follows from the settings of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// The heartbeat interval that counts.
    pub interval: Duration,
    /// How many heartbeats fit into the grace.
    pub chances: u64,
    /// How likely the node is taken for dead.
    pub class: Class,
    /// What else to know, sorted.
    pub advisories: Vec<Advisory>,
}

/// Returns what follows from the settings of a node.
pub fn hazard(node: &NodeValues) -> Hazard {
    let lease = node.lease_duration.map(interval_of);
    let post = post_interval(node.update, node.report.unwrap_or(node.update));
    let interval = lease.map_or(post, |lease| lease.min(post));
    Hazard {
        interval,
        chances: chances(interval, node.grace),
        class: Class::of(interval, node.grace),
        advisories: advisories(node, lease),
    }
}

/// Returns how often a status is posted: a report happens only when a status is computed.
fn post_interval(update: Duration, report: Duration) -> Duration {
    if update.is_zero() {
        return report;
    }
    let rounds = report.as_micros().div_ceil(update.as_micros());
    update.saturating_mul(u32::try_from(rounds.max(1)).unwrap_or(u32::MAX))
}

fn advisories(node: &NodeValues, lease: Option<Duration>) -> Vec<Advisory> {
    let mut advisories = Vec::new();
    if node.grace <= RECONNECT {
        advisories.push(Advisory::GraceBelowReconnect);
    }
    if lease.is_some_and(|lease| lease < node.update) {
        advisories.push(Advisory::LeaseNotTied);
    }
    let races = |seconds: i64| 104 * node.update.as_micros() as i128 >= 100 * i128::from(seconds) * 1_000_000;
    if !node.recovery_post && node.unreachable_seconds.is_some_and(races) {
        advisories.push(Advisory::RecoveryRace);
    }
    if lease.is_some() && node.report.unwrap_or(node.update) < node.update.saturating_mul(4) {
        advisories.push(Advisory::StatusPostsTooOften);
    }
    advisories
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_longer_grace_or_a_faster_node_is_never_more_dangerous(interval in 1u64..200, grace in 0u64..700, more in 0u64..100) {
            let class = |interval, grace| Class::of(Duration::from_secs(interval), Duration::from_secs(grace));
            prop_assert!(class(interval, grace + more) <= class(interval, grace));
            prop_assert!(class(interval, grace) <= class(interval + more, grace));
        }
    }
}
