//! `lifesign controllers`: the controllers as a process of their own, one leader among several.

mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use controllers::leading::{Ended, Place, lead};
use controllers::{ControllersConfig, endpointslices};
use machine::Rng;
use prometheus_client::registry::Registry;
use runtime::{Client, Clock, Informers};
use tokio_util::sync::CancellationToken;

use crate::config::{OWN_VERSION, api_version, connect};
use crate::error::Failure;
use crate::logging::LogArgs;
use crate::metrics::{Ready, Serving};
use crate::profile::{ProfilesMode, RolloutArgs};
use crate::{block_on, signals};
use webhook::Webhook;

/// Run the controllers against an API
///
/// Several may run; one of them leads and works, another takes over when it is gone. On a Lifesign API all controllers run.
/// On a Kubernetes cluster only what the cluster does not have itself: pod probe markers, the guard of moved readiness probes, and
/// EndpointSlices and latency profiles if asked for.
#[derive(Args)]
pub(crate) struct ControllersArgs {
    /// Credentials; `lifesign kubeconfig --role controllers` prints those of a plane [default: those of the pod that this runs in]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Where the controllers and the agents of a cluster run: their Leases and the certificates of the webhook are there
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Serve the admission webhook there, over TLS, with certificates from the Secret lifesign-webhook
    #[arg(long, value_name = "ADDR:PORT", requires = "namespace")]
    webhook: Option<std::net::SocketAddr>,
    /// Run the controller of pod probe markers
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    marker_controller: bool,
    #[command(flatten)]
    slices: SliceArgs,
    #[command(flatten)]
    profile: RolloutArgs,
    /// What to do about latency profiles on a Kubernetes cluster; on a Lifesign API they are always rolled out
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ProfilesMode::Off)]
    latency_profiles: ProfilesMode,
    /// Write EndpointSlices on a Kubernetes cluster; its own controller must be off (--controllers=*,-endpointslice-controller)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    endpointslice_controller: Option<bool>,
    /// Start although another controller wrote EndpointSlices within the last minute
    #[arg(long)]
    force: bool,
    /// Where /metrics, /healthz and /readyz are served, over plain HTTP; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    metrics_addr: std::net::SocketAddr,
    /// Switch features on or off, for example EndpointSliceTerminatingCondition=false
    #[arg(long, value_name = "A=true,B=false", default_value = "", env = "LIFESIGN_FEATURE_GATES")]
    feature_gates: api::FeatureGates,
    /// Where the lease of the leader is [default: that of --namespace, else kube-system]
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// The name of the lease of the leader
    #[arg(long, value_name = "NAME", default_value = "lifesign-controllers")]
    leader_elect_resource_name: String,
    #[command(flatten)]
    log: LogArgs,
}

/// How EndpointSlices are written.
#[derive(Args, Clone)]
pub(crate) struct SliceArgs {
    /// How many Services are synced at a time, 1 to 50
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_service_endpoint_syncs: u64,
    /// How many endpoints an EndpointSlice takes, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_endpoints_per_slice: u64,
    /// How long changes of pods are collected before EndpointSlices are written
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    endpointslice_updates_batch_period: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    api::duration::parse(text).map_err(|error| error.to_string())
}

impl SliceArgs {
    /// Returns the configuration of the EndpointSlice controller.
    pub(crate) fn config(&self, gates: &api::FeatureGates) -> Result<endpoints::Config, Failure> {
        let syncs = self.concurrent_service_endpoint_syncs;
        let batch = self.endpointslice_updates_batch_period;
        endpoints::Config::new(gates, self.max_endpoints_per_slice, syncs, batch).map_err(Failure::usage)
    }
}

