//! Steps on a cluster where Lifesign is installed: its own parts are restarted and killed under load, and the second worked example
//! of markers runs. One installation serves them all: see `installation`.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bed::{Bed, Namespace};
use crate::installation::{IMAGE, NAMESPACE};
use crate::moved::{condition, is_ready, pods};

/// Pods of the Deployment whose readiness is watched.
const REPLICAS: usize = 6;
/// What marks every pod of it; each run leaves a line.
const EXEC: &str = "echo x >> /runs";

/// Agents and controllers are rolled and killed: no pod loses Ready, no request is lost, marks converge, nothing runs twice.
pub(crate) fn restarts_lose_no_ready(bed: &Bed, namespace: &Namespace<'_>) {
    let address = steady(bed, namespace);
    let all = |bed: &Bed| bed.list(&format!("{}?labelSelector=app%3Dsteady", pods(&namespace.name)));
    let (since, began) = (
        bed.until("every pod ready and marked", |bed| {
            let pods = all(bed);
            (pods.len() == REPLICAS && pods.iter().all(|pod| is_ready(pod) && is_marked(pod))).then(|| transitions(&pods))
        }),
        Instant::now(),
    );
    let same = |what: &str| {
        let pods = all(bed);
        assert_eq!(since, transitions(&pods), "{what}: a pod was not ready in between");
        assert!(pods.iter().all(|pod| is_ready(pod) && is_marked(pod)), "{what}");
        println!("{what}: {} pods stayed ready", pods.len());
    };
    let (sent, failed) = testkit::load::while_done(address, || {
        for part in ["daemonset/lifesign-agent", "deployment/lifesign-controllers"] {
            kubectl(bed, &["rollout", "restart", "-n", NAMESPACE, part]);
            kubectl(bed, &["rollout", "status", "-n", NAMESPACE, part, "--timeout=90s"]);
            same(&format!("rollout restart of {part}"));
        }
        for (component, arguments) in [("agent", "agent --cluster"), ("controllers", "controllers --namespace")] {
            let before = restarts(bed, component);
            bed.run(&["exec", "sh", "-c", &format!("kill -9 $(pgrep -f '^[^ ]*lifesign {arguments}')")]);
            bed.until("it runs again", |bed| (restarts(bed, component) > before && all_ready(bed, component)).then_some(()));
            same(&format!("kill -9 of {component}"));
        }
    });
    println!("{sent} requests to the Service meanwhile, {failed} failed");
    assert_eq!(failed, 0, "of {sent}");
    // Every second, once more after each of four restarts, and once more for each probe that was under way.
    let most = began.elapsed().as_secs() + 60 + 8;
    for pod in all(bed) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let runs = kubectl(bed, &["exec", "-n", &namespace.name, name, "--", "cat", "/runs"]).lines().count() as u64;
        assert!(runs <= most, "{name}: {runs} runs, at most {most} were due");
    }
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/steady", namespace.name);
    bed.send("DELETE", &path, &json!({"propagationPolicy": "Foreground"}));
    bed.until("the pods are gone", |bed| all(bed).is_empty().then_some(()));
    let left = bed.run(&["exec", "sh", "-c", &format!("pgrep -f '{EXEC}' | grep -v \"^$$\\$\" || true")]);
    assert_eq!(left.trim(), "", "commands of probes are left");
}

/// Makes pods with a moved probe and a mark behind a Service; returns its address.
fn steady(bed: &Bed, namespace: &Namespace<'_>) -> SocketAddr {
    let name = &namespace.name;
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "steady"}, "spec": {
        "selector": {"matchLabels": {"app": "steady"}},
        "probes": [{"name": "runs", "containerName": "app", "podConditionType": "example.com/runs",
            "probe": {"exec": {"command": ["sh", "-c", EXEC]}, "periodSeconds": 1},
            "markerPolicy": [{"state": "Succeeded", "labels": {"marked": "yes"}}]}]}});
    bed.send("POST", &format!("/apis/apps.kruise.io/v1alpha1/namespaces/{name}/podprobemarkers"), &marker);
    let container = json!({"name": "app", "image": IMAGE, "imagePullPolicy": "Never",
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

fn parts(bed: &Bed, component: &str) -> Vec<Value> {
    bed.list(&format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3D{component}"))
}

fn restarts(bed: &Bed, component: &str) -> i64 {
    let of = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or_default();
    parts(bed, component).iter().map(of).sum()
}

fn all_ready(bed: &Bed, component: &str) -> bool {
    parts(bed, component).iter().all(is_ready)
}

/// `examples/primary-replica-role.yaml` on the cluster: one is primary, the label follows when it goes, and an update replaces it last.
pub(crate) fn roles_follow_the_primary(bed: &Bed, namespace: &Namespace<'_>) {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/primary-replica-role.yaml")).unwrap();
    let (_, yaml) = bed.kubectl(&["create", "--dry-run=client", "-o", "json", "-f", "-"], &text);
    let objects: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&yaml).into_iter().collect();
    let mut objects = objects.unwrap_or_else(|error| panic!("{error}: {yaml}"));
    for object in &mut objects {
        object["metadata"]["namespace"] = namespace.name.clone().into();
        if object["kind"] == "Deployment" {
            on_the_cluster(&mut object["spec"]["template"]["spec"]);
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let (good, output) = bed.kubectl(&["apply", "-f", "-"], &list.to_string());
    assert!(good, "{output}");
    let role = |bed: &Bed, role: &str| -> Vec<String> {
        let found = bed.list(&format!("{}?labelSelector=tier%3Ddb%2Crole%3D{role}", pods(&namespace.name)));
        let alive = found.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod));
        alive.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let settled =
        |bed: &Bed| (role(bed, "primary").len() == 1 && role(bed, "replica").len() == 2).then(|| role(bed, "primary"));
    let first = bed.until("one primary, two replicas, all Ready", settled);
    kubectl(bed, &["delete", "pod", "-n", &namespace.name, &first[0], "--wait=false"]);
    let second = bed.until("another primary", |bed| settled(bed).filter(|primary| *primary != first));
    println!("primary {} then {}", first[0], second[0]);
    // Updated: the real Deployment controller takes the one whose deletion costs most last.
    let replicas = role(bed, "replica");
    kubectl(bed, &["set", "env", "-n", &namespace.name, "deployment/db", "RELEASE=2"]);
    let gone = |bed: &Bed, name: &str| {
        let answer = bed.ask("GET", &format!("{}/{name}", pods(&namespace.name)), &Value::Null);
        answer.code == 404 || !answer.json()["metadata"]["deletionTimestamp"].is_null()
    };
    bed.until("the replicas are replaced", |bed| {
        let all_gone = replicas.iter().all(|name| gone(bed, name));
        assert!(all_gone || !gone(bed, &second[0]), "the primary went before a replica");
        all_gone.then_some(())
    });
    bed.until("rolled out", |bed| (gone(bed, &second[0]) && settled(bed).is_some()).then_some(()));
    kubectl(bed, &["delete", "deployment/db", "podprobemarker/db-role", "-n", &namespace.name]);
}

/// What the page asks users to change: an image, and one folder that all pods share.
fn on_the_cluster(spec: &mut Value) {
    for container in spec["containers"].as_array_mut().unwrap() {
        container["image"] = IMAGE.into();
        container["imagePullPolicy"] = "Never".into();
        container["volumeMounts"] = json!([{"name": "shared", "mountPath": "/tmp/lifesign-demo/db"}]);
    }
    let folder = format!("/tmp/lifesign-demo-{}", std::process::id());
    spec["volumes"] = json!([{"name": "shared", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}]);
}
