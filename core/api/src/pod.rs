//! The Pod, as far as probes, endpoints, markers and node lifecycle read it.

mod container;
mod probe;
mod status;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::meta::{Condition, Kind, ObjectMeta, Scope, null_default};

pub use container::{
    Container, ContainerPort, ExitCodes, Lifecycle, LifecycleHandler, ResourceRequirements, RestartRule, SleepAction,
};
pub use probe::{ExecAction, GrpcAction, HttpGetAction, HttpHeader, Probe, TcpSocketAction};
pub use status::{ContainerRunning, ContainerState, ContainerStatus, ContainerTerminated, ContainerWaiting, PodIp, PodStatus};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: PodSpec,
    /// What is seen.
    pub status: PodStatus,
}

impl Kind for Pod {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Pod {
    /// Returns whether the pod has finished for good: phase `Succeeded` or `Failed`.
    pub fn terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns the condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Returns whether the condition of a type is there and exactly `True`.
    pub fn condition_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }

    /// Returns the init containers that run beside the others: those with restart policy `Always`.
    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().filter(|container| container.is_sidecar())
    }
}

/// What a pod is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that runs it; empty while it is not scheduled.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Containers that run to their end one after the other, and sidecars.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// The containers.
    #[serde(deserialize_with = "null_default")]
    pub containers: Vec<Container>,
    /// `Always`, `OnFailure` or `Never`; empty before defaulting.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
    /// Seconds between the request to stop and the kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Conditions that must be `True` for the pod to be ready.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub readiness_gates: Vec<ReadinessGate>,
    /// Taints that the pod tolerates.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Labels a node must have.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Its own host name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The Service under which the host name is published.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub subdomain: String,
    /// Who assigns it to a node.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// What must be taken away before it may be assigned.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Whether it shares the network of its node.
    #[serde(deserialize_with = "null_default")]
    pub host_network: bool,
    /// Seconds after its start at which it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// What it takes beside its containers.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub overhead: Amounts,
}

/// Amounts by the name of their resource: `cpu`, `memory`, ...
pub type Amounts = BTreeMap<String, Quantity>;

/// What keeps a pod from being assigned to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGate {
    /// Its name.
    pub name: String,
}

/// A condition that must be `True` for the pod to be ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGate {
    /// The type of the condition.
    pub condition_type: String,
}

/// A taint that a pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The taint; empty: every one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` (also when empty) or `Exists`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// For `Equal`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect; empty: every one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// How long it tolerates a `NoExecute` taint; absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}
