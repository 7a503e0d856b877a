//! What to know about the values that a cluster uses; never blocks a step.

use std::collections::{BTreeMap, BTreeSet};

use crate::hazard::{Advisory, NodeValues, hazard};
use crate::plan::{Observed, WorkerNode};
use crate::steps::KubeletValues;

/// Returns what to know about what is observed. `stock`: nodes are kubelets, which post their status only when they compute it; our own
/// agent does so as soon as it is back. `kubelets` are the settings that are known, by node; others are those of a profile.
pub fn advisories(observed: &Observed, stock: bool, kubelets: &BTreeMap<String, KubeletValues>) -> BTreeSet<Advisory> {
    let grace = observed.kcm.iter().map(|kcm| kcm.grace).min().unwrap_or_default();
    let unreachable_seconds = observed.kas.iter().map(|kas| kas.unreachable_seconds).min();
    let of_node = |node: &WorkerNode| {
        let kubelet = kubelets.get(&node.name).copied().unwrap_or_else(|| KubeletValues::of(node.heartbeat));
        let values = NodeValues {
            update: kubelet.update_frequency,
            report: Some(kubelet.report_frequency),
            lease_duration: Some(kubelet.lease_duration),
            grace,
            unreachable_seconds,
            recovery_post: !stock,
        };
        hazard(&values).advisories
    };
    observed.nodes.iter().filter(|node| !node.deferred()).flat_map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preview::example;
    use crate::profile::{DEFAULT_GRACE, Profile};
    use std::time::Duration;

    #[test]
    fn a_kubelet_at_low_may_lose_its_pods_and_an_agent_of_ours_may_not() {
        let of = |profile, stock| advisories(&example(profile, 2, DEFAULT_GRACE), stock, &BTreeMap::new());
        assert_eq!(of(Profile::Low, true), [Advisory::RecoveryRace].into());
        assert_eq!(of(Profile::Low, false), BTreeSet::new());
        assert_eq!(of(Profile::Default, true), [Advisory::GraceBelowReconnect].into());
        assert_eq!(of(Profile::Medium, true), BTreeSet::new());
    }

    #[test]
    fn settings_that_are_known_count_as_they_are() {
        let seconds = Duration::from_secs;
        let kubelet =
            KubeletValues { report_frequency: seconds(20), lease_duration: seconds(40), ..KubeletValues::of(seconds(20)) };
        let found = advisories(&example(Profile::Medium, 1, DEFAULT_GRACE), true, &[("node-1".to_owned(), kubelet)].into());
        assert_eq!(found, [Advisory::LeaseNotTied, Advisory::StatusPostsTooOften].into());
    }
}
