//! Services: EndpointSlices that know terminating endpoints, and a proxy that loses no request.

use std::net::SocketAddr;

use processes::addresses::{Claim, SERVICE_RANGE};
use serde_json::{Value, json};
use testkit::load;

use crate::{Up, script, server, until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 8080, "targetPort": 8080}]},
    })
}

impl Up {
    pub(crate) fn create_service(&self, name: &str) -> SocketAddr {
        let (code, answer) = self.call("POST", "/api/v1/namespaces/default/services", &service(name));
        assert_eq!(code, 201, "{answer}");
        let address = answer["spec"]["clusterIP"].as_str().expect("a cluster IP");
        format!("{address}:8080").parse().expect("an address")
    }

    /// Waits until the slices of a service satisfy a condition; its one slice has few endpoints here.
    pub(crate) fn wait_for_slice(&self, service: &str, what: &str, good: impl Fn(&[Value]) -> bool) -> Value {
        self.wait_for_slice_since("", service, what, good)
    }

    /// Does the same with every state since a resourceVersion: none is missed, however slow this is.
    fn wait_for_slice_since(&self, version: &str, service: &str, what: &str, good: impl Fn(&[Value]) -> bool) -> Value {
        let selector = format!("labelSelector=kubernetes.io/service-name%3D{service}");
        let path = format!("{SLICES}?watch=true&{selector}&resourceVersion={version}");
        let mut last = Value::Null;
        let found = self.patiently(self.follow(&path, |_, slice| {
            last = slice.clone();
            good(slice["endpoints"].as_array().map_or(&[], Vec::as_slice))
        }));
        assert!(found.is_some(), "the slice is never {what}: {last:#}\nlog:\n{}", self.plane.log());
        last
    }
}

fn conditions(endpoint: &Value) -> (bool, bool, bool) {
    let is = |name: &str| endpoint["conditions"][name] == true;
    (is("ready"), is("serving"), is("terminating"))
}

#[test]
fn a_deleted_pod_is_a_terminating_endpoint_until_it_is_gone() {
    let up = Up::start();
    up.create_service("web");
    up.create_pod(&server("web", &["--drain", "1s"]));
    let slice = up.wait_for_slice("web", "ready", |all| all.len() == 1 && conditions(&all[0]) == (true, true, false));
    up.call("DELETE", &format!("{PODS}/web"), &Value::Null);
    let version = slice["metadata"]["resourceVersion"].as_str().expect("a version");
    up.wait_for_slice_since(version, "web", "terminating", |all| all.len() == 1 && conditions(&all[0]) == (false, true, true));
    up.wait_for_slice("web", "empty", <[Value]>::is_empty);
}

#[test]
fn readiness_that_changes_while_terminating_is_visible() {
    let up = Up::start();
    let (ok, hold) = (up.plane.folder().join("ok"), up.plane.folder().join("hold"));
    std::fs::write(&ok, b"").unwrap();
    std::fs::write(&hold, b"").unwrap();
    up.create_service("web");
    let text =
        format!("trap 'while [ -e {} ]; do sleep 0.05; done; exit 0' TERM; while :; do sleep 0.05; done", hold.display());
    let mut pod = script("web", &text);
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["spec"]["terminationGracePeriodSeconds"] = 300.into();
    pod["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", ok]}, "periodSeconds": 1, "failureThreshold": 1});
    up.create_pod(&pod);
    up.wait_for_slice("web", "ready", |all| all.len() == 1 && conditions(&all[0]) == (true, true, false));
    up.call("DELETE", &format!("{PODS}/web"), &Value::Null);
    up.wait_for_slice("web", "terminating", |all| all.len() == 1 && conditions(&all[0]) == (false, true, true));
    std::fs::remove_file(&ok).unwrap();
    up.wait_for_slice("web", "not serving", |all| all.len() == 1 && conditions(&all[0]) == (false, false, true));
    std::fs::write(&ok, b"").unwrap();
    up.wait_for_slice("web", "serving again", |all| all.len() == 1 && conditions(&all[0]) == (false, true, true));
    std::fs::remove_file(&hold).unwrap();
    up.wait_for_slice("web", "empty", <[Value]>::is_empty);
}

