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

use crate::endpoint::ask_at;
use crate::fake_runtime::{Command, Made, Runtime};
use crate::plane::{NODE, Plane, condition, within};

/// A plane, a runtime, and an agent between them.
struct Cluster {
    plane: Plane,
    runtime: Runtime,
    socket: std::path::PathBuf,
    listen: SocketAddr,
    agent: Option<(CancellationToken, tokio::task::JoinHandle<()>)>,
    address: Option<SocketAddr>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Cluster {
        Cluster::listening(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    async fn listening(listen: SocketAddr) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("cri.sock");
        let runtime = Runtime::start(&socket);
        let plane = Plane::without_agent().await;
        let mut cluster = Cluster { plane, runtime, socket, listen, agent: None, address: None, _folder: folder };
        cluster.start_agent().await;
        cluster
    }

    async fn start_agent(&mut self) {
        let mut config = ClusterConfig::new(self.plane.client.clone(), Clock::system(), NODE, "default", &self.socket);
        let (sender, receiver) = oneshot::channel();
        config.on_ready = Some(sender);
        config.listen = self.listen;
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
    // By itself it would not end, nor would its call.
    let (takes, dies_in) = (Duration::from_secs(3600), Duration::from_millis(1_500));
    cluster.runtime.command("check", Command { takes, dies_in, ..Command::default() });
    cluster.run("c1", &uid);
    // The first attempt ends at its own deadline and its call is cancelled; the next waits until the command is gone.
    cluster.plane.until_event("job", "Unhealthy", "command timed out after 1000ms").await;
    within("the call to be cancelled", async {
        while !cluster.runtime.calls().contains(&"Cancelled".to_owned()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
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
async fn a_container_that_the_runtime_tells_nothing_of_takes_no_other_along() {
    let cluster = Cluster::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
    let (odd, web) = (cluster.pod("odd", probe.clone()).await, cluster.pod("web", probe).await);
    cluster.runtime.refuse("c1", true);
    cluster.run("c1", &odd);
    cluster.run("c2", &web);
    cluster.until("web", "True", "ready: app=c2").await;
    let pod = cluster.plane.pod("odd").await.unwrap();
    assert_ne!(condition(&pod, CONDITION), "True", "{pod}");
    cluster.runtime.refuse("c1", false);
    cluster.until("odd", "True", "ready: app=c1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_pod_that_nobody_probes_nothing_is_asked() {
    let cluster = Cluster::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let plain =
        json!({"metadata": {"name": "plain"}, "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "none"}]}});
    cluster.plane.create("pods", plain).await;
    let plain = cluster.plane.pod("plain").await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    cluster.run("c0", &plain);
    let web = cluster.pod("web", json!({"tcpSocket": {"port": port}, "periodSeconds": 1})).await;
    cluster.run("c1", &web);
    cluster.until("web", "True", "ready: app=c1").await;
    let all = |calls: &[String]| calls.iter().filter(|call| *call == "ListContainers").count();
    within("a list of everything after that", async {
        let before = all(&cluster.runtime.calls());
        while all(&cluster.runtime.calls()) < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let calls = cluster.runtime.calls();
    assert!(calls.contains(&"ContainerStatus c1".to_owned()), "{calls:?}");
    assert!(!calls.iter().any(|call| call.ends_with(" c0")), "{calls:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_kruise_daemon_the_markers_of_the_node_are_left_alone() {
    let cluster = Cluster::start().await;
    // This server has no DaemonSets, and collects what has no owner: something must be there under its name and uid.
    cluster.plane.create("configmaps", json!({"metadata": {"name": "kruise-daemon"}})).await;
    let owner = "/api/v1/namespaces/default/configmaps/kruise-daemon";
    let uid = cluster.plane.request(Method::GET, owner, Value::Null).await.unwrap()["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "kruise-daemon", "uid": uid}]);
    let daemon = json!({"metadata": {"name": "kruise-daemon-x", "ownerReferences": owner},
        "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 0, "containers": [{"name": "daemon", "image": "none"}]}});
    cluster.plane.create("pods", daemon).await;
    let uid = cluster.pod("game", json!({"exec": {"command": ["true"]}, "periodSeconds": 1})).await;
    cluster.run("c1", &uid);
    // Once a probe of its own has run, the agent knows what runs on its node.
    cluster.until("game", "True", "ready: app=c1").await;
    let entry = json!({"name": "m#idle", "containerName": "app",
        "probe": {"exec": {"command": ["idle"]}, "periodSeconds": 1, "initialDelayMilliseconds": 0}});
    let item = json!({"name": "game", "namespace": "default", "uid": uid, "IP": "127.0.0.1", "probes": [entry]});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {"name": NODE},
        "spec": {"podProbes": [item]}});
    let path = "/apis/apps.kruise.io/v1alpha1/nodepodprobes";
    cluster.plane.request(Method::POST, path, object).await.unwrap();
    let asked = || cluster.runtime.calls().iter().filter(|call| **call == "ExecSync c1").count();
    let own = format!("{path}/{NODE}");
    let state = async || {
        let object = cluster.plane.request(Method::GET, &own, Value::Null).await.unwrap();
        object["status"]["podProbeStatuses"][0]["probeStates"][0]["state"].as_str().map(str::to_owned)
    };
    let before = asked();
    within("two more attempts of the moved probe", async {
        while asked() < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(state().await, None);
    cluster.plane.delete_pod("kruise-daemon-x").await;
    within("a result once the daemon is gone", async {
        while state().await.as_deref() != Some("Succeeded") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_this_machine_it_is_tls_and_the_cluster_says_who_may_read() {
    let cluster = Cluster::listening(SocketAddr::from(([0, 0, 0, 0], 0))).await;
    let address = SocketAddr::from(([127, 0, 0, 1], cluster.address.unwrap().port()));
    let ask = async |path: &str, token: Option<&str>| {
        ask_at(address, runtime::tls_without_verification().with_no_client_auth(), path, token).await
    };
    assert_eq!(ask("/healthz", None).await, (200, "ok".to_owned()));
    for path in ["/metrics", "/debug/probes"] {
        assert_eq!(ask(path, None).await.0, 401, "{path}");
        assert_eq!(ask(path, Some("nonsense")).await.0, 401, "{path}");
    }
    // Known, and without rights of its own.
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let made = cluster.plane.request(Method::POST, path, json!({"spec": {}})).await.unwrap();
    let token = made["status"]["token"].as_str().unwrap();
    assert_eq!(ask("/metrics", Some(token)).await.0, 403);
}
