//! What goes into a pod's machine and what comes out.

use std::sync::Arc;
use std::time::Duration;

use api::pod::LifecycleHandler;
use api::{Event, Pod, ProbeType, Write, WriteError};
use machine::Time;
use probe::Report;

/// A fact about the pod.
#[derive(Clone, Debug)]
pub enum Input {
    /// The pod as the API has it now.
    Applied(Box<Pod>),
    /// The API does not have the pod any more.
    Gone,
    /// The agent is about to stop: everything of the pod has to end, and goes on when the agent runs again.
    Stop,
    /// Address and volumes are there.
    Prepared {
        /// The pod's address.
        ip: String,
    },
    /// Address or volumes cannot be had at the moment.
    PrepareFailed {
        /// One word for the state of the containers, for example `CreateContainerConfigError`.
        reason: String,
        /// For people.
        message: String,
    },
    /// The process of a container runs.
    Started {
        /// The container.
        container: Arc<str>,
        /// The instance, as in [`Effect::Start`].
        id: Arc<str>,
        /// When, on the agent's clock.
        at: Time,
    },
    /// An instance has ended, or could not be started for a reason of its own (`StartError`).
    Exited {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
        /// How.
        exit: Exit,
    },
    /// An instance could not even be tried; nothing of it exists.
    StartFailed {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
        /// One word, for example `CreateContainerConfigError`.
        reason: String,
        /// For people.
        message: String,
    },
    /// A hook has ended.
    HookFinished {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
        /// Which.
        hook: Hook,
        /// How.
        result: HookResult,
    },
    /// A knock of a prober was not refused.
    ProbeKnocked {
        /// The container.
        container: Arc<str>,
        /// The worker.
        probe: ProbeType,
        /// As in its [`probe::Knock`].
        knock: u32,
        /// When the connection was accepted; `None`: nobody answered, or something else went wrong.
        accepted: Option<Time>,
    },
    /// An attempt of a probe has completed.
    ProbeFinished {
        /// The container.
        container: Arc<str>,
        /// The worker.
        probe: ProbeType,
        /// As in its launch.
        attempt: u32,
        /// What came of it.
        report: Report,
    },
    /// What the container runtime shows of a pod that a kubelet runs.
    Observed(Box<Observed>),
    /// The container runtime does not answer: the status of the pod is all there is.
    RuntimeAway,
    /// Every slice that lists the pod shows it as terminating, or none lists it.
    Drained,
    /// The last status write has ended.
    StatusWritten(Result<(), WriteError>),
    /// The request to delete the pod for good has ended.
    PodDeleted(Result<(), WriteError>),
}

/// What a container runtime shows of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The address of the pod; empty: it has none of its own, or none yet.
    pub ip: String,
    /// The latest instance of each container that has one.
    pub containers: Vec<ObservedContainer>,
}

/// The latest instance of a container, as the runtime shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedContainer {
    /// The container.
    pub name: String,
    /// The instance.
    pub id: String,
    /// What it does.
    pub state: ObservedState,
}

/// What an instance does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedState {
    /// It was made and has not started.
    Created,
    /// It runs.
    Running {
        /// Since when.
        started_at: Time,
    },
    /// It has ended.
    Ended,
}

/// How a hook ended; an error is for people.
pub type HookResult = Result<(), String>;

/// Which hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// After the start.
    PostStart,
    /// Before the stop.
    PreStop,
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 + n after signal n.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// One word: `Completed`, `Error`, `StartError`, ...
    pub reason: String,
    /// For people.
    pub message: String,
    /// When it started.
    pub started_at: Time,
    /// When it ended.
    pub finished_at: Time,
}

impl Exit {
    /// Returns the end of an instance of which nothing is known but that it is not there any more.
    pub fn unknown(started_at: Time, finished_at: Time) -> Exit {
        Exit {
            exit_code: 137,
            signal: None,
            reason: "ContainerStatusUnknown".to_owned(),
            message: "The container could not be located when the pod was terminated".to_owned(),
            started_at,
            finished_at,
        }
    }
}

/// An instance that an earlier agent started, as found on this machine.
#[derive(Clone, Debug)]
pub struct Found {
    /// The container.
    pub container: String,
    /// Which instance of it, from 0.
    pub number: u64,
    /// Its name.
    pub id: String,
    /// What it does.
    pub state: FoundState,
    /// It ended because an agent stopped, not by itself.
    pub interrupted: bool,
}

/// What a found instance does.
#[derive(Clone, Debug)]
pub enum FoundState {
    /// It runs.
    Running {
        /// Since when.
        started_at: Time,
    },
    /// It has ended.
    Ended(Exit),
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Get an address and volumes; answer [`Input::Prepared`] or [`Input::PrepareFailed`].
    Prepare,
    /// Start an instance; answer [`Input::Started`], [`Input::Exited`] or [`Input::StartFailed`].
    Start {
        /// The container.
        container: Arc<str>,
        /// Which instance of it, from 0.
        number: u64,
        /// Its name, unique on the node.
        id: Arc<str>,
    },
    /// Carry out a hook; answer [`Input::HookFinished`].
    Hook {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
        /// Which.
        hook: Hook,
        /// How.
        handler: LifecycleHandler,
        /// How long it may take; `None`: as long as it likes.
        timeout: Option<Duration>,
    },
    /// Nobody waits for a hook any more.
    CancelHook {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
        /// Which.
        hook: Hook,
    },
    /// Send a signal to an instance.
    Signal {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
        /// Its name, for example `SIGTERM`.
        signal: String,
    },
    /// Kill everything of an instance.
    Kill {
        /// The container.
        container: Arc<str>,
        /// The instance.
        id: Arc<str>,
    },
    /// What a prober wants: attempts to launch and to cancel; the rest is for metrics. Never a kill or an event.
    Probe {
        /// The container, whose latest instance it is about.
        container: Arc<str>,
        /// What.
        effect: probe::Effect,
    },
    /// Write the status; answer [`Input::StatusWritten`]. Only one is under way at a time.
    WriteStatus {
        /// The request.
        write: Box<Write>,
        /// It changes whether the pod is ready, so it goes before others.
        urgent: bool,
    },
    /// Delete the pod for good: grace 0, and only the pod with this uid; answer [`Input::PodDeleted`].
    DeletePod {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The very pod.
        uid: String,
    },
    /// Write an event.
    Event {
        /// The event.
        event: Event,
        /// How many occurrences it stands for.
        count: u32,
    },
    /// Nothing of the pod runs or ever will: its address is free.
    TearDown,
    /// The pod is gone from the API and from this node: forget it and its files.
    Release,
}
