//! What the monitor wants done.

use std::sync::Arc;

use api::meta::Condition;
use api::{Event, EventType, ObjectReference, Timestamp};
use machine::Time;

use super::ZoneState;
use crate::taints::HealthTaint;

/// Why the conditions of a node are Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// The node has fallen silent.
    StoppedPosting,
    /// The node has never posted a status.
    NeverUpdated,
}

impl UnknownReason {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            UnknownReason::StoppedPosting => "NodeStatusUnknown",
            UnknownReason::NeverUpdated => "NodeStatusNeverUpdated",
        }
    }

    /// Returns the sentence of the API.
    pub const fn message(self) -> &'static str {
        match self {
            UnknownReason::StoppedPosting => "Kubelet stopped posting node status.",
            UnknownReason::NeverUpdated => "Kubelet never posted node status.",
        }
    }
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Set the conditions of a node to Unknown; see [`unknown_conditions`].
    SetUnknown {
        /// The node.
        node: Arc<str>,
        /// Why.
        reason: UnknownReason,
    },
    /// Change the health taints of a node, in one write.
    Taints {
        /// The node.
        node: Arc<str>,
        /// To be there.
        add: Vec<HealthTaint>,
        /// To be gone.
        remove: Vec<HealthTaint>,
    },
    /// Set the condition Ready of a pod to False: its node is silent.
    MarkPod {
        /// The pod.
        key: Arc<str>,
        /// Its node.
        node: Arc<str>,
    },
    /// A zone has a new state; for metrics and logs.
    Zone {
        /// The zone.
        zone: Arc<str>,
        /// Its state.
        state: ZoneState,
    },
    /// The control plane seems to be cut off: everybody is silent.
    Isolated,
    /// Somebody speaks again.
    Connected,
    /// No zone has a ready node: evictions stop.
    FullDisruption,
    /// A zone has a ready node again.
    Recovering,
    /// A node was seen for the first time.
    Registered(Arc<str>),
    /// A node object has gone.
    Removing(Arc<str>),
    /// A node is no longer Ready.
    NotReady(Arc<str>),
}

impl Effect {
    /// Returns the event to be written about it.
    pub fn event(&self) -> Option<Event> {
        let node = |name: &str| ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: name.to_owned(),
            ..ObjectReference::default()
        };
        let cluster = || ObjectReference { api_version: "config.openshift.io/v1".to_owned(), ..node(api::config_node::NAME) };
        let (object, type_, reason, message) = match self {
            Effect::Registered(name) => (
                node(name),
                EventType::Normal,
                "RegisteredNode",
                format!("Node {name}: registered with the node lifecycle controller"),
            ),
            Effect::Removing(name) => (
                node(name),
                EventType::Normal,
                "RemovingNode",
                format!("Node {name}: removed from the node lifecycle controller"),
            ),
            Effect::NotReady(name) => {
                (node(name), EventType::Normal, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"))
            }
            Effect::MarkPod { key, .. } => {
                let (namespace, name) = key.split_once('/').unwrap_or(("", key));
                let pod = ObjectReference {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    ..ObjectReference::default()
                };
                (pod, EventType::Warning, "NodeNotReady", "Node is not ready".to_owned())
            }
            Effect::Isolated => (
                cluster(),
                EventType::Warning,
                "ControlPlaneIsolated",
                "no node is heard: the control plane seems to be cut off, no pod is touched".to_owned(),
            ),
            Effect::Connected => {
                let message = "nodes are heard again: each gets a fresh grace period".to_owned();
                (cluster(), EventType::Normal, "ControlPlaneConnected", message)
            }
            Effect::FullDisruption => {
                let message = "no zone has a ready node: evictions are stopped".to_owned();
                (cluster(), EventType::Warning, "FullDisruption", message)
            }
            Effect::SetUnknown { .. } | Effect::Taints { .. } | Effect::Zone { .. } | Effect::Recovering => return None,
        };
        Some(Event { object, type_, reason, message })
    }
}

/// Returns the conditions to be written for [`Effect::SetUnknown`]: those that a silent node can no longer vouch for.
///
/// The heartbeat time stays what the node last said: it is how a later post is recognised.
pub fn unknown_conditions(
    existing: &[Condition],
    created: Option<Timestamp>,
    reason: UnknownReason,
    now: Time,
) -> Vec<Condition> {
    ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .filter_map(|type_| {
            let before = existing.iter().find(|condition| condition.type_ == type_);
            if before.is_some_and(|condition| condition.status == "Unknown") {
                return None;
            }
            Some(Condition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: reason.name().to_owned(),
                message: reason.message().to_owned(),
                last_heartbeat_time: before.map_or(created, |condition| condition.last_heartbeat_time),
                last_transition_time: Some(Timestamp(now)),
                ..Condition::default()
            })
        })
        .collect()
}
