//! From listen() to `ready: true` in the EndpointSlice of kube-controller-manager, on a cluster where Lifesign is installed: pods that ask by
//! annotation, and stock pods beside them. Figures are printed; ten times the goal is asserted, or no later than stock pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::bed::{Bed, Namespace};
use crate::following::Follower;
use crate::installation::POD_IMAGE;
use crate::moved::{CONDITION, condition, micros_now, pods};

/// When each pod of a Service was first shown as ready, in microseconds since the epoch.
type Shown = Arc<Mutex<BTreeMap<String, u128>>>;

/// Follows the EndpointSlices of a namespace.
fn follow_slices(bed: &Bed, namespace: &str) -> (Shown, Follower) {
    let shown = Shown::default();
    let into = Arc::clone(&shown);
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?");
    let follower = Follower::start(bed, &path, move |event| {
        let now = micros_now();
        for endpoint in event["object"]["endpoints"].as_array().into_iter().flatten() {
            if let (true, Some(name)) = (endpoint["conditions"]["ready"] == true, endpoint["targetRef"]["name"].as_str()) {
                into.lock().unwrap().entry(name.to_owned()).or_insert(now);
            }
        }
    });
    (shown, follower)
}

/// Returns the milliseconds from listening to being shown as ready, sorted.
fn latencies(bed: &Bed, namespace: &str, names: &[String], shown: &Shown) -> Vec<f64> {
    let listened = |name: &String| {
        let (good, log) = bed.kubectl(&["-n", namespace, "logs", name], "");
        assert!(good, "{log}");
        log.lines().find_map(|line| line.strip_prefix("LISTEN ")).expect("it listens").trim().parse::<u128>().unwrap()
    };
    let shown = shown.lock().unwrap().clone();
    let mut all: Vec<f64> = names.iter().map(|name| (shown[name] as f64 - listened(name) as f64) / 1_000.0).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() as f64 * q) as usize).min(sorted.len() - 1)]
}

/// Of 40 pods one in four is a stock one.
const PODS: usize = 40;

pub(crate) fn pods_are_ready_soon_after_they_listen(bed: &Bed, namespace: &Namespace<'_>) {
    for app in ["moved", "stock"] {
        let spec = json!({"selector": {"app": app}, "ports": [{"port": 80, "targetPort": 8080}]});
        let path = format!("/api/v1/namespaces/{}/services", namespace.name);
        bed.send("POST", &path, &json!({"metadata": {"name": app}, "spec": spec}));
    }
    let (shown, _follower) = follow_slices(bed, &namespace.name);
    let mut names: [Vec<String>; 2] = Default::default();
    for number in 0..PODS {
        let moved = number % 4 != 3;
        let app = if moved { "moved" } else { "stock" };
        // From 1.5 to 3.5 s, so that the kubelet has looked at the pod before it listens.
        let listen_after = format!("{}ms", 1_500 + (number * 613) % 2_000);
        let name = format!("{app}-{number}");
        let mut pod = json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": {
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "containers": [{"name": "app", "image": POD_IMAGE, "imagePullPolicy": "Never",
                "command": ["lifesign", "serve", "--address", "0.0.0.0", "--listen-after", listen_after],
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}]}});
        if moved {
            pod["metadata"]["annotations"] = json!({"lifesign.dev/probes": r#"{"app": {"readinessProbe": {}}}"#});
        }
        let made = bed.send("POST", &pods(&namespace.name), &pod);
        assert_eq!(made["spec"]["readinessGates"].is_array(), moved, "{made}");
        names[usize::from(!moved)].push(name);
        // A node of two cores starts a few containers a second: one that is behind with it says nothing about probes.
        std::thread::sleep(Duration::from_millis(400));
    }
    bed.until("every pod ready", |_| (shown.lock().unwrap().len() == PODS).then_some(()));
    let [moved, stock] = names.clone().map(|names| latencies(bed, &namespace.name, &names, &shown));
    for (who, all) in [("moved", &moved), ("stock", &stock)] {
        let (p50, p99) = (quantile(all, 0.5), quantile(all, 0.99));
        println!("listen -> ready in the EndpointSlice, {who}: {} pods, p50 {p50:.0} ms, p99 {p99:.0} ms", all.len());
    }
    // Ten times the goal, or what stock pods take on a machine that is busy.
    for (q, goal) in [(0.5, 80.0), (0.99, 300.0)] {
        assert!(quantile(&moved, q) <= quantile(&stock, q).max(10.0 * goal), "{moved:?} {stock:?}");
    }
    let shown_pod = bed.get(&format!("{}/moved-0", pods(&namespace.name)));
    let output = condition(&shown_pod, CONDITION);
    let id = shown_pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
    let id = id.strip_prefix("containerd://").unwrap();
    assert_eq!((&output["reason"], &output["message"]), (&json!("ProbesSucceeded"), &json!(format!("ready: app={id}"))));
    for name in names.iter().flatten() {
        bed.send("DELETE", &format!("{}/{name}", pods(&namespace.name)), &json!({"gracePeriodSeconds": 0}));
    }
}
