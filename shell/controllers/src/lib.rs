//! The controllers of a plane: what is watched goes into a core, what the core decides is written.
//!
//! Nothing here decides about health: a controller is a loop around a core. Controllers know a Kubernetes API and never
//! which one. They share nothing but the client, the clock and the order to stop; one that ends unasked ends them all,
//! because a plane with half of its controllers only looks alive.

mod context;
pub mod endpointslices;
pub mod guard;
pub mod leading;
pub mod markers;
pub mod node_lifecycle;
pub mod profile;
pub mod scheduler;
pub mod workloads;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use futures::FutureExt;
use prometheus_client::registry::Registry;
use runtime::{Client, Clock, EventWriter, Informers, Tasks, Writer};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use context::Context;

/// Whom managedFields name, with the controller behind it.
const MANAGER: &str = "lifesign";
/// Controllers end within moments of being told; what has not by then is dropped.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What the controllers need.
pub struct ControllersConfig {
    /// The API that they work on.
    pub client: Client,
    /// What follows that API.
    pub informers: Informers,
    /// The clock.
    pub clock: Clock,
    /// The name of this machine, for events.
    pub host: String,
    /// What the EndpointSlice controller does; `None`: it does not run (a cluster has its own).
    pub endpointslices: Option<endpoints::Config>,
    /// Whether pods are assigned to nodes; not on a cluster, which has a scheduler.
    pub scheduler: bool,
    /// How nodes are judged; `None`: the node lifecycle controller does not run (a cluster has its own).
    pub node_lifecycle: Option<nodes::monitor::Config>,
    /// How latency profiles are rolled out; `None`: they are not. Without the node lifecycle controller beside it this is a stock
    /// cluster, whose components are changed by agents.
    pub profile: Option<profile::Config>,
    /// Whether PodProbeMarkers are turned into NodePodProbes and marks; not beside a kruise-manager that does the same.
    pub markers: bool,
    /// The namespace of the agents whose moved readiness probes are guarded; `None`: there are none, as standalone.
    pub guard: Option<String>,
    /// The gates under which templates are compared; `None`: ReplicaSets, Deployments and PodDisruptionBudgets are somebody
    /// else's business, as on a cluster.
    pub workloads: Option<api::FeatureGates>,
    /// Where measurements go; see [`Metrics::register`].
    pub metrics: Metrics,
    /// Told once when every controller has seen everything.
    pub on_ready: Option<oneshot::Sender<()>>,
}

/// The metrics of all controllers.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Those of the traffic with the API.
    pub api: runtime::Metrics,
    /// Those of the EndpointSlice controller.
    pub endpointslices: endpointslices::Metrics,
    /// Those of the node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Metrics,
    /// Those of latency profiles.
    pub profile: profile::Metrics,
    /// Those of the marker controller.
    pub markers: markers::Metrics,
    /// Those of the guard of moved probes.
    pub guard: guard::Metrics,
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        Metrics {
            api: runtime::Metrics::register(registry),
            endpointslices: endpointslices::Metrics::register(registry),
            node_lifecycle: node_lifecycle::Metrics::register(registry),
            profile: profile::Metrics::register(registry),
            markers: markers::Metrics::register(registry),
            guard: guard::Metrics::register(registry),
        }
    }
}

/// Why the controllers ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One of them ended without being told to.
    #[error("{0}")]
    Ended(runtime::Ended<Infallible>),
    /// What they are told by died.
    #[error("{0}")]
    Informer(String),
}

/// Runs all controllers until told to stop.
pub async fn run(config: ControllersConfig, stop: CancellationToken) -> Result<(), Error> {
    let ControllersConfig {
        client,
        informers,
        clock,
        host,
        endpointslices,
        scheduler,
        node_lifecycle,
        profile,
        markers,
        guard,
        workloads,
        metrics,
        on_ready,
    } = config;
    let mut controllers = ControllerSet {
        client,
        informers,
        metrics: metrics.api,
        clock,
        host,
        stop: stop.child_token(),
        tasks: Tasks::default(),
        synced: Vec::new(),
    };
    if let Some(config) = endpointslices {
        controllers.start("endpoint-slice-controller", |context| endpointslices::run(context, config, metrics.endpointslices));
    }
    if scheduler {
        controllers.start("default-scheduler", scheduler::run);
    }
    let stock = node_lifecycle.is_none();
    if let Some(config) = profile.clone().filter(|_| stock) {
        controllers.start("latency-profile-controller", |context| profile::run(context, config, None, metrics.profile.clone()));
    }
    if let Some(config) = node_lifecycle {
        let (sender, grace) = watch::channel(config.grace);
        let options = profile.as_ref().map(|profile| profile.options);
        let per_node = options.filter(|options| options.per_node).map(|options| options.default_grace);
        controllers
            .start("node-controller", |context| node_lifecycle::run(context, config, per_node, sender, metrics.node_lifecycle));
        if let Some(config) = profile {
            controllers
                .start("latency-profile-controller", |context| profile::run(context, config, Some(grace), metrics.profile));
        }
    }
    if markers {
        controllers.start("pod-probe-marker-controller", |context| markers::run(context, metrics.markers));
    }
    if let Some(namespace) = guard {
        controllers.start("moved-probe-guard", |context| guard::run(context, namespace, metrics.guard));
    }
    if let Some(gates) = workloads {
        controllers.start("replicaset-controller", workloads::replica_sets);
        controllers.start("deployment-controller", |context| workloads::deployments(context, gates));
        controllers.start("controllermanager", workloads::budgets);
    }
    // A further controller is one more `controllers.start` here.
    controllers.wait(on_ready).await
}

/// The controllers that run.
struct ControllerSet {
    client: Client,
    informers: Informers,
    metrics: runtime::Metrics,
    clock: Clock,
    host: String,
    stop: CancellationToken,
    tasks: Tasks<Infallible>,
    synced: Vec<oneshot::Receiver<()>>,
}

impl ControllerSet {
    /// Starts a controller; `component` is who its events come from.
    fn start<F: Future<Output = ()> + Send + 'static>(&mut self, component: &'static str, run: impl FnOnce(Context) -> F) {
        let (sender, synced) = oneshot::channel();
        self.synced.push(synced);
        let (client, clock) = (self.client.clone(), self.clock.clone());
        let writer = Writer::new(client.clone(), clock.clone(), &format!("{MANAGER}-{component}"), self.metrics.clone());
        let events = EventWriter::start(writer.clone(), clock.clone(), component, &self.host);
        let (informers, stop) = (self.informers.clone(), self.stop.clone());
        let context = Context { client, informers, writer, clock, events, stop, synced: Some(sender) };
        self.tasks.spawn(component, run(context).map(Ok));
    }

    async fn wait(mut self, on_ready: Option<oneshot::Sender<()>>) -> Result<(), Error> {
        let mut synced = std::pin::pin!(tell_synced(std::mem::take(&mut self.synced), on_ready));
        let ended = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            ended = self.tasks.ended() => Err(Error::Ended(ended)),
            why = self.informers.failed() => Err(Error::Informer(why)),
            never = &mut synced => match never {},
        };
        self.stop.cancel();
        self.tasks.finish(END_WITHIN).await;
        ended
    }
}

/// Tells when every controller has seen everything once; never ends.
async fn tell_synced(synced: Vec<oneshot::Receiver<()>>, on_ready: Option<oneshot::Sender<()>>) -> Infallible {
    let all = futures::future::join_all(synced).await;
    if let Some(tell) = on_ready
        && all.iter().all(Result::is_ok)
    {
        // Whoever asked may have lost interest.
        let _ = tell.send(());
    }
    std::future::pending().await
}
