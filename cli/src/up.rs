//! `lifesign up`: the whole plane in one process.

mod node;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::ui::{Page, Shared, Source};
use agent::{AgentConfig, AgentReady, AgentTls, OnStop};
use apiserver::{Authority, Server, Settings};
use clap::Args;
use controllers::ControllersConfig;
use controllers::profile::TolerationsInUse;
use futures::{FutureExt, TryFutureExt};
use processes::addresses::{Cidr, Claim, ClaimError, SERVICE_RANGE};
use prometheus_client::registry::Registry;
use proxy::Connections;
use proxy::drain::Drains;
use registry::authz::Identity;
use runtime::{Client, Clock, EventWriter, Informers, Writer, chain};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::apiserver::{ServerArgs, builtin_definitions, say_ready};
use crate::ask::Asker;
use crate::config::read_kubeconfig;
use crate::controllers::SliceArgs;
use crate::error::Failure;
use crate::logging::LogArgs;
use crate::manifests::{self, Manifest};
use crate::parts::Parts;
use crate::profile::RolloutArgs;
use crate::progress::Progress;
use crate::{block_on, signals, ui};

pub(crate) use node::NodeArgs;

/// How long the other parts get to stop after the agent has drained.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Run the whole plane: API server, controllers and a node agent
///
/// No cluster, no root: pods are local processes, and kubectl works. Ctrl-C stops the pods within their grace and keeps
/// everything else; the next `up` on the same data directory continues. The first line on stdout is
/// `ready https://ADDR:PORT` when it serves.
#[derive(Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Apply these manifests: files, folders, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    filenames: Vec<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
    /// The range of service addresses, out of 127.96.0.0/13 [default: a free /24]
    #[arg(long, value_name = "CIDR", value_parser = Cidr::loopback)]
    service_cluster_ip_range: Option<Cidr>,
    #[command(flatten)]
    profile: RolloutArgs,
    /// Ask for this latency profile; on a new plane its node begins with it
    #[arg(long, value_name = "PROFILE", value_parser = crate::profile::profile)]
    worker_latency_profile: Option<profiles::Profile>,
    #[command(flatten)]
    slices: SliceArgs,
    /// Where the live page is served: a loopback address; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    ui_listen: std::net::SocketAddr,
    /// Serve no live page
    #[arg(long)]
    no_ui: bool,
    #[command(flatten)]
    log: LogArgs,
}

