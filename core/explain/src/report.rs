//! What an explanation says, as data: the same for a table, JSON and YAML.

use std::fmt;

use serde::Serialize;

use crate::kubelet::OnKubelet;
use crate::times::{Ready, Span, Times};

/// The explanation of some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What has probes, in the order of the objects.
    pub workloads: Vec<Workload>,
    /// What has none and is not otherwise looked at, in order.
    pub skipped: Vec<Skipped>,
}

impl Report {
    /// Returns every finding.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.workloads.iter().flat_map(|workload| &workload.findings)
    }

    /// Returns the most severe finding, if there is one.
    pub fn worst(&self) -> Option<Severity> {
        self.findings().map(|finding| finding.severity).max()
    }
}

/// An object that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Its version of the API.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// The explanation of one object with probes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Which of the objects it is.
    #[serde(skip)]
    pub object: usize,
    /// Its kind.
    pub kind: String,
    /// Its namespace; `default` where it names none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Sidecars, then containers; of a marker those that it names.
    pub containers: Vec<Container>,
    /// What is wrong or will surprise, the most severe first.
    pub findings: Vec<Finding>,
}

/// The explanation of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Whether it is an init container that runs beside the others.
    pub sidecar: bool,
    /// Whether its readiness probe is run by the agent of a cluster, because an annotation of the pod moves it there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// Whether it has a probe that cannot be read: then nothing can be said of when it is ready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// When it is ready; absent for the containers of a marker, which has no say in that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// When it is ready if it listens when the user says; absent if nobody says when, or if it is killed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_at_ms: Option<u64>,
    /// The last instant at which it may begin to answer without being killed before; absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_ms: Option<u64>,
    /// When it would be ready with the gate SubSecondProbes off; absent if that changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_without_sub_second: Option<Ready>,
    /// Startup, readiness, liveness; or those of a marker in order.
    pub probes: Vec<Probe>,
}

/// What a probe does when its result is Failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Action {
    /// The pod leaves the endpoints of its Services.
    RemoveEndpoint,
    /// The container is stopped.
    Kill {
        /// Between the request to stop and the kill.
        grace_ms: u64,
        /// Whether it is started again.
        restart: bool,
    },
    /// The pod is marked as the policy of the marker says.
    Mark,
}

/// The explanation of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// `startup`, `readiness`, `liveness`, or the name of a marker's probe.
    pub name: String,
    /// `httpGet`, `tcpSocket`, `grpc` or `exec`; empty if it has none.
    pub handler: String,
    /// Effective times.
    pub times: Times,
    /// The same with the gate SubSecondProbes off; absent if that changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_without_sub_second: Option<Times>,
    /// What a stock kubelet does with it; absent if nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<OnKubelet>,
    /// What Failure does.
    pub action: Action,
    /// When it does so after the start, if the container never answers well; absent if it is not asked from the start on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never_up: Option<Span>,
    /// How long after it began to fail it does so, if the container was well; absent for startup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<Span>,
    /// How long it takes at most to be well again after a loss, prompt and hanging; readiness and markers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovering: Option<Span>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Will surprise or hurt.
    Warning,
    /// Is refused, or cannot work.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Something that is wrong or will surprise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which finding it is; never changes.
    pub id: &'static str,
    /// The field it is about.
    pub path: String,
    /// Where that stands: `file:line`; absent if nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What happens.
    pub text: String,
    /// What to do; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// What takes it away and brings no other finding; absent if that cannot be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<serde_json::Value>,
}
