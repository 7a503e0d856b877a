//! What goes into a prober and what comes out.

use std::time::Duration;

use api::ProbeType;
use machine::Time;

use crate::events::ContainerEvent;
use crate::outcome::Report;
use crate::worker::{Phase, ProbeResult};

/// A fact about the container or one of its attempts.
#[derive(Clone, Debug)]
pub enum Input {
    /// An instance runs.
    Running {
        /// The container ID.
        id: Box<str>,
        /// When it started, on the agent's own clock; never the API timestamp, which has whole seconds.
        started_at: Time,
    },
    /// No instance runs: the last one ended, or none was made yet (no exit code).
    NotRunning {
        /// How it ended.
        exit_code: Option<i32>,
    },
    /// The deletion of the pod was requested.
    Deleted,
    /// The pod has the phase Succeeded or Failed.
    PodTerminal,
    /// The pod is gone from the node.
    Removed,
    /// An attempt completed, by an answer or by its timeout.
    Finished {
        /// The worker.
        probe: ProbeType,
        /// As in its [`Launch`].
        attempt: u32,
        /// What came of it.
        report: Report,
    },
    /// A knock was not refused; there are no further ones until the worker asks for them.
    Knocked {
        /// The worker.
        probe: ProbeType,
        /// As in its [`Knock`].
        knock: u32,
        /// When the connection was accepted; `None`: nobody answered, or something else went wrong.
        accepted: Option<Time>,
    },
}

/// An attempt to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The worker.
    pub probe: ProbeType,
    /// To be given back in [`Input::Finished`].
    pub attempt: u32,
    /// When it was scheduled for; waiting attempts begin in this order.
    pub due: Time,
    /// For all of it, from its real beginning.
    pub timeout: Duration,
    /// A second look: its failure will not count.
    pub look: bool,
    /// Use the connection that a knock has opened.
    pub knocked: bool,
}

/// Knocks to carry out: bare connections to a target that refuses them, at intervals that [`Knocks`](crate::Knocks) knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knock {
    /// The worker.
    pub probe: ProbeType,
    /// To be given back in [`Input::Knocked`].
    pub knock: u32,
    /// When the attempt completed that was refused.
    pub from: Time,
    /// When the next attempt is due; no knock from then on.
    pub until: Time,
    /// When the container instance started: an old one is knocked at more rarely.
    pub started_at: Time,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Carry out an attempt.
    Launch(Launch),
    /// Knock until somebody listens, until told otherwise or until its time is up.
    Knock(Knock),
    /// Do not knock any more; a connection that is being made is closed, or used by the [`Launch`] that follows.
    StopKnocking {
        /// The worker.
        probe: ProbeType,
    },
    /// The outcome of an attempt under way does not matter any more.
    Cancel {
        /// The worker.
        probe: ProbeType,
        /// As in its [`Launch`].
        attempt: u32,
    },
    /// The result of a probe, changed or of a new instance.
    Publish {
        /// The worker.
        probe: ProbeType,
        /// What it says now.
        result: ProbeResult,
    },
    /// A worker began or ended its rest.
    Hold {
        /// The worker.
        probe: ProbeType,
        /// Whether it rests now.
        on: bool,
    },
    /// `started` of the container status has changed.
    Started(bool),
    /// `ready` of the container status has changed.
    Ready(bool),
    /// Stop the container.
    Kill {
        /// The probe that failed.
        probe: ProbeType,
        /// Seconds between the request to stop and the kill.
        grace_seconds: i64,
        /// Whether it is started again afterwards.
        restart: bool,
    },
    /// A worker has ended for good; its metric series go with it.
    Ended {
        /// The worker.
        probe: ProbeType,
    },
    /// Write an event.
    Event {
        /// The worker.
        probe: ProbeType,
        /// The event.
        event: ContainerEvent,
    },
    /// An outcome came too late to belong to anything (metric).
    Stale {
        /// The worker.
        probe: ProbeType,
    },
    /// An attempt took so long that later ones had to move (metric).
    Overrun {
        /// The worker.
        probe: ProbeType,
    },
}

/// What the stored status says about an instance, after the agent restarted.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    pub(super) id: Box<str>,
    pub(super) started: bool,
    pub(super) ready: bool,
    /// In the order startup, readiness, liveness.
    pub(super) jitter: [f64; 3],
}

impl Prior {
    /// Returns the stored status of an instance. By how much of its period the first attempt of a worker is late, so that they are
    /// spread, is drawn from `fraction`, in `[0, 1)`.
    pub fn new(id: &str, started: bool, ready: bool, mut fraction: impl FnMut() -> f64) -> Prior {
        let jitter = [fraction(), fraction(), fraction()];
        Prior { id: id.into(), started, ready, jitter }
    }
}

/// What a worker does at the moment, for metrics and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// The worker.
    pub probe: ProbeType,
    /// What it does.
    pub phase: Phase,
    /// When its next attempt is due; `None` while one runs or none is scheduled.
    pub due: Option<Time>,
    /// The period that is valid now.
    pub period: Duration,
    /// For one attempt.
    pub timeout: Duration,
    /// What is published; `None` while no instance runs.
    pub result: Option<ProbeResult>,
    /// The target refuses connections and is knocked at.
    pub knocking: bool,
}
