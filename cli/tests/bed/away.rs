//! What becomes of EndpointSlices while the API server is away: nothing; and when it is back, what happened meanwhile.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bed::Bed;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Returns the conditions `ready` of the endpoints of the Service.
fn ready(bed: &Bed) -> Vec<bool> {
    let slices =
        bed.items("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web");
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    endpoints.map(|endpoint| endpoint["conditions"]["ready"] == true).collect()
}

#[test]
fn slices_follow_what_happened_while_the_api_server_was_away() {
    let bed = Bed::apart(1, 1);
    let (ok, asked) = (bed.plane.folder().join("ok"), bed.plane.folder().join("asked"));
    std::fs::write(&ok, b"").unwrap();
    let probe = format!("echo >> {}; test -e {}", asked.display(), ok.display());
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080}]}});
    bed.call("POST", "/api/v1/namespaces/default/services", &service);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": "none", "command": ["sleep", "600"],
            "readinessProbe": {"exec": {"command": ["sh", "-c", probe]}, "periodSeconds": 1, "failureThreshold": 1}}]}});
    bed.call("POST", PODS, &pod);
    bed.until("the endpoint is ready", || (ready(&bed) == [true]).then_some(()));

    bed.plane.signal(Signal::STOP);
    std::fs::remove_file(&ok).unwrap();
    let attempts = || std::fs::read(&asked).unwrap_or_default().len();
    let before = attempts();
    // Probing goes on without the API server.
    bed.until("it was asked again", || (attempts() >= before + 3).then_some(()));
    bed.plane.signal(Signal::CONT);
    bed.until("the endpoint is not ready", || (ready(&bed) == [false]).then_some(()));
    let uid = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    let container = uid(&bed.get(&format!("{PODS}/web")));
    std::fs::write(&ok, b"").unwrap();
    bed.until("the endpoint is ready again", || (ready(&bed) == [true]).then_some(()));
    assert_eq!(uid(&bed.get(&format!("{PODS}/web"))), container, "nothing was restarted");
}
