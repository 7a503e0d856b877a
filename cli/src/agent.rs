//! `lifesign agent`: the node agent as a process of its own.

use std::path::PathBuf;
use std::sync::Arc;

use agent::{AgentReady, AgentTls, FreshClient, OnStop};
use clap::Args;
use runtime::{Client, Trust};
use tokio_util::sync::CancellationToken;

use crate::config::{OWN_VERSION, api_version, connect};
use crate::error::Failure;
use crate::logging::LogArgs;
use crate::profile::ProfilesArgs;
use crate::up::NodeArgs;
use crate::{block_on, signals};

/// Run the node agent
///
/// Against a Lifesign API it registers its node and runs the pods assigned to it as local processes; `lifesign kubeconfig --node NAME`
/// of the plane prints the kubeconfig that it needs. With --cluster, on a node of a Kubernetes cluster, it starts nothing: it runs marker
/// probes and moved readiness probes of the pods that the kubelet runs there; with --profiles as well it does nothing but the local part
/// of latency profiles.
#[derive(Args)]
pub(crate) struct AgentArgs {
    /// Credentials of the node [default with --cluster: those of the pod that this runs in]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG", required_unless_present = "cluster")]
    kubeconfig: Option<PathBuf>,
    /// Probe the pods of a node of a Kubernetes cluster, which a kubelet runs
    #[arg(long, requires = "node_name", conflicts_with_all = ["data_dir", "leave_pods"])]
    cluster: bool,
    /// With --cluster: the container runtime
    #[arg(long, value_name = "SOCKET", default_value = "unix:///run/containerd/containerd.sock", requires = "cluster")]
    cri: String,
    /// With --cluster: where the Lease of the agent is
    #[arg(long, value_name = "NAMESPACE", default_value = "lifesign-system", requires = "cluster")]
    namespace: String,
    /// With --cluster: where metrics and what the probes do are served; port 0 picks a free one. On an address that others than this
    /// machine reach it is TLS, for those whom TokenReview and SubjectAccessReview allow nodes/metrics or nodes/proxy
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:0",
        requires = "cluster",
        conflicts_with = "agent_listen"
    )]
    listen: std::net::SocketAddr,
    #[command(flatten)]
    profiles: ProfilesArgs,
    /// Where the agent keeps its data
    #[arg(long, value_name = "DIR", env = "LIFESIGN_DATA_DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
    /// Switch features on or off, for example SubSecondProbes=false
    #[arg(long, value_name = "A=true,B=false", default_value = "", env = "LIFESIGN_FEATURE_GATES")]
    feature_gates: api::FeatureGates,
    /// Leave the pods running when the agent stops, for the next one to adopt
    #[arg(long)]
    leave_pods: bool,
    #[command(flatten)]
    log: LogArgs,
}

impl AgentArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.log.start("info");
        block_on(self.agent())
    }

    async fn agent(self) -> Result<(), Failure> {
        let stop = signals::stop_on_signal()?;
        let hint = "print one with `lifesign kubeconfig --node NAME`";
        let config = connect(self.kubeconfig.as_deref(), "lifesign-agent", hint).await?;
        if let Some(components) = self.profiles.components() {
            return self.profiles.agent(components, self.node.name()?, config, stop).await;
        }
        if self.cluster {
            return self.in_cluster(Client::try_from(config).map_err(Failure::usage)?, stop).await;
        }
        let address = config.cluster_url.to_string();
        let authority = match &config.trust {
            Trust::Authorities(authorities) => authorities.iter().map(|der| pem(der)).collect::<String>(),
            Trust::System | Trust::Everything => String::new(),
        };
        let client = Client::try_from(config).map_err(Failure::usage)?;
        // A heartbeat without an answer is tried again over a connection of its own.
        let shared = client.clone();
        let fresh: FreshClient = Arc::new(move || shared.separate());
        refuse_foreign(&client, &address).await?;
        let data_dir = match self.data_dir {
            Some(data_dir) => data_dir,
            None => crate::config::default_data_dir()?.join(self.node.name()?),
        };
        let mut config = self.node.config(client, crate::config::clock(), &data_dir, &self.feature_gates)?;
        config.fresh_client = Some(fresh);
        config.on_stop = if self.leave_pods { OnStop::Leave } else { OnStop::Drain };
        config.tls = AgentTls { client_ca: authority, certificate: None };
        let node = self.node.name()?;
        let (on_ready, ready) = tokio::sync::oneshot::channel();
        config.on_ready = Some(on_ready);
        let say_ready = async {
            if let Ok(AgentReady { address, pod_cidr }) = ready.await {
                crate::apiserver::say_ready(&format!("node/{node}"));
                eprintln!("pods of node {node} get addresses of {pod_cidr}; metrics and logs on https://{address}");
            }
            std::future::pending().await
        };
        tokio::select! {
            ended = agent::run(config, stop) => ended.map_err(failed),
            () = say_ready => Ok(()),
        }
    }

    async fn in_cluster(self, client: Client, stop: CancellationToken) -> Result<(), Failure> {
        let clock = crate::config::clock();
        let mut config = self.node.cluster(client, clock, &self.namespace, &self.cri, &self.feature_gates)?;
        config.listen = self.listen;
        let (tell, ready) = tokio::sync::oneshot::channel();
        config.on_ready = Some(tell);
        let (node, cri) = (config.node_name.clone(), self.cri);
        let ready_line = async {
            if let Ok(address) = ready.await {
                let scheme = if address.ip().is_loopback() { "http" } else { "https" };
                eprintln!("probing the pods of node {node} through {cri}; metrics on {scheme}://{address}/metrics");
            }
            std::future::pending().await
        };
        tokio::select! {
            ended = agent::run_in_cluster(config, stop) => ended.map_err(failed),
            () = ready_line => Ok(()),
        }
    }
}

fn failed(error: agent::AgentError) -> Failure {
    Failure::usage(runtime::chain(&error))
}

/// An agent that runs pods as processes joins only a Lifesign API: on a real cluster its pods would not be containers.
async fn refuse_foreign(client: &Client, address: &str) -> Result<(), Failure> {
    match api_version(client, address).await? {
        version if version.contains(OWN_VERSION) => Ok(()),
        version => Err(Failure::no(format!(
            "this is a Kubernetes {version} cluster; without --cluster the agent runs pods as processes and joins only a Lifesign API"
        ))),
    }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("base64 is ASCII")).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
