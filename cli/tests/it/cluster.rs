//! `lifesign controllers --endpointslice-controller` on a cluster: no fight with the controller there, metrics, events.
//!
//! The cluster is a Lifesign API behind a [`Front`] that passes everything on and adds what a cluster's own controller leaves
//! behind, the field manager of the slices that it wrote. Its version is that of a cluster too.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;
use tokio::net::TcpListener;

use crate::LIFESIGN;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// An API that looks like that of a cluster.
struct Front {
    address: SocketAddr,
    state: Arc<FrontState>,
}

#[derive(Default)]
struct FrontState {
    /// How long ago kube-controller-manager wrote the slices; `None`: it never did.
    written: Mutex<Option<Duration>>,
    /// Requests that would change something.
    writes: Mutex<Vec<String>>,
    /// Whether new slices are refused.
    refusing: AtomicBool,
}

impl Front {
    async fn open(plane: &Plane) -> Front {
        let client = Arc::new(Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(FrontState::default());
        let front = Front { address, state: Arc::clone(&state) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, state) = (Arc::clone(&client), Arc::clone(&state));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (client, state) = (Arc::clone(&client), Arc::clone(&state));
                    async move { Ok::<_, Infallible>(pass(&client, request, &state).await) }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        front
    }

    fn kube_controller_manager_wrote(&self, ago: Duration) {
        *self.state.written.lock().unwrap() = Some(ago);
    }

    fn writes(&self) -> Vec<String> {
        self.state.writes.lock().unwrap().clone()
    }

    fn controllers(&self, plane: &Plane, arguments: &[&str]) -> Command {
        let path = plane.folder().join("cluster.kubeconfig");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let mut command = Command::new(LIFESIGN);
        command.args(["controllers", "--endpointslice-controller", "--kubeconfig"]).arg(path).args(arguments);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// Passes a request on; what is listed of slices says who wrote them.
async fn pass(client: &Client, request: Request<Incoming>, state: &FrontState) -> Response<BoxBody<Bytes, hyper::Error>> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().unwrap().as_str().to_owned();
    let body = body.collect().await.unwrap().to_bytes();
    if parts.method != http::Method::GET {
        state.writes.lock().unwrap().push(format!("{} {target}", parts.method));
    }
    if parts.method == http::Method::POST && target.contains("/endpointslices") && state.refusing.load(Ordering::Relaxed) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
            "reason": "InternalError", "message": "the disk is full"});
        return reply(http::StatusCode::INTERNAL_SERVER_ERROR, &status);
    }
    let mut onward = Request::builder().method(parts.method).uri(&target);
    for name in ["accept", "content-type"] {
        if let Some(value) = parts.headers.get(name) {
            onward = onward.header(name, value);
        }
    }
    let (parts, body) = client.send(onward.body(Full::new(body)).unwrap()).await.unwrap().into_parts();
    let listing = target.contains("/endpointslices") && !target.contains("watch=");
    if target != "/version" && !listing {
        return Response::from_parts(parts, body.boxed());
    }
    let mut answer: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    if target == "/version" {
        answer["gitVersion"] = "v1.36.4".into();
    }
    if let Some(ago) = *state.written.lock().unwrap() {
        let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap() - ago;
        let time = api::Timestamp(machine::Time::from_secs(i64::try_from(at.as_secs()).unwrap())).to_string();
        for slice in answer["items"].as_array_mut().into_iter().flatten() {
            slice["metadata"]["managedFields"] = json!([{"manager": "kube-controller-manager", "operation": "Update",
                "apiVersion": "discovery.k8s.io/v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:endpoints": {}}}]);
        }
    }
    reply(parts.status, &answer)
}

fn reply(status: http::StatusCode, answer: &Value) -> Response<BoxBody<Bytes, hyper::Error>> {
    let answer = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {}).boxed();
    Response::builder().status(status).header("content-type", "application/json").body(answer).unwrap()
}

/// A process that ends with the test.
struct Running {
    child: Child,
    metrics: Option<SocketAddr>,
}

