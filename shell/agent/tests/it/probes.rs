//! Probe attempts against real sockets.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent::executors::{GrpcProbe, HttpProbe, TcpProbe};
use api::IntOrString;
use api::pod::{GrpcAction, HttpGetAction, HttpHeader, TcpSocketAction};
use probe::http::Target;
use probe::outcome::{Outcome, Report, TargetOutput};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

/// A server that answers successive connections with fixed bytes, then closes, or holds the connection open.
struct Script {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
}

#[derive(Clone, Debug)]
enum Then {
    Close,
    Hold,
}

async fn serve(answers: Vec<(String, Then)>) -> Script {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut held = Vec::new();
        for (answer, then) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            seen.send(request(&mut stream).await).unwrap();
            stream.write_all(answer.replace("PORT", &address.port().to_string()).as_bytes()).await.unwrap();
            if let Then::Hold = then {
                held.push(stream);
            }
        }
        std::future::pending::<()>().await;
    });
    Script { address, requests }
}

async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(port: u16, path: &str) -> HttpGetAction {
    HttpGetAction { path: path.to_owned(), port: IntOrString::Int(port.into()), ..HttpGetAction::default() }
}

const TARGET: Target<'static> = Target { pod_ip: Some("127.0.0.1"), ports: &[], version: "1.36" };

fn http(action: &HttpGetAction) -> HttpProbe {
    HttpProbe::new(action, &TARGET, false)
}

async fn ask(answers: Vec<(&str, Then)>, timeout: Duration) -> Report {
    let script = serve(answers.into_iter().map(|(answer, then)| (answer.to_owned(), then)).collect()).await;
    http(&get(script.address.port(), "/")).run(timeout).await
}

fn body(report: &Report) -> &[u8] {
    match &report.output {
        TargetOutput::Http { body, .. } => body,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_what_the_kubelet_sends() {
    let mut script = serve(vec![("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(), Then::Hold)]).await;
    let port = script.address.port();
    let action = HttpGetAction {
        http_headers: vec![HttpHeader { name: "X-Probe".to_owned(), value: "1".to_owned() }],
        ..get(port, "/healthz?full=1")
    };
    let probe = http(&action);
    assert_eq!(probe.address(), Some(script.address));
    let report = probe.run(LONG).await;
    assert_eq!((report.outcome, body(&report)), (Outcome::Success, &b"ok"[..]));
    let request = script.requests.recv().await.unwrap();
    let expected = format!(
        "GET /healthz?full=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Probe: 1\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(request, expected);
}

#[tokio::test]
async fn bodies_count_when_they_are_whole() {
    let long = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(20_000));
    for (answer, then, outcome, length) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", Then::Hold, Outcome::Success, 3),
        ("HTTP/1.0 200 OK\r\n\r\nabc", Then::Close, Outcome::Success, 3),
        ("HTTP/1.1 204 No Content\r\n\r\n", Then::Hold, Outcome::Success, 0),
        (&long, Then::Hold, Outcome::Success, 10_240),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Then::Hold,
            Outcome::Success,
            0,
        ),
    ] {
        let report = ask(vec![(answer, then)], LONG).await;
        let TargetOutput::Http { body, .. } = &report.output else { panic!("no answer: {report:?}") };
        assert_eq!((report.outcome, body.len()), (outcome, length), "{report:?}");
    }
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ] {
        let report = ask(vec![(answer, Then::Close)], LONG).await;
        assert_eq!(report.outcome, Outcome::Failure, "{answer}");
    }
    let report = ask(vec![("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", Then::Hold)], SHORT).await;
    assert_eq!(report.outcome, Outcome::Failure, "stalled: {report:?}");
}

#[tokio::test]
async fn a_status_line_decides_whatever_the_body_does() {
    let report = ask(vec![("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", Then::Hold)], LONG).await;
    assert_eq!(report.outcome, Outcome::Failure);
    assert!(report.message.contains("503") && report.message.contains("busy"), "{}", report.message);
    let report = ask(vec![("HTTP/1.1 500 Oops\r\nContent-Length: 400\r\n\r\npartly", Then::Hold)], SHORT).await;
    assert_eq!(report.outcome, Outcome::Failure);
    assert!(report.message.contains("500") && report.message.contains("partly"), "{}", report.message);
    let report = ask(vec![("HTTP/1.1 101 Switching Protocols\r\n\r\n", Then::Hold)], LONG).await;
    assert_eq!(report.outcome, Outcome::Failure);
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let to = |location: &str| format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 99\r\n\r\n");
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned();
    let mut script =
        serve(vec![(to("/two"), Then::Hold), (to("http://127.0.0.1:PORT/three"), Then::Hold), (ok, Then::Hold)]).await;
    let report = http(&get(script.address.port(), "/one")).run(LONG).await;
    assert_eq!((report.outcome, body(&report)), (Outcome::Success, &b"ok"[..]));
    for path in ["/one", "/two", "/three"] {
        assert!(script.requests.recv().await.unwrap().starts_with(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:")));
    }
    let report = ask(vec![(&to("http://127.0.0.2/"), Then::Hold)], LONG).await;
    assert_eq!(report.outcome, Outcome::Warning);
    let report = ask(vec![("HTTP/1.1 304 Not Modified\r\n\r\n", Then::Hold)], LONG).await;
    assert_eq!(report.outcome, Outcome::Warning);
}

#[tokio::test]
async fn what_is_no_http_is_a_failure() {
    for answer in ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"] {
        let report = ask(vec![(answer, Then::Close)], LONG).await;
        assert_eq!(report.outcome, Outcome::Failure, "{answer:?}");
    }
}

/// A server that sends `head` and then `again` for as long as somebody takes it; it runs on a thread of its own.
fn flood(head: &'static [u8], again: &[u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let again = again.repeat(16_384 / again.len());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut sent = stream.write_all(head);
        while sent.is_ok() {
            sent = stream.write_all(&again);
        }
    });
    port
}

/// Carries out an attempt next to a task that always wants to run, on one thread, and returns how often that one had its turn.
fn beside_another<F: Future<Output = Report> + Send + 'static>(attempt: F) -> (Report, usize) {
    let (done, report) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = runtime.block_on(async {
            let turns = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&turns);
            let other = tokio::spawn(async move {
                loop {
                    counted.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
            let report = tokio::spawn(attempt).await.unwrap();
            other.abort();
            (report, turns.load(Ordering::Relaxed))
        });
        done.send(seen).unwrap();
    });
    report.recv_timeout(Duration::from_secs(15)).expect("the attempt ends by itself, long before its timeout")
}

