//! What does one change of readiness cost the whole plane, end to end?
//!
//! `lifesign up` runs PODS pods (`sleep`) behind one Service. Eight of them are probed every 200 ms over HTTP at a server in
//! this program, the others once an hour. The server makes one of the eight not ready or ready again; this client waits until
//! the EndpointSlice says so, then the next. The CPU time of the plane's process per change holds everything: attempt, status
//! write, its commit, the events, the slice write, the proxy. What the probing itself costs is measured before, for as long as the
//! changes took, and taken off. Run with `cargo bench -p lifesign --bench flips -- PODS CHANGES`; `LIFESIGN_BENCH_BINARY` names
//! another binary to measure.
//!
//! `cargo bench -p lifesign --bench flips -- objects 1000` measures memory: so many pods that no agent runs (their node never
//! beats), each changed ten times; and how many watch events were parsed, where the binary counts them.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// How many pods change.
const CHANGING: usize = 8;
/// How often the CPU clock of a process ticks.
const TICKS_PER_SECOND: f64 = 100.0;

/// Whether the server says that a pod is well, by number.
type Well = Arc<Vec<AtomicBool>>;
/// What the slices say of each pod.
type Ready = Arc<Mutex<BTreeMap<String, bool>>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|text| text.parse::<usize>().ok());
    let binary = std::env::var("LIFESIGN_BENCH_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_lifesign").to_owned());
    let mut plane = Plane::new(binary).whole();
    plane.set_environment("RUST_LOG", "warn");
    plane.set_arguments(["--sub-second-probe-policy", "Always", "--node-name", "bench"]);
    plane.start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if arguments.iter().any(|text| text == "objects") {
        runtime.block_on(objects(&plane, numbers.next().unwrap_or(1000)));
    } else {
        runtime.block_on(changes(&plane, numbers.next().unwrap_or(200), numbers.next().unwrap_or(400)));
    }
    plane.stop();
}

async fn changes(plane: &Plane, pods: usize, changes: usize) {
    let client = || Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let well: Well = Arc::new((0..CHANGING).map(|_| AtomicBool::new(true)).collect());
    let port = serve(Arc::clone(&well)).await;
    let ready = Ready::default();
    tokio::spawn(watch_slices(client(), Arc::clone(&ready)));
    let admin = client();
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080}]}});
    assert_eq!(admin.call("POST", "/api/v1/namespaces/default/services", &service).await.unwrap().code, 201);
    for index in 0..pods {
        let get = json!({"host": "127.0.0.1", "port": port, "path": format!("/{index}")});
        let probe = if index < CHANGING {
            json!({"httpGet": get, "periodSeconds": 1, "periodMilliseconds": -800, "failureThreshold": 1})
        } else {
            json!({"httpGet": get, "periodSeconds": 3600})
        };
        let container = json!({"name": "web", "image": "none", "command": ["sleep", "infinity"], "readinessProbe": probe});
        // Not by the scheduler: a node says that it takes 110 pods.
        let spec = json!({"nodeName": "bench", "containers": [container], "terminationGracePeriodSeconds": 0});
        let metadata = json!({"name": name(index), "labels": {"app": "web"}, "annotations": annotations()});
        let pod = json!({"metadata": metadata, "spec": spec});
        assert_eq!(admin.call("POST", PODS, &pod).await.unwrap().code, 201);
    }
    for index in 0..pods {
        wait(&ready, &name(index), true).await;
    }
    // What starting left to do is done.
    tokio::time::sleep(Duration::from_secs(5)).await;
    change(&well, &ready, CHANGING * 2).await;
    let (cpu, began) = (cpu_seconds(plane), Instant::now());
    change(&well, &ready, changes).await;
    let (busy, took) = (cpu_seconds(plane) - cpu, began.elapsed());
    let cpu = cpu_seconds(plane);
    tokio::time::sleep(took).await;
    let idle = cpu_seconds(plane) - cpu;
    let per_change = |seconds: f64| seconds * 1e3 / changes as f64;
    println!("{pods} pods, {changes} changes in {:.1} s, resident {} MiB", took.as_secs_f64(), resident_mib(plane));
    println!(
        "CPU per change: {:.2} ms, of it probing {:.2} ms: {:.2} ms",
        per_change(busy),
        per_change(idle),
        per_change(busy - idle)
    );
}

