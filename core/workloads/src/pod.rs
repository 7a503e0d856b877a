//! What the controllers need to know of a pod.

use std::collections::BTreeMap;
use std::time::Duration;

use api::pod::ContainerStatus;
use api::{Key, Kind, Pod, ReplicaSet};
use machine::Time;

use crate::claim::controller;

/// The annotation that says how much the deletion of a pod costs, compared with the others of its ReplicaSet.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How far a pod is; the order is that of deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not running yet.
    #[default]
    Pending,
    /// Its node is silent.
    Unknown,
    /// Running.
    Running,
    /// It has ended for good.
    Ended,
}

/// What the controllers need to know of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// Namespace and name.
    pub key: Key,
    /// The very pod.
    pub uid: String,
    /// The revision of this version.
    pub revision: Option<u128>,
    /// The uid of the ReplicaSet that controls it.
    pub owner: Option<String>,
    /// Whether anything at all controls it.
    pub controlled: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its node; empty: none yet.
    pub node: String,
    /// How far it is.
    pub phase: Phase,
    /// Whether it is ready.
    pub ready: bool,
    /// Since when its readiness is what it is.
    pub ready_since: Option<Time>,
    /// What its deletion costs.
    pub deletion_cost: i64,
    /// The most restarts of one of its containers, and of one of its sidecars.
    pub restarts: (i64, i64),
    /// When it was made.
    pub created_at: Option<Time>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl PodFacts {
    /// Reads a pod.
    pub fn read(pod: &Pod) -> PodFacts {
        let metadata = &pod.metadata;
        let owner = controller(metadata);
        let is_set = |kind: &str, version: &str| kind == ReplicaSet::KIND && version.starts_with("apps/");
        let ready = pod.condition("Ready");
        let most = |statuses: &[ContainerStatus], counts: &dyn Fn(&str) -> bool| {
            statuses.iter().filter(|status| counts(&status.name)).map(|status| status.restart_count).max().unwrap_or(0)
        };
        let sidecar = |name: &str| pod.sidecars().any(|container| container.name == name);
        PodFacts {
            key: Key::of(metadata),
            uid: metadata.uid.clone(),
            revision: api::key::revision(metadata),
            owner: owner.filter(|owner| is_set(&owner.kind, &owner.api_version)).map(|owner| owner.uid.clone()),
            controlled: owner.is_some(),
            labels: metadata.labels.clone(),
            node: pod.spec.node_name.clone(),
            phase: match pod.status.phase.as_str() {
                "Running" => Phase::Running,
                "Unknown" => Phase::Unknown,
                "Succeeded" | "Failed" => Phase::Ended,
                _ => Phase::Pending,
            },
            ready: pod.condition_true("Ready"),
            ready_since: ready.and_then(|condition| condition.last_transition_time).map(|stamp| stamp.0),
            deletion_cost: metadata.annotations.get(DELETION_COST).and_then(|cost| deletion_cost(cost)).unwrap_or(0),
            restarts: (most(&pod.status.container_statuses, &|_| true), most(&pod.status.init_container_statuses, &sidecar)),
            created_at: metadata.creation_timestamp.map(|stamp| stamp.0),
            deleting: metadata.deleting(),
        }
    }

    /// Returns whether it counts: it has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Ended && !self.deleting
    }

    /// Returns whether it is on its way out.
    pub fn is_terminating(&self) -> bool {
        self.phase != Phase::Ended && self.deleting
    }

    /// Returns from when on it is available; `None`: it is not ready.
    pub(crate) fn available_at(&self, min_ready: Duration) -> Option<Time> {
        match (self.ready, min_ready.is_zero()) {
            (false, _) => None,
            (true, true) => Some(Time::from_micros(i64::MIN)),
            (true, false) => self.ready_since.map(|since| since + min_ready),
        }
    }
}

/// Reads a cost as Kubernetes does: a whole number of 32 bits, without a plus sign or leading zeros.
fn deletion_cost(text: &str) -> Option<i64> {
    let padded = text.len() > 1 && text.trim_start_matches('-').starts_with('0');
    text.parse::<i32>().ok().filter(|_| !padded && !text.starts_with('+')).map(i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_plain_number_or_nothing() {
        let read: Vec<Option<i64>> = ["10", "-10", "0", "+1", "007", "1e3", "", "2147483648"].map(deletion_cost).into();
        assert_eq!(read, [Some(10), Some(-10), Some(0), None, None, None, None, None]);
    }
}
