//! The core Node.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::meta::{Condition, Kind, ObjectMeta, Scope, null_default};
use crate::pod::Amounts;

/// The label of a node of the control plane.
pub const LABEL_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The label with the zone that a node is in.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: NodeSpec,
    /// What is seen.
    pub status: NodeStatus,
}

impl Kind for Node {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const SCOPE: Scope = Scope::Cluster;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Node {
    /// Returns the status of the condition `Ready`, if there is one.
    pub fn ready(&self) -> Option<&str> {
        self.status.conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.as_str())
    }

    /// Returns where who runs the pods of the node listens: its agent or kubelet.
    pub fn agent_address(&self) -> Option<(String, u16)> {
        let port = u16::try_from(self.status.daemon_endpoints.kubelet_endpoint.port).ok().filter(|port| *port > 0)?;
        let address = self.status.addresses.iter().find(|address| address.type_ == "InternalIP")?;
        Some((address.address.clone(), port))
    }
}

/// What a node is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// The range of its pods' addresses.
    #[serde(rename = "podCIDR", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub pod_cidr: String,
    /// Whether new pods are kept away.
    #[serde(deserialize_with = "null_default")]
    pub unschedulable: bool,
    /// What pods must tolerate to be there.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// What pods must tolerate to be on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// Since when, for `NoExecute`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

/// What is seen of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Conditions.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Addresses.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// What pods can have of it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Amounts::is_empty")]
    pub allocatable: Amounts,
    /// What runs its pods.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub node_info: NodeInfo,
    /// Where who runs its pods listens.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub daemon_endpoints: DaemonEndpoints,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What runs the pods of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// For example `containerd://2.0.0`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub container_runtime_version: String,
}

/// Where daemons of a node listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonEndpoints {
    /// Who runs its pods.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_default")]
    pub kubelet_endpoint: DaemonEndpoint,
}

/// Where a daemon listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonEndpoint {
    /// The port; 0: none.
    #[serde(rename = "Port", deserialize_with = "null_default")]
    pub port: i64,
}

/// An address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `Hostname`, ...
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}
