//! A large cluster of objects alone: nodes, pods, Services and slices as a cluster has them, without a process behind any of them.

use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

use crate::client::Client;

/// Pods of each Service.
const BEHIND: usize = 100;
/// Pods of each node.
const ON_NODE: usize = 100;
/// Requests under way at once.
const AT_ONCE: usize = 64;

/// When everything happened.
const SINCE: &str = "2026-01-01T00:00:00Z";

/// Returns the name of a pod, by its number.
pub fn pod_name(index: usize) -> String {
    format!("web-{index:05}")
}

fn address(index: usize) -> String {
    format!("10.{}.{}.{}", index >> 16, (index >> 8) & 255, index & 255)
}

/// Makes so many ready pods in the namespace `default`, their nodes with Leases that last, a Service for each hundred of them with its slice. One
/// pod more, `sick`, is not ready: its readiness probe fails.
pub async fn fill(client: &Client, pods: usize) {
    let nodes = pods.div_ceil(ON_NODE);
    for index in 0..nodes {
        let name = format!("n{index}");
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": SINCE, "lastHeartbeatTime": SINCE});
        let node = json!({"metadata": {"name": name}});
        create(client, "/api/v1/nodes", &node).await;
        let place = format!("/api/v1/nodes/{name}");
        status(client, &place, &json!({"conditions": [ready]})).await;
        // A new node has a taint until its controller has seen it ready.
        patch(client, &place, &json!({"spec": {"taints": null}})).await;
        let spec =
            json!({"holderIdentity": name, "leaseDurationSeconds": 1_000_000_000, "renewTime": "2026-01-01T00:00:00.000000Z"});
        let lease = json!({"metadata": {"name": name}, "spec": spec});
        create(client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", &lease).await;
    }
    stream::iter(0..pods).for_each_concurrent(AT_ONCE, |index| pod(client, pod_name(index), index, true)).await;
    pod(client, "sick".to_owned(), 0, false).await;
    for service in 0..pods.div_ceil(BEHIND) {
        behind(client, service, pods).await;
    }
}

async fn pod(client: &Client, name: String, index: usize, ready: bool) {
    let app = format!("app-{}", index / BEHIND);
    let probe = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5});
    let liveness = json!({"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6});
    let container = json!({"name": "app", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": probe, "livenessProbe": liveness});
    let spec = json!({"nodeName": format!("n{}", index / ON_NODE), "containers": [container]});
    let label = if ready { app } else { name.clone() };
    create(client, PODS, &json!({"metadata": {"name": name, "labels": {"app": label}}, "spec": spec})).await;
    let word = if ready { "True" } else { "False" };
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": SINCE});
    let conditions = [
        condition("PodScheduled", "True"),
        condition("Initialized", "True"),
        condition("ContainersReady", word),
        condition("Ready", word),
    ];
    let state = json!({"name": "app", "image": "web:1", "imageID": "web", "containerID": "x://1", "ready": ready, "started": true,
        "restartCount": 0, "state": {"running": {"startedAt": SINCE}}});
    let address = address(index);
    let says = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "startTime": SINCE,
        "conditions": conditions, "containerStatuses": [state]});
    status(client, &format!("{PODS}/{name}"), &says).await;
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Makes a Service and its slice.
async fn behind(client: &Client, service: usize, pods: usize) {
    let name = format!("app-{service}");
    let spec = json!({"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]});
    create(client, "/api/v1/namespaces/default/services", &json!({"metadata": {"name": name}, "spec": spec})).await;
    let endpoint = |index: usize| {
        json!({"addresses": [address(index)], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("n{}", index / ON_NODE), "targetRef": {"kind": "Pod", "namespace": "default", "name": pod_name(index)}})
    };
    let endpoints: Vec<Value> = (service * BEHIND..pods.min((service + 1) * BEHIND)).map(endpoint).collect();
    let labels = json!({"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"});
    let slice = json!({"metadata": {"name": format!("{name}-a"), "labels": labels}, "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints});
    create(client, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await;
}

async fn create(client: &Client, path: &str, object: &Value) {
    let answer = client.call("POST", path, object).await.expect("the API answers");
    assert_eq!(answer.code, 201, "{path}: {}", answer.json());
}

async fn status(client: &Client, path: &str, status: &Value) {
    patch(client, &format!("{path}/status"), &json!({ "status": status })).await;
}

async fn patch(client: &Client, path: &str, change: &Value) {
    let kind = [("content-type", "application/merge-patch+json")];
    let answer = client.call_with("PATCH", path, &kind, change).await.expect("the API answers");
    assert_eq!(answer.code, 200, "{path}: {}", answer.json());
}
