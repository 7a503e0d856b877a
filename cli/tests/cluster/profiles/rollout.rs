//! Rollouts from one end to the other: what is in use changes in the order of the plan, the node stays Ready, no pod is touched.

use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::parts::{LOW, MEDIUM, Parts, files};
use crate::LIFESIGN;
use crate::bed::{Bed, Namespace};
use crate::following::Follower;
use crate::moved::{condition, is_ready};

/// What each profile makes the components use.
const DEFAULT_IN_USE: [&str; 3] = [
    "10s 40",
    "--node-monitor-grace-period=40s",
    "--default-not-ready-toleration-seconds=300 --default-unreachable-toleration-seconds=300",
];
const MEDIUM_IN_USE: [&str; 3] = [
    "20s 80",
    "--node-monitor-grace-period=2m0s",
    "--default-not-ready-toleration-seconds=60 --default-unreachable-toleration-seconds=60",
];
const LOW_IN_USE: [&str; 3] = ["1m0s 240", "--node-monitor-grace-period=5m0s", MEDIUM_IN_USE[2]];

/// What must not happen while a profile is rolled out. The node and a pod are watched all the time; what happens while the API server is
/// away shows by the times of transitions.
pub(super) struct Undisturbed {
    faults: Arc<Mutex<Vec<String>>>,
    pod: Value,
    node: Value,
    _followers: [Follower; 2],
}

fn ready_since(object: &Value) -> Value {
    if is_ready(object) { condition(object, "Ready")["lastTransitionTime"].clone() } else { Value::Null }
}

/// Returns what tells one run of a pod from another, and since when it is ready.
fn run_of(pod: &Value) -> Value {
    let status = &pod["status"]["containerStatuses"][0];
    json!([
        pod["metadata"]["uid"],
        pod["metadata"]["deletionTimestamp"],
        status["containerID"],
        status["restartCount"],
        ready_since(pod)
    ])
}

impl Undisturbed {
    pub(super) fn begin(parts: &Parts<'_>, namespace: &Namespace<'_>) -> Undisturbed {
        let bed = parts.bed;
        pod(bed, &namespace.name, "old");
        let (pods, nodes) = (format!("/api/v1/namespaces/{}/pods", namespace.name), "/api/v1/nodes".to_owned());
        let found = parts.until("a pod runs", |bed| bed.find(&format!("{pods}/old")).filter(is_ready));
        let pod = run_of(&found);
        let found = parts.until("the node is Ready", |bed| bed.find(&format!("{nodes}/{}", bed.node)).filter(is_ready));
        let node = ready_since(&found);
        let faults = Arc::<Mutex<Vec<String>>>::default();
        let follow = |path: String, what: &'static str, same: Box<dyn Fn(&Value) -> bool + Send>| {
            let into = Arc::clone(&faults);
            Follower::start(bed, &path, move |event| {
                if event["object"]["kind"] != "Status" && (event["type"] == "DELETED" || !same(&event["object"])) {
                    into.lock().unwrap().push(format!("{what}: {} {}", event["type"], event["object"]["status"]["conditions"]));
                }
            })
        };
        let (node_before, pod_before) = (node.clone(), pod.clone());
        let followers = [
            follow(
                format!("{nodes}?fieldSelector=metadata.name%3D{}&", bed.node),
                "the node is not Ready",
                Box::new(move |object| ready_since(object) == node_before),
            ),
            follow(
                format!("{pods}?fieldSelector=metadata.name%3Dold&"),
                "the pod was disturbed",
                Box::new(move |object| run_of(object) == pod_before),
            ),
        ];
        Undisturbed { faults, pod, node, _followers: followers }
    }

    /// Nothing has happened until now.
    pub(super) fn check(&self, parts: &Parts<'_>, namespace: &Namespace<'_>) {
        assert_eq!(*self.faults.lock().unwrap(), Vec::<String>::new());
        let path = format!("/api/v1/nodes/{}", parts.bed.node);
        assert_eq!(parts.until("the node", |bed| bed.find(&path).map(|node| ready_since(&node))), self.node);
        let path = format!("/api/v1/namespaces/{}/pods/old", namespace.name);
        assert_eq!(parts.until("the pod", |bed| bed.find(&path).map(|pod| run_of(&pod))), self.pod);
    }
}

fn pod(bed: &Bed, namespace: &str, name: &str) -> Value {
    let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "containers": [{"name": "app", "image": bed.image, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}]}});
    bed.send("POST", &format!("/api/v1/namespaces/{namespace}/pods"), &pod)
}

