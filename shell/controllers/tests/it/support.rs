//! A plane without an agent: an API server, the controllers, and ways to act and to wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::{FeatureGates, Kind};
use apiserver::{FileStore, MemoryStore, Parts, Server, Settings, Store, StoreError};
use controllers::{ControllersConfig, Metrics};
use http::Method;
use prometheus_client::registry::Registry;
use registry::authz::Identity;
use runtime::{Client, Clock, Informers, Obj, Scope, WatchEvent, watch};
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

/// A plane on a paused clock: what takes minutes takes no time, and happens in the same order every time.
pub(crate) struct Paused {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    server: Server,
    metrics: Registry,
    _running: Option<JoinHandle<Result<(), controllers::Error>>>,
}

impl Paused {
    /// Starts a server, and the controllers that `choose` switches on.
    pub(crate) async fn start(choose: impl FnOnce(&mut ControllersConfig)) -> Paused {
        let mut plane = Paused::without_controllers().await;
        plane.start_controllers(choose);
        plane
    }

    /// Starts a server alone.
    pub(crate) async fn without_controllers() -> Paused {
        let clock = Clock::starting_at(machine::Time::from_secs(1_700_000_000));
        let server = memory_server(clock.clone()).await;
        let client = Client::new(server.service(Identity::internal("test")));
        Paused { client, clock, server, metrics: Registry::default(), _running: None }
    }

    pub(crate) fn start_controllers(&mut self, choose: impl FnOnce(&mut ControllersConfig)) {
        let client = Client::new(self.server.service(Identity::internal("controllers")));
        let mut config = config(client, self.clock.clone(), &mut self.metrics);
        choose(&mut config);
        self._running = Some(tokio::spawn(controllers::run(config, CancellationToken::new())));
    }

    /// Returns the lines of a metric.
    pub(crate) fn metric(&self, name: &str) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics).unwrap();
        text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        runtime::request(&self.client, Method::POST, path, &object).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        runtime::request(&self.client, Method::PATCH, path, &patch).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        runtime::requests::get_opt(&self.client, path, PATIENCE).await.unwrap().unwrap_or_default()
    }

    /// Looks every second of the paused clock until an object is as it should be; returns it and how long that took.
    pub(crate) async fn until(&self, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> (Value, Duration) {
        let began = self.clock.now();
        loop {
            let object = self.get(path).await;
            let waited = self.clock.now().since(began);
            if holds(&object) {
                return (object, waited);
            }
            assert!(waited < Duration::from_secs(1800), "waited in vain until {what}: {object:#}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Registers a node that is ready and has no taint.
    pub(crate) async fn node(&self, name: &str) {
        self.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}}});
        self.patch(&format!("/api/v1/nodes/{name}/status"), status).await;
        self.patch(&format!("/api/v1/nodes/{name}"), json!({"spec": {"taints": null}})).await;
        let capable = json!({"lifesign.dev/capabilities": api::lease::CAPABILITY_HEARTBEAT_INTERVAL});
        let lease = json!({"metadata": {"name": name, "annotations": capable}, "spec": self.renewed(name, 40)});
        self.create("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease).await;
    }

    fn renewed(&self, name: &str, seconds: u64) -> Value {
        let now = api::Timestamp(self.clock.now()).micro();
        json!({"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": now})
    }

    /// Renews the Lease of a node that is held for so long.
    pub(crate) async fn beat(&self, name: &str, seconds: u64) {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
        self.patch(&path, json!({"spec": self.renewed(name, seconds)})).await;
    }

    /// Creates a pod that runs on a node.
    pub(crate) async fn pod(&self, name: &str, node: &str, tolerations: Value) {
        let spec = json!({"nodeName": node, "tolerations": tolerations, "containers": [{"name": "app", "image": "none"}]});
        let pod = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec});
        self.create("/api/v1/namespaces/default/pods", pod).await;
        let conditions = json!([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]);
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions});
        self.patch(&format!("/api/v1/namespaces/default/pods/{name}/status"), json!({"status": status})).await;
    }
}

/// Returns a configuration in which nothing runs.
fn config(client: Client, clock: Clock, registry: &mut Registry) -> ControllersConfig {
    let metrics = Metrics::register(registry);
    ControllersConfig {
        informers: Informers::new(client.clone(), metrics.api.clone()),
        client,
        clock,
        host: "here".to_owned(),
        endpointslices: None,
        scheduler: false,
        node_lifecycle: None,
        profile: None,
        markers: false,
        guard: None,
        workloads: None,
        metrics,
        on_ready: None,
    }
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
        let client = Client::new(server.service(Identity::internal("test")));
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
        let client = Client::new(self.server.service(Identity::internal("controllers")));
        let config = ControllersConfig {
            endpointslices: Some(endpoints::Config::new(gates, 100, 5, Duration::ZERO).unwrap()),
            scheduler: true,
            on_ready: Some(on_ready),
            ..config(client, Clock::system(), &mut registry)
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
        let mut events = watch::<T>(&self.client, Scope::default());
        let (mut known, mut synced) = (BTreeMap::new(), false);
        let wait = async {
            loop {
                match events.next().await {
                    WatchEvent::ListBegins => {}
                    WatchEvent::Applied(object) => drop(known.insert(object.view.metadata().name.clone(), object)),
                    WatchEvent::Deleted(object) => drop(known.remove(&object.view.metadata().name)),
                    WatchEvent::Synced => synced = true,
                }
                if synced && let Some(found) = check(&known) {
                    return found;
                }
            }
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
