//! A plane without an agent: an API server, the controllers, and ways to act and to wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::{FeatureGates, Kind};
use apiserver::{FileStore, MemoryStore, Parts, Server, Settings, Store, StoreError};
use controllers::{ControllersConfig, Metrics};
use futures::StreamExt;
use http::Method;
use kube::Client;
use kube::runtime::watcher;
use prometheus_client::registry::Registry;
use registry::authz::Identity;
use runtime::{Clock, Obj, Seen, objects, watch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Whatever is waited for happens within milliseconds; this only ends a test that will fail.
const PATIENCE: Duration = Duration::from_secs(30);

async fn server(store: Box<dyn Store>, threaded: bool, gates: FeatureGates, clock: Clock, stop: &CancellationToken) -> Server {
    let parts = Parts {
        clock,
        gates,
        store,
        threaded,
        seed: 7,
        settings: Settings::default(),
        token_file: None,
        signer: apiserver::Signer::ephemeral(),
        logs: None,
    };
    let server = Server::new(parts).unwrap();
    let parse = |text: &&str| serde_saphyr::from_str(text).unwrap();
    let definitions: Vec<Value> = api::crds::ALL.iter().map(parse).collect();
    server.start(&definitions, stop.clone()).await.unwrap();
    server
}

/// Returns a server that keeps nothing and needs no thread, for tests on a paused clock.
pub(crate) async fn memory_server(clock: Clock) -> Server {
    server(Box::new(MemoryStore), false, FeatureGates::default(), clock, &CancellationToken::new()).await
}

/// An API server in this process.
pub(crate) struct Plane {
    pub(crate) client: Client,
    server: Server,
    stop: CancellationToken,
}

/// Controllers that run.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), controllers::Error>>,
    registry: Registry,
}

impl Plane {
    /// Starts a server that keeps nothing.
    pub(crate) async fn start() -> Plane {
        Plane::open(Box::new(MemoryStore), false, FeatureGates::default()).await
    }

    /// Starts a server on a directory, once the one before has let go of it.
    pub(crate) async fn on(directory: &Path, gates: FeatureGates) -> Plane {
        let opened = tokio::time::timeout(PATIENCE, async {
            loop {
                match FileStore::open(directory) {
                    // The file is free when the thread of the server before has ended, which nobody tells.
                    Err(StoreError::Locked(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                    opened => return opened.unwrap(),
                }
            }
        });
        Plane::open(Box::new(opened.await.expect("the server before lets go")), true, gates).await
    }

    async fn open(store: Box<dyn Store>, threaded: bool, gates: FeatureGates) -> Plane {
        let stop = CancellationToken::new();
        let server = server(store, threaded, gates, Clock::system(), &stop).await;
        let client = Client::new(server.service(Identity::internal("test")), "default");
        Plane { client, server, stop }
    }

    /// Ends the server.
    pub(crate) fn end(self) {
        self.server.stop();
        self.stop.cancel();
    }

    /// Runs the controllers with these gates; returns when they are ready.
    pub(crate) async fn run(&self, gates: &FeatureGates) -> Running {
        let mut registry = Registry::default();
        let (on_ready, ready) = oneshot::channel();
        let stop = CancellationToken::new();
        let config = ControllersConfig {
            client: Client::new(self.server.service(Identity::internal("controllers")), "default"),
            clock: Clock::system(),
            host: "here".to_owned(),
            endpointslices: Some(endpoints::Config::new(gates, 100, 5, Duration::ZERO).unwrap()),
            scheduler: true,
            node_lifecycle: None,
            profile: None,
            markers: false,
            metrics: Metrics::register(&mut registry),
            on_ready: Some(on_ready),
        };
        let task = tokio::spawn(controllers::run(config, stop.clone()));
        tokio::time::timeout(PATIENCE, ready).await.expect("ready in time").unwrap();
        Running { stop, task, registry }
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        runtime::request(&self.client, Method::POST, path, &object).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        runtime::request(&self.client, Method::PATCH, path, &patch).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) {
        runtime::request(&self.client, Method::DELETE, path, &options).await.unwrap();
    }

    /// Registers a node that is ready.
    pub(crate) async fn node(&self, name: &str, cpu: &str) {
        self.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
        let status = json!({"status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": cpu, "pods": "10"}, "allocatable": {"cpu": cpu, "pods": "10"},
        }});
        self.patch(&format!("/api/v1/nodes/{name}/status"), status).await;
        // New nodes are tainted until somebody has seen them ready.
        self.patch(&format!("/api/v1/nodes/{name}"), json!({"spec": {"taints": null}})).await;
    }

    /// Waits until the objects of a kind are as the check wants them, and returns what it found.
    pub(crate) async fn until<T, R>(&self, what: &str, mut check: impl FnMut(&BTreeMap<String, Obj<T>>) -> Option<R>) -> R
    where
        T: Kind + Clone + DeserializeOwned + Send + Sync + 'static,
    {
        let mut events = std::pin::pin!(watch(objects::<T>(&self.client, ""), watcher::Config::default()));
        let (mut known, mut synced) = (BTreeMap::new(), false);
        let wait = async {
            while let Some(event) = events.next().await {
                match event {
                    Seen::Applied(object) => drop(known.insert(object.metadata.name.clone().unwrap(), *object)),
                    Seen::Deleted(object) => drop(known.remove(&object.metadata.name.clone().unwrap())),
                    Seen::Synced => synced = true,
                }
                if synced && let Some(found) = check(&known) {
                    return found;
                }
            }
            panic!("the watch ended");
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!("waited in vain until {what}"),
        }
    }
}

impl Running {
    /// Stops the controllers and returns their metrics.
    pub(crate) async fn stop(self) -> String {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}
