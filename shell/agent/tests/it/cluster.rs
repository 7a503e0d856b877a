//! The agent of a node whose pods somebody else runs: a container runtime of the test's own, sockets on loopback.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use agent::ClusterConfig;
use api::moved::{ANNOTATION_MOVED_PROBES, CONDITION};
use http::Method;
use runtime::Clock;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::fake_runtime::{Command, Made, Runtime};
use crate::plane::{NODE, Plane, condition, within};

/// A plane, a runtime, and an agent between them.
struct Cluster {
    plane: Plane,
    runtime: Runtime,
    socket: std::path::PathBuf,
    agent: Option<(CancellationToken, tokio::task::JoinHandle<()>)>,
    address: Option<SocketAddr>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("cri.sock");
        let runtime = Runtime::start(&socket);
        let plane = Plane::without_agent().await;
        let mut cluster = Cluster { plane, runtime, socket, agent: None, address: None, _folder: folder };
        cluster.start_agent().await;
        cluster
    }

    async fn start_agent(&mut self) {
        let mut config = ClusterConfig::new(self.plane.client.clone(), Clock::system(), NODE, "default", &self.socket);
        let (sender, receiver) = oneshot::channel();
        config.on_ready = Some(sender);
        let stop = CancellationToken::new();
        let running = agent::run_in_cluster(config, stop.clone());
        let task = tokio::spawn(async move { running.await.unwrap() });
        self.address = Some(within("the agent to run", receiver).await.unwrap());
        self.agent = Some((stop, task));
    }

    async fn stop_agent(&mut self) {
        let (stop, task) = self.agent.take().unwrap();
        stop.cancel();
        within("the agent to stop", task).await.unwrap();
    }

    /// Creates a pod with a moved probe; returns its uid.
    async fn pod(&self, name: &str, probe: Value) -> String {
        let moved = json!({"app": probe}).to_string();
        let pod = json!({
            "metadata": {"name": name, "annotations": {ANNOTATION_MOVED_PROBES: moved}},
            "spec": {"nodeName": NODE, "readinessGates": [{"conditionType": CONDITION}],
                "containers": [{"name": "app", "image": "none", "env": [{"name": "MODE", "value": "quick"}]}]},
        });
        self.plane.create("pods", pod).await;
        self.plane.pod(name).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Has a container run from now on, on this machine's own address.
    fn run(&self, id: &str, uid: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let started_at = i64::try_from(now).unwrap();
        let made =
            Made { pod_uid: uid.into(), name: "app".into(), running: true, started_at, ip: "127.0.0.1".into(), exit_code: 0 };
        self.runtime.set(id, made);
    }

    fn end(&self, id: &str, uid: &str) {
        self.runtime.set(id, Made { pod_uid: uid.into(), name: "app".into(), exit_code: 1, ..Made::default() });
    }

    async fn until(&self, name: &str, status: &str, part: &str) -> Value {
        let shown = |pod: &Value| {
            let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = all.iter().find(|one| one["type"] == CONDITION).cloned().unwrap_or_default();
            found["message"].as_str().is_some_and(|message| message.contains(part))
        };
        self.plane.until(name, &format!("{status} {part}"), |pod| condition(pod, CONDITION) == status && shown(pod)).await
    }

    async fn get(&self, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(self.address.unwrap()).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

/// Returns a port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_probe_knocks_until_the_pod_listens_and_follows_its_container() {
    let mut cluster = Cluster::start().await;
    let port = free_port();
    // Without knocks the second attempt would come after ten minutes.
    let uid = cluster.pod("web", json!({"tcpSocket": {"port": port}, "periodSeconds": 600})).await;
    cluster.until("web", "False", "has not started").await;
    cluster.run("c1", &uid);
    cluster.until("web", "False", "app=c1").await;
    cluster
        .plane
        .until_event("web", "Unhealthy", &format!("tcp 127.0.0.1:{port}: connection refused; does the server listen"))
        .await;
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    cluster.until("web", "True", "ready: app=c1").await;
    let debug = cluster.get("/debug/probes").await;
    assert!(debug.contains("\"container\": \"app\"") && debug.contains("Readiness"), "{debug}");
    assert!(cluster.get("/metrics/probes").await.contains("prober_probe_total"));
    assert!(cluster.get("/metrics").await.contains("lifesign_probe_knocks_total"));
    assert!(cluster.get("/healthz").await.ends_with("ok"));

    // A restart of the agent says nothing: the version of the pod stays.
    let before = cluster.plane.pod("web").await.unwrap()["metadata"]["resourceVersion"].clone();
    cluster.stop_agent().await;
    cluster.start_agent().await;
    let asked = cluster.runtime.calls().len();
    within("lists", async {
        while cluster.runtime.calls().len() < asked + 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(cluster.plane.pod("web").await.unwrap()["metadata"]["resourceVersion"], before);

    cluster.end("c1", &uid);
    cluster.until("web", "False", "the container is not running").await;
    cluster.run("c2", &uid);
    cluster.until("web", "True", "ready: app=c2").await;
    drop(listener);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/lifesign-agent-n1";
    let lease = cluster.plane.request(Method::GET, lease, Value::Null).await.unwrap();
    assert_eq!((&lease["spec"]["leaseDurationSeconds"], &lease["spec"]["holderIdentity"]), (&json!(40), &json!(NODE)));
    let annotations = &lease["metadata"]["annotations"];
    assert!(annotations["lifesign.dev/capabilities"].as_str().unwrap().contains("moved-probes"), "{annotations}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_through_the_runtime_one_at_a_time() {
    let cluster = Cluster::start().await;
    let uid =
        cluster.pod("job", json!({"exec": {"command": ["check", "$(MODE)"]}, "periodSeconds": 1, "timeoutSeconds": 1})).await;
    cluster.runtime.command("check", Command { takes: Duration::from_millis(2_500), ..Command::default() });
    cluster.run("c1", &uid);
    // The first attempt ends at its own deadline while the command goes on; the next waits for its end.
    cluster.plane.until_event("job", "Unhealthy", "command timed out after 1000ms").await;
    assert_eq!(cluster.runtime.under_way(), 1);
    cluster.runtime.command("check", Command::default());
    let most = Arc::new(AtomicUsize::new(0));
    let watching = async {
        loop {
            most.fetch_max(cluster.runtime.under_way(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = cluster.until("job", "True", "ready: app=c1") => {}
        () = watching => {}
    }
    assert!(most.load(Ordering::Relaxed) <= 1, "commands of one probe never overlap");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_runtime_the_status_is_enough_but_for_commands_and_it_comes_back() {
    let mut cluster = Cluster::start().await;
    cluster.runtime.go_away();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    cluster.pod("web", json!({"tcpSocket": {"port": port}, "periodSeconds": 1})).await;
    let uid = cluster.pod("job", json!({"exec": {"command": ["true"]}, "periodSeconds": 1})).await;
    for name in ["web", "job"] {
        let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let container = json!({"name": "app", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "started": true,
            "containerID": format!("fake://{name}-1"), "state": state});
        let status =
            json!({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "containerStatuses": [container]}});
        let path = format!("/api/v1/namespaces/default/pods/{name}/status");
        cluster.plane.request(Method::PATCH, &path, status).await.unwrap();
    }
    cluster.until("web", "True", "ready: app=web-1").await;
    let socket = cluster.socket.display().to_string();
    cluster.plane.until_event("job", "Unhealthy", &format!("unix://{socket} cannot be reached")).await;
    cluster.runtime.come_back();
    cluster.run("job-1", &uid);
    cluster.until("job", "True", "ready: app=job-1").await;
}
