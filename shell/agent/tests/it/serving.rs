//! The test server, alone and as a container with probes, from its start to its drain.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::executors::{Executor, GrpcProbe, HttpProbe, Instance, TcpProbe};
use agent::serve::{Protocol, ServeConfig, Server};
use api::IntOrString;
use api::pod::{ExecAction, GrpcAction, HttpGetAction, Probe, TcpSocketAction};
use probe::http::Target;
use probe::outcome::{Outcome, Report};
use processes::addresses::{Claim, Pool};
use processes::container::Running;
use processes::listeners::{Owner, owner};
use processes::state::ContainerSpec;
use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::PARTS;
use crate::support::{self, Started, log_text, shell, start, until};

const LONG: Duration = Duration::from_secs(20);

async fn server(config: ServeConfig) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let config = ServeConfig { address: [127, 0, 0, 1].into(), port: 0, ..config };
    let server = Server::bind(config).await.unwrap();
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.run(async { stopped.await.unwrap_or_default() }));
    (address, stop, task)
}

fn target(ip: &str) -> Target<'_> {
    Target { pod_ip: Some(ip), ports: &[], version: "1.36" }
}

fn get(address: SocketAddr) -> HttpProbe {
    let action = HttpGetAction { port: IntOrString::Int(address.port().into()), ..HttpGetAction::default() };
    HttpProbe::new(&action, &target(&address.ip().to_string()), false)
}

fn check(address: SocketAddr, service: &str) -> GrpcProbe {
    let action = GrpcAction { port: address.port().into(), service: service.to_owned() };
    GrpcProbe::new(&action, &target(&address.ip().to_string()))
}

#[tokio::test]
async fn http_answers_with_the_status_and_fails_after_a_while() {
    let (address, _stop, _task) = server(ServeConfig { status: 404, ..ServeConfig::default() }).await;
    assert!(get(address).run(LONG).await.message.contains("404"));
    let (address, _stop, _task) = server(ServeConfig::default()).await;
    assert_eq!(get(address).run(LONG).await.outcome, Outcome::Success);
    let (address, _stop, _task) = server(ServeConfig { fail_after: Some(Duration::ZERO), ..ServeConfig::default() }).await;
    assert!(get(address).run(LONG).await.message.contains("503"));
}

#[tokio::test]
async fn grpc_answers_health_checks_and_nothing_else() {
    let config = ServeConfig { protocol: Protocol::Grpc, ..ServeConfig::default() };
    let (address, _stop, _task) = server(config.clone()).await;
    assert_eq!(check(address, "").run(LONG).await.outcome, Outcome::Success);
    assert_eq!(check(address, "db").run(LONG).await.outcome, Outcome::Success);
    let (address, _stop, _task) = server(ServeConfig { fail_after: Some(Duration::ZERO), ..config }).await;
    let report = check(address, "db").run(LONG).await;
    assert!(report.outcome == Outcome::Failure && report.message.contains("NOT_SERVING"), "{report:?}");
    // A server that speaks HTTP/1.1 only.
    let (address, _stop, _task) = server(ServeConfig::default()).await;
    let report = check(address, "").run(LONG).await;
    assert_eq!(report.outcome, Outcome::Failure, "{report:?}");
}

#[tokio::test]
async fn tcp_accepts_until_it_fails() {
    let probe = |address: SocketAddr| {
        let action = TcpSocketAction { port: IntOrString::Int(address.port().into()), host: String::new() };
        TcpProbe::new(&action, &target("127.0.0.1"))
    };
    let (address, _stop, _task) = server(ServeConfig { protocol: Protocol::Tcp, ..ServeConfig::default() }).await;
    assert_eq!(probe(address).run(LONG).await, Report::success());
    let config = ServeConfig { protocol: Protocol::Tcp, fail_after: Some(Duration::ZERO), ..ServeConfig::default() };
    let (address, _stop, _task) = server(config).await;
    let probe = probe(address);
    let mut refused = false;
    while !refused {
        refused = probe.run(LONG).await.outcome == Outcome::Failure;
        // On one machine an attempt never waits, and the server needs this thread too.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_draining_server_serves_on() {
    let (address, stop, task) = server(ServeConfig { drain: Duration::from_millis(300), ..ServeConfig::default() }).await;
    let before = Instant::now();
    stop.send(()).unwrap();
    assert_eq!(get(address).run(LONG).await.outcome, Outcome::Success, "asked to stop, it still answers");
    task.await.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(300));
    assert_eq!(get(address).run(LONG).await.outcome, Outcome::Failure);
    let (address, stop, task) = server(ServeConfig::default()).await;
    stop.send(()).unwrap();
    task.await.unwrap();
    assert_eq!(get(address).run(LONG).await.outcome, Outcome::Failure, "without a drain it stops at once");
}

