//! Pods of an API server as processes of this machine.

use std::time::Duration;

use agent::OnStop;
use http::Method;
use processes::procfs;
use serde_json::{Value, json};

use crate::plane::{NODE, Plane, condition, restarts, script, server, status};
use crate::support::{is_gone, until};

fn probe(more: Value) -> Value {
    let mut probe = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1});
    probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    probe
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_is_registered_and_beats() {
    let plane = Plane::start().await;
    let node = || async { plane.request(Method::GET, &format!("/api/v1/nodes/{NODE}"), Value::Null).await.unwrap() };
    let mut found = node().await;
    while condition(&found, "Ready") != "True" {
        found = node().await;
    }
    assert_eq!(found["spec"]["podCIDR"], plane.ready.unwrap().pod_cidr.to_string());
    assert_eq!(found["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], plane.address().port());
    assert_eq!(found["metadata"]["labels"]["kubernetes.io/hostname"], NODE);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}");
    let lease = loop {
        if let Ok(lease) = plane.request(Method::GET, &path, Value::Null).await {
            break lease;
        }
    };
    assert_eq!(
        (lease["spec"]["holderIdentity"].as_str(), lease["spec"]["leaseDurationSeconds"].as_i64()),
        (Some(NODE), Some(40))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_somebody_deletes_comes_back() {
    let mut plane = Plane::without_agent().await;
    let mut config = plane.config(OnStop::Drain);
    config.heartbeat = Duration::from_secs(1);
    plane.start_agent_with(config).await;
    let path = format!("/api/v1/nodes/{NODE}");
    let before = plane.request(Method::GET, &path, Value::Null).await.unwrap();
    plane.request(Method::DELETE, &path, json!({})).await.unwrap();
    let back = async {
        loop {
            match plane.request(Method::GET, &path, Value::Null).await {
                Ok(node) if condition(&node, "Ready") == "True" => return node,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    let after = crate::plane::within("the node to come back", back).await;
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_ready_when_it_listens_and_not_before() {
    let plane = Plane::start().await;
    let mut container = server("web", 1_370, 0);
    container["readinessProbe"] = probe(json!({"periodMilliseconds": -800}));
    plane.create_pod("fast", json!({"containers": [container]})).await;
    let pod = plane.until_ready("fast").await;
    let seen = wall_micros();
    let log = crate::support::log_text(plane.instances(&pod, "web").last().unwrap().path());
    let listened: i64 = log.split("LISTEN ").nth(1).unwrap().trim().parse().unwrap();
    assert!(seen >= listened, "ready {} us before it listened", listened - seen);
    let web = status(&pod, "web");
    assert_eq!(
        (web["ready"].as_bool(), web["started"].as_bool(), web["restartCount"].as_i64()),
        (Some(true), Some(true), Some(0))
    );
    assert_eq!(pod["status"]["phase"], "Running");
    let ip = pod["status"]["podIP"].as_str().unwrap();
    assert!(plane.ready.unwrap().pod_cidr.contains(ip.parse().unwrap()));
    plane.until_event("fast", "Started", "web").await;
}

fn wall_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_and_sidecars_come_in_order() {
    let plane = Plane::start().await;
    let mut sidecar =
        script("proxy", "trap 'exit 0' TERM; echo proxy >> $LIFESIGN_VOLUMES/work/order; while :; do sleep 0.05; done");
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] =
        json!({"exec": {"command": ["grep", "-q", "proxy", "$(LIFESIGN_VOLUMES)/work/order"]}, "periodSeconds": 1});
    let spec = json!({
        "restartPolicy": "Never",
        "volumes": [{"name": "work", "emptyDir": {}}],
        "initContainers": [script("setup", "echo setup >> $LIFESIGN_VOLUMES/work/order"), sidecar],
        "containers": [script("app", "echo app >> $LIFESIGN_VOLUMES/work/order; cat $LIFESIGN_VOLUMES/work/order")],
    });
    plane.create_pod("ordered", spec).await;
    let pod = plane.until("ordered", "finished", |pod| pod["status"]["phase"] == "Succeeded").await;
    let log = crate::support::log_text(plane.instances(&pod, "app").last().unwrap().path());
    let words: Vec<&str> = log.lines().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(words, ["setup", "proxy", "app"]);
    assert_eq!(status(&pod, "proxy")["state"]["terminated"]["exitCode"], 0, "the sidecar was stopped after the app");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_liveness_probe_is_started_again() {
    let plane = Plane::start().await;
    let mut container = script("app", "trap 'exit 0' TERM; touch alive; while :; do sleep 0.05; done");
    container["workingDir"] = json!(plane.data_dir());
    // Three failures: the container has time to make the file before they count.
    container["livenessProbe"] =
        json!({"exec": {"command": ["test", "-f", "alive"]}, "periodSeconds": 1, "failureThreshold": 3});
    plane.create_pod("moody", json!({"containers": [container]})).await;
    plane.until_ready("moody").await;
    until("the file", || plane.data_dir().join("alive").exists()).await;
    std::fs::remove_file(plane.data_dir().join("alive")).unwrap();
    let pod = plane.until("moody", "restarted", |pod| restarts(pod, "app") >= 1).await;
    assert_eq!(status(&pod, "app")["lastState"]["terminated"]["exitCode"], 0);
    plane.until_event("moody", "Unhealthy", "Liveness probe failed").await;
    plane.until_event("moody", "Killing", "will be restarted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_asked_to_stop_and_leaves_nothing() {
    let plane = Plane::start().await;
    let farewell = plane.data_dir().join("farewell");
    let text = format!("trap 'echo bye > {}; exit 0' TERM; while :; do sleep 0.05; done", farewell.display());
    let mut container = script("app", &text);
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["sh", "-c", "echo hook > hook"]}}});
    container["workingDir"] = json!(plane.data_dir());
    plane.create_pod("short", json!({"containers": [container]})).await;
    let pod = plane.until_ready("short").await;
    let pid = plane.pid(&pod, "app");
    plane.delete_pod("short").await;
    plane.until_gone("short").await;
    assert!(is_gone(pid));
    assert!(farewell.exists() && plane.data_dir().join("hook").exists());
    let dir = plane.data_dir().join("pods").join(pod["metadata"]["uid"].as_str().unwrap());
    until("its directory to be gone", || !dir.exists()).await;
    assert!(plane.pod("short").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_whose_configuration_is_missing_waits_for_it() {
    let plane = Plane::start().await;
    let mut container = script("app", "echo \"$GREETING\"; exec sleep 1000");
    container["env"] = json!([{"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "hello"}}}]);
    plane.create_pod("waiting", json!({"containers": [container]})).await;
    let waits = |pod: &Value| status(pod, "app")["state"]["waiting"]["reason"] == "CreateContainerConfigError";
    let pod = plane.until("waiting", "waiting for its configuration", waits).await;
    let message = status(&pod, "app")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("words"), "{message}");
    plane.create("configmaps", json!({"metadata": {"name": "words"}, "data": {"hello": "good morning"}})).await;
    let pod = plane.until_ready("waiting").await;
    crate::support::wait_for_line(plane.instances(&pod, "app").last().unwrap().path(), "good morning").await;
    assert_eq!(status(&pod, "app")["restartCount"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_exist_backs_off() {
    let plane = Plane::start().await;
    plane.create_pod("typo", json!({"containers": [{"name": "app", "image": "none", "command": ["/no/such/program"]}]})).await;
    let backs_off = |pod: &Value| status(pod, "app")["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let pod = plane.until("typo", "backing off", backs_off).await;
    let last = status(&pod, "app")["lastState"]["terminated"].clone();
    assert_eq!((last["exitCode"].as_i64(), last["reason"].as_str()), (Some(127), Some("StartError")), "{last}");
    plane.until_event("typo", "BackOff", "10s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_all_addresses_does_not_make_another_pod_ready() {
    let plane = Plane::start().await;
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut container = script("app", "exec sleep 1000");
    container["readinessProbe"] = json!({"tcpSocket": {"port": port}, "periodSeconds": 1, "periodMilliseconds": -800});
    plane.create_pod("fooled", json!({"containers": [container]})).await;
    plane.until_event("fooled", "Unhealthy", "answered by another process; bind $POD_IP").await;
    assert_eq!(condition(&plane.pod("fooled").await.unwrap(), "Ready"), "False");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_on_without_their_agent_and_are_adopted() {
    let mut plane = Plane::without_agent().await;
    plane.start_agent(OnStop::Leave).await;
    let mut container = server("web", 0, 0);
    container["readinessProbe"] = probe(json!({}));
    plane.create_pod("steady", json!({"containers": [container.clone()]})).await;
    plane.create_pod("orphan", json!({"containers": [container]})).await;
    let before = plane.until_ready("steady").await;
    let orphan = plane.until_ready("orphan").await;
    let (pid, orphan_pid) = (plane.pid(&before, "web"), plane.pid(&orphan, "web"));
    plane.kill_agent().await;
    assert!(!is_gone(pid));
    // Nobody takes the addresses meanwhile.
    let cidr = plane.ready.unwrap().pod_cidr;
    assert!(processes::addresses::Claim::of(cidr, |_| false).is_err());
    let uid = &orphan["metadata"]["uid"];
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    plane.request(Method::DELETE, "/api/v1/namespaces/default/pods/orphan", options).await.unwrap();
    plane.start_agent(OnStop::Leave).await;
    until("the orphan to be gone", || is_gone(orphan_pid)).await;
    assert_eq!(plane.ready.unwrap().pod_cidr, cidr);
    let after = plane.pod("steady").await.unwrap();
    assert_eq!(after["status"], before["status"], "nothing was lost, nothing was written");
    assert_eq!(plane.pid(&after, "web"), pid);
    // It is looked after again.
    assert!(procfs::signal(pid, rustix::process::Signal::KILL).is_ok());
    plane.until("steady", "restarted", |pod| restarts(pod, "web") >= 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_agent_leaves_no_process_and_the_next_one_goes_on() {
    let mut plane = Plane::without_agent().await;
    // A corner that no other plane takes while nobody holds it, and another one in every run.
    let run = std::process::id();
    plane.pod_cidr = Some(format!("127.{}.{}.0/24", 240 + run % 15, run / 15 % 256).parse().unwrap());
    plane.start_agent(OnStop::Drain).await;
    let mut container = server("web", 0, 0);
    container["readinessProbe"] = probe(json!({}));
    plane.create_pod("drained", json!({"restartPolicy": "OnFailure", "containers": [container]})).await;
    let before = plane.until_ready("drained").await;
    let pid = plane.pid(&before, "web");
    plane.stop_agent().await;
    assert!(is_gone(pid));
    let stopped = plane.pod("drained").await.unwrap();
    assert_eq!((condition(&stopped, "Ready").as_str(), stopped["status"]["phase"].as_str()), ("False", Some("Running")));
    assert!(stopped["metadata"]["deletionTimestamp"].is_null());
    plane.start_agent(OnStop::Drain).await;
    let after = plane.until_ready("drained").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["podIP"], before["status"]["podIP"]);
    assert_eq!(status(&after, "web")["restartCount"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_away_stops_nothing() {
    let mut plane = Plane::start().await;
    let flag = plane.data_dir().join("flag");
    let mut probed = script("probed", "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let command = json!(["test", "-f", flag]);
    probed["readinessProbe"] =
        json!({"exec": {"command": command}, "periodSeconds": 1, "periodMilliseconds": -500, "failureThreshold": 1});
    plane.create("configmaps", json!({"metadata": {"name": "words"}, "data": {"name": "crash"}})).await;
    let mut crashing = script("crashing", "while [ ! -f $NAME ]; do sleep 0.05; done; mv $NAME done; exit 3");
    crashing["workingDir"] = json!(plane.data_dir());
    crashing["env"] = json!([{"name": "NAME", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "name"}}}]);
    plane.create_pod("alone", json!({"containers": [probed, crashing]})).await;
    let running = |pod: &Value| ["probed", "crashing"].iter().all(|name| status(pod, name)["started"] == true);
    let pod = plane.until("alone", "running", running).await;
    let pid = plane.pid(&pod, "crashing");
    plane.take_server_away();
    std::fs::write(&flag, b"").unwrap();
    std::fs::write(plane.data_dir().join("crash"), b"").unwrap();
    until("the container to be started again", || {
        let instances = plane.instances(&pod, "crashing");
        instances.len() == 2 && instances[1].pids().unwrap().is_some()
    })
    .await;
    assert!(is_gone(pid));
    plane.return_server().await;
    let after = plane.until_ready("alone").await;
    let crashing = status(&after, "crashing");
    assert_eq!(
        (crashing["restartCount"].as_i64(), crashing["lastState"]["terminated"]["exitCode"].as_i64()),
        (Some(1), Some(3))
    );
    assert_eq!(status(&after, "probed")["restartCount"], 0, "nothing is reset");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_asked_to_stop_only_when_nobody_sends_it_traffic() {
    let mut plane = Plane::without_agent().await;
    let mut config = plane.config(OnStop::Drain);
    config.drain_wait = Some(Duration::from_secs(25));
    plane.start_agent_with(config).await;
    let (hook, asked) = (plane.data_dir().join("hook"), plane.data_dir().join("asked"));
    let mut container = script("app", &format!("trap 'touch {}; exit 0' TERM; while :; do sleep 0.05; done", asked.display()));
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["touch", hook]}}});
    plane.create_pod("busy", json!({"containers": [container]})).await;
    let pod = plane.until_ready("busy").await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({
        "metadata": {"name": "busy-1", "labels": {"kubernetes.io/service-name": "busy"}},
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "busy", "uid": pod["metadata"]["uid"]},
        }],
        "ports": [],
    });
    let mut made = plane.request(Method::POST, slices, slice).await.unwrap();
    plane.delete_pod("busy").await;
    until("the hook", || hook.exists()).await;
    assert!(!asked.exists(), "the slice still sends traffic");
    made["endpoints"][0]["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
    let patch = json!({"endpoints": made["endpoints"]});
    plane.request(Method::PATCH, &format!("{slices}/busy-1"), patch).await.unwrap();
    plane.until_gone("busy").await;
    assert!(asked.exists());
}
