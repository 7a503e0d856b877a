//! A container of a pod: what it runs, when it is restarted, its ports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Amounts, ExecAction, HttpGetAction, Probe, TcpSocketAction};
use crate::meta::null_default;

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
