//! NodePodProbe: what is probed on one node, and the states. The largest objects that we read, hence read in one pass: every
//! level moves its members out of the JSON, so that nothing is copied on the way down.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{or_default, take};
use crate::Timestamp;
use crate::meta::{Kind, ObjectMeta, Scope};

/// What is probed on one node, and the states; it has the name of the node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub struct NodePodProbe {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is to be probed.
    pub spec: NodePodProbeSpec,
    /// What came of it.
    pub status: NodePodProbeStatus,
}

impl Kind for NodePodProbe {
    const GROUP: &'static str = "apps.kruise.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "NodePodProbe";
    const PLURAL: &'static str = "nodepodprobes";
    const SCOPE: Scope = Scope::Cluster;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What is to be probed on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub struct NodePodProbeSpec {
    /// One item for each pod.
    pub pod_probes: Vec<PodProbe>,
}

/// What is to be probed in a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub struct PodProbe {
    /// The pod.
    pub name: String,
    /// Its namespace, which is that of the markers too.
    pub namespace: String,
    /// The very pod.
    pub uid: String,
    /// Its address; empty while it has none.
    #[serde(rename = "IP")]
    pub ip: String,
    /// The probes.
    pub probes: Vec<ContainerProbe>,
}

/// A probe to be run on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub struct ContainerProbe {
    /// `<marker>#<probe>`.
    pub name: String,
    /// The container.
    pub container_name: String,
    /// The probe as in the marker, named ports replaced by numbers.
    pub probe: Value,
}

/// What came of the probes of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub struct NodePodProbeStatus {
    /// The generation of the spec that the agent acts on; absent where another agent writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One item for each pod with a state.
    pub pod_probe_statuses: Vec<PodProbeStatus>,
}

/// The states of the probes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub struct PodProbeStatus {
    /// The pod.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The very pod.
    pub uid: String,
    /// The states.
    pub probe_states: Vec<ContainerProbeState>,
}

/// The state of a probe of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Value")]
pub struct ContainerProbeState {
    /// `<marker>#<probe>`.
    pub name: String,
    /// The state.
    pub state: ProbeState,
    /// When it was last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// When the state last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// What the probe said.
    pub message: String,
}

/// What a probe of a marker says about its pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProbeState {
    /// Yes.
    Succeeded,
    /// No.
    Failed,
    /// Nobody can say.
    #[default]
    Unknown,
}

impl ProbeState {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            ProbeState::Succeeded => "Succeeded",
            ProbeState::Failed => "Failed",
            ProbeState::Unknown => "Unknown",
        }
    }
}

impl NodePodProbe {
    /// Returns how many probes the spec asks for.
    pub fn entries(&self) -> usize {
        self.spec.pod_probes.iter().map(|item| item.probes.len()).sum()
    }
}

impl From<Value> for NodePodProbe {
    fn from(mut value: Value) -> NodePodProbe {
        NodePodProbe {
            metadata: or_default(take(&mut value, "metadata")),
            spec: take(&mut value, "spec").into(),
            status: take(&mut value, "status").into(),
        }
    }
}

impl From<Value> for NodePodProbeSpec {
    fn from(mut value: Value) -> NodePodProbeSpec {
        NodePodProbeSpec { pod_probes: list(&mut value, "podProbes") }
    }
}

impl From<Value> for PodProbe {
    fn from(mut value: Value) -> PodProbe {
        PodProbe {
            name: text(&mut value, "name"),
            namespace: text(&mut value, "namespace"),
            uid: text(&mut value, "uid"),
            ip: text(&mut value, "IP"),
            probes: list(&mut value, "probes"),
        }
    }
}

impl From<Value> for ContainerProbe {
    fn from(mut value: Value) -> ContainerProbe {
        ContainerProbe {
            name: text(&mut value, "name"),
            container_name: text(&mut value, "containerName"),
            probe: take(&mut value, "probe"),
        }
    }
}

impl From<Value> for NodePodProbeStatus {
    fn from(mut value: Value) -> NodePodProbeStatus {
        NodePodProbeStatus {
            observed_generation: value.get("observedGeneration").and_then(Value::as_i64),
            pod_probe_statuses: list(&mut value, "podProbeStatuses"),
        }
    }
}

impl From<Value> for PodProbeStatus {
    fn from(mut value: Value) -> PodProbeStatus {
        PodProbeStatus {
            name: text(&mut value, "name"),
            namespace: text(&mut value, "namespace"),
            uid: text(&mut value, "uid"),
            probe_states: list(&mut value, "probeStates"),
        }
    }
}

impl From<Value> for ContainerProbeState {
    fn from(mut value: Value) -> ContainerProbeState {
        ContainerProbeState {
            name: text(&mut value, "name"),
            state: or_default(take(&mut value, "state")),
            last_probe_time: or_default(take(&mut value, "lastProbeTime")),
            last_transition_time: or_default(take(&mut value, "lastTransitionTime")),
            message: text(&mut value, "message"),
        }
    }
}

/// Takes a text; anything else counts as absent.
fn text(value: &mut Value, key: &str) -> String {
    match take(value, key) {
        Value::String(text) => text,
        _ => String::new(),
    }
}

/// Takes a list; an item of a wrong type counts as an empty one, so that the others keep their places.
fn list<T: From<Value>>(value: &mut Value, key: &str) -> Vec<T> {
    match take(value, key) {
        Value::Array(items) => items.into_iter().map(T::from).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn odd_node_objects_can_be_read() {
        let node = json!({"metadata": {"name": "n"}, "spec": {"podProbes": [1, {"uid": "u", "IP": 5, "probes": {}}]},
            "status": {"podProbeStatuses": [{"probeStates": [{"name": "m#p", "state": "Bad", "lastProbeTime": "x"}]}]}});
        let node: NodePodProbe = serde_json::from_value(node).unwrap();
        assert_eq!(node.spec.pod_probes[1].uid, "u");
        assert_eq!(node.status.pod_probe_statuses[0].probe_states[0].state, ProbeState::Unknown);
    }
}
