//! Knocks at real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use agent::executors::{GrpcProbe, HttpProbe, KnockCounters, Knocked, Knocker, Socket, TcpProbe};
use api::pod::{GrpcAction, HttpGetAction, TcpSocketAction};
use api::{IntOrString, ProbeType};
use machine::Time;
use probe::http::Target;
use probe::{Knock, Report};
use runtime::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

/// What does not happen by then will not happen.
const PATIENCE: Duration = Duration::from_secs(60);
const TARGET: Target<'static> = Target { pod_ip: Some("127.0.0.1"), ports: &[], version: "1.36" };

/// A port that is taken, but on which nobody listens yet.
fn silent() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn knock(clock: &Clock, for_: Duration) -> Knock {
    let now = clock.now();
    Knock { probe: ProbeType::Readiness, knock: 7, from: now, until: now + for_, started_at: now }
}

/// Knocks at a port until it listens; returns the listener and the connection.
async fn accepted() -> (TcpListener, SocketAddr, Socket) {
    let (clock, counters) = (Clock::system(), KnockCounters::default());
    let mut knocker = Knocker::new(clock.clone(), counters.clone());
    let (socket, address) = silent();
    knocker.begin("a", address, &knock(&clock, PATIENCE));
    let mut port = Some(socket);
    let mut listener = None;
    let knocked = loop {
        // Dropped and called again, as its owner does.
        match tokio::time::timeout(Duration::from_millis(5), knocker.next()).await {
            Ok(knocked) => break knocked,
            Err(_) if counters.refused.get() < 5 => {}
            Err(_) => {
                if let Some(port) = port.take() {
                    listener = Some(port.listen(16).unwrap());
                }
            }
        }
    };
    let (key, number, refused, Knocked::Accepted { socket, at }) = knocked else { panic!("{knocked:?}") };
    assert_eq!((key, number), ("a", 7));
    assert_eq!((counters.refused.get(), counters.accepted.get()), (refused, 1));
    assert!(refused >= 5 && at <= clock.now());
    assert_eq!(knocker.waiting(), 0, "it does not wait any more");
    (listener.unwrap(), address, socket)
}

/// Counts connections until nothing is left to accept.
async fn connections(listener: &TcpListener) -> usize {
    let mut count = 0;
    while let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(20), listener.accept()).await {
        count += 1;
    }
    count
}

#[tokio::test]
async fn an_http_attempt_uses_the_connection_of_the_knock() {
    let (listener, address, socket) = accepted().await;
    let action = HttpGetAction { port: IntOrString::Int(address.port().into()), ..HttpGetAction::default() };
    let probe = HttpProbe::new(&action, &TARGET, false);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let (report, request) = tokio::join!(probe.run_on(Some(socket), PATIENCE), serve);
    assert_eq!(report.outcome, probe::Outcome::Success, "{report:?}");
    assert_eq!(request.matches("GET / HTTP/1.1").count(), 1);
    assert_eq!(connections(&listener).await, 0, "there was another connection");
}

#[tokio::test]
async fn a_tcp_attempt_is_the_knock_itself() {
    let (listener, address, socket) = accepted().await;
    let action = TcpSocketAction { port: IntOrString::Int(address.port().into()), ..TcpSocketAction::default() };
    assert_eq!(TcpProbe::new(&action, &TARGET).run_on(Some(socket), PATIENCE).await, Report::success());
    assert_eq!(connections(&listener).await, 1);
}

#[tokio::test]
async fn a_grpc_attempt_uses_the_connection_of_the_knock() {
    let (listener, address, socket) = accepted().await;
    let action = GrpcAction { port: address.port().into(), ..GrpcAction::default() };
    let probe = GrpcProbe::new(&action, &TARGET);
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut preface = [0; 14];
        stream.read_exact(&mut preface).await.unwrap();
        preface
    };
    let (report, preface) = tokio::join!(probe.run_on(Some(socket), PATIENCE), serve);
    assert_eq!(&preface, b"PRI * HTTP/2.0");
    assert!(report.outcome.succeeded() == Some(false) && !report.refused, "it was closed: {report:?}");
    assert_eq!(connections(&listener).await, 0, "there was another connection");
}