/// Keeps requests coming while every pod is replaced, one at a time; returns how many there were and how many failed.
fn roll(arguments: &[&str]) -> (usize, usize) {
    const GENERATIONS: usize = 2;
    const REPLICAS: usize = 3;
    let up = Up::start();
    let address = up.create_service("web");
    let pod = |name: &str| {
        let mut pod = server(name, arguments);
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod
    };
    for replica in 0..REPLICAS {
        up.create_pod(&pod(&format!("web-0-{replica}")));
        up.wait_ready(&format!("web-0-{replica}"));
    }
    up.wait_for_slice("web", "complete", |all| all.iter().filter(|endpoint| conditions(endpoint).0).count() == REPLICAS);
    load::while_done(address, || {
        for generation in 1..=GENERATIONS {
            for replica in 0..REPLICAS {
                let (new, old) = (format!("web-{generation}-{replica}"), format!("web-{}-{replica}", generation - 1));
                up.create_pod(&pod(&new));
                up.wait_ready(&new);
                up.call("DELETE", &format!("{PODS}/{old}"), &Value::Null);
                up.wait_gone(PODS, &old);
            }
        }
    })
}

#[test]
fn no_request_is_lost_while_draining_servers_are_replaced() {
    let (sent, failed) = roll(&["--drain", "300ms"]);
    assert_eq!(failed, 0, "of {sent}");
}

#[test]
fn no_request_is_lost_while_servers_that_exit_at_once_are_replaced() {
    let (sent, failed) = roll(&[]);
    assert_eq!(failed, 0, "of {sent}");
}

#[test]
fn services_get_new_addresses_when_another_plane_took_their_range() {
    // A corner that no plane takes by itself; another run has another one.
    let run = std::process::id();
    let range = format!("127.{}.{}.0/24", 240 + run % 15, run / 15 % 256);
    let mut up = Up::start_with(&["--service-cluster-ip-range", &range]);
    let before = up.create_service("web");
    up.create_pod(&server("web", &[]));
    up.wait_ready("web");
    assert!(up.plane.stop().success());

    let taken = Claim::of(range.parse().unwrap(), |_| false).expect("a stopped plane gives its range back");
    up.start_again(&[]);
    let service = up.get("/api/v1/namespaces/default/services/web");
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    assert!(SERVICE_RANGE.contains(address.parse().unwrap()), "{address}");
    assert_eq!(service["spec"]["clusterIPs"], json!([address]));
    assert_ne!(before.ip().to_string(), address);
    up.wait_for_slice("web", "ready", |all| all.iter().any(|endpoint| conditions(endpoint).0));
    let address = format!("{address}:8080").parse().unwrap();
    until("the service answers at its new address", || load::answers_ok(address));

    // What was given once stays, also when the first range is free again.
    drop(taken);
    assert!(up.plane.stop().success());
    up.start_again(&[]);
    assert_eq!(up.get("/api/v1/namespaces/default/services/web")["spec"]["clusterIP"], address.ip().to_string());
}

/// Returns whether any endpoint says `serving` or `terminating`.
fn knows_terminating(slice: &Value) -> bool {
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    let has = |endpoint: &Value, name: &str| !endpoint["conditions"][name].is_null();
    endpoints.iter().any(|endpoint| has(endpoint, "serving") || has(endpoint, "terminating"))
}

#[test]
fn the_gate_takes_the_conditions_away_with_the_next_write_and_brings_them_back() {
    let mut up = Up::start();
    up.create_service("web");
    let pod = |name: &str, arguments: &[&str]| {
        let mut pod = server(name, arguments);
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod
    };
    let ready = |count: usize| {
        move |all: &[Value]| all.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == count
    };
    up.create_pod(&pod("web-0", &["--drain", "20s"]));
    let before = up.wait_for_slice("web", "ready", ready(1));
    assert!(knows_terminating(&before));

    // A crash, so that nothing changes but the gate.
    up.plane.kill();
    up.start_again(&["--feature-gates", "EndpointSliceTerminatingCondition=false"]);
    up.create_service("other");
    up.wait_for_slice("other", "made", |_| true);
    let stored = up.wait_for_slice("web", "there", |_| true);
    assert_eq!(stored, before, "what is stored stays until the next write");
    up.create_pod(&pod("web-1", &[]));
    let written = up.wait_for_slice("web", "written", ready(2));
    assert!(!knows_terminating(&written), "{written:#}");
    up.call("DELETE", &format!("{PODS}/web-0"), &Value::Null);
    up.wait_for_slice("web", "without the terminating pod", |all| all.len() == 1);
    assert!(up.get(&format!("{PODS}/web-0"))["metadata"]["deletionTimestamp"].is_string(), "it is still draining");

    up.plane.kill();
    up.start_again(&[]);
    up.create_pod(&pod("web-2", &[]));
    let again = up.wait_for_slice("web", "complete", ready(2));
    assert!(knows_terminating(&again), "{again:#}");
}
