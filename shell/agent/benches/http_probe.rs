//! What does an HTTP attempt cost, compared with the least that the kernel asks for it?
//!
//! The floor is a blocking socket, connect, write, read and close on a thread of its own. Only the CPU time of the asking thread
//! is counted; the server is another thread. Run with `cargo bench -p lifesign-agent --bench http_probe`.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use agent::executors::HttpProbe;
use api::IntOrString;
use api::pod::HttpGetAction;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use probe::http::Target;
use probe::outcome::Outcome;
use rustix::time::{ClockId, clock_gettime};

const ATTEMPTS: usize = 20_000;
const ROUNDS: usize = 5;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

fn main() {
    let address = serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let action = HttpGetAction { port: IntOrString::Int(address.port().into()), ..HttpGetAction::default() };
    let target = Target { pod_ip: Some("127.0.0.1"), ports: &[], version: "1.36" };
    let probe = HttpProbe::new(&action, &target, false);
    println!("{:>24} {:>14} {:>8}", "", "CPU/attempt", "ratio");
    for round in 0..ROUNDS {
        // Taken in turn, so that whatever else the machine does hits all alike.
        let floor = cpu(|| (0..ATTEMPTS).for_each(|_| ask(address)));
        let one = cpu(|| runtime.block_on(attempts(&probe, 1)));
        let many = cpu(|| runtime.block_on(attempts(&probe, 32)));
        println!("round {round}");
        for (name, cost) in [("floor", floor), ("one at a time", one), ("32 at a time", many)] {
            println!("{name:>24} {:>11.2} us {:>8.2}", cost * 1e6, cost / floor);
        }
    }
}

/// Returns the CPU seconds of this thread per attempt.
fn cpu(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let before = now();
    work();
    (now() - before) / ATTEMPTS as f64
}

/// The least: what any client must do.
fn ask(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut buffer = [0; 2048];
    assert!(stream.read(&mut buffer).unwrap() >= ANSWER.len());
}

async fn attempts(probe: &HttpProbe, at_once: usize) {
    let attempt = || probe.run(Duration::from_secs(10));
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
