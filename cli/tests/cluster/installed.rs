//! Steps on a cluster where Lifesign is installed: its own parts and those of Kubernetes are restarted and killed under load. One
//! installation serves them all: see `installation`.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bed::{Bed, Namespace};
use crate::installation::{NAMESPACE, POD_IMAGE};
use crate::moved::{condition, is_ready, pods};

/// Pods of the Deployment whose readiness is watched.
const REPLICAS: usize = 6;
/// What marks every pod of it: each run leaves a line, and one that finds another still running leaves a line elsewhere. A run that was
/// killed leaves its number behind, and nobody has it.
const EXEC: &str = "if [ -e /run.pid ] && kill -0 $(cat /run.pid); then echo x >> /overlaps; fi; echo $$ > /run.pid; echo x >> /runs; sleep 0.2; rm -f /run.pid";
/// Parts of Lifesign and of Kubernetes that are killed, and what their process is found by.
const KILLED: [(&str, &str); 5] = [
    ("agent", "-f '^[^ ]*lifesign agent --cluster'"),
    ("controllers", "-f '^[^ ]*lifesign controllers --namespace'"),
    ("containerd", "-x containerd"),
    ("kubelet", "-x kubelet"),
    ("kube-apiserver", "-x kube-apiserver"),
];

/// Agents and controllers are rolled and killed, runtime, kubelet and API server are killed: no pod loses Ready, no request is lost, marks
/// converge, nothing runs twice, nothing is left.
pub(crate) fn restarts_lose_no_ready(bed: &Bed, namespace: &Namespace<'_>) {
    let address = steady(bed, namespace);
    let all = |bed: &Bed| bed.list(&format!("{}?labelSelector=app%3Dsteady", pods(&namespace.name)));
    let since = bed.until("every pod ready and marked", |bed| {
        let pods = all(bed);
        (pods.len() == REPLICAS && pods.iter().all(|pod| is_ready(pod) && is_marked(pod))).then(|| transitions(&pods))
    });
    let (runs, began) = (lines(bed, namespace, "/runs"), Instant::now());
    let same = |what: &str| {
        let pods = all(bed);
        assert_eq!(since, transitions(&pods), "{what}: a pod was not ready in between");
        assert!(pods.iter().all(is_ready), "{what}");
        bed.until(&format!("marks after {what}"), |bed| all(bed).iter().all(is_marked).then_some(()));
        println!("{what}: {} pods stayed ready", pods.len());
    };
    let (sent, failed) = testkit::load::while_done(address, || {
        for part in ["daemonset/lifesign-agent", "deployment/lifesign-controllers"] {
            kubectl(bed, &["rollout", "restart", "-n", NAMESPACE, part]);
            kubectl(bed, &["rollout", "status", "-n", NAMESPACE, part, "--timeout=90s"]);
            same(&format!("rollout restart of {part}"));
        }
        for (name, pattern) in KILLED {
            kill(bed, name, pattern);
            marks_follow(bed, namespace, name);
            same(&format!("kill -9 of {name}"));
        }
    });
    println!("{sent} requests to the Service meanwhile, {failed} failed");
    assert_eq!(failed, 0, "of {sent}");
    // Every second, and once more after each restart of who asks or of who is asked.
    let most = began.elapsed().as_secs() + 4 * (2 + KILLED.len() as u64);
    for (after, before) in lines(bed, namespace, "/runs").into_iter().zip(runs) {
        assert!(after - before <= most, "{} runs, at most {most} were due", after - before);
    }
    assert_eq!(lines(bed, namespace, "/overlaps"), [0; REPLICAS], "two runs of one probe at once");
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers/steady", namespace.name);
    bed.send("DELETE", &markers, &Value::Null);
    bed.until("no command is left while the pods run", |bed| {
        let found = bed.run(&["exec", "sh", "-c", "pgrep -f '>> /[r]uns' || true"]);
        found.trim().is_empty().then_some(())
    });
    same("the marker is gone");
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/steady", namespace.name);
    bed.send("DELETE", &path, &json!({"propagationPolicy": "Foreground"}));
    bed.until("the pods are gone", |bed| all(bed).is_empty().then_some(()));
}

/// Kills the processes of a part and waits until there are others and all is well.
fn kill(bed: &Bed, name: &str, pattern: &str) {
    let pids = |bed: &Bed| bed.run(&["exec", "sh", "-c", &format!("pgrep {pattern} || true")]).trim().to_owned();
    let before = pids(bed);
    assert!(!before.is_empty(), "{name} runs");
    bed.run(&["exec", "sh", "-c", &format!("kill -9 {}", before.replace('\n', " "))]);
    let old: Vec<&str> = before.lines().collect();
    bed.until(&format!("{name} runs again"), |bed| {
        let now = pids(bed);
        (now.lines().count() == old.len() && now.lines().all(|pid| !old.contains(&pid))).then_some(())
    });
    bed.until("the API server and Lifesign are well", |bed| {
        (bed.healthy() && ["agent", "controllers"].iter().all(|component| all_ready(bed, component))).then_some(())
    });
}

