//! WorkerLatencyProfile: how often nodes speak, how long the control plane waits, and how to change both safely.
//!
//! - [`profile`]: the three profiles and what each means, in numbers and in arguments of components;
//! - [`hazard`]: how many heartbeats a node may lose before it is taken for dead, and what else to know;
//! - [`path`]: which profiles lie on the way, and which states of a cluster lie between two of them;
//! - [`plan`]: the next safe step, from nothing but what is observed;
//! - [`preview`]: the whole rollout before it happens;
//! - [`status`]: conditions per owner, the progress deadline, the rollback;
//! - [`message`]: the same for people;
//! - [`rollout`]: all of it over the objects of a plane of our own.
//!
//! The invariant of the crate: from a safe start no step that [`plan`] returns makes any counted node unsafe.

pub mod hazard;
pub mod message;
pub mod path;
pub mod plan;
pub mod preview;
pub mod profile;
pub mod render;
pub mod rollout;
pub mod status;

pub use hazard::{Advisory, Class, Hazard, hazard};
pub use path::{Day, path};
pub use plan::{Observed, Plan, Request, Step, plan};
pub use profile::{Owner, Profile, Target, UnknownProfile, Values, infer};
pub use rollout::Rollout;
pub use status::{Outcome, ProfileStatus, Snapshot};
