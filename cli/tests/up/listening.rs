//! Ready when it listens: a container that refuses connections is asked until somebody accepts one.

use serde_json::{Value, json};

use crate::{Up, server, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server that listens late, with a probe whose second attempt nobody will live to see.
fn late(name: &str, arguments: &[&str], probe: Value) -> Value {
    let mut pod = server(name, &[&["--log", "--listen-after", "700ms"][..], arguments].concat());
    pod["spec"]["containers"][0]["readinessProbe"] = probe;
    pod["spec"]["containers"][0]["readinessProbe"]["periodSeconds"] = 3_600.into();
    pod
}

/// Returns how many connections and requests a server has seen.
fn seen(up: &Up, pod: &str) -> (usize, usize) {
    let log = up.text(&format!("{PODS}/{pod}/log"));
    let count = |word: &str| log.lines().filter(|line| line.starts_with(word)).count();
    (count("CONNECTION"), count("REQUEST"))
}

#[test]
fn a_late_server_is_ready_when_it_listens_and_sees_one_connection_and_one_request() {
    let up = Up::start_with(&["--second-look=false"]);
    up.create_pod(&late("http", &[], json!({"httpGet": {"path": "/ready", "port": 8080}})));
    up.create_pod(&late("https", &["--tls"], json!({"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTPS"}})));
    up.create_pod(&late("tcp", &["--tcp"], json!({"tcpSocket": {"port": 8080}})));
    up.create_pod(&late("grpc", &["--grpc"], json!({"grpc": {"port": 8080}})));
    for (pod, requests) in [("http", 1), ("https", 1), ("tcp", 0), ("grpc", 1)] {
        up.wait_ready(pod);
        // The log is written by another process, a moment later.
        until("the connection is in the log", || seen(&up, pod).0 > 0);
        assert_eq!(seen(&up, pod), (1, requests), "{pod}");
        let worker = worker(&up, pod);
        let outcomes: Vec<&str> =
            worker["outcomes"].as_array().unwrap().iter().map(|past| past["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["failure", "success"], "{worker}");
        assert_eq!(worker["knocking"], false, "{worker}");
        assert!(worker["knocksRefused"].as_u64().unwrap() > 0, "{worker}");
    }
    let metrics = up.agent_text("/metrics");
    assert!(metrics.lines().any(|line| line == "lifesign_probe_knocks_total{result=\"accepted\"} 4"), "{metrics}");
    let refused = metrics.lines().find_map(|line| line.strip_prefix("lifesign_probe_knocks_total{result=\"refused\"} "));
    assert!(refused.unwrap().parse::<u64>().unwrap() >= 4, "{refused:?}");
}

#[test]
fn nobody_knocks_with_the_gate_off() {
    let up = Up::start_with(&["--second-look=false", "--feature-gates", "ProbeOnListen=false"]);
    up.create_pod(&late("http", &[], json!({"httpGet": {"path": "/ready", "port": 8080}})));
    up.wait_for(PODS, "http", "running", |pod| pod["status"]["containerStatuses"][0]["state"].get("running").is_some());
    until("it listens", || up.text(&format!("{PODS}/http/log")).contains("LISTEN"));
    let worker = worker(&up, "http");
    assert_eq!((&worker["knocking"], &worker["knocksRefused"]), (&json!(false), &json!(0)), "{worker}");
    assert_eq!(seen(&up, "http"), (0, 0));
}

fn worker(up: &Up, pod: &str) -> Value {
    let probes: Value = serde_json::from_str(&up.agent_text("/debug/probes")).expect("JSON");
    probes["workers"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|worker| worker["pod"] == pod)
        .expect("a worker of the pod")
        .clone()
}
