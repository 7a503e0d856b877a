//! What is seen of a pod and its containers.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::meta::{Condition, null_default};

/// What is seen of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(deserialize_with = "null_default")]
    pub phase: String,
    /// The first address.
    #[serde(rename = "podIP", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub pod_ip: String,
    /// All addresses.
    #[serde(rename = "podIPs", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_ips: Vec<PodIp>,
    /// Conditions.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Init containers and sidecars.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Containers.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// When the node took the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Why it is in this phase, as one word.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why it is in this phase, for people.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// What is seen of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: String,
    /// Whether it passes its readiness probe.
    #[serde(deserialize_with = "null_default")]
    pub ready: bool,
    /// Whether it has passed its startup probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// How often it was started again.
    #[serde(deserialize_with = "null_default")]
    pub restart_count: i64,
    /// The instance.
    #[serde(rename = "containerID", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Now.
    #[serde(deserialize_with = "null_default")]
    pub state: ContainerState,
    /// The instance before.
    #[serde(deserialize_with = "null_default")]
    pub last_state: ContainerState,
}

/// The state of a container: at most one member is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Not running yet, or again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<ContainerWaiting>,
    /// Running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<ContainerRunning>,
    /// Ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<ContainerTerminated>,
}

/// Why a container does not run yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerWaiting {
    /// One word.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Since when a container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRunning {
    /// Whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerTerminated {
    /// 0: success.
    pub exit_code: i64,
    /// The signal that ended it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// One word, for example `Completed`, `Error`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// The instance.
    #[serde(rename = "containerID", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}
