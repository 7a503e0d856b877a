//! The life of a pod on its node.
//!
//! A [`PodMachine`] decides everything about one pod: when its address and volumes are asked for, the order in which
//! containers start, hooks, probes, restarts with back-off, stops with grace, its status, its events, its end. A shell
//! carries out the [`Effect`]s and tells what happened as [`Input`]s; it never decides. [`schedule()`] chooses the node.
//! [`environment`] says what a container runs: command, variables, user. A [`KubeletPod`] is a pod that somebody else runs: it decides
//! only about readiness probes that were moved out of its spec.
//!
//! Invariants: no two instances of a container at once; nothing starts once the pod is to end; every pod that is to end
//! does; a machine made from the status that another one wrote goes on where that one was.

mod container;
pub mod environment;
mod events;
mod instances;
pub mod kubelet;
mod machine;
mod messages;
mod restore;
mod schedule;
pub mod scheduler;
mod settings;
mod start;
mod status;
mod stop;
mod view;
mod writer;

pub use kubelet::KubeletPod;
pub use machine::PodMachine;
pub use messages::{Effect, Exit, Found, FoundState, Hook, HookResult, Input, Observed, ObservedContainer, ObservedState};
pub use schedule::{Decision, Usage, pod_requests, schedule};
pub use settings::Settings;
pub use status::{CONTAINER_ID_PREFIX, Report};
pub use view::{ContainerPhase, ContainerView};
