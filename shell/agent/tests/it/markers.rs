//! Probes of markers: what the NodePodProbe asks is run, what comes of it is in its status.

use agent::OnStop;
use api::marker::NodePodProbe;
use apiserver::Role;
use http::Method;
use runtime::{Scope, WatchEvent, watch};
use serde_json::{Value, json};

use crate::endpoint::ask;
use crate::plane::{NODE, Plane, script, server, within};
use crate::support::until;

const PATH: &str = "/apis/apps.kruise.io/v1alpha1/nodepodprobes";
const FOREVER: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

fn entry(name: &str, container: &str, probe: Value) -> Value {
    json!({"name": format!("m#{name}"), "containerName": container, "probe": probe})
}

fn exec(command: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "initialDelayMilliseconds": 0})
}

/// Has a pod probed.
async fn asked(plane: &Plane, pod: &Value, probes: Vec<Value>) {
    let metadata = &pod["metadata"];
    let item = json!({"name": metadata["name"], "namespace": "default", "uid": metadata["uid"],
        "IP": pod["status"]["podIP"], "probes": probes});
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {"name": NODE},
        "spec": {"podProbes": [item]}});
    plane.request(Method::POST, PATH, object).await.unwrap();
}

/// Returns the states, as `name state message`.
fn states(object: &Value) -> Vec<String> {
    let items = object["status"]["podProbeStatuses"].as_array().cloned().unwrap_or_default();
    let all = items.iter().flat_map(|item| item["probeStates"].as_array().cloned().unwrap_or_default());
    all.map(|state| {
        let text = |key: &str| state[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("name"), text("state"), text("message")).trim().to_owned()
    })
    .collect()
}

