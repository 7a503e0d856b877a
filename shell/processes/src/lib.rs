//! Containers as local processes: one starts below a shim that outlives the agent, has an address of its own, volumes and a
//! log, runs commands for probes and hooks, and leaves nothing behind.
//!
//! Nothing here decides which container runs when: that is said by `pods`. Everything here is safe to use by several planes on
//! one machine, by any user.

pub mod addresses;
pub mod container;
pub mod exec;
pub mod interactive;
pub mod lag;
pub mod layout;
pub mod listeners;
pub mod logs;
pub mod procfs;
pub mod readiness;
pub mod shim;
mod signals;
pub mod state;
pub mod volumes;
