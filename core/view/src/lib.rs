//! What people look at: objects, events and probe attempts in; rows, strips and waterfalls out.
//!
//! A [`Board`] is given facts as they come and keeps what is needed to show them. Every change has a revision, so whoever shows
//! the board asks for what is new since the one that it has seen ([`Board::delta`]); a page and a terminal show the same rows.
//!
//! Invariants: memory is bounded ([`Limits`]) beside one row for each object; the same facts give the same rows; a delta on top
//! of what was seen before is the same as everything at once.

mod board;
mod delta;
mod events;
mod markers;
mod nodes;
mod pods;
mod probes;
mod profile;
mod report;
mod services;
mod steps;
mod strips;
mod table;

pub use board::{Board, Fact, Limits, Origin};
pub use delta::{Changes, Delta};
pub use events::{EventObject, EventRow};
pub use markers::{MarkedPod, MarkerProbe, MarkerRow};
pub use nodes::{NodeRow, chances_left};
pub use pods::{ConditionRow, ContainerRow, PodRow, PodState};
pub use probes::ProbeRow;
pub use profile::{OwnerRow, ProfileRow};
pub use report::{AgentReport, agent_address};
pub use services::{EndpointRow, ServiceRow};
pub use steps::{StartStep, StepName};
pub use strips::{Attempt, AttemptResult, StripRow};
