//! An API server in this process, an agent against it, real pods. The server can go away and come back with its data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use agent::{AgentConfig, AgentReady, AgentTls, OnStop};
use api::Pod;
use apiserver::{AgentDialer, Authority, FileStore, Parts, Reply, Role, Server, Settings, StoreError};
use bytes::Bytes;
use http::{Method, Request};
use processes::addresses::Cidr;
use processes::procfs;
use processes::state::{StateDir, instances};
use registry::authz::Identity;
use runtime::{Client, Clock, Scope, WatchEvent, watch};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::PARTS;
use crate::support::shim;

/// Nothing here takes longer, unless it never happens.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const NODE: &str = "n1";

/// A server that may be away.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Option<Server>>>);

/// The way to it, as one identity.
#[derive(Clone)]
struct Way(Shared, Identity);

impl<B> tower::Service<Request<B>> for Way
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Reply;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Reply>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.0.0.lock().unwrap().clone();
        match server {
            None => Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) }),
            Some(server) => {
                let mut service = server.service(self.1.clone());
                Box::pin(async move { tower::Service::call(&mut service, request).await.map_err(|never| match never {}) })
            }
        }
    }
}

/// An API server, an agent, a directory.
pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) authority: Authority,
    pub(crate) ready: Option<AgentReady>,
    pub(crate) pod_cidr: Option<Cidr>,
    shared: Shared,
    server_stop: CancellationToken,
    folder: TempDir,
    agent: Option<(CancellationToken, tokio::task::JoinHandle<()>)>,
}

impl Plane {
    /// Starts a server and an agent.
    pub(crate) async fn start() -> Plane {
        let mut plane = Plane::without_agent().await;
        plane.start_agent(OnStop::Drain).await;
        plane
    }

    pub(crate) async fn without_agent() -> Plane {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::default();
        let client = Client::new(Way(shared.clone(), Identity::internal("test")));
        let authority = Authority::open(folder.path()).unwrap();
        let server_stop = CancellationToken::new();
        let mut plane = Plane { client, authority, ready: None, pod_cidr: None, shared, server_stop, folder, agent: None };
        plane.return_server().await;
        plane
    }

    /// Takes the server away: no answers, no watches.
    pub(crate) fn take_server_away(&mut self) {
        self.server_stop.cancel();
        if let Some(server) = self.shared.0.lock().unwrap().take() {
            server.stop();
        }
    }

