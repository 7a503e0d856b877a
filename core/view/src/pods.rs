//! Pods: how each of them is, in the words of the API.

use api::Pod;
use api::pod::ContainerStatus;
use serde::Serialize;

use crate::probes::{self, ProbeRow};
use crate::steps::StartStep;

/// Longer texts of users are cut: many rows keep many of these.
const TEXT_BYTES_MAX: usize = 512;

/// Returns a text, cut where it is too long.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// It failed, or a container waits after failures.
    Failed,
    /// It runs and is not ready.
    NotReady,
    /// It does not run yet.
    Pending,
    /// It is being deleted.
    Terminating,
    /// It runs and is ready.
    Ready,
    /// It ended as it should.
    Succeeded,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// Namespace and name.
    pub key: String,
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Unique for ever.
    pub uid: String,
    /// How it is.
    pub state: PodState,
    /// Why, as one word of the API: `CrashLoopBackOff`, `ContainersNotReady`; empty: nothing to say.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Its node; empty: none yet.
    pub node: String,
    /// Its address; empty: none yet.
    pub address: String,
    /// How many containers are ready.
    pub ready: usize,
    /// How many there are.
    pub containers: Vec<ContainerRow>,
    /// How often its containers were started again.
    pub restarts: i64,
    /// When it was created, in milliseconds.
    pub created_at: i64,
    /// Since when it is ready, or is not, in milliseconds; 0: nobody says.
    pub since: i64,
    /// What controls it: `ReplicaSet/web-5f6d`; empty: nothing.
    pub owner: String,
    /// Its conditions.
    pub conditions: Vec<ConditionRow>,
    /// Its probes.
    pub probes: Vec<ProbeRow>,
    /// The waterfall of its start.
    pub steps: Vec<StartStep>,
    /// The Services that it is an endpoint of.
    pub services: Vec<String>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRow {
    /// Its name.
    pub name: String,
    /// `running`, `waiting`, `terminated`; empty: unknown.
    pub state: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was started again.
    pub restarts: i64,
    /// How it ended the last time: `Error, exit code 1`; empty: it did not.
    pub last_end: String,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRow {
    /// What it is about.
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when, in milliseconds; 0: nobody says.
    pub since: i64,
}

impl PodRow {
    pub(crate) fn of(pod: &Pod, steps: Vec<StartStep>, services: Vec<String>) -> PodRow {
        let metadata = &pod.metadata;
        let statuses = pod.status.container_statuses.iter();
        let (state, reason, message) = state_of(pod);
        let owner = metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
        let since = pod.condition("Ready").and_then(|ready| ready.last_transition_time);
        PodRow {
            key: metadata.key(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            state,
            reason: cut(&reason),
            message: cut(&message),
            node: pod.spec.node_name.clone(),
            address: pod.status.pod_ip.clone(),
            ready: statuses.clone().filter(|status| status.ready).count(),
            containers: pod.spec.containers.iter().map(|spec| ContainerRow::of(&spec.name, pod)).collect(),
            restarts: statuses.map(|status| status.restart_count).sum(),
            created_at: metadata.creation_timestamp.map_or(0, |at| at.0.as_millis()),
            since: since.map_or(0, |at| at.0.as_millis()),
            owner: owner.map_or_else(String::new, |owner| format!("{}/{}", owner.kind, owner.name)),
            conditions: pod.status.conditions.iter().map(ConditionRow::of).collect(),
            probes: probes::of(pod),
            steps,
            services,
        }
    }
}

/// Returns how a pod is, and why: one word, and for people.
fn state_of(pod: &Pod) -> (PodState, String, String) {
    let all = || pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let waiting = all().filter_map(|status| status.state.waiting.as_ref());
    let stuck = waiting.clone().find(|waiting| !is_quiet(&waiting.reason));
    let ready = pod.condition("Ready");
    let own = |fallback: &str| {
        let reason = if pod.status.reason.is_empty() { fallback } else { &pod.status.reason };
        (reason.to_owned(), pod.status.message.clone())
    };
    let because = |state: PodState, (reason, message): (String, String)| (state, reason, message);
    if pod.metadata.deleting() {
        return because(PodState::Terminating, own(""));
    }
    match pod.status.phase.as_str() {
        "Succeeded" => because(PodState::Succeeded, own("Completed")),
        "Failed" => because(PodState::Failed, own("Failed")),
        _ if stuck.is_some() => {
            let stuck = stuck.cloned().unwrap_or_default();
            let state = if pod.status.phase == "Pending" && !stuck.reason.starts_with("Err") && !stuck.reason.ends_with("Error")
            {
                PodState::Pending
            } else {
                PodState::Failed
            };
            (state, stuck.reason, stuck.message)
        }
        "Running" if pod.condition_true("Ready") => because(PodState::Ready, own("")),
        "Running" => {
            let (reason, message) =
                ready.map_or_else(<(String, String)>::default, |ready| (ready.reason.clone(), ready.message.clone()));
            (PodState::NotReady, reason, message)
        }
        _ => {
            let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "False");
            let unscheduled = scheduled.map(|condition| (condition.reason.clone(), condition.message.clone()));
            let quiet = waiting.clone().next().map(|waiting| (waiting.reason.clone(), waiting.message.clone()));
            because(PodState::Pending, unscheduled.or(quiet).unwrap_or_else(|| own("")))
        }
    }
}

/// Returns whether a container that waits for this reason is on its way.
fn is_quiet(reason: &str) -> bool {
    matches!(reason, "" | "ContainerCreating" | "PodInitializing")
}

impl ContainerRow {
    fn of(name: &str, pod: &Pod) -> ContainerRow {
        let unknown = ContainerStatus::default();
        let status = pod.status.container_statuses.iter().find(|status| status.name == name).unwrap_or(&unknown);
        let (state, reason, message) = match &status.state {
            state if state.running.is_some() => ("running", String::new(), String::new()),
            state => match (&state.waiting, &state.terminated) {
                (Some(waiting), _) => ("waiting", waiting.reason.clone(), waiting.message.clone()),
                (_, Some(ended)) => ("terminated", ended.reason.clone(), ended.message.clone()),
                _ => ("", String::new(), String::new()),
            },
        };
        let ended = status.state.terminated.as_ref().or(status.last_state.terminated.as_ref());
        ContainerRow {
            name: name.to_owned(),
            state: state.to_owned(),
            reason: cut(&reason),
            message: cut(&message),
            ready: status.ready,
            restarts: status.restart_count,
            last_end: ended.map_or_else(String::new, |ended| cut(&format!("{}, exit code {}", ended.reason, ended.exit_code))),
        }
    }
}

impl ConditionRow {
    fn of(condition: &api::meta::Condition) -> ConditionRow {
        ConditionRow {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: cut(&condition.reason),
            message: cut(&condition.message),
            since: condition.last_transition_time.map_or(0, |at| at.0.as_millis()),
        }
    }
}