#[test]
fn a_target_that_never_stops_answering_is_given_up_and_lets_others_run() {
    let endless: [(&str, &[u8], &[u8]); 6] = [
        ("interim answers", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("headers", b"HTTP/1.1 200 OK\r\n", b"a:\n"),
        ("one header", b"HTTP/1.1 200 OK\r\nx: ", b"y"),
        ("an extension of a chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", b"y"),
        ("trailers", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a:\n"),
        ("no line", b"HTTP/1.1 200 OK", b" "),
    ];
    for (what, head, again) in endless {
        let port = flood(head, again);
        let (report, turns) = beside_another(async move { http(&get(port, "/")).run(LONG).await });
        assert_eq!(report.outcome, Outcome::Failure, "{what}: {report:?}");
        if what == "interim answers" {
            assert!(report.message.contains("interim"), "{report:?}");
        }
        if matches!(what, "headers" | "trailers") {
            // A mebibyte in slices of 16 KiB.
            assert!(turns >= 32, "{what}: {turns}");
        }
    }
}

#[test]
fn a_grpc_server_that_floods_is_given_up_and_lets_others_run() {
    // SETTINGS, then frames without end: empty SETTINGS, PINGs, and interim headers of stream 1.
    let settings: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let ping: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let interim: &[u8] = &[0, 0, 5, 1, 4, 0, 0, 0, 1, 0x08, 3, b'1', b'0', b'3'];
    for (what, again) in [("settings", settings), ("pings", ping), ("interim headers", interim)] {
        let port = flood(&[0, 0, 0, 4, 0, 0, 0, 0, 0], again);
        let action = GrpcAction { port: port.into(), service: String::new() };
        let (report, turns) = beside_another(async move { GrpcProbe::new(&action, &TARGET).run(LONG).await });
        assert_eq!(report.outcome, Outcome::Failure, "{what}: {report:?}");
        assert!(turns > 0, "{what}");
    }
}

#[tokio::test]
async fn a_peer_that_reads_nothing_does_not_hold_up_the_close() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            held.push(stream);
        }
    });
    // More than the peer's kernel takes for it.
    let long = HttpHeader { name: "X-Long".to_owned(), value: "x".repeat(300_000) };
    let probe = http(&HttpGetAction { http_headers: vec![long], ..get(port, "/") });
    let before = Instant::now();
    for _ in 0..5 {
        assert_eq!(probe.run(LONG).await.outcome, Outcome::Success);
    }
    // Five times a second if a close waited for the peer.
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
}