/// Starts the server as a container of a pod with an address of its own.
async fn pod(dir: &std::path::Path, ip: &str, args: [&str; 3]) -> Started {
    let command = [PARTS, "serve", args[0], "8080", args[1], args[2]].map(str::to_owned).to_vec();
    let mut spec = ContainerSpec { command, ..shell("") };
    spec.env.insert("POD_IP".to_owned(), ip.to_owned());
    start(dir, &spec).await
}

fn executor(probe: Probe, ip: &str, running: &Arc<Running>) -> Executor {
    Executor::new(&probe, &target(ip), false, &Instance::Process(running.clone())).unwrap()
}

fn http_probe() -> Probe {
    Probe { http_get: Some(HttpGetAction { port: IntOrString::Int(8080), ..HttpGetAction::default() }), ..Probe::default() }
}

#[tokio::test]
async fn a_pod_is_probed_on_its_own_address_from_start_to_drain() {
    // A corner where no plane has been, and another one in every run: a server that is just ending there would be in the way.
    let run = std::process::id();
    let range = format!("127.{}.{}.0/24", 225 + run % 15, run / 15 % 256);
    let mut addresses = Pool::new(Claim::of(range.parse().unwrap(), |_| false).unwrap());
    let (first, second) = (addresses.allocate().unwrap().to_string(), addresses.allocate().unwrap().to_string());
    let folder = tempfile::tempdir().unwrap();
    let one = pod(&folder.path().join("one"), &first, ["http", "50", "1000"]).await;
    let two = pod(&folder.path().join("two"), &second, ["http", "0", "0"]).await;
    for (running, ip) in [(&one, &first), (&two, &second)] {
        let dir = running.dir().path().to_owned();
        until("the line LISTEN", || log_text(&dir).contains("stdout F LISTEN ")).await;
        let probe = executor(http_probe(), ip, running);
        assert_eq!(probe.run(None, LONG).await.outcome, Outcome::Success);
        let address = probe.address().unwrap();
        assert_eq!(owner(address.ip(), address.port(), &running.processes()).unwrap(), Owner::Pod);
    }
    let address = SocketAddr::new(first.parse().unwrap(), 8080);
    assert_eq!(owner(address.ip(), 8080, &two.processes()).unwrap(), Owner::Another, "the same port of another pod");
    assert_eq!(owner(address.ip(), 8080, &BTreeSet::new()).unwrap(), Owner::Another);

    one.signal(Signal::TERM).unwrap();
    assert_eq!(get(address).run(LONG).await.outcome, Outcome::Success, "it drains");
    assert_eq!(one.wait().await.unwrap().exit_code, 0);
    assert_eq!(get(address).run(LONG).await.outcome, Outcome::Failure);
    two.signal(Signal::TERM).unwrap();
    assert_eq!(two.wait().await.unwrap().exit_code, 0);
}

#[tokio::test]
async fn commands_of_probes_run_in_the_container() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("exec sleep 1000");
    spec.env.insert("COLOR".to_owned(), "green".to_owned());
    let running = start(folder.path(), &spec).await;
    let probe = |command: &[&str]| {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        executor(Probe { exec: Some(ExecAction { command }), ..Probe::default() }, "", &running)
    };
    let report = probe(&["echo", "$(COLOR) $$(COLOR) $(NONE)"]).run(None, LONG).await;
    assert_eq!((report.outcome, report.marker_message().as_str()), (Outcome::Success, "green $(COLOR) $(NONE)\n"));
    let report = probe(&["sh", "-c", "echo sick >&2; exit 1"]).run(None, LONG).await;
    assert_eq!((report.outcome, report.message.as_str()), (Outcome::Failure, "sick\n"));
    assert_eq!(probe(&["no-such-command"]).run(None, LONG).await.outcome, Outcome::Failure);
    let report = probe(&["sleep", "1000"]).run(None, Duration::from_millis(300)).await;
    assert_eq!(report.message, "command timed out after 300ms");
    assert_eq!(report.outcome, Outcome::Failure);

    // Killed with its container, it says nothing about it.
    let hanging = probe(&["sleep", "1000"]);
    let hanging = tokio::spawn(async move { hanging.run(None, LONG).await });
    until("the command", || running.processes().len() == 2).await;
    running.kill_all().await.unwrap();
    let report = hanging.await.unwrap();
    assert_eq!((report.outcome, report.message.as_str()), (Outcome::Error, "the container is gone"));
    assert_eq!(probe(&["true"]).run(None, LONG).await.outcome, Outcome::Error);
    assert!(support::is_gone(running.pid()));
}
