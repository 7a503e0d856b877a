//! The node agent, lower half: containers as local processes and what a probe attempt does.
//!
//! Nothing here decides: which container runs when, which probe is due, what an outcome means is said by cores and by the
//! upper half. Everything here is safe to use by several planes on one machine, by any user.

pub mod addresses;
pub mod container;
pub mod environment;
pub mod exec;
pub mod executors;
mod health_proto;
pub mod lag;
pub mod listeners;
pub mod logs;
pub mod processes;
mod readiness;
pub mod serve;
pub mod shim;
pub mod state;
pub mod volumes;