/// Makes one pod after the other not ready, then ready again.
async fn change(well: &Well, ready: &Ready, changes: usize) {
    for number in 0..changes {
        let (index, to) = (number % CHANGING, (number / CHANGING) % 2 == 1);
        well[index].store(to, Ordering::Relaxed);
        wait(ready, &name(index), to).await;
    }
}

async fn objects(plane: &Plane, pods: usize) {
    let admin = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let node = json!({"metadata": {"name": "elsewhere"}});
    assert_eq!(admin.call("POST", "/api/v1/nodes", &node).await.unwrap().code, 201);
    let before = (resident_mib(plane), parsed(&admin).await);
    for index in 0..pods {
        let container = json!({"name": "web", "image": "none", "command": ["sleep", "infinity"]});
        let spec = json!({"containers": [container], "nodeName": "elsewhere"});
        let metadata = json!({"name": name(index), "labels": {"app": "web"}, "annotations": annotations()});
        assert_eq!(admin.call("POST", PODS, &json!({"metadata": metadata, "spec": spec})).await.unwrap().code, 201);
    }
    for round in 0..10 {
        for index in 0..pods {
            let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
            let code = admin.call("PATCH", &format!("{PODS}/{}", name(index)), &patch).await.unwrap().code;
            assert_eq!(code, 200);
        }
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = (resident_mib(plane), parsed(&admin).await);
    println!("{pods} pods, {} events of pods: resident {} MiB before, {} MiB after", pods * 11, before.0, after.0);
    match (before.1, after.1) {
        (Some(before), Some(after)) => println!("watch events of pods that were parsed: {}", after - before),
        _ => println!("this binary does not count what it parses"),
    }
}

/// Some text as tools leave it: pods of real clusters are not small.
fn annotations() -> Value {
    json!({"example.com/configuration": "a pod of a real cluster carries a few hundred bytes of this. ".repeat(8)})
}

fn name(index: usize) -> String {
    format!("web-{index}")
}

/// Returns how many watch events of pods the plane has parsed, if it counts them.
async fn parsed(admin: &Client) -> Option<u64> {
    let request = http::Request::get("/metrics").body(Full::new(Bytes::new())).unwrap();
    let body = admin.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    let line = text.lines().find(|line| line.starts_with("lifesign_informer_events_total") && line.contains("kind=\"Pod\""))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Returns the CPU time that the plane's process has used.
fn cpu_seconds(plane: &Plane) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", plane.pid().as_raw_nonzero())).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / TICKS_PER_SECOND
}

fn resident_mib(plane: &Plane) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", plane.pid().as_raw_nonzero())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

async fn wait(ready: &Ready, name: &str, wanted: bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while ready.lock().unwrap().get(name) != Some(&wanted) {
        assert!(Instant::now() < deadline, "{name} is never ready={wanted}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Answers probes: 200 for a pod that is well, else 503.
async fn serve(well: Well) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let well = Arc::clone(&well);
            tokio::spawn(async move {
                let answer = service_fn(|request: http::Request<hyper::body::Incoming>| {
                    let index: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
                    let fine = well.get(index).is_none_or(|well| well.load(Ordering::Relaxed));
                    let code = if fine { 200 } else { 503 };
                    std::future::ready(Ok::<_, Infallible>(
                        http::Response::builder().status(code).body(Full::new(Bytes::new())).unwrap(),
                    ))
                });
                // Whoever asks may hang up.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    port
}

/// Follows what the slices say, for ever.
async fn watch_slices(client: Client, ready: Ready) {
    let request = http::Request::get(format!("{SLICES}?watch=true")).body(Full::new(Bytes::new())).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    let mut buffer = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(frame.data_ref().unwrap());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let mut ready = ready.lock().unwrap();
            for endpoint in event["object"]["endpoints"].as_array().into_iter().flatten() {
                let Some(name) = endpoint["targetRef"]["name"].as_str() else { continue };
                ready.insert(name.to_owned(), endpoint["conditions"]["ready"] == true);
            }
        }
    }
}
