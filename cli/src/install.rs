//! `lifesign install`: everything that a cluster needs, as manifests; a look at the cluster first; how to remove it all.

mod check;
mod cluster;
mod delete_plan;
mod manifests;

use std::path::PathBuf;

use clap::Args;

use crate::error::Failure;
use crate::{block_on, output};
use manifests::{Choices, Feature};

/// Print the manifests that install Lifesign on a cluster
///
/// `lifesign install | kubectl apply -f -` installs it, and again after an upgrade: certificates are kept. Nothing is sent to
/// the cluster by this command itself. docs/cluster.md says what is installed and how a pod uses it.
#[derive(Args)]
pub(crate) struct InstallArgs {
    /// Where controllers and agents run; made by the manifests
    #[arg(long, value_name = "NAMESPACE", default_value = "lifesign-system")]
    namespace: String,
    /// The image of controllers and agents, made with the Dockerfile of the repository
    #[arg(long, value_name = "IMAGE", default_value = concat!("lifesign:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// What to install
    #[arg(long, value_name = "FEATURE", value_delimiter = ',', default_value = "markers,probes")]
    features: Vec<Feature>,
    /// The socket of the container runtime on the nodes
    #[arg(long, value_name = "PATH", default_value = "/run/containerd/containerd.sock")]
    cri: String,
    /// Where the agents serve metrics and what the probes do, on their nodes; beyond loopback over TLS, to those whom the cluster allows it
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:10270")]
    agent_listen: std::net::SocketAddr,
    /// Look at the cluster of the kubeconfig and say whether it is fit, line by line; exit code 1 if it is not
    #[arg(long, conflicts_with = "delete_plan")]
    check: bool,
    /// Print the commands that remove everything from the cluster of the kubeconfig, in the right order
    #[arg(long)]
    delete_plan: bool,
    /// The cluster to look at, for --check and --delete-plan [default: $HOME/.kube/config]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

impl InstallArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let choices = Choices::new(&self.namespace, &self.image, &self.features, &self.cri)?.agent_listen(self.agent_listen)?;
        let kubeconfig = self.kubeconfig.as_deref();
        if self.check {
            return block_on(async { check::run(&cluster::Cluster::reach(kubeconfig).await?, &choices).await });
        }
        if self.delete_plan {
            return block_on(async { delete_plan::run(&cluster::Cluster::reach(kubeconfig).await?, &choices).await });
        }
        output::print(choices.manifests().as_bytes())
    }
}
