//! The DaemonSets of `lifesign install --features profiles`: privileged pods with the rights of their accounts change files of the node, and
//! the installed controllers roll out a profile.

use std::process::{Command, Stdio};

use serde_json::json;

use super::parts::{MEDIUM, Parts, files};
use crate::bed::Bed;
use crate::installation::{NAMESPACE, import_images, lifesign};
use crate::installed::kubectl;

/// Lifesign with latency profiles on the cluster, until the end of the test.
struct Installed<'a>(&'a Bed);

fn rolled_out(bed: &Bed, part: &str) {
    kubectl(bed, &["rollout", "status", "-n", NAMESPACE, part, "--timeout=120s"]);
}

impl Installed<'_> {
    fn new(bed: &Bed) -> Installed<'_> {
        import_images(bed);
        let (good, manifests) = lifesign(bed, &["--features", "markers,probes,profiles"]);
        assert!(good, "{manifests}");
        let (good, output) = bed.kubectl(&["apply", "--validate=strict", "-f", "-"], &manifests);
        assert!(good, "{output}");
        rolled_out(bed, "deployment/lifesign-controllers");
        rolled_out(bed, "daemonset/lifesign-profiles-worker");
        Installed(bed)
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        let (_, plan) = lifesign(self.0, &["--delete-plan"]);
        let mut command = Command::new("sh");
        command.args(["-ec", &plan]).env("KUBECONFIG", self.0.kubeconfig()).stdin(Stdio::null());
        let output = command.output().unwrap();
        println!("removed: {}", output.status);
        let label = ["label", "node", &self.0.node, "node-role.kubernetes.io/control-plane-"];
        self.0.kubectl(&label, "");
    }
}

pub(super) fn the_installed_agents_take_steps(bed: &Bed) {
    bed.install_definitions();
    let installed = Installed::new(bed);
    let parts = Parts::new(bed);
    let scale = |replicas: &str| kubectl(bed, &["scale", "-n", NAMESPACE, "deployment/lifesign-controllers", replicas]);
    // The agent of a worker, with steps of the test: its kubelet and nothing else.
    scale("--replicas=0");
    let controllers = "app.kubernetes.io/component=controllers";
    kubectl(bed, &["wait", "--for=delete", "pod", "-n", NAMESPACE, "-l", controllers, "--timeout=60s"]);
    let values =
        json!({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "5m0s", "nodeLeaseDurationSeconds": 80});
    let step = parts.hand("kubelet", Some(&values), 150);
    assert_eq!(parts.answer(&step), ("applied".to_owned(), String::new()));
    parts.uses(["20s 80", "", ""]);
    let step = parts.hand("kubelet", None, 150);
    assert_eq!(parts.answer(&step), ("applied".to_owned(), String::new()));
    assert_eq!(files(&parts.root), parts.before);
    let step = parts.hand_at_once("kube-controller-manager", Some(&json!({"nodeMonitorGracePeriod": "2m0s"})), 120);
    let (result, message) = parts.answer(&step);
    assert_eq!(result, "refused", "{message}");
    // A control-plane node has the other agent; its kubelet keeps its heartbeat.
    kubectl(bed, &["label", "node", &bed.node, "node-role.kubernetes.io/control-plane="]);
    parts.until("the agent of control planes runs", |bed| {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/lifesign-profiles-control-plane");
        (bed.find(&path)?["status"]["numberReady"] == 1).then_some(())
    });
    scale("--replicas=2");
    parts.complete(MEDIUM);
    let tolerations = "--default-not-ready-toleration-seconds=60 --default-unreachable-toleration-seconds=60";
    parts.uses(["10s 40", "--node-monitor-grace-period=2m0s", tolerations]);
    parts.uninstall();
    drop(installed);
}
