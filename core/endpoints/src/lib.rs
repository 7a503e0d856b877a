//! KEP-1672: pods and a Service become EndpointSlices that say `ready`, `serving` and `terminating`.
//!
//! [`plan`](plan::plan) is the definition: a pure function from everything observed to everything that must be written.
//! [`Controller`] gives the same writes without recomputing what did not change, and decides when to sync.
//! [`usable_endpoints`] is the other side: which of the listed endpoints may get traffic.
//!
//! Invariants: a selected pod with an address is in exactly one slice of its port group and family; planning again after a
//! plan was applied yields nothing; the order of the inputs does not matter.

pub mod conditions;
pub mod content;
pub mod controller;
pub mod desired;
pub mod hints;
mod index;
pub mod labels;
pub mod matching;
pub mod membership;
pub mod metrics;
pub mod pack;
pub mod plan;
pub mod pod;
pub mod ports;
pub mod record;
pub mod render;
pub mod requeue;
pub mod retry;
pub mod service;
pub mod settings;
pub mod tracker;
pub mod transitions;
pub mod trigger_time;
pub mod usable;

pub use controller::Controller;
pub use settings::{Config, Settings};
pub use usable::usable_endpoints;
