//! What the agent's machine is told, and what it asks for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::marker::{NodePodProbe, NodePodProbeStatus, ProbeState};
use api::{Event, Verb, Write, WriteError};
use machine::Time;
use probe::Outcome;
use serde_json::json;

/// Which worker: a pod and the name of its entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerKey {
    /// The pod.
    pub uid: String,
    /// `<marker>#<probe>`.
    pub entry: String,
}

impl fmt::Display for WorkerKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.uid, self.entry)
    }
}

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// It runs.
    Running,
    /// It is being made, or waits to be started again.
    Waiting,
    /// It has ended.
    Terminated,
}

/// News of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerNews {
    /// The pod.
    pub uid: String,
    /// The container.
    pub name: String,
    /// The instance; empty if none was made yet.
    pub id: String,
    /// What it does.
    pub runtime: Runtime,
    /// When the instance started, on the agent's clock.
    pub started_at: Option<Time>,
    /// Whether its startup probe has succeeded, or it has none.
    pub started: bool,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Whose attempt.
    pub worker: WorkerKey,
    /// The instance that was asked.
    pub container_id: String,
    /// When the attempt really began.
    pub began: Time,
    /// What it amounts to.
    pub outcome: Outcome,
    /// What the target said; for an error, its cause (`probe::Report::marker_message`).
    pub message: String,
}

/// A fact for the agent.
#[derive(Clone, Debug)]
pub enum Input {
    /// The NodePodProbe of this node was read; the status of the first one is taken over.
    Spec(Box<NodePodProbe>),
    /// There is no NodePodProbe of this node (any more).
    NoSpec,
    /// A container changed.
    Container(ContainerNews),
    /// A pod is gone from the node.
    PodGone {
        /// The pod.
        uid: String,
    },
    /// An attempt has ended.
    Finished(Finished),
    /// The write of the status has ended.
    Written(Result<(), WriteError>),
}

/// An attempt to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// For whom.
    pub worker: WorkerKey,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// The only address that may be dialled.
    pub ip: String,
    /// The container.
    pub container: String,
    /// Its instance.
    pub container_id: String,
    /// What to ask.
    pub probe: Arc<api::pod::Probe>,
    /// How long to wait for the answer, from the real start.
    pub timeout: Duration,
    /// When it was due.
    pub due: Time,
}

/// Something that must be done for the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make an attempt and tell how it ended with [`Input::Finished`].
    Launch(Box<Launch>),
    /// Give up the attempt of a worker that is under way or waits to begin; its outcome is of no interest.
    Abandon(WorkerKey),
    /// A worker began.
    Started(WorkerKey),
    /// A worker ended.
    Stopped(WorkerKey),
    /// A worker asks something else or at other times.
    Updated(WorkerKey),
    /// A state is reported.
    Reported {
        /// Whose.
        worker: WorkerKey,
        /// The state.
        state: ProbeState,
        /// The text.
        message: String,
        /// Whether it is another state than before.
        changed: bool,
    },
    /// An attempt took so long that later ones move.
    Overran(WorkerKey),
    /// An outcome came too late to count.
    Stale(WorkerKey),
    /// Write the status ([`status_write`]) and tell how it ended with [`Input::Written`].
    Write(Box<NodePodProbeStatus>),
    /// Write an event.
    Event(Event),
}

/// Returns the request that writes the status of a node.
pub fn status_write(node: &str, status: &NodePodProbeStatus) -> Write {
    Write::to::<NodePodProbe>("", node, Verb::Merge(json!({"status": status}))).status()
}
