//! Runs the API scripts against the real binary, over TLS, with a client certificate.
//!
//! Cases share one process per set of gates; those that restart the server have one of their own.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use testkit::plane::Plane;
use testkit::script::{self, Answer, Case, Clients, Request};
use testkit::{Suite, Verdict, table};

type Gates = BTreeMap<String, bool>;
/// The gates of a process, and whether it is a whole plane.
type ProcessKind = (Gates, bool);

fn main() -> ExitCode {
    let shared = Arc::new(Shared::default());
    let files = table::files_of("lifesign-apiserver");
    files
        .into_iter()
        // Cases mostly wait: for the ends of watches, and for other processes.
        .fold(Suite::again().threads(8), |suite, file| {
            let shared = Arc::clone(&shared);
            suite.file_but(file, script::not_yet, move |case| check(&shared, &case))
        })
        .run()
}

fn check(shared: &Shared, case: &Case) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    // Controllers of workloads are part of a whole plane.
    let kind = (case.gates.clone(), case.needs("workloads"));
    let plane = if case.restarts() { launch(&kind)? } else { shared.plane(&kind)? };
    let server = Binary::new(plane, case.gates.clone())?;
    runtime.block_on(script::run(&server, case, &unique()))
}

/// Case names need a suffix of their own.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:05}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn launch((gates, whole): &ProcessKind) -> Result<Arc<Mutex<Plane>>, String> {
    let plane = Plane::new(env!("CARGO_BIN_EXE_lifesign"));
    let mut plane = if *whole { plane.whole() } else { plane };
    start(&mut plane, gates)?;
    Ok(Arc::new(Mutex::new(plane)))
}

fn start(plane: &mut Plane, gates: &Gates) -> Result<(), String> {
    let list: Vec<String> = gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
    plane.set_arguments(["--feature-gates", &list.join(",")]);
    plane.start()
}

/// The processes that cases share, by their gates.
#[derive(Default)]
struct Shared(Mutex<BTreeMap<ProcessKind, Arc<Mutex<Plane>>>>);

impl Shared {
    fn plane(&self, kind: &ProcessKind) -> Result<Arc<Mutex<Plane>>, String> {
        let mut planes = self.0.lock().expect("no case panics while it holds the list");
        if let Some(plane) = planes.get(kind) {
            return Ok(Arc::clone(plane));
        }
        let plane = launch(kind)?;
        planes.insert(kind.clone(), Arc::clone(&plane));
        Ok(plane)
    }
}

/// A process, and the clients of one case.
struct Binary {
    plane: Arc<Mutex<Plane>>,
    gates: Mutex<Gates>,
    clients: Mutex<Clients>,
}

impl Binary {
    fn new(plane: Arc<Mutex<Plane>>, gates: Gates) -> Result<Binary, String> {
        let kubeconfig = plane.lock().expect("no case panics while it holds a plane").kubeconfig();
        let clients = Clients::new(&kubeconfig)?;
        Ok(Binary { plane, gates: Mutex::new(gates), clients: Mutex::new(clients) })
    }
}

impl script::Server for Binary {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, String>> {
        let clients = self.clients.lock().expect("no case panics while it holds the clients").clone();
        Box::pin(async move { clients.send(request).await })
    }

    fn restart(&self, kill: bool, changes: Gates) -> BoxFuture<'_, Result<(), String>> {
        let gates = {
            let mut gates = self.gates.lock().expect("no case panics while it holds the gates");
            gates.extend(changes);
            gates.clone()
        };
        let plane = Arc::clone(&self.plane);
        Box::pin(async move {
            // Not on this thread: the connections of the case must stay alive to see the server go.
            let restarted = tokio::task::spawn_blocking(move || relaunch(&plane, kill, &gates)).await;
            let clients = restarted.map_err(|error| error.to_string())??;
            *self.clients.lock().expect("no case panics while it holds the clients") = clients;
            Ok(())
        })
    }
}

fn relaunch(plane: &Mutex<Plane>, kill: bool, gates: &Gates) -> Result<Clients, String> {
    let mut plane = plane.lock().expect("no case panics while it holds a plane");
    if kill {
        plane.kill();
    } else if !plane.stop().success() {
        return Err(format!("the server did not stop cleanly, log:\n{}", plane.log()));
    }
    start(&mut plane, gates)?;
    Clients::new(&plane.kubeconfig())
}