impl Running {
    /// Starts it and waits until it says where its metrics are.
    fn start(mut command: Command) -> Running {
        let mut running = Running { child: command.spawn().unwrap(), metrics: None };
        let mut lines = BufReader::new(running.child.stderr.take().unwrap());
        let mut output = String::new();
        while running.metrics.is_none() {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended: {output}");
            output.push_str(&line);
            let address = line.trim_end().split_once("metrics on http://").map(|(_, address)| address);
            running.metrics = address.map(|address| address.strip_suffix("/metrics").unwrap().parse().unwrap());
        }
        // What it says later is of no interest, but somebody must read it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        running
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "a clean stop");
    }

    /// Returns what it serves.
    async fn metrics(&self) -> String {
        let address = self.metrics.expect("it was waited for");
        let get = move || {
            let mut stream = std::net::TcpStream::connect(address)?;
            std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(text)
        };
        tokio::task::spawn_blocking(get).await.unwrap().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let list = client.call("GET", path, &Value::Null).await.unwrap().json();
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn make(client: &Client, path: &str, object: &Value) {
    let answer = client.call("POST", path, object).await.unwrap();
    assert_eq!(answer.code, 201, "{}", answer.json());
}

/// Waits until the metrics of the controller have, for each of these, a line that begins so; returns the answer.
async fn shows(running: &Running, lines: &[&str]) -> String {
    let deadline = std::time::Instant::now() + crate::PATIENCE * 4;
    loop {
        let metrics = running.metrics().await;
        let there = |line: &str| {
            metrics
                .lines()
                .any(|found| found.strip_prefix("endpoint_slice_controller_").is_some_and(|found| found.starts_with(line)))
        };
        let Some(missing) = lines.iter().find(|line| !there(line)) else { return metrics };
        assert!(std::time::Instant::now() < deadline, "{missing} is not in\n{metrics}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Makes a Service, and waits until a slice was made for it.
async fn slices_are_made(client: &Client, running: &Running, name: &str) {
    make(client, SERVICES, &service(name)).await;
    shows(running, &["changes{operation=\"create\"}"]).await;
    assert!(names(client, SLICES).await.iter().any(|slice| slice.starts_with(&format!("{name}-"))));
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "trafficDistribution": "PreferSameZone",
        "ports": [{"port": 80}]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_refuses_to_fight_the_controller_of_a_cluster() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let front = Front::open(&plane).await;
    let slice = json!({"metadata": {"name": "theirs", "labels": {"kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "endpoints": [], "ports": []});
    make(&client, SLICES, &slice).await;

    front.kube_controller_manager_wrote(Duration::ZERO);
    let mut command = front.controllers(&plane, &[]);
    let refused = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let output = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{output}");
    for part in ["kube-controller-manager wrote the EndpointSlice default/theirs", "-endpointslice-controller", "--force"] {
        assert!(output.contains(part), "{part} is not in: {output}");
    }
    assert_eq!(front.writes(), [""; 0], "nothing is written, not even a lease");
    assert_eq!(names(&client, LEASES).await, [""; 0]);

    let forced = Running::start(front.controllers(&plane, &["--force"]));
    slices_are_made(&client, &forced, "forced").await;
    forced.stop();

    // Who wrote two minutes ago and not since is gone.
    front.kube_controller_manager_wrote(Duration::from_secs(120));
    let alone = Running::start(front.controllers(&plane, &[]));
    slices_are_made(&client, &alone, "alone").await;
    alone.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_serves_metrics_and_tells_of_writes_that_fail() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let front = Front::open(&plane).await;
    front.state.refusing.store(true, Ordering::Relaxed);
    make(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let pod = json!({"metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]}});
    make(&client, PODS, &pod).await;
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let patch = [("content-type", "application/merge-patch+json")];
    let answer = client.call_with("PATCH", &format!("{PODS}/web-0/status"), &patch, &status).await.unwrap();
    assert_eq!(answer.code, 200, "{}", answer.json());
    make(&client, SERVICES, &service("web")).await;

    let running = Running::start(front.controllers(&plane, &["--metrics-addr", "127.0.0.1:0"]));
    shows(&running, &["syncs{result=\"error\"}"]).await;
    let deadline = std::time::Instant::now() + crate::PATIENCE * 4;
    let event = loop {
        let events = client.call("GET", "/api/v1/namespaces/default/events", &Value::Null).await.unwrap().json();
        let mut events = events["items"].as_array().unwrap().clone().into_iter();
        if let Some(event) = events.find(|event| event["reason"] == "FailedToUpdateEndpointSlices") {
            break event;
        }
        assert!(std::time::Instant::now() < deadline, "no event");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let about = &event["involvedObject"];
    assert_eq!(
        (&event["type"], &about["kind"], &about["name"]),
        (&json!("Warning"), &json!("Service"), &json!("web")),
        "{event}"
    );
    assert_eq!(event["source"]["component"], "endpoint-slice-controller", "{event}");
    assert!(event["message"].as_str().unwrap().contains("the disk is full"), "{event}");

    front.state.refusing.store(false, Ordering::Relaxed);
    let lines = [
        "endpoints_added_per_sync_count",
        "endpoints_removed_per_sync_count",
        "endpoints_desired 1",
        "num_endpoint_slices 1",
        "desired_endpoint_slices 1",
        "changes{operation=\"create\"} 1",
        "endpointslices_changed_per_sync_count{topology=\"Disabled\",traffic_distribution=\"PreferSameZone\"}",
        "syncs{result=\"success\"}",
        "services_count_by_traffic_distribution{traffic_distribution=\"PreferSameZone\"} 1",
        "endpoint_transitions_total{from=\"absent\",to=\"ready\"}",
        "endpoints{ready=\"true\",serving=\"true\",terminating=\"false\"} 1",
        "sync_duration_seconds_count",
        "programming_latency_seconds_count 1",
    ];
    let metrics = shows(&running, &lines).await;
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.contains("application/openmetrics-text"), "{metrics}");
    running.stop();
}
