//! What every command that runs an agent takes, and the configuration that comes of it.

use std::path::Path;
use std::time::Duration;

use agent::{AgentConfig, ClusterConfig};
use clap::Args;
use probe::BackOffSteps;
use processes::addresses::Cidr;
use processes::container::ShimProgram;
use runtime::{Client, Clock};

use crate::error::Failure;

/// What every command that runs an agent takes.
#[derive(Args, Clone)]
pub(crate) struct NodeArgs {
    /// The name of the node [default: the host name]
    #[arg(long, value_name = "NAME", env = "LIFESIGN_NODE_NAME")]
    node_name: Option<String>,
    /// The range of pod addresses, out of 127.88.0.0/13 [default: a free /24]
    #[arg(long, value_name = "CIDR", value_parser = Cidr::loopback)]
    pod_cidr: Option<Cidr>,
    /// Where the agent serves logs and metrics; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub(super) agent_listen: std::net::SocketAddr,
    /// When sub-second probe periods are used
    #[arg(long, value_name = "POLICY", default_value = "OnlyTheFirstTime")]
    sub_second_probe_policy: probe::SubSecondProbePolicy,
    /// Repeat a first attempt that did not succeed once, a second later
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    second_look: bool,
    /// How many probe attempts over the network run at once
    #[arg(long, value_name = "N", default_value_t = agent::NETWORK_PROBES, value_parser = at_least_one)]
    max_concurrent_network_probes: usize,
    /// How many commands of probes run at once [default: 2 per CPU, at least 4]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max_concurrent_exec_probes: Option<usize>,
    /// How long a container that ends again and again waits at first, doubled every time
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = restart_period)]
    crash_loop_back_off_initial_period: Duration,
    /// How long such a container waits at most
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = restart_period)]
    crash_loop_back_off_max_period: Duration,
    /// How many pods the node takes
    #[arg(long, value_name = "N", default_value_t = agent::MAX_PODS, value_parser = clap::value_parser!(u32).range(1..))]
    max_pods: u32,
    /// Send the stop signal to a deleted pod at once, without waiting for its EndpointSlices
    #[arg(long)]
    no_drain_handshake: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 must run".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

/// Reads a step of the restart back-off; what it may be is known to the steps.
fn restart_period(text: &str) -> Result<Duration, String> {
    let period = api::duration::parse(text).map_err(|error| error.to_string())?;
    BackOffSteps::new(period, period).map(|_| period).map_err(|_| "must be between 1s and 300s".to_owned())
}

impl NodeArgs {
    /// Returns the name of the node.
    pub(crate) fn name(&self) -> Result<String, Failure> {
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => rustix::system::uname().nodename().to_string_lossy().to_lowercase(),
        };
        match api::names::dns1123_subdomain(&name) {
            None => Ok(name),
            Some(rule) => Err(Failure::usage(format!("node name {name:?}: {rule}")).hint("choose one with --node-name")),
        }
    }

    /// Returns the configuration of an agent on a cluster.
    pub(crate) fn cluster(
        &self,
        client: Client,
        clock: Clock,
        namespace: &str,
        cri: &str,
        gates: &api::FeatureGates,
    ) -> Result<ClusterConfig, Failure> {
        let mut config = ClusterConfig::new(client, clock, &self.name()?, namespace, cri);
        config.node = self.probes(gates);
        config.max_concurrent_network_probes = self.max_concurrent_network_probes;
        config.max_concurrent_exec_probes = self.max_concurrent_exec_probes.unwrap_or(config.max_concurrent_exec_probes);
        Ok(config)
    }

    fn probes(&self, gates: &api::FeatureGates) -> probe::NodePolicy {
        probe::NodePolicy { gates: gates.clone(), policy: self.sub_second_probe_policy, second_look: self.second_look }
    }

    /// Returns the configuration of the agent.
    pub(crate) fn config(
        &self,
        client: Client,
        clock: Clock,
        data_dir: &Path,
        gates: &api::FeatureGates,
    ) -> Result<AgentConfig, Failure> {
        let shim = ShimProgram::current();
        let mut config = AgentConfig::new(client, clock, &self.name()?, data_dir.join("agent"), shim);
        config.pod_cidr = self.pod_cidr;
        config.listen = self.agent_listen;
        config.node = self.probes(gates);
        config.follow_profile = gates.enabled(api::Gate::WorkerLatencyProfiles);
        config.max_pods = self.max_pods;
        config.max_concurrent_network_probes = self.max_concurrent_network_probes;
        if let Some(limit) = self.max_concurrent_exec_probes {
            config.max_concurrent_exec_probes = limit;
        }
        let (initial, max) = (self.crash_loop_back_off_initial_period, self.crash_loop_back_off_max_period);
        config.back_off = BackOffSteps::new(initial, max).map_err(Failure::usage)?;
        if self.no_drain_handshake {
            config.drain_wait = None;
        }
        Ok(config)
    }
}
