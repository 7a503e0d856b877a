//! `lifesign agent --cluster --profiles`: the part of latency profiles that changes files of a node.

use std::path::PathBuf;

use applier::NodePlace;
use applier::agent::{AgentConfig, run};
use clap::{Args, ValueEnum};
use profiles::steps::Component;
use runtime::Config;
use tokio_util::sync::CancellationToken;

use crate::error::Failure;

/// Which files of a node an agent may change.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeFiles {
    /// The configuration of the kubelet
    Kubelet,
    /// That, and the static pods of kube-controller-manager and kube-apiserver
    ControlPlane,
}

/// How an agent changes the files of its node.
#[derive(Args, Clone)]
pub(crate) struct ProfilesArgs {
    /// With --cluster: probe nothing, but take the steps of latency profiles: change files of this node, restart, confirm or undo
    #[arg(
        long,
        value_enum,
        value_name = "FILES",
        requires = "cluster",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "kubelet"
    )]
    profiles: Option<NodeFiles>,
    /// With --profiles: the folder through which the files of the machine are seen, such as /host in a pod
    #[arg(long, value_name = "DIR", default_value = "/", requires = "profiles")]
    host_root: PathBuf,
    /// With --profiles: where changes are recorded, on the machine
    #[arg(long, value_name = "DIR", default_value = "/var/lib/lifesign/profiles", requires = "profiles")]
    profiles_records: PathBuf,
    /// With --profiles: where the kubelet of this machine answers
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:10250", requires = "profiles")]
    kubelet: String,
    /// With --profiles: what restarts the kubelet [default: SIGTERM, and its supervisor starts it again]
    #[arg(long, value_name = "COMMAND", requires = "profiles")]
    kubelet_restart_command: Option<String>,
}

impl ProfilesArgs {
    /// Returns what the agent may change; `None`: it is another kind of agent.
    pub(crate) fn components(&self) -> Option<Vec<Component>> {
        match self.profiles? {
            NodeFiles::Kubelet => Some(vec![Component::Kubelet]),
            NodeFiles::ControlPlane => Some(Component::ALL.to_vec()),
        }
    }

    /// Runs the agent until told to stop.
    pub(crate) async fn agent(
        &self,
        components: Vec<Component>,
        node: String,
        config: Config,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        let names: Vec<&str> = components.iter().map(|component| component.name()).collect();
        eprintln!("taking steps of latency profiles for {} of node {node}", names.join(", "));
        let records = self.profiles_records.strip_prefix("/").unwrap_or(&self.profiles_records);
        let place = NodePlace {
            name: node,
            root: self.host_root.clone(),
            kubelet: self.kubelet.clone(),
            restart_command: self.kubelet_restart_command.clone(),
        };
        let config =
            AgentConfig { config, clock: crate::config::clock(), records: self.host_root.join(records), place, components };
        run(config, stop).await.map_err(|error| Failure::usage(runtime::chain(&error)))
    }
}
