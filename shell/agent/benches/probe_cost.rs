//! What does an attempt of each kind cost, compared with the least that the kernel asks for an HTTP request?
//!
//! The floor is a blocking socket, connect, write, read and close on a thread of its own. Only the CPU time of the asking thread
//! is counted; servers are other threads. For exec the CPU time of the command, a `true`, is told apart: it is a process of its
//! own. Everything runs on one core: with two, waking the other side up is most of the cost in some rounds and nothing in others,
//! and no two rounds agree. Run with `cargo bench -p lifesign-agent --bench probe_cost`.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use agent::executors::{GrpcProbe, HttpProbe, TcpProbe};
use agent::serve::{Protocol, ServeConfig, Server};
use api::IntOrString;
use api::pod::{GrpcAction, HttpGetAction, TcpSocketAction};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use probe::http::Target;
use probe::outcome::{Outcome, Report};
use processes::exec::Ended;
use processes::state::ContainerSpec;
use rustix::time::{ClockId, clock_gettime};

/// Attempts of a kind before it is the next kind's turn: short enough that whatever else the machine does hits all alike.
const ATTEMPTS: usize = 500;
/// A command costs a process.
const COMMANDS: usize = 25;
const TURNS: usize = 40;
const ROUNDS: usize = 5;
const NAMES: [&str; 6] = ["floor", "HTTP, one at a time", "HTTP, 32 at a time", "TCP", "gRPC", "exec, the agent"];
const TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

fn main() {
    stay_on_one_core();
    let address = serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let action = HttpGetAction { port: IntOrString::Int(address.port().into()), ..HttpGetAction::default() };
    let target = Target { pod_ip: Some("127.0.0.1"), ports: &[], version: "1.36" };
    let http = HttpProbe::new(&action, &target, false);
    let tcp = TcpProbe::new(&TcpSocketAction { port: action.port.clone(), ..TcpSocketAction::default() }, &target);
    let grpc = GrpcProbe::new(&GrpcAction { port: serve_health().into(), ..GrpcAction::default() }, &target);
    println!("{:>24} {:>14} {:>8}", "", "CPU/attempt", "ratio");
    for round in 0..ROUNDS {
        let mut costs = [0.0; NAMES.len()];
        let children = children_cpu();
        for _ in 0..TURNS {
            let round = [
                cpu(ATTEMPTS, || (0..ATTEMPTS).for_each(|_| ask(address))),
                cpu(ATTEMPTS, || runtime.block_on(attempts(1, || http.run(TIMEOUT)))),
                cpu(ATTEMPTS, || runtime.block_on(attempts(32, || http.run(TIMEOUT)))),
                cpu(ATTEMPTS, || runtime.block_on(attempts(1, || tcp.run(TIMEOUT)))),
                cpu(ATTEMPTS, || runtime.block_on(attempts(1, || grpc.run(TIMEOUT)))),
                cpu(COMMANDS, || runtime.block_on(commands())),
            ];
            costs.iter_mut().zip(round).for_each(|(cost, round)| *cost += round / TURNS as f64);
        }
        let command = (children_cpu() - children) / (TURNS * COMMANDS) as f64;
        println!("round {round}");
        for (name, cost) in NAMES.into_iter().zip(costs).chain([("exec, the command", command)]) {
            println!("{name:>24} {:>11.2} us {:>8.2}", cost * 1e6, cost / costs[0]);
        }
    }
}

/// Begins anew under `taskset`, where there is one.
fn stay_on_one_core() {
    const PINNED: &str = "LIFESIGN_BENCH_PINNED";
    if std::env::var_os(PINNED).is_none() {
        let own = std::env::current_exe().unwrap();
        let error = Command::new("taskset").args(["-c", "0"]).arg(own).env(PINNED, "1").exec();
        println!("not on one core: taskset: {error}");
    }
}

/// Returns the CPU seconds of this thread per attempt.
fn cpu(count: usize, work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let before = now();
    work();
    (now() - before) / count as f64
}

/// Returns the CPU seconds of all children that have ended.
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    // cutime and cstime, in hundredths of a second.
    (fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()) / 100.0
}

async fn commands() {
    let spec = ContainerSpec { env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(), ..ContainerSpec::default() };
    let command = ["true".to_owned()];
    for _ in 0..COMMANDS {
        let output = processes::exec::exec(&spec, &command, TIMEOUT, || true).await.unwrap();
        assert_eq!(output.ended, Ended::Exit(0));
    }
}

/// Serves gRPC health on a thread of its own and returns its port.
fn serve_health() -> u16 {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let address = std::net::Ipv4Addr::LOCALHOST.into();
            let config = ServeConfig { address, port: 0, protocol: Protocol::Grpc, ..ServeConfig::default() };
            let server = Server::bind(config).await.unwrap();
            sender.send(server.local_addr().unwrap().port()).unwrap();
            server.run(std::future::pending()).await;
        });
    });
    receiver.recv().unwrap()
}

/// The least: what any client must do.
fn ask(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut buffer = [0; 2048];
    assert!(stream.read(&mut buffer).unwrap() >= ANSWER.len());
}

async fn attempts<F: Future<Output = Report>>(at_once: usize, attempt: impl Fn() -> F) {
    let mut running: FuturesUnordered<_> = (0..at_once).map(|_| attempt()).collect();
    for started in at_once.. {
        let Some(report) = running.next().await else { return };
        assert_eq!(report.outcome, Outcome::Success, "{report:?}");
        if started < ATTEMPTS {
            running.push(attempt());
        }
    }
}

fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            if stream.read(&mut request).unwrap_or_default() > 0 {
                let _ = stream.write_all(ANSWER);
            }
        }
    });
    address
}
