//! `lifesign apiserver`: the embedded API server as a process of its own.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::FeatureGates;
use apiserver::{
    AgentDialer, Authority, FileStore, Parts, Published, Role, Server, Settings, StoreError, is_current, kubeconfig,
};
use clap::Args;
use futures::FutureExt;
use runtime::files::write_private;
use runtime::{Clock, Tasks};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{DataDir, server_file};
use crate::error::Failure;
use crate::logging::LogArgs;
use crate::{backup, block_on, signals};

/// Run the embedded Kubernetes API server
///
/// Durable, for one machine; kubectl and every client library work against it. The first line on stdout is
/// `ready https://ADDR:PORT` when it serves.
#[derive(Args)]
pub(crate) struct ApiserverArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    log: LogArgs,
    /// The range of service addresses [default: 127.96.0.0/24]
    #[arg(long, value_name = "CIDR", value_parser = cidr)]
    service_cluster_ip_range: Option<(Ipv4Addr, u8)>,
    /// Other components act on what is stored: a scheduler, controllers and kubelets of Kubernetes
    ///
    /// Then objects of kinds that nothing of this server acts on are stored, with a warning, and pods get the volume with
    /// the token of their service account.
    #[arg(long)]
    external_controllers: bool,
    /// Write all objects of the plane to this file and exit, whether a server runs or not
    ///
    /// Certificates and keys are not part of it. The file has the secrets of the plane in it: it is for its owner alone.
    #[arg(long, value_name = "FILE", conflicts_with = "restore")]
    backup: Option<PathBuf>,
    /// Make the data of a plane from this file and exit; the data directory must have none
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
}

/// Reads a range of addresses.
fn cidr(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let parts = text.split_once('/').and_then(|(address, bits)| Some((address.parse().ok()?, bits.parse().ok()?)));
    let (address, bits): (Ipv4Addr, u8) = parts.ok_or("must be ADDRESS/BITS, for example 10.96.0.0/16")?;
    if (8..=30).contains(&bits) { Ok((address, bits)) } else { Err("must have 8 to 30 bits of network".to_owned()) }
}

/// What every command that runs the API server takes.
#[derive(Args, Clone)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) data_dir: DataDir,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443", env = "LIFESIGN_LISTEN")]
    listen: SocketAddr,
    /// Also write the kubeconfig of the administrator to this file
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// Switch features on or off, for example SubSecondProbes=false
    #[arg(long, value_name = "A=true,B=false", default_value = "", env = "LIFESIGN_FEATURE_GATES")]
    pub(crate) feature_gates: FeatureGates,
}

/// A server that listens and is ready to run.
pub(crate) struct Listening {
    pub(crate) server: Server,
    pub(crate) url: String,
    listener: TcpListener,
    tls: std::sync::Arc<apiserver::TlsServerConfig>,
    renewal: Tasks<Failure>,
}

