//! The Pod, as far as probes, endpoints, markers and node lifecycle read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::meta::{Condition, Kind, ObjectMeta, Scope, null_default};
use crate::{IntOrString, Quantity, Timestamp};

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

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Unique in the pod.
    pub name: String,
    /// Recorded; standalone pods are processes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// What it listens on.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
    /// What decides before the policy, by exit code.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub restart_policy_rules: Vec<RestartRule>,
    /// Restarts the container when it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Takes the pod out of Services while it fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Holds the other two back until it succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// What is done at its start and before its stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Box<Lifecycle>>,
    /// What it needs and may use.
    #[serde(deserialize_with = "null_default")]
    pub resources: ResourceRequirements,
}

/// What a container needs and may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// Needs; a limit counts where nothing is said.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: Amounts,
    /// May use.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: Amounts,
}

/// What is done at the start of a container and before its stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// Right after its start; a failure ends the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_start: Option<LifecycleHandler>,
    /// Before it is asked to stop, within the grace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<LifecycleHandler>,
    /// The signal that asks it to stop, for example `SIGUSR1`; empty: `SIGTERM`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub stop_signal: String,
}

/// How a hook is carried out: one member is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleHandler {
    /// Runs a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// Sends a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Kept by the API for old objects; always fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleep: Option<SleepAction>,
}

/// Waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SleepAction {
    /// How long.
    pub seconds: i64,
}

impl Container {
    /// Returns whether an init container runs beside the others.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == "Always"
    }
}

/// A rule that restarts a container by its exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// `Restart` or `RestartAllContainers`.
    pub action: String,
    /// The exit codes that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_codes: Option<ExitCodes>,
}

impl RestartRule {
    /// Returns whether the rule restarts a container that ended with this exit code.
    pub fn restarts(&self, exit_code: i64) -> bool {
        let listed = |codes: &ExitCodes| match codes.operator.as_str() {
            "In" => codes.values.contains(&exit_code),
            "NotIn" => !codes.values.contains(&exit_code),
            _ => false,
        };
        matches!(self.action.as_str(), "Restart" | "RestartAllContainers") && self.exit_codes.as_ref().is_some_and(listed)
    }
}

/// A set of exit codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    #[serde(deserialize_with = "null_default")]
    pub values: Vec<i64>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Its name, if it has one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The number.
    pub container_port: i64,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

/// A probe, with the millisecond offsets of KEP-3066. Numbers are as stored: see `probe::timing` for what they mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Runs a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// Sends a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Opens a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Asks the gRPC health service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAction>,
    /// Seconds after the container's start.
    #[serde(deserialize_with = "null_default")]
    pub initial_delay_seconds: i64,
    /// Seconds for one attempt; 0: 1.
    #[serde(deserialize_with = "null_default")]
    pub timeout_seconds: i64,
    /// Seconds between attempts; 0: 10.
    #[serde(deserialize_with = "null_default")]
    pub period_seconds: i64,
    /// Successes in a row that count; 0: 1.
    #[serde(deserialize_with = "null_default")]
    pub success_threshold: i64,
    /// Failures in a row that count; 0: 3.
    #[serde(deserialize_with = "null_default")]
    pub failure_threshold: i64,
    /// Grace of a kill by this probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Added to `initialDelaySeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_delay_milliseconds: Option<i64>,
    /// Added to `periodSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_milliseconds: Option<i64>,
    /// Added to `timeoutSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<i64>,
}

/// Runs a command in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecAction {
    /// Program and arguments; no shell.
    #[serde(deserialize_with = "null_default")]
    pub command: Vec<String>,
}

/// Sends a GET request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpGetAction {
    /// Path and query.
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    /// Number or name.
    #[serde(deserialize_with = "null_default")]
    pub port: IntOrString,
    /// Instead of the pod's address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// `HTTP` (also when empty) or `HTTPS`.
    #[serde(deserialize_with = "null_default")]
    pub scheme: String,
    /// Headers, repeated ones included.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub http_headers: Vec<HttpHeader>,
}

/// A header of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpHeader {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Opens a TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpSocketAction {
    /// Number or name.
    #[serde(deserialize_with = "null_default")]
    pub port: IntOrString,
    /// Instead of the pod's address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// Asks the gRPC health service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrpcAction {
    /// Number.
    #[serde(deserialize_with = "null_default")]
    pub port: i64,
    /// The service asked about.
    #[serde(deserialize_with = "null_default")]
    pub service: String,
}

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
