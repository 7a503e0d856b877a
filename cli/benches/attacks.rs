//! Does the plane go on while a client attacks it?
//!
//! The real binary probes 50 containers every 200 ms. One attack after the other runs for a while; meanwhile a stranger asks for
//! `/livez` ten times a second, the memory of the plane is looked at, and the agent's own histogram tells how late attempts started.
//! Run with `cargo bench -p lifesign --bench attacks -- SECONDS [NAME...]`; it fails if a bound is broken.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::{Plane, serve_ok};
use tokio::net::TcpStream;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const LAG: &str = "lifesign_probe_start_lag_seconds_bucket";
const WORKERS: usize = 50;
const LIVEZ_MAX: Duration = Duration::from_secs(1);
const LAG_MAX: f64 = 0.1;
const RSS_MAX_MB: u64 = 256;

type Attack = Pin<Box<dyn Future<Output = ()> + Send>>;
type Begin = fn(Target) -> Attack;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| !text.starts_with("--")).collect();
    let seconds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(10);
    let only: Vec<&String> = arguments.iter().filter(|text| text.parse::<u64>().is_err()).collect();
    let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
    plane.set_arguments(["--sub-second-probe-policy", "Always"]);
    plane.start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let good = runtime.block_on(run(&plane, Duration::from_secs(seconds), &only));
    runtime.shutdown_background();
    assert!(good, "a bound was broken");
}

/// A plane under attack, as attackers know it.
#[derive(Clone)]
struct Target {
    kubeconfig: Arc<std::path::PathBuf>,
    address: Arc<str>,
    node: Arc<str>,
}

impl Target {
    fn known(&self) -> Client {
        Client::new(&self.kubeconfig, Protocol::Http2).unwrap()
    }

    fn stranger(&self) -> Client {
        Client::without_certificate(&self.kubeconfig, Protocol::Http2).unwrap()
    }
}

async fn run(plane: &Plane, span: Duration, only: &[&String]) -> bool {
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    prepare(&client).await;
    let node = client.call("GET", "/api/v1/nodes", &Value::Null).await.unwrap().json()["items"][0].clone();
    let agent_port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    let agent = Client::of_agent(&plane.kubeconfig(), &format!("127.0.0.1:{agent_port}")).unwrap();
    let target = Target {
        kubeconfig: Arc::new(plane.kubeconfig()),
        address: plane.url().trim_start_matches("https://").into(),
        node: node["metadata"]["name"].as_str().unwrap().into(),
    };
    let attacks: [(&str, Begin); 9] = [
        ("none", |_| Box::pin(std::future::pending())),
        ("bodies-of-strangers", |target| Box::pin(bodies_of_strangers(target))),
        ("slow-bodies", |target| Box::pin(slow_bodies(target))),
        ("unread-lists", |target| Box::pin(unread_lists(target))),
        ("strategic-merge", |target| Box::pin(strategic_merge(target))),
        ("json-patch-moves", |target| Box::pin(json_patch_moves(target))),
        ("expressions", |target| Box::pin(expressions(target))),
        ("idle-connections", |target| Box::pin(idle_connections(target))),
        ("endless-line", |target| Box::pin(endless_line(target))),
    ];
    println!(
        "{:22} {:>12} {:>12} {:>14} {:>10} {:>10}",
        "attack", "livez p50", "livez max", "probes late by", "attempts", "RSS max"
    );
    let mut good = true;
    for (name, attack) in attacks.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|wanted| *wanted == name)) {
        let before = histogram(&agent).await;
        let attack = tokio::spawn(attack(target.clone()));
        let (mut times, rss) = watch(plane, &target, span).await;
        attack.abort();
        let after = histogram(&agent).await;
        times.sort_unstable();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        let (attempts, late) = latest(&before, &after);
        let fine = worst < LIVEZ_MAX && late <= LAG_MAX && rss < RSS_MAX_MB;
        println!(
            "{name:22} {:>9.1} ms {:>9.1} ms {:>11.1} ms {attempts:>10} {rss:>7} MB{}",
            median.as_secs_f64() * 1e3,
            worst.as_secs_f64() * 1e3,
            late * 1e3,
            if fine { "" } else { "  BROKEN" },
        );
        good &= fine;
    }
    good
}

