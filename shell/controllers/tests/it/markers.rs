//! The marker controller on a paused clock: from a marker to the probes of a node to a marked pod.

use serde_json::{Value, json};

use crate::support::Paused;

const NODE: &str = "/apis/apps.kruise.io/v1alpha1/nodepodprobes/n";
const POD: &str = "/api/v1/namespaces/default/pods/p";

/// A node, a pod on it, and a marker that selects the pod.
async fn objects(plane: &Paused) {
    plane.node("n").await;
    plane.pod("p", "n", json!([])).await;
    let probe = json!({"exec": {"command": ["check"]}, "periodSeconds": 5, "periodMilliseconds": -500});
    let marker = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "probes": [{
            "name": "p", "containerName": "app", "probe": probe,
            "markerPolicy": [{"state": "Succeeded", "labels": {"up": "yes"}}], "podConditionType": "x.io/p",
        }]},
    });
    plane.create("/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers", marker).await;
}

fn asked(object: &Value) -> bool {
    object["spec"]["podProbes"][0]["probes"][0]["name"] == "m#p"
}

#[tokio::test(start_paused = true)]
async fn beside_a_kruise_manager_that_leads_the_controller_does_not_start_and_says_so() {
    let mut plane = Paused::without_controllers().await;
    plane.create("/api/v1/namespaces", json!({"metadata": {"name": "kruise-system"}})).await;
    let now = api::Timestamp(plane.clock.now()).micro();
    let spec = json!({"holderIdentity": "manager-0", "leaseDurationSeconds": 15, "renewTime": now});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases";
    plane.create(leases, json!({"metadata": {"name": "kruise-manager"}, "spec": spec})).await;
    plane.start_controllers(|config| config.markers = true);
    objects(&plane).await;
    let recorded = |events: &Value| {
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events.iter().any(|event| event["reason"] == "MarkersLeftToKruise" && event["type"] == "Warning")
    };
    plane.until("/api/v1/namespaces/kruise-system/events", "an event", recorded).await;
    assert_eq!(plane.metric("lifesign_marker_kruise_leads"), ["lifesign_marker_kruise_leads 1"]);
    tokio::time::sleep(std::time::Duration::from_secs(25)).await;
    assert_eq!(plane.get(NODE).await, Value::Null, "nothing was written");
    // It is not renewed: nobody leads any more.
    let (_, waited) = plane.until(NODE, "asked for the probe", asked).await;
    assert!(waited.as_secs() >= 20, "{waited:?}");
    assert_eq!(plane.metric("lifesign_marker_kruise_leads"), ["lifesign_marker_kruise_leads 0"]);
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_definition_of_another_does_not_know_are_not_written() {
    let mut plane = Paused::without_controllers().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepodprobes.apps.kruise.io";
    let mut definition = plane.get(path).await;
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let probe = &mut schema["spec"]["properties"]["podProbes"]["items"]["properties"]["probes"]["items"]["properties"]["probe"];
    assert!(probe["properties"].as_object_mut().unwrap().remove("periodMilliseconds").is_some());
    plane.patch(path, json!({"spec": {"versions": definition["spec"]["versions"]}})).await;
    plane.start_controllers(|config| config.markers = true);
    objects(&plane).await;
    let (object, _) = plane.until(NODE, "asked for the probe", asked).await;
    let probe = &object["spec"]["podProbes"][0]["probes"][0]["probe"];
    assert_eq!(*probe, json!({"exec": {"command": ["check"]}, "periodSeconds": 5}));
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(plane.get(NODE).await["metadata"]["generation"], object["metadata"]["generation"], "written once");
}

#[tokio::test(start_paused = true)]
async fn a_marker_reaches_its_node_and_the_answer_marks_the_pod() {
    let plane = Paused::start(|config| config.markers = true).await;
    objects(&plane).await;
    let (object, _) = plane.until(NODE, "asked for the probe", asked).await;
    let state = json!({
        "name": "m#p", "state": "Succeeded", "message": "fine",
        "lastProbeTime": "2026-11-15T12:00:00Z", "lastTransitionTime": "2026-11-15T12:00:00Z",
    });
    let item =
        json!({"name": "p", "namespace": "default", "uid": object["spec"]["podProbes"][0]["uid"], "probeStates": [state]});
    let status = json!({"observedGeneration": object["metadata"]["generation"], "podProbeStatuses": [item]});
    plane.patch(&format!("{NODE}/status"), json!({"status": status})).await;
    plane.until(POD, "labelled", |pod| pod["metadata"]["labels"]["up"] == "yes").await;
    let events = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "x.io/p" && condition["status"] == "True")
    };
    plane.until(POD, "told its condition", events).await;
}
