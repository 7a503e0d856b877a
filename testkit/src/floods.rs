//! Clients at their worst: what one of them can send, ask for or leave unread, for tests and benchmarks of what others notice.
//!
//! A flood goes on until it is dropped. It counts what it has done, so that whoever looks knows when it is at full strength.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Client, Protocol, tls_stream};
use crate::plane::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const BODY_BYTES: usize = 3 << 20;

/// A plane as those who flood it know it.
#[derive(Clone)]
pub struct Target {
    kubeconfig: Arc<PathBuf>,
    address: Arc<str>,
    node: Arc<str>,
    done: Arc<AtomicUsize>,
}

/// Something that goes on until it is dropped.
pub type Going = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One way to flood a plane.
pub struct Flood {
    /// What it is called.
    pub name: &'static str,
    /// What it must have done to be at full strength.
    pub enough: usize,
    begin: fn(Target) -> Going,
}

/// Every flood.
pub static FLOODS: [Flood; 11] = [
    Flood { name: "bodies-of-strangers", enough: 600, begin: |target| Box::pin(bodies_of_strangers(target)) },
    Flood { name: "slow-bodies", enough: 300, begin: |target| Box::pin(slow_bodies(target)) },
    Flood { name: "slow-bodies-http2", enough: 300, begin: |target| Box::pin(slow_bodies_http2(target)) },
    Flood { name: "unread-lists", enough: 60, begin: |target| Box::pin(unread_lists(target, CONFIGMAPS, 60)) },
    Flood { name: "unread-small", enough: 400, begin: |target| Box::pin(unread_lists(target, SECRETS, 400)) },
    Flood { name: "strategic-merge", enough: 8, begin: |target| Box::pin(strategic_merge(target)) },
    Flood { name: "json-patch-moves", enough: 8, begin: |target| Box::pin(json_patch_moves(target)) },
    Flood { name: "expressions", enough: 8, begin: |target| Box::pin(expressions(target)) },
    Flood { name: "idle-connections", enough: 5_000, begin: |target| Box::pin(idle_connections(target)) },
    Flood { name: "endless-line", enough: 16, begin: |target| Box::pin(endless_line(target)) },
    Flood { name: "endless-answers", enough: 10, begin: |target| Box::pin(endless_answers(target)) },
];

impl Flood {
    /// Returns the flood of a name.
    pub fn named(name: &str) -> Option<&'static Flood> {
        FLOODS.iter().find(|flood| flood.name == name)
    }

    /// Returns the flood, which goes on until it is dropped.
    pub fn begin(&self, target: &Target) -> Going {
        (self.begin)(target.clone())
    }
}

impl Target {
    /// Returns a running plane as a target.
    pub async fn of(plane: &Plane) -> Target {
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).expect("a client");
        let nodes = client.call("GET", "/api/v1/nodes", &Value::Null).await.expect("an answer").json();
        Target {
            kubeconfig: Arc::new(plane.kubeconfig()),
            address: plane.url().trim_start_matches("https://").into(),
            node: nodes["items"][0]["metadata"]["name"].as_str().expect("a node").into(),
            done: Arc::default(),
        }
    }

    /// Returns how much the flood has done.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn known(&self) -> Client {
        Client::new(&self.kubeconfig, Protocol::Http2).expect("a client")
    }

    /// Returns a client without credentials, on a connection of its own.
    pub fn stranger(&self) -> Client {
        Client::without_certificate(&self.kubeconfig, Protocol::Http2).expect("a client")
    }
}

/// Creations that are under way at once while a plane is prepared.
const AT_ONCE: usize = 16;