impl UpArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.log.start("warn");
        // Unreadable manifests are found before anything is started.
        let manifests = manifests::read(&self.filenames)?;
        self.slices.config(&self.server.feature_gates)?;
        block_on(self.plane(manifests))
    }

    async fn plane(self, manifests: Vec<Manifest>) -> Result<(), Failure> {
        let progress = Progress::default();
        let (first, second) = (progress.clone(), progress.clone());
        let stop = signals::stop_and_say(move || stopping(first.stopping()), move || still_running(&second.running()))?;
        let clock = crate::config::clock();
        let data_dir = self.server.data_dir.claim()?;
        let services = ServiceRange::claim(&data_dir, self.service_cluster_ip_range)?;
        let mut registry = Registry::default();
        let metrics = controllers::Metrics::register(&mut registry);
        let api_metrics = metrics.api.clone();
        let proxy_metrics = proxy::Metrics::register(&mut registry);
        let further_metrics = Some(Arc::new(registry));
        let settings = Settings { service_cidr: services.claim.cidr().parts(), further_metrics, ..Settings::default() };
        let tolerations = Arc::clone(&settings.tolerations);
        let listening = self.server.open(clock.clone(), settings).await?;
        let server = listening.server.clone();
        let url = listening.url.clone();
        let mut parts = Parts::default();
        // The API server is started first and stops last, so that what the others have to say is still heard.
        let serve_stop = CancellationToken::new();
        server.start(&builtin_definitions()?, serve_stop.clone()).await.map_err(Failure::bug)?;
        services.settle(&server).await?;
        parts.start("api-server", serve_stop.clone(), Some(STOP_TIMEOUT), listening.run(serve_stop));

        let admin = client(&server, "lifesign-up");
        let parts_stop = CancellationToken::new();
        // One process, one informer for each kind.
        let informers = Informers::whole::<api::Pod>(client(&server, "lifesign-informers"), api_metrics.clone());
        let warnings = client(&server, "lifesign-progress");
        let progress = progress.watch(informers.clone(), warnings, clock.clone(), parts_stop.clone()).map(Ok);
        parts.start("progress", parts_stop.clone(), Some(STOP_TIMEOUT), progress);
        let drains = Drains::default();
        let connections = Connections::default();
        let metrics_of_proxy = (&informers, &api_metrics, proxy_metrics);
        let proxy = self.proxy(&server, &clock, metrics_of_proxy, drains.clone(), connections.clone(), parts_stop.clone())?;
        let proxy = proxy.map(Ok);
        parts.start("service-proxy", parts_stop.clone(), Some(STOP_TIMEOUT), proxy);
        let in_use: TolerationsInUse = Arc::new(move || tolerations.get());
        let controllers = self.controllers(&server, &clock, &informers, metrics, in_use)?;
        let controllers = controllers::run(controllers, parts_stop.clone()).map_err(Failure::bug);
        parts.start("controllers", parts_stop, Some(STOP_TIMEOUT), controllers);
        let page = self.page(&server, &clock, &informers, &data_dir, connections).await?;
        let page_url = page.as_ref().map(|(page, ..)| page.url());
        if let Some((page, source, shared)) = page {
            let page_stop = CancellationToken::new();
            let serving = ui::run_in_plane(page, source, shared, page_stop.clone());
            parts.start("page", page_stop, Some(STOP_TIMEOUT), serving);
        }
        if let Some(profile) = self.worker_latency_profile {
            crate::profile::ask_at_start(&admin, profile).await?;
        }
        let (mut agent, ready) = self.agent(&server, &clock, &data_dir, drains)?;
        (agent.informers, agent.metrics) = (informers, api_metrics);
        let agent_stop = stop.child_token();
        let agent = agent::run(agent, agent_stop.clone()).map_err(|error| Failure::usage(chain(&error)));
        parts.start("agent", agent_stop, None, agent);

        let node = self.node.name()?;
        let ended = parts
            .run(&stop, async {
                // An agent that cannot start ends, and says why; the sender is gone then.
                if ready.await.is_ok() {
                    say_ready(&url);
                    eprint!("{}", banner(&node, &data_dir.join("kubeconfig"), page_url.as_deref()));
                    apply_all(&admin, &manifests).await;
                }
            })
            .await;
        if ended.is_ok() {
            eprintln!("stopped; all objects are kept, and the next `lifesign up` goes on with them");
        }
        ended
    }

    /// Returns what the controllers are told: everything that a plane of its own needs.
    fn controllers(
        &self,
        server: &Server,
        clock: &Clock,
        informers: &Informers,
        metrics: controllers::Metrics,
        tolerations: TolerationsInUse,
    ) -> Result<ControllersConfig, Failure> {
        let options = self.profile.options();
        Ok(ControllersConfig {
            client: client(server, "lifesign-controllers"),
            informers: informers.clone(),
            clock: clock.clone(),
            host: self.node.name()?,
            endpointslices: Some(self.slices.config(&self.server.feature_gates)?),
            scheduler: true,
            node_lifecycle: Some(nodes::monitor::Config { grace: options.default_grace, ..nodes::monitor::Config::default() }),
            profile: Some(controllers::profile::Config { options, tolerations: Some(tolerations), apply: true }),
            markers: true,
            guard: None,
            workloads: Some(self.server.feature_gates.clone()),
            metrics,
            on_ready: None,
        })
    }

    /// Returns the service proxy of the node.
    fn proxy(
        &self,
        server: &Server,
        clock: &Clock,
        (informers, metrics, proxy_metrics): (&Informers, &runtime::Metrics, proxy::Metrics),
        drains: Drains,
        connections: Connections,
        stop: CancellationToken,
    ) -> Result<impl Future<Output = ()> + use<>, Failure> {
        let (client, node) = (client(server, "lifesign-proxy"), self.node.name()?);
        let writer = Writer::new(client, clock.clone(), "lifesign-service-proxy", metrics.clone());
        let events = EventWriter::start(writer.clone(), clock.clone(), "service-proxy", &node);
        let measured = proxy::Measured { connections, metrics: proxy_metrics, clock: clock.clone() };
        Ok(proxy::run(writer, informers.clone(), node, events, drains, measured, stop))
    }

    /// Returns the live page, if there is to be one: it listens, and shows what the informers of the process see.
    async fn page(
        &self,
        server: &Server,
        clock: &Clock,
        informers: &Informers,
        data_dir: &Path,
        connections: Connections,
    ) -> Result<Option<(Page, Source, Shared)>, Failure> {
        if self.no_ui {
            return Ok(None);
        }
        // Agents and `why` are asked as the administrator of the plane.
        let config = read_kubeconfig(&data_dir.join("kubeconfig"), "lifesign-ui", "the plane writes it").await?;
        let shared = Shared::new(clock.clone());
        let page = ui::open(self.ui_listen, &config, &shared).await?;
        let asker = Arc::new(Asker::new(config).map_err(Failure::bug)?);
        let source = Source {
            client: client(server, "lifesign-ui"),
            informers: informers.clone(),
            ask_agent: ui::agents(asker),
            connections: Some(Arc::new(move || connections.counts())),
            agents: Vec::new(),
            default_grace: Some(self.profile.options().default_grace),
        };
        Ok(Some((page, source, shared)))
    }

    /// Returns what the agent is told, and who is told when it is ready.
    fn agent(
        &self,
        server: &Server,
        clock: &Clock,
        data_dir: &Path,
        drains: Drains,
    ) -> Result<(AgentConfig, oneshot::Receiver<AgentReady>), Failure> {
        let authority = Authority::open(data_dir).map_err(Failure::usage)?;
        let mut config =
            self.node.config(client(server, "lifesign-agent"), clock.clone(), data_dir, &self.server.feature_gates)?;
        config.on_stop = OnStop::Drain;
        config.drains = Some(drains);
        // Its endpoint can be asked like the API itself: same authority, same credentials.
        let own = authority.server(&["localhost".to_owned()], &[self.node.agent_listen.ip()]).map_err(Failure::bug)?;
        config.tls = AgentTls { client_ca: authority.certificate().to_owned(), certificate: Some((own.certificate, own.key)) };
        let (on_ready, ready) = oneshot::channel();
        config.on_ready = Some(on_ready);
        Ok((config, ready))
    }
}

