//! The guard of moved readiness probes: pods must not stay ready because the agent that would say otherwise is gone.
//!
//! A kubelet does not run a probe that was moved out of a pod's spec, so nothing else would notice. The guard follows the Leases of the
//! agents, and what pod statuses say of the instances that were judged. It is slow to speak: when many agents are lost at once it is more
//! likely that we do not see them than that they are gone, and then it holds back.
//!
//! Invariants: a pod whose agent renews its Lease, and whose containers are those that were judged, is never touched; planning again
//! after what was asked for has been done asks for nothing.

mod agents;
mod machine;
mod pods;

pub use crate::machine::{Effect, Guard, Input, Object, Watched};
