//! A definition of the kind that is somebody else's, as on OpenShift: everything is seen and told, nothing is written.

use std::io::{Read, Write};
use std::process::Command;

use serde_json::{Value, json};

use super::parts::{CLUSTER, MEDIUM, Parts, files};
use crate::LIFESIGN;
use crate::bed::Bed;

/// Where an operator would have rendered the arguments of its component.
const NAMESPACE: &str = "openshift-kube-controller-manager";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodes.config.openshift.io";

/// The cluster as OpenShift has it, until the end of the test.
struct OpenShift<'a>(&'a Bed);

impl OpenShift<'_> {
    fn new(bed: &Bed) -> OpenShift<'_> {
        let foreign = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "openshift"}}});
        bed.send("PATCH", DEFINITION, &foreign);
        let guard = OpenShift(bed);
        bed.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}));
        let config =
            json!({"kind": "KubeControllerManagerConfig", "extendedArguments": {"node-monitor-grace-period": ["40s"]}});
        let map = json!({"metadata": {"name": "config"}, "data": {"config.yaml": config.to_string()}});
        bed.send("POST", &format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), &map);
        let cluster = json!({"apiVersion": "config.openshift.io/v1", "kind": "Node", "metadata": {"name": "cluster"},
            "spec": {"workerLatencyProfile": MEDIUM}});
        bed.send("POST", CLUSTER.trim_end_matches("/cluster"), &cluster);
        guard
    }
}

impl Drop for OpenShift<'_> {
    fn drop(&mut self) {
        self.0.ask("DELETE", &format!("/api/v1/namespaces/{NAMESPACE}"), &Value::Null);
        self.0.install_definitions();
    }
}

fn profile(bed: &Bed, arguments: &[&str]) -> String {
    let (good, text) = try_profile(bed, arguments);
    assert!(good, "{arguments:?}: {text}");
    text
}

fn try_profile(bed: &Bed, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(LIFESIGN);
    command.arg("profile").args(arguments).arg("--kubeconfig").arg(bed.kubeconfig());
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns what the controllers measure.
fn metrics(parts: &Parts<'_>) -> String {
    parts.until("figures are there", |_| {
        let log = parts.controllers.as_ref()?.log();
        let address = log.split_once("metrics on http://")?.1.split_once("/metrics")?.0.to_owned();
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.contains("lifesign_latency_profile_info{").then_some(text)
    })
}

pub(super) fn nothing_is_written_to_somebody_elses_kind(bed: &Bed) {
    let mut parts = Parts::agent_alone(bed);
    let _openshift = OpenShift::new(bed);
    let before = bed.get(CLUSTER);
    parts.start_controllers(&[]);
    parts.until("they say that it is not theirs", |_| {
        parts.controllers.as_ref()?.log().contains("nodes.config.openshift.io is not ours").then_some(())
    });
    for (arguments, words) in [
        (&["plan"][..], &["Default -> MediumUpdateAverageReaction", "40s", "blocked: kcm openshift ComponentNotAware"][..]),
        (&["status"], &["wanted   MediumUpdateAverageReaction", "GraceBelowReconnect", "10s 40s 300s/300s 4 Safe"]),
        (&["simulate", "--days", "0.1"], &["1 nodes", "in use 10/40/300", "MediumUpdateAverageReaction"]),
    ] {
        let text = profile(bed, arguments);
        println!("{text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no {word:?} in\n{text}");
        }
    }
    for arguments in [&["set", "Low"][..], &["pause"], &["resume"], &["retry"], &["uninstall"]] {
        let (good, text) = try_profile(bed, arguments);
        assert!(!good && text.contains("is not managed by lifesign"), "{arguments:?}: {text}");
    }
    let (good, text) = crate::installation::lifesign(bed, &["--check", "--features", "markers,probes,profiles"]);
    assert!(!good && text.contains("error    profiles: nodes.config.openshift.io is somebody else's"), "{text}");
    let metrics = metrics(&parts);
    for line in [
        "lifesign_nodes_in_hazard_class{class=\"Safe\"} 1",
        "lifesign_latency_profile_info{spec=\"MediumUpdateAverageReaction\"",
    ] {
        assert!(metrics.contains(line), "no {line:?} in\n{metrics}");
    }
    // The agent has taken no step, and the object is as its owner left it.
    let node = bed.get(&format!("/api/v1/nodes/{}", bed.node));
    assert!(node["metadata"]["annotations"]["lifesign.dev/apply-step"].is_null(), "{node}");
    let after = bed.get(CLUSTER);
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "{after:#}");
    assert_eq!(files(&parts.root), parts.before);
    // Before the definition is ours again: controllers that see that would begin a rollout, of which the next test finds half a step.
    drop(parts);
}
