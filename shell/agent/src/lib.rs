//! The node agent: the loop that runs the pods of a Kubernetes API as [`processes`], and probe attempts; on a cluster, where a kubelet runs
//! them, only the attempts.
//!
//! Nothing here decides: which container runs when, which probe is due, what an outcome means is said by cores.
//! Everything here is safe to use by several planes on one machine, by any user.

mod cluster;
mod config;
mod endpoint;
pub mod executors;
mod health_proto;
mod heartbeat;
mod machine_facts;
mod metrics;
mod node;
mod requests;
mod run;
pub mod serve;
mod supervisor;

pub use cluster::{ClusterConfig, run_in_cluster};
pub use config::{AgentConfig, AgentError, AgentReady, AgentTls, DRAIN_WAIT, FreshClient, MAX_PODS, NETWORK_PROBES, OnStop};
pub use run::run;
