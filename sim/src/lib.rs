//! Simulation: what a latency profile does to a fleet behind real links, in numbers.
//!
//! A world of the same cores that run in production: the heartbeat loop of each node, the node lifecycle monitor, the
//! evictor, the planner of a rollout. The world around them is random (links, outages, deaths, restarts) and drawn from one
//! seed: the same scenario and seed give the same output, byte for byte. Every run checks the invariants of node lifecycle
//! and of the planner, and fails with its seed if one is broken.

mod compare;
mod faults;
mod link;
mod output;
mod plot;
mod recommend;
mod rollout;
mod scenario;
mod stats;
mod world;

pub use compare::{Choice, candidates, choose, comparison, in_use};
pub use faults::{Faults, Spans};
pub use output::{ClassSeconds, Output, Quantiles, Rate, StateOutput, Writes};
pub use plot::{number, plot};
pub use recommend::{Gaps, Prediction, RATE_MAX, Recommendation, recommend};
pub use scenario::{
    Burst, Component, Deaths, Latency, Length, Link, Outage, Restart, Scenario, ScenarioError, Scope, Spacing, Transition,
    Values,
};
pub use world::{Broken, SimError, simulate, simulate_telling, simulate_with};