/// Waits until the states are as they should be, and returns the object.
async fn until_states(plane: &Plane, holds: impl Fn(&[String]) -> bool) -> Value {
    let mut seen = watch::<NodePodProbe>(&plane.client, Scope::fields(format!("metadata.name={NODE}")));
    let waiting = async {
        loop {
            if let WatchEvent::Applied(object) = seen.next().await
                && holds(&states(&object.json()))
            {
                return object.json();
            }
        }
    };
    within("the states", waiting).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_handler_is_carried_out_and_reported() {
    let plane = Plane::start().await;
    let (web, mut rpc) = (server("web", 0, 0), server("rpc", 0, 0));
    rpc["args"][1] = json!("grpc");
    let ports = [&web, &rpc].map(|container| container["ports"][0]["containerPort"].clone());
    plane.create_pod("all", json!({"containers": [web, rpc]})).await;
    let pod = plane.until_ready("all").await;
    let fast = |mut probe: Value| {
        let offsets =
            json!({"periodSeconds": 1, "periodMilliseconds": -800, "initialDelayMilliseconds": 0, "timeoutSeconds": 10});
        probe.as_object_mut().unwrap().extend(offsets.as_object().unwrap().clone());
        probe
    };
    let probes = vec![
        entry("exec", "web", exec("echo out; echo err >&2")),
        entry("broken", "web", exec("echo out; echo err >&2; exit 3")),
        entry("http", "web", fast(json!({"httpGet": {"path": "/", "port": ports[0]}}))),
        entry("tcp", "web", fast(json!({"tcpSocket": {"port": ports[0]}}))),
        entry("grpc", "rpc", fast(json!({"grpc": {"port": ports[1]}}))),
        entry("elsewhere", "web", fast(json!({"tcpSocket": {"host": "192.0.2.1", "port": ports[0]}}))),
    ];
    asked(&plane, &pod, probes).await;
    // A server may listen a little later than its container is ready: there is no readiness probe.
    let right = |states: &[String]| {
        let with = |start: &str| states.iter().any(|state| state.starts_with(start));
        states.len() == 6
            && with("m#exec Succeeded out")
            && with("m#broken Failed err")
            && with("m#http Succeeded")
            && with("m#tcp Succeeded")
            && with("m#grpc Succeeded SERVING")
            && with("m#elsewhere Unknown probe error: host is not allowed")
    };
    let object = until_states(&plane, right).await;
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"]);
    plane.until_event("all", "KruiseProbeSucceeded", "m#exec on container web: out").await;
    plane.until_event("all", "KruiseProbeFailed", "m#broken on container web: err").await;
    let (_, text) = ask(&plane, Some(plane.authority.client(&Role::Admin).unwrap()), "/metrics").await;
    for line in [
        "lifesign_marker_probe_total{namespace=\"default\",marker=\"m\",probe=\"broken\",result=\"failed\"}",
        "lifesign_marker_transitions_total{namespace=\"default\",marker=\"m\",probe=\"exec\",state=\"Succeeded\"} 1",
        "lifesign_probe_attempt_seconds_count{probe_type=\"Marker\",handler=\"grpc\",outcome=\"success\"}",
        "lifesign_probe_workers{probe_type=\"Marker\",handler=\"httpGet\",phase=\"slow\"} 1",
        "lifesign_marker_writes_total{resource=\"nodepodprobes/status\",result=\"ok\"}",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
    }
    plane.request(Method::DELETE, &format!("{PATH}/{NODE}"), json!({})).await.unwrap();
    let admin = || Some(plane.authority.client(&Role::Admin).unwrap());
    while ask(&plane, admin(), "/metrics").await.1.contains("marker=\"m\"") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marker_waits_for_the_startup_probe() {
    let plane = Plane::start().await;
    let mut container = script("app", FOREVER);
    container["workingDir"] = json!(plane.data_dir());
    container["startupProbe"] =
        json!({"exec": {"command": ["test", "-e", "up"]}, "periodSeconds": 1, "failureThreshold": 1000});
    plane.create_pod("slow", json!({"containers": [container]})).await;
    let pod = plane.until("slow", "running", |pod| pod["status"]["phase"] == "Running").await;
    asked(&plane, &pod, vec![entry("p", "app", exec("test -e up || touch early"))]).await;
    until_states(&plane, |states| states.is_empty()).await;
    plane.until_event("slow", "Unhealthy", "Startup probe failed").await;
    std::fs::write(plane.data_dir().join("up"), "").unwrap();
    until_states(&plane, |states| states == ["m#p Succeeded"]).await;
    assert!(!plane.data_dir().join("early").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_change_is_not_written_not_even_by_the_next_agent() {
    let mut plane = Plane::without_agent().await;
    plane.start_agent(OnStop::Leave).await;
    let mut container = script("app", FOREVER);
    container["workingDir"] = json!(plane.data_dir());
    plane.create_pod("calm", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let pod = plane.until_ready("calm").await;
    asked(&plane, &pod, vec![entry("p", "app", exec("echo asked >> asked; echo calm"))]).await;
    let object = until_states(&plane, |states| states == ["m#p Succeeded calm"]).await;
    let attempts = || std::fs::read_to_string(plane.data_dir().join("asked")).unwrap_or_default().lines().count();
    let version = || async {
        let object = plane.request(Method::GET, &format!("{PATH}/{NODE}"), Value::Null).await.unwrap();
        object["metadata"]["resourceVersion"].clone()
    };
    let before = attempts();
    until("further attempts", || attempts() >= before + 3).await;
    assert_eq!(version().await, object["metadata"]["resourceVersion"]);
    plane.stop_agent().await;
    plane.start_agent(OnStop::Leave).await;
    let attempts = || std::fs::read_to_string(plane.data_dir().join("asked")).unwrap_or_default().lines().count();
    let before = attempts();
    until("attempts of the next agent", || attempts() >= before + 2).await;
    let found = plane.request(Method::GET, &format!("{PATH}/{NODE}"), Value::Null).await.unwrap();
    assert_eq!(found["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    // The end of the container is a failure, whatever the thresholds are.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(plane.pid(&pod, "app")).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    until_states(&plane, |states| states == ["m#p Failed container \"app\" is not running"]).await;
}
