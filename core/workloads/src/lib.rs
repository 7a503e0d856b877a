//! Workloads of a plane: ReplicaSets, Deployments and PodDisruptionBudgets.
//!
//! Three machines of one shape: objects that a shell watches go in, requests and events come out, answers go back in.
//!
//! - [`ReplicaSets`] keeps as many pods as a ReplicaSet wants: adoption, creation in growing batches, the order of deletion;
//! - [`Deployments`] rolls from one template to the next by scaling ReplicaSets; what to do is a [plan](deployment::plan);
//! - [`Budgets`] says how many pods may be evicted; the eviction itself is decided by the API server from that.
//!
//! Invariants: what a machine wrote is known to it from the answer on, so it never makes a pod twice because a watch is
//! behind; at most one sync of an object is under way; a change of one object costs nothing for those it does not concern.

mod budget;
mod budgets;
mod claim;
pub mod deployment;
mod deployments;
mod eviction;
mod hash;
mod index;
mod lists;
mod message;
mod order;
mod pending_writes;
mod pod;
mod replica_sets;
mod syncs;

pub use budget::{BudgetFacts, budget_status};
pub use budgets::Budgets;
pub use deployments::Deployments;
pub use eviction::{Eviction, evict, needs_budget};
pub use hash::{same_template, template_hash};
pub use message::{Effect, Input, Object, Watched, WriteId};
pub use order::{Candidate, deletion_order};
pub use pod::PodFacts;
pub use replica_sets::ReplicaSets;