/// New pods get the tolerations of the profile.
fn tolerations_of_a_new_pod(bed: &Bed, namespace: &Namespace<'_>, name: &str) -> Value {
    let new = pod(bed, &namespace.name, name);
    let tolerations = new["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations.iter().map(|toleration| toleration["tolerationSeconds"].clone()).collect()
}

fn kubeadm(bed: &Bed) -> Option<String> {
    let map = bed.find("/api/v1/namespaces/kube-system/configmaps/kubeadm-config")?;
    Some(map["data"]["ClusterConfiguration"].as_str()?.to_owned())
}

/// `lifesign profile uninstall` returns when every file is as it was.
fn uninstall(parts: &Parts<'_>) {
    let mut command = Command::new(LIFESIGN);
    command.args(["profile", "uninstall", "--timeout", "10m", "--kubeconfig"]).arg(parts.bed.kubeconfig());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    println!("{text}");
    assert!(output.status.success() && text.contains("restored: no value of a profile is left"), "{text}");
    assert_eq!(files(&parts.root), parts.before, "byte for byte");
}

/// One way to a profile: what it is called, what is in use then, the order of the steps, and the tolerations of new pods.
type Way<'a> = (&'a str, [&'a str; 3], &'a [&'a str], i64);

/// Goes these ways one after the other, with node and pod watched all the time, and then back to nothing.
fn go(bed: &Bed, ways: &[Way<'_>]) {
    let kubeadm_before = kubeadm(bed).expect("kubeadm-config");
    let parts = Parts::start(bed, &[]);
    let namespace = bed.namespace("profiles");
    let watched = Undisturbed::begin(&parts, &namespace);
    let mut over: Vec<&str> = Vec::new();
    for (number, (profile, in_use, steps, seconds)) in ways.iter().enumerate() {
        parts.complete(profile);
        parts.uses(*in_use);
        // The agent outlives the API server, so that it has seen everything; controllers may have changed meanwhile.
        over.extend(*steps);
        assert_eq!(parts.steps_over(), over, "the order of the plan on the way to {profile}");
        let seen = tolerations_of_a_new_pod(bed, &namespace, &format!("new-{number}"));
        assert_eq!(seen, json!([seconds, seconds]), "{profile}");
        let grace = in_use[1].trim_start_matches("--node-monitor-grace-period=");
        parts.until("kubeadm knows it", |bed| kubeadm(bed)?.contains(grace).then_some(()));
        if *profile == MEDIUM {
            // What the API server really gives, and not what it was asked for.
            let mut command = Command::new(LIFESIGN);
            command.args(["profile", "retolerate", "--from", "Default", "--kubeconfig"]).arg(bed.kubeconfig());
            let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let old = text.lines().find(|line| line.contains(&namespace.name) && line.contains(" old "));
            assert!(old.is_some_and(|line| line.ends_with("300s    60s") || line.ends_with("300s   60s")), "{text}");
        }
        if *profile == LOW {
            // A kubelet at Low may be back and lose its pods all the same: whoever chooses it is told.
            parts.message("MachineConfigOperator", "Complete", "RecoveryRace");
            parts.event("LatencyProfileAdvisory", "RecoveryRace");
        }
        watched.check(&parts, &namespace);
    }
    parts.event("LatencyProfileCompleted", ways.last().unwrap().0);
    uninstall(&parts);
    parts.uses(["10s 40", "", ""]);
    parts.until("kubeadm remembers what it did before, byte for byte", |bed| (kubeadm(bed)? == kubeadm_before).then_some(()));
    watched.check(&parts, &namespace);
}

const UP: &[&str] = &["kube-controller-manager", "kubelet", "kube-apiserver"];
const DOWN: &[&str] = &["kube-apiserver", "kubelet", "kube-controller-manager"];

pub(super) fn medium_and_back(bed: &Bed) {
    go(bed, &[(MEDIUM, MEDIUM_IN_USE, UP, 60), ("Default", DEFAULT_IN_USE, DOWN, 300)]);
}

pub(super) fn the_whole_way(bed: &Bed) {
    go(
        bed,
        &[
            (MEDIUM, MEDIUM_IN_USE, UP, 60),
            (LOW, LOW_IN_USE, &UP[..2], 60),
            (MEDIUM, MEDIUM_IN_USE, &DOWN[1..], 60),
            ("Default", DEFAULT_IN_USE, DOWN, 300),
        ],
    );
}
