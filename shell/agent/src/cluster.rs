//! The agent of a node whose pods a kubelet runs: marker probes and moved readiness probes, and a Lease that says that it lives.
//!
//! It registers no Node and starts no container. What it runs on is the same loop, the same cores and the same executors as where it
//! runs the pods itself; only [`Source`] is another.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::lease::{ANNOTATION_CAPABILITIES, ANNOTATION_VERSION};
use api::moved::agent_lease;
use futures::FutureExt;
use machine::Rng;
use probe::{BackOffSteps, NodePolicy};
use runtime::{Client, Clock, EventWriter, Informers, Tasks, Writer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{AgentError, AgentTls, NETWORK_PROBES, OnStop};
use crate::endpoint::review::Reviewer;
use crate::endpoint::{Endpoint, server_config};
use crate::heartbeat::renew;
use crate::metrics::Metrics;
use crate::run::{MANAGER, supervise};
use crate::supervisor::{AgentContext, Parts, RuntimeLists, Source, message_channel};

/// How long the Lease holds without a renewal.
const LEASE: Duration = Duration::from_secs(40);
/// From renewal to renewal.
const RENEW: Duration = Duration::from_secs(10);
/// After a renewal that failed.
const RENEW_AGAIN: Duration = Duration::from_secs(2);
/// What the agent can do, as its Lease says.
const CAPABILITIES: &str = "marker-probes,moved-probes";

/// What an agent on a cluster is told; [`ClusterConfig::new`] has the defaults.
pub struct ClusterConfig {
    /// The API of the cluster.
    pub client: Client,
    /// What follows the API; it keeps the text of pods.
    pub informers: Informers,
    /// What is measured about the traffic with the API.
    pub metrics: runtime::Metrics,
    /// The clock of the process.
    pub clock: Clock,
    /// The name of the node.
    pub node_name: String,
    /// Where the agent's Lease is.
    pub namespace: String,
    /// The socket of the container runtime.
    pub cri: PathBuf,
    /// Where metrics and what the probes do are served; port 0 takes a free one. On an address that others than this machine
    /// reach it is TLS, and the API of the cluster is asked who may read.
    pub listen: SocketAddr,
    /// Gates, policy and second look of probes.
    pub node: NodePolicy,
    /// Network attempts that run at once.
    pub max_concurrent_network_probes: usize,
    /// Commands of probes that run at once.
    pub max_concurrent_exec_probes: usize,
    /// Is told once the agent serves.
    pub on_ready: Option<oneshot::Sender<SocketAddr>>,
}

impl ClusterConfig {
    /// Returns a configuration with the defaults.
    pub fn new(client: Client, clock: Clock, node_name: &str, namespace: &str, cri: impl Into<PathBuf>) -> ClusterConfig {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        ClusterConfig {
            informers: Informers::new(client.clone(), runtime::Metrics::default()).with_text::<api::Pod>(),
            metrics: runtime::Metrics::default(),
            client,
            clock,
            node_name: node_name.to_owned(),
            namespace: namespace.to_owned(),
            cri: cri.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            node: NodePolicy::default(),
            max_concurrent_network_probes: NETWORK_PROBES,
            max_concurrent_exec_probes: (2 * cpus).max(4),
            on_ready: None,
        }
    }
}

/// Runs the agent of a node whose pods a kubelet runs, until told to stop.
///
/// An API or a container runtime that does not answer is waited for; an error is something that waiting cannot mend.
pub async fn run_in_cluster(mut config: ClusterConfig, stop: CancellationToken) -> Result<(), AgentError> {
    let bad = |source| AgentError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(bad)?;
    let address = listener.local_addr().map_err(bad)?;
    let writer = Writer::new(config.client.clone(), config.clock.clone(), MANAGER, config.metrics.clone());
    let metrics = Arc::new(Metrics::new());
    let (messages, inbox) = message_channel();
    let context = Arc::new(AgentContext {
        client: config.client.clone(),
        writer: writer.clone(),
        clock: config.clock.clone(),
        node: config.node_name.clone(),
        messages: messages.clone(),
        processes: None,
        host_ip: String::new(),
        tasks: TaskTracker::new(),
        halt: CancellationToken::new(),
    });
    let stopped = CancellationToken::new();
    // However this ends, nothing of it goes on.
    let _ends = (stopped.clone().drop_guard(), context.halt.clone().drop_guard());
    let mut parts_of_agent = Tasks::<AgentError>::default();
    // Beyond this machine it is served over TLS, and only to those whom the cluster allows it.
    let public = !config.listen.ip().is_loopback();
    let tls = if public { Some(server_config(&AgentTls::default(), &config.node_name)?) } else { None };
    let reviewer = public.then(|| Reviewer::new(config.client.clone(), &config.node_name));
    let endpoint = Endpoint::new(messages, Arc::clone(&metrics)).reviewed_by(reviewer).serve(listener, tls, stopped.clone());
    parts_of_agent.spawn("agent-endpoint", endpoint.map(Ok));
    let client = Arc::new(cri::Client::new(&config.cri.to_string_lossy()));
    let holding = hold_lease(writer.clone(), config.client.clone(), config.clock.clone(), place(&config), stopped.clone());
    parts_of_agent.spawn("lease", holding.map(Ok));
    if let Some(tell) = config.on_ready.take() {
        // Whoever asked may have lost interest.
        let _ = tell.send(address);
    }
    let settings = pods::Settings { node: config.node.clone(), back_off: BackOffSteps::default(), ..Default::default() };
    let parts = Parts {
        informers: config.informers.clone(),
        context,
        drains: None,
        inbox,
        source: Source::Runtime(Box::new(RuntimeLists::new(client))),
        settings: Arc::new(settings),
        metrics,
        events: EventWriter::start(writer, config.clock.clone(), MANAGER, &config.node_name),
        on_stop: OnStop::Leave,
        network_probes: config.max_concurrent_network_probes,
        exec_probes: config.max_concurrent_exec_probes,
        rng: Rng::new(runtime::random_seed().map_err(AgentError::Random)?),
    };
    supervise(parts, parts_of_agent, stop, stopped).await
}

/// Node and namespace.
fn place(config: &ClusterConfig) -> (String, String) {
    (config.node_name.clone(), config.namespace.clone())
}

/// Renews the agent's Lease until told to stop.
async fn hold_lease(writer: Writer, client: Client, clock: Clock, place: (String, String), stop: CancellationToken) {
    loop {
        let now = clock.now();
        let wait = match renew(&writer, &client, lease(&place, Timestamp(now))).await {
            Ok(()) => RENEW,
            // It was said.
            Err(_) => RENEW_AGAIN,
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep_until(Some(now + wait)) => {}
        }
    }
}

fn lease((node, namespace): &(String, String), now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": agent_lease(node),
            "namespace": namespace,
            "annotations": {
                ANNOTATION_VERSION: env!("CARGO_PKG_VERSION"),
                ANNOTATION_CAPABILITIES: CAPABILITIES,
            },
        },
        "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE.as_secs(), "renewTime": now.micro()},
    })
}
