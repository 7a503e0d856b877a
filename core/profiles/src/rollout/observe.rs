//! What the objects of a plane say about the values in use.

use std::collections::BTreeMap;
use std::time::Duration;

use api::config_node::{
    ANNOTATION_APPLIED_PROFILE, ANNOTATION_GRACE_PERIOD, ANNOTATION_NOT_READY_SECONDS, ANNOTATION_UNREACHABLE_SECONDS,
    ConfigNode,
};
use api::lease::interval_of;
pub(super) use api::node::LABEL_CONTROL_PLANE;
use api::tolerations::{NOT_READY, UNREACHABLE};
use api::{Node, Pod, duration};
use machine::Time;

use super::{INSTANCE, LOOK, Rollout};
use crate::plan::{ApiServer, ControllerManager, InstanceKind, Observed, WorkerNode};
use crate::profile::{Profile, Values};

/// What a controller sees.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The object `cluster`.
    pub cluster: Option<&'a ConfigNode>,
    /// Nodes by name.
    pub nodes: &'a BTreeMap<String, Node>,
    /// The durations of the Leases of nodes, by name.
    pub leases: &'a BTreeMap<String, Duration>,
    /// The default tolerations that running pods carry, by pod.
    pub pods: &'a BTreeMap<String, PodDefaults>,
    /// The grace that the node lifecycle controller uses.
    pub grace: Duration,
    /// The seconds that the API server adds to pods: not ready, unreachable.
    pub tolerations: (i64, i64),
}

impl World<'_> {
    /// Returns the last profile that was completed in the whole cluster.
    pub fn applied(&self) -> Profile {
        let text = self.carrier(ANNOTATION_APPLIED_PROFILE).unwrap_or_default();
        Profile::parse(text).unwrap_or_default()
    }

    /// Returns the grace that the node lifecycle controller is told to use.
    pub(super) fn annotated_grace(&self) -> Option<Duration> {
        self.carrier(ANNOTATION_GRACE_PERIOD).and_then(|text| duration::parse(text).ok())
    }

    /// Returns what an annotation of `cluster` says.
    pub(super) fn carrier(&self, name: &str) -> Option<&str> {
        self.cluster?.metadata.annotations.get(name).map(String::as_str)
    }
}

/// The default tolerations of a pod, as admission adds them: an exact shape, so that the user's own are not taken for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodDefaults {
    not_ready: Option<i64>,
    unreachable: Option<i64>,
}

impl PodDefaults {
    /// Reads a pod; `None`: it carries no defaults, or is over.
    pub fn read(pod: &Pod) -> Option<PodDefaults> {
        if pod.metadata.deleting() || matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let seconds = |key: &str| {
            let shaped = pod.spec.tolerations.iter().find(|toleration| {
                toleration.key == key && toleration.operator == "Exists" && toleration.effect == "NoExecute"
            });
            let default = |seconds: &i64| Profile::ALL.iter().any(|profile| seconds_of(&profile.values(), key) == *seconds);
            shaped.and_then(|toleration| toleration.toleration_seconds).filter(default)
        };
        let defaults = PodDefaults { not_ready: seconds(NOT_READY), unreachable: seconds(UNREACHABLE) };
        (defaults != PodDefaults::default()).then_some(defaults)
    }

    /// Returns whether the pod carries a default of another profile.
    pub(super) fn older_than(&self, values: &Values) -> bool {
        let differs = |own: Option<i64>, key| own.is_some_and(|own| own != seconds_of(values, key));
        differs(self.not_ready, NOT_READY) || differs(self.unreachable, UNREACHABLE)
    }
}

fn seconds_of(values: &Values, key: &str) -> i64 {
    if key == NOT_READY { values.default_not_ready_toleration_seconds } else { values.default_unreachable_toleration_seconds }
}

impl Rollout {
    /// Returns the values in use. What is told to change and has not yet counts as settling.
    pub(super) fn observe(&mut self, now: Time, world: &World<'_>) -> Observed {
        let mut waiting = BTreeMap::new();
        let mut settling = |kind: InstanceKind, name: &str, differs: bool| {
            let key = (kind, name.to_owned());
            if !differs {
                return None;
            }
            let since = self.settling.get(&key).copied().unwrap_or(now);
            waiting.insert(key, since);
            // In coarse steps: the message of a condition tells it, and must not change every moment.
            let seconds = now.since(since).as_secs() / LOOK.as_secs() * LOOK.as_secs();
            Some(Duration::from_secs(seconds))
        };
        let annotated = world.annotated_grace();
        let mut kcm = ControllerManager::new(INSTANCE, world.grace);
        kcm.leader = true;
        kcm.settling = settling(InstanceKind::Kcm, INSTANCE, annotated.is_some_and(|annotated| annotated != world.grace));
        let seconds = |name| world.carrier(name).and_then(|text| text.parse::<i64>().ok());
        let (not_ready, unreachable) = world.tolerations;
        let mut kas = ApiServer::new(INSTANCE, not_ready, unreachable);
        let differs = seconds(ANNOTATION_NOT_READY_SECONDS).is_some_and(|annotated| annotated != not_ready)
            || seconds(ANNOTATION_UNREACHABLE_SECONDS).is_some_and(|annotated| annotated != unreachable);
        kas.settling = settling(InstanceKind::Kas, INSTANCE, differs);
        let mut nodes = Vec::with_capacity(world.nodes.len());
        for (name, node) in world.nodes {
            let mut worker = read_node(now, name, node, world);
            if let Some(annotated) =
                annotated_interval(node).filter(|annotated| !worker.control_plane && *annotated != worker.heartbeat)
            {
                worker.settling = settling(InstanceKind::Node, name, true);
                // Either may be in use: the slower one is the one to be careful about.
                worker.heartbeat = worker.heartbeat.max(annotated);
            }
            nodes.push(worker);
        }
        self.settling = waiting;
        Observed { kcm: vec![kcm], kas: vec![kas], nodes }
    }
}

/// Returns the values in use, as seen for the first time.
pub fn observed(now: Time, world: &World<'_>) -> Observed {
    Rollout::new(super::Options::default()).observe(now, world)
}

/// Returns the interval that a node is told to use.
pub(super) fn annotated_interval(node: &Node) -> Option<Duration> {
    api::config_node::annotated_interval(node).ok().flatten()
}

fn read_node(now: Time, name: &str, node: &Node, world: &World<'_>) -> WorkerNode {
    // A node without a Lease has not begun to beat: its agent begins with the interval of Default.
    let lease = world.leases.get(name).map(|duration| interval_of(*duration));
    let mut worker = WorkerNode::new(name, lease.unwrap_or(Profile::Default.values().lease_renew_interval()));
    worker.control_plane = node.metadata.labels.contains_key(LABEL_CONTROL_PLANE);
    if node.ready() != Some("True") {
        let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let since = ready.and_then(|ready| ready.last_transition_time).or(node.metadata.creation_timestamp);
        worker.not_ready_for = Some(since.map_or(Duration::ZERO, |since| now.since(since.0)));
    }
    worker
}