/// Makes what floods are about: `large` ConfigMaps of a megabyte, `small` Secrets of 1 KB, a pod whose log is one line, a kind
/// whose rule takes quadratic time.
pub async fn prepare(client: &Client, large: usize, small: usize) {
    // One line of 100 MB; the agent keeps some of it.
    let line = "head -c 100000000 /dev/zero | tr '\\0' x; sleep 100000";
    create(client, PODS, &pod("writer", &json!([{"name": "c", "image": "none", "command": ["sh", "-c", line]}]))).await;
    for number in 0..large {
        let map = json!({"metadata": {"name": format!("large-{number}")}, "data": {"k": "x".repeat(1_000_000)}});
        create(client, CONFIGMAPS, &map).await;
    }
    let secret = |number| json!({"metadata": {"name": format!("small-{number}")}, "stringData": {"k": "x".repeat(700)}});
    let secrets = futures::stream::iter((0..small).map(secret));
    secrets.for_each_concurrent(AT_ONCE, |secret| async move { create(client, SECRETS, &secret).await }).await;
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(x, x in self.l)"}]});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lists.bench.lifesign.dev"},
        "spec": {"group": "bench.lifesign.dev", "scope": "Cluster", "names": {"plural": "lists", "kind": "List", "singular": "list"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
}

/// Returns a pod with these containers that ends fast.
pub fn pod(name: &str, containers: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1, "containers": containers}})
}

async fn create(client: &Client, path: &str, object: &Value) {
    let answer = client.call("POST", path, object).await.expect("an answer");
    assert_eq!(answer.code, 201, "{path}: {}", String::from_utf8_lossy(&answer.body));
}

/// Returns the resident memory of a running plane, in megabytes.
pub fn resident_mb(plane: &Plane) -> u64 {
    let path = format!("/proc/{}/status", plane.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).expect("the plane is running");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("Linux says it");
    line.split_ascii_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") / 1024
}

/// Keeps so many copies of something going; each that ends is counted.
async fn repeat<F: Future<Output = ()> + Send + 'static>(target: &Target, copies: usize, attack: impl Fn() -> F) {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..copies {
        running.spawn(attack());
    }
    while running.join_next().await.is_some() {
        target.count();
        running.spawn(attack());
    }
}

/// 300 requests with 3 MB each, from nobody.
async fn bodies_of_strangers(target: Target) {
    let client = Arc::new(target.stranger());
    let body = Bytes::from(vec![b'x'; BODY_BYTES]);
    repeat(&target, 300, move || {
        let (client, body) = (Arc::clone(&client), body.clone());
        async move {
            let request = http::Request::post("/version").body(Full::new(body)).expect("a request");
            let _ = client.send(request).await;
        }
    })
    .await;
}