/// A pod that is marked anew says that probes, agent and controllers work together again.
fn marks_follow(bed: &Bed, namespace: &Namespace<'_>, after: &str) {
    let name = format!("after-{after}");
    let pod = json!({"metadata": {"name": name, "labels": {"app": "fresh"}}, "spec": {
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "containers": [{"name": "app", "image": POD_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}]}});
    bed.send("POST", &pods(&namespace.name), &pod);
    bed.until(&format!("{name} is marked"), |bed| {
        is_marked(&bed.get(&format!("{}/{name}", pods(&namespace.name)))).then_some(())
    });
    bed.send("DELETE", &format!("{}/{name}", pods(&namespace.name)), &json!({"gracePeriodSeconds": 0}));
}

/// Returns how many lines a file of each pod has; one that is not there has none.
fn lines(bed: &Bed, namespace: &Namespace<'_>, file: &str) -> Vec<u64> {
    let found = bed.list(&format!("{}?labelSelector=app%3Dsteady", pods(&namespace.name)));
    let count = |pod: &Value| {
        let command = format!("cat {file} 2>/dev/null | wc -l");
        let name = pod["metadata"]["name"].as_str().unwrap();
        kubectl(bed, &["exec", "-n", &namespace.name, name, "--", "sh", "-c", &command]).trim().parse().unwrap()
    };
    found.iter().map(count).collect()
}

/// Makes pods with a moved probe and a mark behind a Service; returns its address.
fn steady(bed: &Bed, namespace: &Namespace<'_>) -> SocketAddr {
    let name = &namespace.name;
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "steady"}, "spec": {
        "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["steady", "fresh"]}]},
        "probes": [{"name": "runs", "containerName": "app", "podConditionType": "example.com/runs",
            "probe": {"exec": {"command": ["sh", "-c", EXEC]}, "periodSeconds": 1, "timeoutSeconds": 5},
            "markerPolicy": [{"state": "Succeeded", "labels": {"marked": "yes"}}]}]}});
    bed.send("POST", &format!("/apis/apps.kruise.io/v1alpha1/namespaces/{name}/podprobemarkers"), &marker);
    let container = json!({"name": "app", "image": POD_IMAGE, "imagePullPolicy": "Never",
        "command": ["lifesign", "serve", "--address", "0.0.0.0", "--port", "8080"],
        "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}});
    let annotations = json!({"lifesign.dev/probes": r#"{"app": {"readinessProbe": {"periodMilliseconds": -800}}}"#});
    let deployment = json!({"metadata": {"name": "steady"}, "spec": {
        "replicas": REPLICAS, "selector": {"matchLabels": {"app": "steady"}},
        "template": {"metadata": {"labels": {"app": "steady"}, "annotations": annotations},
            "spec": {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false, "containers": [container]}}}});
    bed.send("POST", &format!("/apis/apps/v1/namespaces/{name}/deployments"), &deployment);
    let service = json!({"metadata": {"name": "steady"}, "spec": {"selector": {"app": "steady"},
        "ports": [{"port": 80, "targetPort": 8080}]}});
    let service = bed.send("POST", &format!("/api/v1/namespaces/{name}/services"), &service);
    format!("{}:80", service["spec"]["clusterIP"].as_str().unwrap()).parse().unwrap()
}

fn is_marked(pod: &Value) -> bool {
    pod["metadata"]["labels"]["marked"] == "yes"
}

fn transitions(pods: &[Value]) -> Vec<(Value, Value)> {
    pods.iter().map(|pod| (pod["metadata"]["name"].clone(), condition(pod, "Ready")["lastTransitionTime"].clone())).collect()
}

pub(crate) fn kubectl(bed: &Bed, arguments: &[&str]) -> String {
    let (good, output) = bed.kubectl(arguments, "");
    assert!(good, "{arguments:?}: {output}");
    output
}

/// Returns the pods of a part of ours; none while the API server is away.
fn parts(bed: &Bed, component: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3D{component}");
    bed.find(&path).and_then(|list| list["items"].as_array().cloned()).unwrap_or_default()
}

fn all_ready(bed: &Bed, component: &str) -> bool {
    let found = parts(bed, component);
    !found.is_empty() && found.iter().all(is_ready)
}
