//! What an agent is told, and why it may not run.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use probe::{BackOffSteps, NodePolicy};
use processes::addresses::{Cidr, ClaimError};
use processes::container::ShimProgram;
use proxy::drain::Drains;
use runtime::{Client, Clock, Informers};
use tokio::sync::oneshot;

/// From heartbeat to heartbeat; kubelet `nodeStatusUpdateFrequency`.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Pods of a node; kubelet `maxPods`.
pub const MAX_PODS: u32 = 110;
/// Network attempts that run at once.
pub const NETWORK_PROBES: usize = 256;
/// How long a stop signal waits for the slices.
pub const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// Makes a client with connections of its own.
pub type FreshClient = Arc<dyn Fn() -> Client + Send + Sync>;

/// What an agent is told; [`AgentConfig::new`] has the defaults.
pub struct AgentConfig {
    /// The Kubernetes API, in process or over the network.
    pub client: Client,
    /// What follows the API; it keeps the text of pods.
    pub informers: Informers,
    /// What is measured about the traffic with the API.
    pub metrics: runtime::Metrics,
    /// Makes a client with connections of its own, for heartbeats whose first attempt got no answer; `None`: the same.
    pub fresh_client: Option<FreshClient>,
    /// The clock of the process.
    pub clock: Clock,
    /// The name of the node.
    pub node_name: String,
    /// Where everything of the pods is kept; one agent at a time has it.
    pub data_dir: PathBuf,
    /// The range of pod addresses; `None`: the one that it had before, else the first free /24.
    pub pod_cidr: Option<Cidr>,
    /// Gates, policy and second look of probes.
    pub node: NodePolicy,
    /// How long containers that end wait before they are started again.
    pub back_off: BackOffSteps,
    /// How long the stop signal of a deleted pod waits for the slices; `None`: no drain handshake.
    pub drain_wait: Option<Duration>,
    /// What the service proxy of this process knows of traffic; `None`: the agent follows the slices by itself.
    pub drains: Option<Drains>,
    /// The program that becomes a shim.
    pub shim: ShimProgram,
    /// `lifesign` itself; its directory comes first in the PATH of containers.
    pub program: PathBuf,
    /// Where the endpoint for logs and metrics listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who may ask that endpoint, and who it is.
    pub tls: AgentTls,
    /// From heartbeat to heartbeat, unless the Node's annotation says otherwise.
    pub heartbeat: Duration,
    /// Whether that annotation is followed.
    pub follow_profile: bool,
    /// Further labels of the Node.
    pub labels: BTreeMap<String, String>,
    /// How many pods the node takes.
    pub max_pods: u32,
    /// Network attempts that run at once.
    pub max_concurrent_network_probes: usize,
    /// Commands of probes that run at once.
    pub max_concurrent_exec_probes: usize,
    /// What becomes of the pods when the agent stops.
    pub on_stop: OnStop,
    /// Is told once the agent runs.
    pub on_ready: Option<oneshot::Sender<AgentReady>>,
}

/// Who may ask the agent's endpoint, and who it is.
#[derive(Clone, Debug, Default)]
pub struct AgentTls {
    /// The authority of the cluster, PEM: clients must show a certificate of it. Empty: nobody gets more than `/healthz`.
    pub client_ca: String,
    /// Certificate and key, PEM; `None`: one of its own making.
    pub certificate: Option<(String, String)>,
}

/// What becomes of the pods when the agent stops. They stay in the API in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// Their processes are stopped within their grace, and started again by the next agent.
    Drain,
    /// They go on, and are adopted by the next agent.
    Leave,
}

/// What is known once an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentReady {
    /// Where its endpoint listens.
    pub address: SocketAddr,
    /// The range of pod addresses.
    pub pod_cidr: Cidr,
}

impl AgentConfig {
    /// Returns a configuration with the defaults of standalone mode.
    pub fn new(client: Client, clock: Clock, node_name: &str, data_dir: impl Into<PathBuf>, shim: ShimProgram) -> AgentConfig {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        AgentConfig {
            informers: Informers::new(client.clone(), runtime::Metrics::default()).with_text::<api::Pod>(),
            metrics: runtime::Metrics::default(),
            client,
            fresh_client: None,
            clock,
            node_name: node_name.to_owned(),
            data_dir: data_dir.into(),
            pod_cidr: None,
            node: NodePolicy::default(),
            back_off: BackOffSteps::default(),
            drain_wait: Some(DRAIN_WAIT),
            drains: None,
            program: std::env::current_exe().unwrap_or_default(),
            shim,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: AgentTls::default(),
            heartbeat: HEARTBEAT,
            follow_profile: true,
            labels: BTreeMap::new(),
            max_pods: MAX_PODS,
            max_concurrent_network_probes: NETWORK_PROBES,
            max_concurrent_exec_probes: (2 * cpus).max(4),
            on_stop: OnStop::Drain,
            on_ready: None,
        }
    }
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AgentConfig")
            .field("node_name", &self.node_name)
            .field("data_dir", &self.data_dir)
            .finish_non_exhaustive()
    }
}

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its directory.
    #[error("cannot use the data directory {path}")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// Another agent has the directory.
    #[error("another agent uses the data directory {0}")]
    InUse(PathBuf),
    /// No addresses for pods.
    #[error("cannot claim addresses for pods")]
    Addresses(#[from] ClaimError),
    /// Its endpoint.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// Random numbers.
    #[error("cannot draw a random number")]
    Random(#[source] io::Error),
    /// Certificates.
    #[error("TLS of the agent's endpoint cannot be set up: {0}")]
    Tls(String),
    /// A part of it ended.
    #[error("{0}")]
    Ended(String),
    /// The API refuses the Node.
    #[error("the API does not accept node {node:?}")]
    Register {
        /// The node.
        node: String,
        /// What it says.
        #[source]
        source: Box<api::WriteFailure>,
    },
}