/// Returns a port on which nobody listens.
async fn silent_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn refused_is_a_failure_at_once() {
    let port = silent_port().await;
    let before = Instant::now();
    let report = http(&get(port, "/")).run(LONG).await;
    assert_eq!(report.outcome, Outcome::Failure);
    assert!(report.message.contains("refused"), "{}", report.message);
    let tcp = TcpSocketAction { port: IntOrString::Int(port.into()), host: String::new() };
    let report = TcpProbe::new(&tcp, &TARGET).run(LONG).await;
    assert!(report.outcome == Outcome::Failure && report.message.contains("refused"), "{report:?}");
    let grpc = GrpcAction { port: port.into(), service: String::new() };
    let report = GrpcProbe::new(&grpc, &TARGET).run(LONG).await;
    assert!(report.outcome == Outcome::Failure && report.message.contains("refused"), "{report:?}");
    assert!(before.elapsed() < LONG / 2);
}

#[tokio::test]
async fn silence_is_a_failure_at_the_timeout() {
    // Accepted by the kernel, answered by nobody.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let before = Instant::now();
    let report = http(&get(port, "/")).run(SHORT).await;
    assert!(report.outcome == Outcome::Failure && report.message.contains("timed out after 300ms"), "{report:?}");
    let grpc = GrpcAction { port: port.into(), service: String::new() };
    let report = GrpcProbe::new(&grpc, &TARGET).run(SHORT).await;
    assert!(report.outcome == Outcome::Failure && report.message.contains("timed out"), "{report:?}");
    assert!(before.elapsed() >= 2 * SHORT);
}

#[tokio::test]
async fn a_tcp_probe_is_content_with_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let action = |host: &str| TcpSocketAction { port: IntOrString::String(port.to_string()), host: host.to_owned() };
    assert_eq!(TcpProbe::new(&action(""), &TARGET).run(LONG).await, Report::success());
    assert_eq!(TcpProbe::new(&action("127.0.0.1"), &TARGET).run(LONG).await, Report::success());
    assert_eq!(TcpProbe::new(&action("localhost"), &TARGET).run(LONG).await, Report::success());
    let nowhere = Target { pod_ip: None, ..TARGET };
    assert_eq!(TcpProbe::new(&action(""), &nowhere).run(LONG).await.outcome, Outcome::Error);
    let mut bytes = Vec::new();
    for _ in 0..3 {
        let (mut stream, _) = listener.accept().await.unwrap();
        // An end in good order, not a reset.
        assert_eq!(stream.read_to_end(&mut bytes).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn many_attempts_at_once_do_not_disturb_each_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let request = request(&mut stream).await;
                let path = request.split(' ').nth(1).unwrap().to_owned();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    let attempts: Vec<_> = (0..100)
        .map(|index| {
            let probe = http(&get(port, &format!("/{index}")));
            tokio::spawn(async move { probe.run(LONG).await })
        })
        .collect();
    for (index, attempt) in attempts.into_iter().enumerate() {
        assert_eq!(body(&attempt.await.unwrap()), format!("/{index}").as_bytes());
    }
}

#[tokio::test]
async fn https_needs_no_certificate_to_be_believed() {
    let made = rcgen::generate_simple_self_signed(vec!["somebody.example".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (names, mut seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            names.send(stream.get_ref().1.server_name().map(str::to_owned)).unwrap();
            let mut bytes = vec![0; 4096];
            let length = stream.read(&mut bytes).await.unwrap();
            assert!(bytes[..length].starts_with(b"GET /tls HTTP/1.1\r\n"));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsafe").await.unwrap();
            stream.flush().await.unwrap();
        }
    });
    for (host, name) in [("", None), ("localhost", Some("localhost".to_owned()))] {
        let action = HttpGetAction { scheme: "HTTPS".to_owned(), host: host.to_owned(), ..get(port, "/tls") };
        let report = http(&action).run(LONG).await;
        assert_eq!((report.outcome, body(&report)), (Outcome::Success, &b"safe"[..]), "{report:?}");
        assert_eq!(seen.recv().await.unwrap(), name, "a name is sent only for a name");
    }
    // Plain HTTP to a TLS port, and TLS to a plain port.
    assert_eq!(http(&get(port, "/tls")).run(LONG).await.outcome, Outcome::Failure);
    let script = serve(vec![("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(), Then::Close)]).await;
    drop(script.requests);
    let action = HttpGetAction { scheme: "HTTPS".to_owned(), ..get(script.address.port(), "/") };
    let report = http(&action).run(SHORT).await;
    assert_eq!(report.outcome, Outcome::Failure, "{report:?}");
}
