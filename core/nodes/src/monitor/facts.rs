//! What the monitor is told.

use std::sync::Arc;
use std::time::Duration;

pub use api::node::LABEL_CONTROL_PLANE;
use api::{Lease, Node, Pod, Timestamp};

use super::Config;
use crate::taints::HealthTaint;

/// Label of a node whose silence does not speak for its zone.
pub const LABEL_EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";
/// Label of the region.
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Label of the zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Annotation of a node that keeps its pods however long it is silent, with the value `Keep`.
pub const ANNOTATION_OFFLINE_POLICY: &str = "lifesign.dev/offline-policy";

/// The condition Ready of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, or anything else.
    Unknown,
}

impl Ready {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Ready::True => "True",
            Ready::False => "False",
            Ready::Unknown => "Unknown",
        }
    }
}

/// What the monitor needs to know of the condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyFacts {
    /// Its status.
    pub status: Ready,
    /// When the node last reported it; a change of it is a status post.
    pub heartbeat: Option<Timestamp>,
    /// Whether the condition is ours and the node itself has never posted.
    pub never_updated: bool,
}

/// What the monitor needs to know of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name.
    pub name: Arc<str>,
    /// Unique for ever: another one is another node, of which nothing is known.
    pub uid: Arc<str>,
    /// Key of its zone.
    pub zone: Arc<str>,
    /// Whether its silence speaks for nobody else.
    pub excluded: bool,
    /// Whether it is a control plane node.
    pub control_plane: bool,
    /// Whether silence never drives its pods out.
    pub keep: bool,
    /// A grace of its own in place of that of the settings.
    pub grace: Option<Duration>,
    /// Its condition Ready, if it has one.
    pub ready: Option<ReadyFacts>,
    /// Its health taints.
    pub taints: Vec<HealthTaint>,
}

impl NodeFacts {
    /// Returns a node without labels, annotations, conditions and taints.
    pub fn new(name: impl Into<Arc<str>>) -> NodeFacts {
        NodeFacts {
            name: name.into(),
            uid: "".into(),
            zone: zone_key("", "").into(),
            excluded: false,
            control_plane: false,
            keep: false,
            grace: None,
            ready: None,
            taints: Vec::new(),
        }
    }

    /// Reads a node. A grace of its own is for the caller to add: not every plane allows one.
    pub fn read(node: &Node) -> NodeFacts {
        let labels = &node.metadata.labels;
        let label = |key: &str| labels.get(key).map_or("", String::as_str);
        let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        NodeFacts {
            name: node.metadata.name.as_str().into(),
            uid: node.metadata.uid.as_str().into(),
            zone: zone_key(label(LABEL_REGION), label(LABEL_ZONE)).into(),
            excluded: labels.contains_key(LABEL_EXCLUDE_DISRUPTION),
            control_plane: labels.contains_key(LABEL_CONTROL_PLANE),
            keep: node.metadata.annotations.get(ANNOTATION_OFFLINE_POLICY).is_some_and(|policy| policy == "Keep"),
            grace: None,
            ready: ready.map(|condition| ReadyFacts {
                status: match condition.status.as_str() {
                    "True" => Ready::True,
                    "False" => Ready::False,
                    _ => Ready::Unknown,
                },
                heartbeat: condition.last_heartbeat_time,
                never_updated: condition.reason == super::UnknownReason::NeverUpdated.name(),
            }),
            taints: node.spec.taints.iter().filter_map(HealthTaint::read).collect(),
        }
    }
}

/// Returns the name of a zone; `-` for nodes without labels.
fn zone_key(region: &str, zone: &str) -> String {
    match (region, zone) {
        ("", "") => "-".to_owned(),
        ("", zone) => zone.to_owned(),
        (region, zone) => format!("{region}:{zone}"),
    }
}

/// What the monitor needs to know of the Lease of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// The node: the name of the Lease in `kube-node-lease`.
    pub node: Arc<str>,
    /// When the node says that it renewed it; only its change counts, never its value.
    pub renew_time: Option<Timestamp>,
    /// The revision of the object; its change counts as well.
    pub resource_version: String,
    /// The duration that it carries.
    pub duration: Option<Duration>,
}

impl LeaseFacts {
    /// Reads a Lease.
    pub fn read(lease: &Lease) -> LeaseFacts {
        LeaseFacts {
            node: lease.metadata.name.as_str().into(),
            renew_time: lease.spec.renew_time,
            resource_version: lease.metadata.resource_version.clone(),
            duration: lease.spec.duration(),
        }
    }
}

/// What the monitor needs to know of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredPod {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its node; empty while it is not bound.
    pub node: Arc<str>,
    /// Whether its condition Ready is `True`.
    pub ready: bool,
}

impl MonitoredPod {
    /// Reads a pod.
    pub fn read(pod: &Pod) -> MonitoredPod {
        MonitoredPod {
            key: pod.metadata.key().into(),
            node: pod.spec.node_name.as_str().into(),
            ready: pod.condition_true("Ready"),
        }
    }
}

/// A fact for the monitor.
#[derive(Clone, Debug)]
pub enum Input {
    /// A node is there or has changed. After a failed write, tell it again: what is still missing is asked for again.
    Node(NodeFacts),
    /// A node object is gone.
    NodeDeleted(Arc<str>),
    /// A Lease is there or has changed.
    Lease(LeaseFacts),
    /// The Lease of a node is gone.
    LeaseDeleted(Arc<str>),
    /// A pod is there or has changed. After a failed write, tell it again.
    Pod(MonitoredPod),
    /// A pod object is gone.
    PodDeleted(Arc<str>),
    /// The settings have changed.
    Configure(Config),
}