/// Returns what a plane says when it is ready: where things are, and one command to paste.
fn banner(node: &str, kubeconfig: &Path, page: Option<&str>) -> String {
    let kubeconfig = kubeconfig.display();
    let page = page.map(|url| format!("page {url}\n")).unwrap_or_default();
    format!("kubeconfig {kubeconfig}\nnode {node}\n{page}try kubectl --kubeconfig {kubeconfig} get pods -A -w\nstop Ctrl-C\n")
}

/// Returns the words for a first signal.
fn stopping(pods: usize) -> String {
    match pods {
        0 => "stopping; once more to stop at once".to_owned(),
        1 => "stopping: 1 pod ends within its grace; once more to stop at once".to_owned(),
        pods => format!("stopping: {pods} pods end within their grace; once more to stop at once"),
    }
}

/// Returns the words for a second signal: what goes on running without a plane.
fn still_running(pods: &[String]) -> Option<String> {
    const NAMED: usize = 5;
    let more = if pods.len() > NAMED { format!(" and {} more", pods.len() - NAMED) } else { String::new() };
    let names = pods.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    (!pods.is_empty()).then(|| {
        format!("stopped at once; {names}{more} may go on running: the next `lifesign up` takes them over and can stop them")
    })
}

/// Returns a client that speaks to the server in this process.
fn client(server: &Server, user: &str) -> Client {
    Client::new(server.service(Identity::internal(user)))
}

/// The claimed range of service addresses, and the one of the last time.
struct ServiceRange {
    claim: Claim,
    before: Option<Cidr>,
    path: PathBuf,
}

impl ServiceRange {
    /// Claims the range of the last time, so that addresses stay, or a free one if another plane has taken that meanwhile.
    fn claim(data_dir: &Path, wanted: Option<Cidr>) -> Result<ServiceRange, Failure> {
        let path = data_dir.join("service-cidr");
        let before: Option<Cidr> = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        let claim = match (wanted, before) {
            (Some(cidr), _) => Claim::of(cidr, |_| false),
            (None, None) => Claim::first_free(SERVICE_RANGE),
            (None, Some(cidr)) => match Claim::of(cidr, |_| false) {
                Err(ClaimError::InUse(_)) => Claim::first_free(SERVICE_RANGE),
                claim => claim,
            },
        }
        .map_err(|error| Failure::usage(chain(&error)).hint("choose another with --service-cluster-ip-range"))?;
        Ok(ServiceRange { claim, before, path })
    }

    /// Gives new addresses to the Services of a former range, then remembers the range. In this order: if it is cut short,
    /// the next start finds the rest.
    async fn settle(&self, server: &Server) -> Result<(), Failure> {
        let cidr = self.claim.cidr();
        let lost = |address| {
            let ours = SERVICE_RANGE.contains(address) || self.before.is_some_and(|before| before.contains(address));
            ours && !cidr.contains(address)
        };
        let moved = server.move_services(lost).await.map_err(Failure::bug)?;
        if let (Some(before), 1..) = (self.before, moved) {
            tracing::warn!(%before, now = %cidr, services = moved, "the range of service addresses was taken: new cluster IPs");
        }
        runtime::files::write_private(&self.path, cidr.to_string().as_bytes())
            .map_err(|error| Failure::usage(format!("{}: {error}", self.path.display())))
    }
}

/// Applies manifests in order; one that is refused does not keep the others from being applied.
async fn apply_all(client: &Client, manifests: &[Manifest]) {
    for manifest in manifests {
        let kind = api::json::text(&manifest.object, &["kind"]).to_lowercase();
        let name = api::json::text(&manifest.object, &["metadata", "name"]);
        match manifests::apply(client, manifest).await {
            Ok((what, warnings)) => {
                eprintln!("{kind}/{name} {what}");
                warnings.iter().for_each(|warning| eprintln!("warning: {kind}/{name}: {warning}"));
            }
            Err(failure) => drop(failure.report()),
        }
    }
}
