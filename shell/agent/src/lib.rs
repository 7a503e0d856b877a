//! The node agent: containers as local processes, probe attempts, and the loop that runs pods of a Kubernetes API.
//!
//! Nothing here decides: which container runs when, which probe is due, what an outcome means is said by cores.
//! Everything here is safe to use by several planes on one machine, by any user.

pub mod addresses;
mod config;
pub mod container;
pub mod drain;
mod endpoint;
pub mod exec;
pub mod executors;
mod health_proto;
mod heartbeat;
pub mod lag;
mod layout;
pub mod listeners;
pub mod logs;
mod machine_facts;
mod metrics;
mod node;
pub mod processes;
pub mod proxy;
mod readiness;
mod requests;
mod run;
pub mod serve;
pub mod shim;
pub mod state;
mod supervisor;
pub mod volumes;

pub use config::{AgentConfig, AgentError, AgentReady, AgentTls, DRAIN_WAIT, FreshClient, OnStop};
pub use run::run;
