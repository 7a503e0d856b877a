//! Container probes: when attempts are due, what their outcomes mean, and what that does to containers and pods.
//!
//! Nothing here waits or acts. A [`ContainerProber`] takes facts (the container runs, an attempt finished) and says what
//! must be done (launch, publish, kill); the pure functions around it turn what a socket or a process answered into an
//! [`Outcome`]. A shell has one timer queue for all probers, executes attempts and writes status.
//!
//! Invariants: one attempt at a time per worker, never before it is due; results of a dead instance are dropped; what the
//! node or the agent causes is never held against the container.

pub mod conditions;
pub mod events;
pub mod http;
pub mod knocks;
pub mod outcome;
pub mod phase;
pub mod prober;
pub mod queue;
pub mod restart;
pub mod schedule;
pub mod timing;
mod worker;

pub use conditions::{ConditionFacts, pod_conditions};
pub use events::ContainerEvent;
pub use knocks::Knocks;
pub use outcome::{Outcome, Report};
pub use phase::{Life, PodPhase, Role, pod_phase};
pub use prober::{ContainerProber, Effect, Input, Knock, Launch, Prior, WorkerView};
pub use queue::Lane;
pub use restart::{BackOff, BackOffSteps, RestartPolicy, Restarts};
pub use schedule::{Attempt, Run, Schedule};
pub use timing::{Defaults, NodePolicy, Progress, SubSecondProbePolicy, Timing};
pub use worker::{Phase, ProbeResult};