/// Bodies of a known client that never end: 300 of them, each one byte short of its announced 3 MB. Who is refused comes back.
async fn slow_bodies(target: Target) {
    let head = format!("POST {CONFIGMAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    let short = Bytes::from([head.as_bytes(), &vec![b' '; BODY_BYTES - 1]].concat());
    repeat(&target.clone(), 300, move || {
        let (target, short) = (target.clone(), short.clone());
        async move {
            if let Ok(mut stream) = tls_stream(&target.kubeconfig).await
                && stream.write_all(&short).await.is_ok()
                && stream.flush().await.is_ok()
            {
                target.count();
                let _ = stream.read(&mut [0; 1024]).await;
            }
        }
    })
    .await;
}

/// The same over HTTP/2, on 30 connections: bodies as large as their window, which nobody may fill.
async fn slow_bodies_http2(target: Target) {
    let mut sent = Vec::new();
    for _ in 0..30 {
        let client = Arc::new(target.known());
        sent.push(tokio::spawn({
            let target = target.clone();
            async move {
                let body = Bytes::from(vec![b' '; BODY_BYTES + 1]);
                repeat(&target.clone(), 10, move || {
                    let (client, body) = (Arc::clone(&client), body.clone());
                    async move {
                        let request = http::Request::post(CONFIGMAPS).header("content-type", "application/json");
                        let _ = client.send(request.body(Full::new(body)).expect("a request")).await;
                    }
                })
                .await;
            }
        }));
    }
    futures::future::join_all(sent).await;
}

/// Lists that nobody reads, ten on a connection.
async fn unread_lists(target: Target, path: &'static str, count: usize) {
    let clients: Vec<Client> = (0..count.div_ceil(10)).map(|_| target.known()).collect();
    let mut unread = Vec::new();
    for number in 0..count {
        let request = http::Request::get(path).body(Full::default()).expect("a request");
        unread.push(clients[number / 10].send(request).await);
        target.count();
    }
    std::future::pending().await
}

/// Keeps eight copies of a request going.
async fn requests(target: Target, method: &'static str, path: String, type_: &'static str, body: Value) {
    let (client, body) = (Arc::new(target.known()), Arc::new(body));
    repeat(&target, 8, move || {
        let (client, path, body) = (Arc::clone(&client), path.clone(), Arc::clone(&body));
        async move {
            let _ = client.call_with(method, &path, &[("content-type", type_)], &body).await;
        }
    })
    .await;
}

/// A status with 10,000 conditions, merged by key in an order of its own.
async fn strategic_merge(target: Target) {
    let type_ = |n: usize| json!({"type": format!("t{n}")});
    let patch = json!({"status": {
        "conditions": (0..10_000).rev().map(|n| json!({"type": format!("t{n}"), "status": "True"})).collect::<Vec<_>>(),
        "$setElementOrder/conditions": (0..10_000).rev().map(type_).collect::<Vec<_>>(),
    }});
    let path = format!("/api/v1/nodes/{}/status?dryRun=All", target.node);
    requests(target, "PATCH", path, "application/strategic-merge-patch+json", patch).await;
}

/// 10,000 moves of a large value.
async fn json_patch_moves(target: Target) {
    let mut operations = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"l": vec![1; 200_000]}})];
    for n in 0..9_999 {
        let (from, path) = if n % 2 == 0 { ("l", "m") } else { ("m", "l") };
        operations.push(json!({"op": "move", "from": format!("/metadata/annotations/{from}"), "path": format!("/metadata/annotations/{path}")}));
    }
    let path = format!("{CONFIGMAPS}/large-0?dryRun=All");
    requests(target, "PATCH", path, "application/json-patch+json", Value::from(operations)).await;
}

/// A rule that looks for each of 100,000 numbers in all of them.
async fn expressions(target: Target) {
    let object = json!({"apiVersion": "bench.lifesign.dev/v1", "kind": "List", "metadata": {"name": "l"}, "l": (0..100_000).collect::<Vec<_>>()});
    let path = "/apis/bench.lifesign.dev/v1/lists?dryRun=All".to_owned();
    requests(target, "POST", path, "application/json", object).await;
}

/// 10,000 connections from nobody, held open as long as they are let.
async fn idle_connections(target: Target) {
    let mut held = VecDeque::new();
    loop {
        match TcpStream::connect(&*target.address).await {
            Ok(stream) => {
                held.push_back(stream);
                target.count();
            }
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
    requests(target, "GET", format!("{PODS}/writer/log?tailLines=1"), "application/json", Value::Null).await;
}

/// Containers that answer each probe with interim answers without end.
async fn endless_answers(target: Target) {
    let port = interim_answers(Arc::clone(&target.done));
    let probe = json!({"httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "periodMilliseconds": -800});
    let container =
        |n: usize| json!({"name": format!("c{n}"), "image": "none", "command": ["sleep", "100000"], "readinessProbe": probe});
    create(&target.known(), PODS, &pod("chatty", &(0..10).map(container).collect())).await;
    std::future::pending().await
}

/// Answers every connection with `100 Continue` for as long as somebody takes it; counts those that end.
fn interim_answers(done: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let done = Arc::clone(&done);
            std::thread::spawn(move || {
                let answers = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
                while stream.write_all(answers.as_bytes()).is_ok() {}
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    port
}
