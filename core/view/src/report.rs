//! What the agent of a node says of its probes: `/debug/probes`.
//!
//! Reading is total: an agent may be older or newer than this.

use api::{Node, Timestamp, json};
use machine::Time;
use serde_json::Value;

use crate::strips::{Attempt, AttemptResult};

/// How the runtime of our own agent begins.
pub(crate) const OWN_RUNTIME: &str = "lifesign://";

/// Returns where the agent of a node listens, if it is one of ours.
pub fn agent_address(node: &Node) -> Option<String> {
    let own = node.status.node_info.container_runtime_version.starts_with(OWN_RUNTIME);
    let (host, port) = node.agent_address().filter(|_| own)?;
    Some(format!("{host}:{port}"))
}

/// What an agent says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReport {
    /// The newest instant in it; whoever asks for what is newer gets nothing twice.
    pub until: Option<Time>,
    pub(crate) workers: Vec<ReportedWorker>,
}

/// What it says of one probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReportedWorker {
    pub(crate) uid: String,
    pub(crate) container: String,
    /// `Readiness`, `Liveness` or `Startup`.
    pub(crate) probe: String,
    pub(crate) period_ms: u64,
    pub(crate) result: String,
    pub(crate) knocking: bool,
    pub(crate) knocks_refused: i64,
    pub(crate) started_at: Option<Time>,
    /// When the first attempt that succeeded began and ended.
    pub(crate) first_success: Option<(Time, Time)>,
    pub(crate) attempts: Vec<Attempt>,
}

impl AgentReport {
    /// Reads an answer.
    pub fn read(answer: &Value) -> AgentReport {
        // The attempts of markers are not told, and their state is on the pods.
        let of_containers = |worker: &&Value| json::text(worker, &["marker"]).is_empty();
        let workers = json::items(answer, &["workers"]).iter().filter(of_containers);
        let workers: Vec<ReportedWorker> = workers.map(ReportedWorker::read).collect();
        let ends = workers.iter().flat_map(|worker| &worker.attempts).map(|attempt| attempt.ended());
        AgentReport { until: ends.max(), workers }
    }
}

impl ReportedWorker {
    fn read(worker: &Value) -> ReportedWorker {
        let text = |name: &str| json::text(worker, &[name]).to_owned();
        ReportedWorker {
            uid: text("uid"),
            container: text("container"),
            probe: text("probe"),
            period_ms: json::int(worker, &["periodMilliseconds"]).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0),
            result: text("result"),
            knocking: json::boolean(worker, &["knocking"]).unwrap_or(false),
            knocks_refused: json::int(worker, &["knocksRefused"]).unwrap_or(0),
            started_at: instant(worker, "startedAt"),
            first_success: json::get(worker, "firstSuccess")
                .and_then(|at| Some((instant(at, "began")?, instant(at, "ended")?))),
            attempts: json::items(worker, &["outcomes"]).iter().filter_map(attempt).collect(),
        }
    }
}

fn instant(value: &Value, name: &str) -> Option<Time> {
    Timestamp::parse(json::text(value, &[name])).ok().map(|at| at.0)
}

fn attempt(item: &Value) -> Option<Attempt> {
    let (began, ended) = (instant(item, "began")?, instant(item, "ended")?);
    let outcome = match json::text(item, &["outcome"]).to_lowercase().as_str() {
        "success" => AttemptResult::Success,
        "warning" => AttemptResult::Warning,
        "failure" => AttemptResult::Failure,
        _ => AttemptResult::Unknown,
    };
    Some(Attempt { began, took: ended.since(began), outcome, message: json::text(item, &["message"]).into() })
}
