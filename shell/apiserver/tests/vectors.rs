//! Runs the API scripts against the server in process: no socket, a fresh server for every case.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use api::{FeatureGates, Gate};
use apiserver::{FileStore, MemoryStore, Parts, Server, Settings, Store};
use bytes::Bytes;
use controllers::ControllersConfig;
use futures::StreamExt;
use futures::future::BoxFuture;
use http_body_util::{BodyDataStream, Full};
use registry::authz::Identity;
use runtime::Clock;
use testkit::script::{self, Answer, Auth, Case, Request};
use testkit::{Suite, Verdict};
use tokio_util::sync::CancellationToken;
use tower::Service;

const FILES: [&str; 17] = [
    "apply",
    "crd",
    "crud",
    "deletion",
    "discovery",
    "durability",
    "fieldvalidation",
    "gates",
    "paging",
    "patch",
    "pods",
    "selectors",
    "status",
    "table",
    "types",
    "watch",
    "workloads",
];

fn main() -> ExitCode {
    let suite = Suite::new(env!("CARGO_PKG_NAME"));
    FILES
        .into_iter()
        .fold(suite, |suite, file| {
            let name: &'static str = format!("api-server/{file}").leak();
            suite.file_but(name, script::not_yet, check)
        })
        .run()
}

fn check(case: Case) -> Verdict {
    // Virtual time is no use here: scripts wait for real timeouts of real watches.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let server = InProcess::start(&case).await?;
        script::run(&server, &case, &unique()).await
    })
}

/// Case names need a suffix of their own.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:05}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server in this process; restarts keep the data directory.
struct InProcess {
    directory: Option<tempfile::TempDir>,
    running: Mutex<Running>,
}

struct Running {
    server: Server,
    stop: CancellationToken,
    gates: FeatureGates,
    /// Whether the controllers of workloads run beside it.
    workloads: bool,
}

fn with(gates: FeatureGates, changes: &BTreeMap<String, bool>) -> Result<FeatureGates, String> {
    changes.iter().try_fold(gates, |gates, (name, on)| {
        let gate = Gate::from_name(name).ok_or_else(|| format!("script error: unknown gate {name}"))?;
        Ok(gates.with(gate, *on))
    })
}

impl InProcess {
    async fn start(case: &Case) -> Result<InProcess, String> {
        let directory = case.restarts().then(tempfile::tempdir).transpose().map_err(|error| error.to_string())?;
        let gates = with(FeatureGates::default(), &case.gates)?;
        let running = Mutex::new(launch(directory.as_ref(), gates, case.needs("workloads")).await?);
        Ok(InProcess { directory, running })
    }
}

async fn launch(directory: Option<&tempfile::TempDir>, gates: FeatureGates, workloads: bool) -> Result<Running, String> {
    let (store, threaded): (Box<dyn Store>, bool) = match directory {
        Some(directory) => (Box::new(open_when_free(directory.path()).await?), true),
        None => (Box::new(MemoryStore), false),
    };
    let parts = Parts {
        clock: Clock::system(),
        gates: gates.clone(),
        store,
        threaded,
        seed: 7,
        settings: Settings::default(),
        token_file: None,
        signer: apiserver::Signer::ephemeral(),
        logs: None,
    };
    let server = Server::new(parts).map_err(|error| error.to_string())?;
    let stop = CancellationToken::new();
    server.start(&[], stop.clone()).await.map_err(|error| error.to_string())?;
    if workloads {
        start_controllers(&server, &gates, &stop);
    }
    Ok(Running { server, stop, gates, workloads })
}

/// Runs the controllers of workloads and nothing else: pods of these cases are never scheduled.
fn start_controllers(server: &Server, gates: &FeatureGates, stop: &CancellationToken) {
    let client = runtime::Client::new(server.service(Identity::internal("controllers")));
    let metrics = controllers::Metrics::register(&mut prometheus_client::registry::Registry::default());
    let config = ControllersConfig {
        informers: runtime::Informers::new(client.clone(), metrics.api.clone()),
        client,
        clock: Clock::system(),
        host: "here".to_owned(),
        endpointslices: None,
        scheduler: false,
        node_lifecycle: None,
        profile: None,
        markers: false,
        guard: None,
        workloads: Some(gates.clone()),
        metrics,
        on_ready: None,
    };
    tokio::spawn(controllers::run(config, stop.clone()));
}

/// The writer of the server before lets go of the file when its last user is gone.
async fn open_when_free(path: &std::path::Path) -> Result<FileStore, String> {
    for _ in 0..500 {
        match FileStore::open(path) {
            Err(apiserver::StoreError::Locked(_)) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            opened => return opened.map_err(|error| error.to_string()),
        }
    }
    Err("the server before does not let go of its data".to_owned())
}

impl script::Server for InProcess {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, String>> {
        let server = self.running.lock().expect("no case panics while it holds the server").server.clone();
        Box::pin(async move {
            let mut built = http::Request::builder().method(request.method.as_str()).uri(request.path.as_str());
            for (name, value) in &request.headers {
                built = built.header(name, value);
            }
            if let Auth::Token(token) = &request.auth {
                built = built.header("authorization", format!("Bearer {token}"));
            }
            let built = built.body(Full::new(request.body)).map_err(|error| error.to_string())?;
            let answer = match request.auth {
                // A service always speaks for somebody; nobody comes through the listener.
                Auth::Nobody => server.handle(built).await,
                _ => match server.service(Identity::internal("runner")).call(built).await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                },
            };
            let (parts, body) = answer.into_parts();
            let headers = parts
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
                .collect();
            let body = BodyDataStream::new(body).map(|chunk: Result<Bytes, _>| chunk.map_err(|error| error.to_string()));
            Ok(Answer { code: parts.status.as_u16(), headers, body: body.boxed() })
        })
    }

    fn restart(&self, _kill: bool, gates: BTreeMap<String, bool>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let (next, workloads) = {
                let mut running = self.running.lock().expect("no case panics while it holds the server");
                running.stop.cancel();
                running.server.stop();
                let next = with(running.gates.clone(), &gates)?;
                // Nothing of the old server may outlive it: its file must be free.
                running.server = idle().map_err(|error| error.to_string())?;
                (next, running.workloads)
            };
            let launched = launch(self.directory.as_ref(), next, workloads).await?;
            *self.running.lock().expect("no case panics while it holds the server") = launched;
            Ok(())
        })
    }
}

/// A server without anything, to stand in while another one starts.
fn idle() -> Result<Server, apiserver::StoreError> {
    Server::new(Parts {
        clock: Clock::system(),
        gates: FeatureGates::default(),
        store: Box::new(MemoryStore),
        threaded: false,
        seed: 0,
        settings: Settings::default(),
        token_file: None,
        signer: apiserver::Signer::ephemeral(),
        logs: None,
    })
}