#[tokio::test]
async fn an_attempt_says_that_it_was_refused() {
    let (_port, address) = silent();
    let port = IntOrString::Int(address.port().into());
    let tcp = TcpSocketAction { port: port.clone(), ..TcpSocketAction::default() };
    let http = HttpGetAction { port: port.clone(), ..HttpGetAction::default() };
    let https = HttpGetAction { scheme: "HTTPS".to_owned(), ..http.clone() };
    let grpc = GrpcAction { port: address.port().into(), ..GrpcAction::default() };
    for report in [
        TcpProbe::new(&tcp, &TARGET).run(PATIENCE).await,
        HttpProbe::new(&http, &TARGET, false).run(PATIENCE).await,
        HttpProbe::new(&https, &TARGET, false).run(PATIENCE).await,
        GrpcProbe::new(&grpc, &TARGET).run(PATIENCE).await,
    ] {
        assert!(report.refused && report.outcome == probe::Outcome::Failure, "{report:?}");
    }
}

#[tokio::test]
async fn nobody_knocks_after_the_end_or_after_it_was_stopped() {
    let (clock, counters) = (Clock::system(), KnockCounters::default());
    let mut knocker = Knocker::new(clock.clone(), counters.clone());
    let (_one, first) = silent();
    let (_two, second) = silent();
    knocker.begin("short", first, &knock(&clock, Duration::from_millis(35)));
    knocker.begin("stopped", second, &knock(&clock, PATIENCE));
    assert_eq!(knocker.waiting(), 2);
    let (refused, socket) = knocker.stop(&"stopped");
    assert!(refused == 0 && socket.is_none());
    assert!(tokio::time::timeout(Duration::from_millis(100), knocker.next()).await.is_err());
    assert_eq!(knocker.waiting(), 0);
    // At 10, 20 and 30 ms; a busy machine may miss some of them.
    assert!(counters.refused.get() <= 3, "{}", counters.refused.get());
    assert_eq!(knocker.refused(&"short"), counters.refused.get());
}

#[tokio::test]
async fn a_target_that_does_not_answer_is_given_up() {
    let (clock, counters) = (Clock::system(), KnockCounters::default());
    let mut knocker = Knocker::new(clock.clone(), counters.clone());
    // A listener whose queue is full drops what comes: nobody answers.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await {
        held.push(stream);
    }
    knocker.begin("full", address, &knock(&clock, PATIENCE));
    let ended = tokio::time::timeout(PATIENCE, knocker.next()).await.unwrap();
    assert!(matches!(ended, ("full", 7, 0, Knocked::Failed)), "{ended:?}");
    assert_eq!((counters.unanswered.get(), knocker.waiting()), (1, 0));
}

#[tokio::test]
async fn hundreds_of_targets_wait_in_one_loop_with_hardly_a_descriptor() {
    let (clock, counters) = (Clock::system(), KnockCounters::default());
    let mut knocker = Knocker::new(clock.clone(), counters.clone());
    let (_port, address) = silent();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let began: Time = clock.now();
    for key in 0..500 {
        knocker.begin(key, address, &knock(&clock, PATIENCE));
    }
    while counters.refused.get() < 1_000 {
        assert!(tokio::time::timeout(Duration::from_millis(100), knocker.next()).await.is_err(), "nobody listens");
    }
    // Other tests of this process open and close theirs meanwhile.
    assert!(descriptors() < before + 200, "{} after {before}", descriptors());
    let seconds = clock.now().since(began).as_secs_f64();
    assert!(counters.refused.get() as f64 <= 2_000.0 * (seconds + 1.0), "{} in {seconds} s", counters.refused.get());
}
