//! A server over TLS that can be stopped or killed, and comes back at the same address with the same data.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use api::FeatureGates;
use apiserver::{Authority, Credentials, FileStore, Parts, Role, Server, Settings, Store, StoreError, kubeconfig, tls_config};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use registry::authz::Identity;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What has not happened by then never will.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a server that keeps nothing, and a client in the same process.
pub(crate) async fn in_process() -> (Server, Client) {
    let (server, client) = not_started();
    server.start(&[], CancellationToken::new()).await.unwrap();
    (server, client)
}

/// Returns the same before its own controllers run.
pub(crate) fn not_started() -> (Server, Client) {
    let server = open(Box::new(apiserver::MemoryStore), false, Settings::default());
    let client = Client::new(server.service(Identity::internal("test")), "default");
    (server, client)
}

fn open(store: Box<dyn Store>, threaded: bool, settings: Settings) -> Server {
    let parts = Parts {
        clock: runtime::Clock::system(),
        gates: FeatureGates::default(),
        store,
        threaded,
        seed: 11,
        settings,
        token_file: None,
        signer: apiserver::Signer::ephemeral(),
        logs: None,
    };
    Server::new(parts).unwrap()
}

/// A server over TLS.
pub(crate) struct Plane {
    folder: TempDir,
    authority: Authority,
    /// Held all the time, so that nobody else gets the port between two lives.
    listener: TcpListener,
    address: SocketAddr,
    /// Whether components beside the server act on what it stores.
    external_controllers: bool,
    /// What it may speak; empty: all that it can.
    protocol: &'static [u8],
    life: Option<Life>,
}

/// One life of the server: a runtime of its own, so that all of it can end at once.
struct Life {
    runtime: Runtime,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Plane {
    pub(crate) fn start() -> Plane {
        Plane::new(false, b"")
    }

    pub(crate) fn with_external_controllers() -> Plane {
        Plane::new(true, b"")
    }

    /// Starts a server that speaks nothing else.
    pub(crate) fn speaking(protocol: &'static [u8]) -> Plane {
        Plane::new(false, protocol)
    }

    fn new(external_controllers: bool, protocol: &'static [u8]) -> Plane {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(folder.path()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut plane = Plane { folder, authority, listener, address, external_controllers, protocol, life: None };
        plane.live();
        plane
    }

    fn live(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let credentials = self.authority.server(&["localhost".into()], &[self.address.ip()]).unwrap();
        let shown = apiserver::ShownCertificate::new(&credentials).unwrap();
        let mut tls = tls_config(self.authority.certificate(), shown).unwrap();
        if !self.protocol.is_empty() {
            std::sync::Arc::make_mut(&mut tls).alpn_protocols = vec![self.protocol.to_vec()];
        }
        let listener = self.listener.try_clone().unwrap();
        let store = open_when_free(self.folder.path());
        let stop = CancellationToken::new();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let token = stop.clone();
        let settings = Settings { external_controllers: self.external_controllers, ..Settings::default() };
        let serving = runtime.spawn(async move {
            let server = open(Box::new(store), true, settings);
            let definitions: Vec<_> = api::crds::ALL.iter().map(|text| serde_saphyr::from_str(text).unwrap()).collect();
            server.start(&definitions, token.clone()).await.unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            ready.send(()).unwrap();
            apiserver::serve(server, listener, tls, token).await.unwrap();
        });
        is_ready.recv_timeout(PATIENCE).expect("the server starts");
        self.life = Some(Life { runtime, stop, serving });
    }

    /// Stops the server, cleanly or with everything it was doing, and starts it again.
    pub(crate) fn restart(&mut self, kill: bool) {
        let Life { runtime, stop, serving } = self.life.take().expect("the server lives");
        if !kill {
            stop.cancel();
            runtime.block_on(async { tokio::time::timeout(PATIENCE, serving).await }).expect("it ends in time").unwrap();
        }
        runtime.shutdown_background();
        self.live();
    }

    /// Returns where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the certificate of its authority, PEM.
    pub(crate) fn authority(&self) -> &str {
        self.authority.certificate()
    }

    /// Returns the credentials of a role.
    pub(crate) fn credentials(&self, role: &Role) -> Credentials {
        self.authority.client(role).unwrap()
    }

    /// Returns a client of the administrator.
    pub(crate) async fn client(&self) -> Client {
        let credentials = self.credentials(&Role::Admin);
        let url = format!("https://{}", self.address);
        let text = kubeconfig(&url, self.authority.certificate(), "admin", &credentials);
        let config = Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(life) = self.life.take() {
            life.runtime.shutdown_background();
        }
    }
}

/// The writer of the life before lets go of the file when its last user is gone.
fn open_when_free(path: &Path) -> FileStore {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match FileStore::open(path) {
            Err(StoreError::Locked(_)) if std::time::Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}