/// Makes the probes that must go on, and what attacks are made on.
async fn prepare(client: &Client) {
    let port = serve_ok();
    let probe = json!({"httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "periodMilliseconds": -800});
    let container = |index: usize| json!({"name": format!("c{index}"), "image": "none", "command": ["sleep", "100000"], "readinessProbe": probe});
    let probed = json!({
        "metadata": {"name": "probed"},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": (0..WORKERS).map(container).collect::<Vec<_>>()},
    });
    // One line of 100 MB; the agent keeps some of it.
    let line = "head -c 100000000 /dev/zero | tr '\\0' x; sleep 100000";
    let writer = json!({
        "metadata": {"name": "writer"},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "none", "command": ["sh", "-c", line]}]},
    });
    for pod in [probed, writer] {
        assert_eq!(client.call("POST", PODS, &pod).await.unwrap().code, 201);
    }
    for number in 0..50 {
        let map = json!({"metadata": {"name": format!("large-{number}")}, "data": {"k": "x".repeat(1_000_000)}});
        assert_eq!(client.call("POST", CONFIGMAPS, &map).await.unwrap().code, 201);
    }
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(x, x in self.l)"}]});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lists.bench.lifesign.dev"},
        "spec": {"group": "bench.lifesign.dev", "scope": "Cluster", "names": {"plural": "lists", "kind": "List", "singular": "list"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", path, &definition).await.unwrap().code, 201);
    let started = Instant::now();
    loop {
        let pod = client.call("GET", &format!("{PODS}/probed"), &Value::Null).await.unwrap().json();
        let ready = pod["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        });
        if ready {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "the pod does not become ready: {}", pod["status"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Asks for `/livez` as a stranger and looks at the memory of the plane, ten times a second.
async fn watch(plane: &Plane, target: &Target, span: Duration) -> (Vec<Duration>, u64) {
    let started = Instant::now();
    let (mut times, mut rss) = (Vec::new(), 0);
    while started.elapsed() < span {
        let asked = Instant::now();
        // On a connection of its own: whoever looks after the plane has just come.
        let answer = tokio::time::timeout(4 * LIVEZ_MAX, target.stranger().call("GET", "/livez", &Value::Null)).await;
        let good = matches!(answer, Ok(Ok(answer)) if answer.code == 200);
        times.push(if good { asked.elapsed() } else { 4 * LIVEZ_MAX });
        rss = rss.max(resident_mb(plane));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (times, rss)
}

fn resident_mb(plane: &Plane) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", plane.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Returns the number of attempts, and how late the latest of them started, in seconds.
fn latest(before: &[(f64, f64)], after: &[(f64, f64)]) -> (u64, f64) {
    let earlier = |bound: f64| before.iter().find(|(other, _)| *other == bound).map_or(0.0, |(_, count)| *count);
    let counts: Vec<(f64, f64)> = after.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect();
    let total = counts.last().unwrap().1;
    (total as u64, counts.iter().find(|(_, count)| *count >= total).unwrap().0)
}

/// Returns upper bounds in seconds, and how many attempts started at most so late.
async fn histogram(agent: &Client) -> Vec<(f64, f64)> {
    let answer = agent.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let bound = |line: &str| match line.split("le=\"").nth(1).unwrap().split('"').next().unwrap() {
        "+Inf" => f64::INFINITY,
        number => number.parse().unwrap(),
    };
    let lines = text.lines().filter(|line| line.starts_with(LAG));
    let mut counts: Vec<(f64, f64)> =
        lines.map(|line| (bound(line), line.rsplit(' ').next().unwrap().parse().unwrap())).collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    counts
}

/// Keeps so many copies of an attack going.
async fn repeat<F: Future<Output = ()> + Send + 'static>(copies: usize, attack: impl Fn() -> F) {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..copies {
        running.spawn(attack());
    }
    while running.join_next().await.is_some() {
        running.spawn(attack());
    }
}

/// 300 requests with 3 MB each, from nobody.
async fn bodies_of_strangers(target: Target) {
    let client = Arc::new(target.stranger());
    let body = Bytes::from(vec![b'x'; 3 << 20]);
    repeat(300, move || {
        let (client, body) = (Arc::clone(&client), body.clone());
        async move {
            let request = http::Request::post("/version").body(Full::new(body)).unwrap();
            let _ = client.send(request).await;
        }
    })
    .await;
}

/// Bodies of a known client that never end: 300 of them, each one byte short of its announced 3 MB.
async fn slow_bodies(target: Target) {
    repeat(300, move || {
        let kubeconfig = Arc::clone(&target.kubeconfig);
        async move {
            use tokio::io::AsyncWriteExt;
            let Ok(mut stream) = testkit::client::tls_stream(&kubeconfig).await else { return };
            let head = format!("POST {CONFIGMAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 3 << 20);
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&vec![b' '; (3 << 20) - 1]).await;
            let _ = stream.flush().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    })
    .await;
}

/// 60 lists of 50 MB each that nobody reads.
async fn unread_lists(target: Target) {
    let clients: Vec<Client> = (0..6).map(|_| target.known()).collect();
    let mut unread = Vec::new();
    for number in 0..60 {
        let request = http::Request::get(CONFIGMAPS).body(Full::default()).unwrap();
        unread.push(clients[number % clients.len()].send(request).await);
    }
    std::future::pending().await
}

/// A status with 10,000 conditions, merged by key in an order of its own.
async fn strategic_merge(target: Target) {
    let type_ = |n: usize| json!({"type": format!("t{n}")});
    let patch = json!({"status": {
        "conditions": (0..10_000).rev().map(|n| json!({"type": format!("t{n}"), "status": "True"})).collect::<Vec<_>>(),
        "$setElementOrder/conditions": (0..10_000).rev().map(type_).collect::<Vec<_>>(),
    }});
    let client = Arc::new(target.known());
    let path = format!("/api/v1/nodes/{}/status?dryRun=All", target.node);
    repeat(8, move || {
        let (client, path, patch) = (Arc::clone(&client), path.clone(), patch.clone());
        async move {
            let type_ = [("content-type", "application/strategic-merge-patch+json")];
            let _ = client.call_with("PATCH", &path, &type_, &patch).await;
        }
    })
    .await;
}

/// 10,000 moves of a large value.
async fn json_patch_moves(target: Target) {
    let mut operations = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"l": vec![1; 200_000]}})];
    for n in 0..9_999 {
        let (from, path) = if n % 2 == 0 { ("l", "m") } else { ("m", "l") };
        operations.push(json!({"op": "move", "from": format!("/metadata/annotations/{from}"), "path": format!("/metadata/annotations/{path}")}));
    }
    let (client, operations) = (Arc::new(target.known()), Value::from(operations));
    repeat(8, move || {
        let (client, operations) = (Arc::clone(&client), operations.clone());
        async move {
            let type_ = [("content-type", "application/json-patch+json")];
            let _ = client.call_with("PATCH", &format!("{CONFIGMAPS}/large-0?dryRun=All"), &type_, &operations).await;
        }
    })
    .await;
}

/// A rule that looks for each of 100,000 numbers in all of them.
async fn expressions(target: Target) {
    let object = json!({"apiVersion": "bench.lifesign.dev/v1", "kind": "List", "metadata": {"name": "l"}, "l": (0..100_000).collect::<Vec<_>>()});
    let client = Arc::new(target.known());
    repeat(8, move || {
        let (client, object) = (Arc::clone(&client), object.clone());
        async move {
            let _ = client.call("POST", "/apis/bench.lifesign.dev/v1/lists?dryRun=All", &object).await;
        }
    })
    .await;
}

/// 10,000 connections from nobody, held open as long as they are let.
async fn idle_connections(target: Target) {
    let mut held = std::collections::VecDeque::new();
    loop {
        match TcpStream::connect(&*target.address).await {
            Ok(stream) => held.push_back(stream),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        if held.len() > 10_000 {
            held.pop_front();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The last line of a log that is one line.
async fn endless_line(target: Target) {
    let client = Arc::new(target.known());
    repeat(16, move || {
        let client = Arc::clone(&client);
        async move {
            let _ = client.call("GET", &format!("{PODS}/writer/log?tailLines=1"), &Value::Null).await;
        }
    })
    .await;
}
