//! PodProbeMarker: custom probes for selected pods, and the marks that follow from their states.
//!
//! Two sides, joined only by the NodePodProbe of each node:
//!
//! - the **controller** turns markers into the spec of one NodePodProbe per node ([`plan`]), and states that come back
//!   into labels, annotations and conditions of pods ([`mark`]);
//! - the **agent** of a node runs what the spec asks and reports states in the status.
//!
//! Invariants: one writer per object part (the controller writes specs and pods, the agent statuses); everything is
//! computed from what is stored, so repeating or losing an event does no harm; no write without a difference.

pub mod agent;
mod cache;
mod compiled;
pub mod controller;
mod entries;
mod mark;
mod marked;
mod plan;
mod reason;
mod schema;

pub use agent::Agent;
pub use api::Key;
pub use cache::NodePodProbeAction;
pub use compiled::Compiled;
pub use controller::Controller;
pub use entries::{Skip, entry, entry_name, same_entry, same_probe, same_spec};
pub use mark::{DRIFT_AFTER, Marking, ProbeResult, Trigger, mark};
pub use marked::Marked;
pub use plan::{MarkerPlan, Plan, plan};
pub use reason::Reason;
pub use schema::{kruise_admits, kruise_leads, missing_fields, pruned_probe_fields};
