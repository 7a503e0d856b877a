//! Nodes: how old their last heartbeat is, and how many may still be missed.

use std::time::Duration;

use api::config_node::{ANNOTATION_APPLIED_PROFILE, ANNOTATION_GRACE_PERIOD};
use api::lease::interval_of;
use api::{ConfigNode, Lease, Node, duration};
use machine::Time;
use profiles::Profile;
use serde::Serialize;

use crate::pods::cut;
use crate::report::OWN_RUNTIME;

/// `--node-monitor-grace-period` of a Kubernetes that does not say it; since 1.32.
const GRACE: Duration = Duration::from_secs(50);
/// The interval of a kubelet that has no Lease yet.
const INTERVAL: Duration = Duration::from_secs(10);

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its name.
    pub key: String,
    /// The status of its condition Ready: `True`, `False`, `Unknown`; empty: none yet.
    pub ready: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// When its heartbeat was last seen, in milliseconds; 0: never.
    pub heartbeat_at: i64,
    /// The time between two heartbeats, in milliseconds.
    pub interval_ms: u64,
    /// How long it may be silent, in milliseconds.
    pub grace_ms: u64,
    /// Whether the cluster says how long that is; if not, it is the default of Kubernetes.
    pub grace_known: bool,
    /// Its taints: `key=value:Effect`.
    pub taints: Vec<String>,
    /// Whether new pods may not come.
    pub unschedulable: bool,
    /// How many pods it has.
    pub pods: usize,
    /// How many of them are ready.
    pub pods_ready: usize,
    /// Whether an agent of ours runs its pods, so that every attempt is known.
    pub agent: bool,
}

/// Returns how many heartbeats of a node may still be missed until its grace is over.
pub fn chances_left(row: &NodeRow, now: Time) -> u64 {
    let age = u64::try_from(now.as_millis().saturating_sub(row.heartbeat_at)).unwrap_or(0);
    row.grace_ms.saturating_sub(age) / row.interval_ms.max(1)
}

/// What is known of a node beside its object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beats {
    /// When the Lease was last renewed, as seen here.
    pub(crate) at: Option<Time>,
    pub(crate) interval: Option<Duration>,
    renewed: Option<Time>,
}

impl Beats {
    /// Takes a Lease. What came while we watched is as old as our clock says; what was there before as its writer says.
    pub(crate) fn see(&mut self, now: Time, live: bool, lease: &Lease) {
        let renewed = lease.spec.renew_time.map(|at| at.0);
        if renewed != self.renewed {
            self.renewed = renewed;
            self.at = if live { Some(now) } else { renewed };
        }
        self.interval = lease.spec.duration().map(interval_of);
    }
}

/// Returns the grace that a cluster says it uses: what is in force, else that of the profile that is applied.
pub(crate) fn grace_of(cluster: Option<&ConfigNode>, default: Option<Duration>) -> Option<Duration> {
    let annotation = |name: &str| cluster?.metadata.annotations.get(name);
    let in_force = annotation(ANNOTATION_GRACE_PERIOD).and_then(|text| duration::parse(text).ok());
    let applied = annotation(ANNOTATION_APPLIED_PROFILE).and_then(|name| Profile::parse(name).ok());
    let of_profile =
        |profile: Profile| default.map_or(profile.values(), |grace| profile.values_with(grace)).node_monitor_grace_period;
    in_force.filter(|grace| !grace.is_zero()).or(applied.map(of_profile)).or(default)
}

impl NodeRow {
    pub(crate) fn of(
        node: &Node,
        beats: Option<&Beats>,
        grace: Option<Duration>,
        (pods, pods_ready): (usize, usize),
    ) -> NodeRow {
        let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let interval = beats.and_then(|beats| beats.interval).unwrap_or(INTERVAL);
        let taint = |taint: &api::node::Taint| match taint.value.as_str() {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        };
        NodeRow {
            key: node.metadata.name.clone(),
            ready: ready.map_or_else(String::new, |ready| ready.status.clone()),
            reason: ready.map_or_else(String::new, |ready| ready.reason.clone()),
            message: ready.map_or_else(String::new, |ready| cut(&ready.message)),
            heartbeat_at: beats.and_then(|beats| beats.at).map_or(0, Time::as_millis),
            interval_ms: millis(interval),
            grace_ms: millis(grace.unwrap_or(GRACE)),
            grace_known: grace.is_some(),
            taints: node.spec.taints.iter().map(taint).collect(),
            unschedulable: node.spec.unschedulable,
            pods,
            pods_ready,
            agent: node.status.node_info.container_runtime_version.starts_with(OWN_RUNTIME),
        }
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
