//! WorkerLatencyProfile: how often nodes speak, how long the control plane waits, and how to change both safely.
//!
//! - [`profile`]: the three profiles and what each means, in numbers and in arguments of components;
//! - [`hazard`]: how many heartbeats a node may lose before it is taken for dead, and what else to know;
//! - [`advise`]: the latter for all that is observed;
//! - [`path`]: which profiles lie on the way, and which states of a cluster lie between two of them;
//! - [`plan`]: the next safe step, from nothing but what is observed;
//! - [`preview`]: the whole rollout before it happens;
//! - [`status`]: conditions per owner, the progress deadline, the rollback;
//! - [`message`]: the same for people;
//! - [`steps`]: what controllers and the agents of a stock cluster tell each other;
//! - [`stock`]: what the static pods of a stock cluster say, and how they are told otherwise;
//! - [`kubeadm`]: what the tool that made those static pods is to remember of it;
//! - [`openshift`]: what static pods say, of a control plane that operators run;
//! - [`rollout`]: all of it over the objects of a plane of our own or of a stock cluster.
//!
//! The invariant of the crate: from a safe start no step that [`plan`] returns makes any counted node unsafe.

pub mod advise;
pub mod hazard;
pub mod kubeadm;
pub mod message;
pub mod openshift;
pub mod path;
pub mod plan;
pub mod preview;
pub mod profile;
pub mod render;
pub mod rollout;
pub mod status;
pub mod steps;
pub mod stock;

pub use hazard::{Advisory, Class, Hazard, hazard};
pub use path::{Day, path};
pub use plan::{Observed, Plan, Request, Step, plan};
pub use profile::{Owner, Profile, Target, UnknownProfile, Values, infer};
pub use rollout::Rollout;
pub use status::{Evaluation, ProfileStatus, Snapshot};