impl ControllersArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.log.start("info");
        block_on(self.controllers())
    }

    async fn controllers(self) -> Result<(), Failure> {
        let stop = signals::stop_on_signal()?;
        let slices = self.slices.config(&self.feature_gates)?;
        let hint = "print one with `lifesign kubeconfig --role controllers`";
        let config = connect(self.kubeconfig.as_deref(), "lifesign-controllers", hint).await?;
        let address = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(Failure::usage)?;
        let version = api_version(&client, &address).await?;
        let own = version.contains(OWN_VERSION);
        let clock = crate::config::clock();
        let slices = if self.endpointslice_controller.unwrap_or(own) {
            self.refuse_competitor(&client, &clock).await?;
            Some(slices)
        } else {
            None
        };
        let mut registry = Registry::default();
        let metrics = controllers::Metrics::register(&mut registry);
        let webhook = match (self.webhook, &self.namespace) {
            (Some(address), Some(namespace)) => {
                Some(Webhook::start(address, namespace, &client, &clock, &mut registry, &stop).await?)
            }
            _ => None,
        };
        let ready = webhook.as_ref().map_or_else(|| Arc::new(|| true) as Ready, Webhook::ready);
        let mut serving = Serving::start(self.metrics_addr, registry, ready).await?;
        let (options, mode) = (self.profile.options(), self.latency_profiles);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        // Who insists is not stopped by what he knows.
        let watch_competitor = slices.is_some() && !self.force;
        let (work_clock, work_host) = (clock.clone(), host.clone());
        let elect_in = self.leader_elect_resource_namespace.clone().or_else(|| self.namespace.clone());
        let elect_in = elect_in.unwrap_or_else(|| "kube-system".to_owned());
        let agents = self.namespace.clone().unwrap_or_else(|| elect_in.clone());
        let workloads = own.then(|| self.feature_gates.clone());
        let config = move |client: Client| ControllersConfig {
            informers: informers(&client, &metrics.api, watch_competitor),
            client,
            clock: work_clock,
            host: work_host,
            endpointslices: slices,
            scheduler: own,
            node_lifecycle: own
                .then(|| nodes::monitor::Config { grace: options.default_grace, ..nodes::monitor::Config::default() }),
            profile: (own || mode != ProfilesMode::Off).then_some(controllers::profile::Config {
                options,
                tolerations: None,
                apply: own || mode == ProfilesMode::Apply,
            }),
            markers: self.marker_controller,
            guard: (!own).then_some(agents),
            workloads,
            metrics,
            on_ready: None,
        };
        let mut rng = Rng::new(crate::apiserver::random_seed()?);
        let identity = format!("{host}_{:016x}", rng.next_u64());
        let place = Place { namespace: elect_in, name: self.leader_elect_resource_name };
        let settings = leader::Settings::new(&identity);
        eprintln!("waiting to lead on Kubernetes {version} as {identity}; metrics on http://{}/metrics", serving.address());
        let certificates = webhook.as_ref().map(Webhook::certificates);
        let work = |client: Client, stop: CancellationToken| {
            eprintln!("leading");
            let certificates = certificates.map(|keep| keep(client.clone(), stop.clone()));
            async move {
                let keeping = async {
                    if let Some(certificates) = certificates {
                        certificates.await;
                    }
                    std::future::pending().await
                };
                tokio::select! {
                    ended = controllers::run(config(client), stop) => ended,
                    never = keeping => never,
                }
            }
        };
        let mut leading = std::pin::pin!(lead(client, clock, place, settings, rng, stop.clone(), work));
        let outcome = tokio::select! {
            outcome = &mut leading => outcome,
            failure = serving.ended() => {
                stop.cancel();
                leading.await;
                return Err(failure);
            }
        };
        match outcome {
            (Ended::Lost, _) => Err(Failure::no("leadership was lost: the API could not be reached in time")
                .hint("start again; another instance may lead by now")),
            (Ended::Stopped, Some(Err(error))) => Err(Failure::bug(error)),
            (Ended::Stopped, _) => Ok(()),
        }
    }

    /// Two controllers that write the same slices would undo each other's work for ever.
    async fn refuse_competitor(&self, client: &Client, clock: &Clock) -> Result<(), Failure> {
        let competitor = endpointslices::competitor(client, clock.now())
            .await
            .map_err(|error| Failure::unreachable(format!("EndpointSlices cannot be listed: {error}")))?;
        match competitor {
            Some(slice) if !self.force => Err(Failure::no(format!(
                "kube-controller-manager wrote the EndpointSlice {slice} within the last minute: two controllers would fight"
            ))
            .hint("turn its controller off with --controllers=*,-endpointslice-controller, or use --force")),
            _ => Ok(()),
        }
    }
}

/// Returns what follows the API; with `watch_competitor` it keeps the text of slices, which shows who else writes them.
fn informers(client: &Client, metrics: &runtime::Metrics, watch_competitor: bool) -> Informers {
    let informers = Informers::new(client.clone(), metrics.clone());
    if watch_competitor { informers.with_text::<api::EndpointSlice>() } else { informers }
}