impl ServerArgs {
    /// Opens the store, makes certificates, and binds the port.
    pub(crate) async fn open(&self, clock: Clock, mut settings: Settings) -> Result<Listening, Failure> {
        let data_dir = self.data_dir.claim()?;
        let store = FileStore::open(&data_dir).map_err(store_failure)?;
        let authority = Authority::open(&data_dir).map_err(Failure::usage)?;
        let dialer = authority.client(&Role::Admin).map_err(Failure::bug)?;
        let listener = runtime::listen(self.listen).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another plane may be running there; choose another with --listen, port 0 picks a free one"
                }
                _ => "choose another with --listen, port 0 picks a free one",
            };
            Failure::usage(format!("cannot listen on {}: {error}", self.listen)).hint(hint)
        })?;
        let address = listener.local_addr().map_err(Failure::bug)?;
        settings.published = Some(Published { address: reachable(address), authority: authority.certificate().to_owned() });
        let first_service = settings.service_range().first();
        let server = Server::new(Parts {
            clock: clock.clone(),
            gates: self.feature_gates.clone(),
            store: Box::new(store),
            threaded: true,
            seed: random_seed()?,
            settings,
            token_file: Some(data_dir.join("tokens.csv")),
            signer: apiserver::Signer::open(&data_dir).map_err(Failure::usage)?,
            logs: Some(AgentDialer::new(&dialer).map_err(Failure::bug)?),
        })
        .map_err(store_failure)?;
        let url = format!("https://{}", reachable(address));
        self.write_files(&data_dir, &authority, &url)?;
        let (names, addresses) = (server_names(), server_addresses(address.ip(), first_service.into()));
        let ca = authority.certificate().to_owned();
        let make = move || authority.server(&names, &addresses);
        let shown = apiserver::ShownCertificate::new(&make().map_err(Failure::bug)?).map_err(Failure::bug)?;
        let tls = apiserver::tls_config(&ca, Arc::clone(&shown)).map_err(Failure::bug)?;
        let mut renewal = Tasks::default();
        renewal.spawn("certificate-renewal", apiserver::renew(shown, clock, make).map(Ok));
        Ok(Listening { server, url, listener, tls, renewal })
    }

    /// Writes the kubeconfig of the administrator, and where the server listens.
    fn write_files(&self, data_dir: &Path, authority: &Authority, url: &str) -> Result<(), Failure> {
        let write = |path: &Path, text: &str| {
            write_private(path, text.as_bytes()).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        };
        let own = data_dir.join("kubeconfig");
        // What is good is kept: on a full disk nothing could take its place.
        let before = std::fs::read_to_string(&own).ok().filter(|text| is_current(text, url, authority.certificate()));
        let text = match before {
            Some(text) => text,
            None => {
                let credentials = authority.client(&Role::Admin).map_err(Failure::bug)?;
                kubeconfig(url, authority.certificate(), &Role::Admin.user(), &credentials)
            }
        };
        for path in std::iter::once(&own).chain(&self.write_kubeconfig) {
            write(path, &text)?;
        }
        write(&server_file(data_dir), url)
    }
}

impl Listening {
    /// Serves until told to stop; says so on stdout when it is ready. `before_ready` runs first.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), Failure> {
        let failed = self.server.clone();
        let serving = apiserver::serve(self.server, self.listener, self.tls, stop);
        tokio::select! {
            served = serving => served.map_err(Failure::bug),
            ended = self.renewal.ended() => Err(Failure::bug(ended)),
            why = failed.failure() => Err(Failure::bug(why).hint("the disk may be full or broken; nothing that was acknowledged is lost")),
        }
    }
}

/// Says on stdout that the server is ready; a reader that is gone is no error.
pub(crate) fn say_ready(url: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "ready {url}");
    let _ = out.flush();
}

impl ApiserverArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(file) = &self.backup {
            return block_on(backup::backup(&self.server.data_dir, file));
        }
        if let Some(file) = &self.restore {
            return backup::restore(&self.server.data_dir, file);
        }
        self.log.start("info");
        block_on(async {
            let stop = signals::stop_on_signal()?;
            let mut settings = Settings::default();
            settings.service_cidr = self.service_cluster_ip_range.unwrap_or(settings.service_cidr);
            settings.external_controllers = self.external_controllers;
            // Where others run the pods, these have addresses of their own.
            settings.allow_loopback_endpoints = !self.external_controllers;
            let listening = self.server.open(Clock::system(), settings).await?;
            listening.server.start(&builtin_definitions()?, stop.clone()).await.map_err(Failure::bug)?;
            say_ready(&listening.url);
            listening.run(stop).await
        })
    }
}

/// Returns the CustomResourceDefinitions that every plane has.
pub(crate) fn builtin_definitions() -> Result<Vec<serde_json::Value>, Failure> {
    let parse = |text: &&str| {
        serde_saphyr::from_str(text).map_err(|error| Failure::bug(format!("a built-in definition does not parse: {error}")))
    };
    api::crds::ALL.iter().map(parse).collect()
}

fn store_failure(error: StoreError) -> Failure {
    Failure::usage(error)
}

/// Returns randomness of the operating system.
pub(crate) fn random_seed() -> Result<u64, Failure> {
    runtime::random_seed().map_err(|error| Failure::bug(format!("no randomness from the system: {error}")))
}

fn server_names() -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
    let mut names: Vec<String> = std::iter::once("localhost").chain(service).map(str::to_owned).collect();
    if !host.is_empty() && host != "localhost" {
        names.push(host);
    }
    names
}

/// Returns the addresses of the server: those of this machine, the bound one, and that of its Service.
fn server_addresses(bound: IpAddr, service: IpAddr) -> Vec<IpAddr> {
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)];
    for address in [bound, service] {
        if !address.is_unspecified() && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Returns the address by which a client on this machine reaches the server.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}