    /// Starts a server with the data of the one before.
    pub(crate) async fn return_server(&mut self) {
        let path = self.folder.path().join("store");
        runtime::files::make_private_folder(&path).unwrap();
        let store = loop {
            match FileStore::open(&path) {
                Err(StoreError::Locked(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                opened => break opened.unwrap(),
            }
        };
        let dialer = AgentDialer::new(&self.authority.client(&Role::Admin).unwrap()).unwrap();
        let server = Server::new(Parts {
            clock: Clock::system(),
            gates: api::FeatureGates::default(),
            store: Box::new(store),
            threaded: true,
            // Uids name processes: two planes of one machine must not make the same ones.
            seed: random(),
            settings: Settings::default(),
            token_file: None,
            signer: apiserver::Signer::ephemeral(),
            logs: Some(dialer),
        })
        .unwrap();
        self.server_stop = CancellationToken::new();
        let custom = testkit::vectors::yaml(api::crds::NODE_POD_PROBES).unwrap();
        server.start(&[custom], self.server_stop.clone()).await.unwrap();
        *self.shared.0.lock().unwrap() = Some(server);
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// Returns the configuration of an agent with the rights of its node.
    pub(crate) fn config(&self, on_stop: OnStop) -> AgentConfig {
        let groups = ["system:nodes", "system:authenticated"].map(str::to_owned).to_vec();
        let identity = Identity { user: format!("system:node:{NODE}"), groups, ..Identity::default() };
        let client = Client::new(Way(self.shared.clone(), identity));
        let mut config = AgentConfig::new(client, Clock::system(), NODE, self.data_dir(), shim());
        config.program = PARTS.into();
        config.tls = AgentTls { client_ca: self.authority.certificate().to_owned(), certificate: None };
        config.on_stop = on_stop;
        config.pod_cidr = self.pod_cidr;
        config
    }

    /// Starts an agent and waits until it runs.
    pub(crate) async fn start_agent(&mut self, on_stop: OnStop) {
        self.start_agent_with(self.config(on_stop)).await;
    }

    pub(crate) async fn start_agent_with(&mut self, mut config: AgentConfig) {
        let (sender, receiver) = oneshot::channel();
        config.on_ready = Some(sender);
        let stop = CancellationToken::new();
        let running = agent::run(config, stop.clone());
        let task = tokio::spawn(async move { running.await.unwrap() });
        self.ready = Some(within("the agent to run", receiver).await.unwrap());
        self.agent = Some((stop, task));
    }

    /// Stops the agent and waits for its end.
    pub(crate) async fn stop_agent(&mut self) {
        let (stop, task) = self.agent.take().unwrap();
        stop.cancel();
        within("the agent to stop", task).await.unwrap();
    }

    /// Ends the agent as kill -9 does: it gets no chance to do anything.
    pub(crate) async fn kill_agent(&mut self) {
        let (_stop, task) = self.agent.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    pub(crate) async fn request(&self, method: Method, path: &str, body: Value) -> Result<Value, runtime::RequestError> {
        runtime::request(&self.client, method, path, &body).await
    }

    pub(crate) async fn create(&self, plural: &str, object: Value) {
        self.request(Method::POST, &format!("/api/v1/namespaces/default/{plural}"), object).await.unwrap();
    }

    /// Creates a pod that is bound to the node.
    pub(crate) async fn create_pod(&self, name: &str, mut spec: Value) {
        spec["nodeName"] = json!(NODE);
        self.create("pods", json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})).await;
    }

    pub(crate) async fn pod(&self, name: &str) -> Option<Value> {
        self.request(Method::GET, &format!("/api/v1/namespaces/default/pods/{name}"), Value::Null).await.ok()
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.request(Method::DELETE, &format!("/api/v1/namespaces/default/pods/{name}"), json!({})).await.unwrap();
    }

    /// Waits until a pod is as it should be, and returns it.
    pub(crate) async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut seen = watch::<Pod>(&self.client, named(name));
        let mut last = Value::Null;
        let waiting = async {
            loop {
                if let WatchEvent::Applied(object) = seen.next().await {
                    last = object.json();
                    if holds(&last) {
                        return;
                    }
                }
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("waited in vain for {name} to be {what}: {last:#}");
        }
        last
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Value {
        self.until(name, "ready", |pod| condition(pod, "Ready") == "True").await
    }

    /// Waits until a pod is not there any more.
    pub(crate) async fn until_gone(&self, name: &str) {
        let mut seen = watch::<Pod>(&self.client, named(name));
        let waiting = async {
            let mut there = false;
            loop {
                match seen.next().await {
                    WatchEvent::Applied(_) => there = true,
                    WatchEvent::Deleted(_) => return,
                    WatchEvent::Synced if !there => return,
                    _ => {}
                }
            }
        };
        within(&format!("{name} to be gone"), waiting).await;
    }

    /// Returns the reasons of the events about a pod.
    pub(crate) async fn events(&self, name: &str) -> Vec<(String, String)> {
        let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}");
        let events = self.request(Method::GET, &path, Value::Null).await.unwrap();
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        events["items"].as_array().unwrap().iter().map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }

    /// Waits until an event was written.
    pub(crate) async fn until_event(&self, name: &str, reason: &str, part: &str) {
        let waiting = async {
            while !self.events(name).await.iter().any(|(found, message)| found == reason && message.contains(part)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("waited in vain for {reason} {part:?}: {:?}", self.events(name).await);
        }
    }

    /// Returns the directories of all instances of a pod's container.
    pub(crate) fn instances(&self, pod: &Value, container: &str) -> Vec<StateDir> {
        let dir =
            self.data_dir().join("pods").join(pod["metadata"]["uid"].as_str().unwrap()).join("containers").join(container);
        instances(&dir).unwrap().into_iter().map(|number| StateDir::new(dir.join(number.to_string()))).collect()
    }

    /// Returns the number of the process of a pod's container.
    pub(crate) fn pid(&self, pod: &Value, container: &str) -> i32 {
        self.instances(pod, container).last().unwrap().pids().unwrap().unwrap().container.pid
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.ready.unwrap().address
    }
}

impl Drop for Plane {
    /// No process survives the test, however that ends.
    fn drop(&mut self) {
        if let Some((_, task)) = self.agent.take() {
            // It would start again what is killed below.
            task.abort();
            while !task.is_finished() {
                std::thread::yield_now();
            }
        }
        let containers = std::fs::read_dir(self.data_dir().join("pods")).into_iter().flatten().filter_map(Result::ok);
        for pod in containers {
            for container in std::fs::read_dir(pod.path().join("containers")).into_iter().flatten().filter_map(Result::ok) {
                for number in instances(&container.path()).unwrap_or_default() {
                    let dir = StateDir::new(container.path().join(number.to_string()));
                    if let Ok(Some(pids)) = dir.pids()
                        && procfs::is_running(pids.container)
                    {
                        let _ = procfs::signal_group(pids.container.pid, Signal::KILL);
                    }
                }
            }
        }
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u64::from_le_bytes(bytes)
}

/// Waits for something that must happen.
pub(crate) async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Returns the status of a condition.
pub(crate) fn condition(pod: &Value, type_: &str) -> String {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

/// Returns the status of a container.
pub(crate) fn status(pod: &Value, container: &str) -> Value {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists.iter().flat_map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
    all.into_iter().find(|status| status["name"] == container).unwrap_or_default()
}

/// Returns how often a container was started again.
pub(crate) fn restarts(pod: &Value, container: &str) -> u64 {
    status(pod, container)["restartCount"].as_u64().unwrap_or(0)
}

/// Returns a container that runs a shell script.
pub(crate) fn script(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "none", "command": ["sh", "-c", script]})
}

/// Returns a container that serves HTTP on its pod's address, at its port `http`.
pub(crate) fn server(name: &str, listen_after_ms: u32, drain_ms: u32) -> Value {
    // Pods have addresses of their own, but somebody on this machine may listen on all of them.
    let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let args = ["serve", "http", &free.to_string(), &listen_after_ms.to_string(), &drain_ms.to_string()].map(str::to_owned);
    let ports = json!([{"name": "http", "containerPort": free}]);
    json!({"name": name, "image": "none", "command": ["lifesign-agent-parts"], "args": args, "ports": ports})
}

fn named(name: &str) -> Scope {
    Scope { namespace: "default".to_owned(), fields: format!("metadata.name={name}") }
}
