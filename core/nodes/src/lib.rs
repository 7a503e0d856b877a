//! Is this node gone, or only far away? From heartbeats to conditions, taints and evictions.
//!
//! - [`beats`]: the heartbeat loop of the agent on a node;
//! - [`monitor`]: the node lifecycle controller: who is silent, which taints follow, at which rate;
//! - [`tolerations`]: which tolerations admission adds, which taints a pod tolerates and for how long;
//! - [`eviction`]: when a pod leaves a tainted node, and that it does;
//! - [`lifecycle`]: monitor and evictor together, as requests to the API and their answers.
//!
//! The first two and the last are machines with explicit inputs and effects; shells feed them what the API says and write
//! what they decide. Invariants: at most one NoExecute health taint per node, only on nodes that are not Ready, and no
//! eviction of a pod whose node is Ready.

pub mod beats;
pub mod eviction;
pub mod lifecycle;
pub mod monitor;
mod status;
pub mod taints;
pub mod tolerations;

pub use beats::Beats;
pub use eviction::Evictor;
pub use lifecycle::Lifecycle;
pub use monitor::Monitor;
pub use status::same_status;
pub use taints::{Health, HealthTaint, TaintEffect};
