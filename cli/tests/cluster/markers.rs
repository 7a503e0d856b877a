//! The marker controller on a real cluster: probes reach NodePodProbes, results by hand reach real pods.

use serde_json::{Value, json};

use crate::Test;
use crate::bed::{Bed, Running};

pub(crate) const TESTS: &[(&str, Test)] = &[("markers::results_reach_real_pods", results_reach_real_pods)];

pub(crate) const LONG: &[(&str, Test)] = &[
    ("markers::a_missing_definition_is_said_once_and_awaited", a_missing_definition_is_said_once_and_awaited),
    ("markers::fields_that_an_older_definition_lacks_are_said_and_not_needed", fields_that_an_older_definition_lacks),
];

fn results_reach_real_pods(bed: &Bed) {
    bed.install_definitions();
    let controllers = Running::controllers(bed.kubeconfig(), &[]);
    results_reach(bed, controllers);
}

/// Definitions of an older OpenKruise lose the fields that we added: the controllers say which, and marks work all the same.
fn fields_that_an_older_definition_lacks(bed: &Bed) {
    bed.install_definitions();
    let added = ["periodMilliseconds", "initialDelayMilliseconds", "timeoutMilliseconds", "grpc"];
    for name in ["podprobemarkers.apps.kruise.io", "nodepodprobes.apps.kruise.io"] {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let mut definition = bed.get(&path);
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        forget(schema, &added);
        if name.starts_with("nodepodprobes") {
            forget(&mut schema["properties"]["status"], &["observedGeneration"]);
        }
        bed.send("PUT", &path, &definition);
    }
    let controllers = Running::controllers(bed.kubeconfig(), &[]);
    for field in
        ["spec.probes.probe.periodMilliseconds", "spec.podProbes.probes.probe.timeoutMilliseconds", "status.observedGeneration"]
    {
        controllers.says(bed, field);
    }
    results_reach(bed, controllers);
    bed.install_definitions();
}

/// Removes properties of these names from a schema, wherever they are, and the rules that may speak of them.
fn forget(schema: &mut Value, names: &[&str]) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
                properties.retain(|name, _| !names.contains(&name.as_str()));
            }
            fields.values_mut().for_each(|value| forget(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| forget(value, names)),
        _ => {}
    }
}

fn results_reach(bed: &Bed, controllers: Running) {
    let namespace = bed.namespace("markers");
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    let pod = json!({"metadata": {"name": "game", "labels": {"app": "game"}}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "server", "image": bed.image, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}]}});
    let uid = bed.send("POST", &pods, &pod)["metadata"]["uid"].as_str().unwrap().to_owned();
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers", namespace.name);
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "idle"}, "spec": {
        "selector": {"matchLabels": {"app": "game"}},
        "probes": [{"name": "Idle", "containerName": "server", "probe": {"exec": {"command": ["true"]}},
            "podConditionType": "game.example.com/idle",
            "markerPolicy": [{"state": "Succeeded", "labels": {"idle": "true"}, "annotations": {"cost": "-10"}}]}]}});
    bed.send("POST", &markers, &marker);

    let place = format!("/apis/apps.kruise.io/v1alpha1/nodepodprobes/{}", bed.node);
    let spec = bed.until("the probe in the NodePodProbe", |bed| {
        let answer = bed.ask("GET", &place, &Value::Null);
        let found = answer.json()["spec"]["podProbes"].as_array()?.iter().find(|item| item["uid"] == uid)?.clone();
        // The address is added when the pod has one.
        found["IP"].as_str().is_some_and(|ip| !ip.is_empty()).then_some(found)
    });
    assert_eq!((&spec["name"], &spec["probes"][0]["name"]), (&"game".into(), &"idle#Idle".into()));
    let running = bed.get(&format!("{pods}/game"));
    assert_eq!(spec["IP"], running["status"]["podIP"]);

    let state = json!([{"name": "idle#Idle", "state": "Succeeded", "message": "no match", "lastProbeTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = json!({"status": {"podProbeStatuses": [{"name": "game", "namespace": namespace.name, "uid": uid, "probeStates": state}]}});
    bed.send("PATCH", &format!("{place}/status"), &status);
    let marked = bed.until("the marks on the pod", |bed| {
        let pod = bed.get(&format!("{pods}/game"));
        let has =
            |kind: &str| pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == kind));
        (pod["metadata"]["labels"]["idle"] == "true" && has("game.example.com/idle")).then_some(pod)
    });
    assert_eq!(marked["metadata"]["annotations"]["cost"], "-10");
    let conditions = marked["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|one| one["type"] == "game.example.com/idle").unwrap();
    assert_eq!((&condition["status"], &condition["message"]), (&"True".into(), &"no match".into()));
    let managers = marked["metadata"]["managedFields"].as_array().unwrap();
    let marks = managers.iter().find(|entry| !entry["fieldsV1"]["f:metadata"]["f:labels"]["f:idle"].is_null()).unwrap();
    assert!(marks["manager"].as_str().unwrap().starts_with("lifesign"), "{managers:?}");

    bed.send("DELETE", &format!("{markers}/idle"), &Value::Null);
    bed.until("the marker is gone", |bed| (bed.ask("GET", &format!("{markers}/idle"), &Value::Null).code == 404).then_some(()));
    let probes = bed.ask("GET", &place, &Value::Null).json()["spec"]["podProbes"].as_array().cloned().unwrap_or_default();
    assert!(probes.iter().all(|item| item["uid"] != uid), "{probes:?}");
    assert!(controllers.stop(), "a clean stop");
    bed.ask("DELETE", &place, &Value::Null);
}

/// Without the definitions there is one line for each kind, and the work begins when they come.
fn a_missing_definition_is_said_once_and_awaited(bed: &Bed) {
    bed.install_definitions();
    bed.remove_definitions();
    let controllers = Running::controllers(bed.kubeconfig(), &[]);
    controllers.says(bed, "CustomResourceDefinition is missing");
    // Longer than several attempts.
    std::thread::sleep(std::time::Duration::from_secs(8));
    let lines = controllers.log().matches("CustomResourceDefinition is missing").count();
    assert!(lines <= 2, "one line for each kind: {}", controllers.log());
    bed.install_definitions();
    let namespace = bed.namespace("awaited");
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers", namespace.name);
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "probes": [{"name": "p", "containerName": "c", "podConditionType": "example.com/p", "probe": {"tcpSocket": {"port": 1}}}]}});
    bed.send("POST", &markers, &marker);
    bed.until("the marker is taken care of", |bed| {
        let marker = bed.get(&format!("{markers}/m"));
        (!marker["metadata"]["finalizers"].is_null()).then_some(())
    });
    bed.send("DELETE", &format!("{markers}/m"), &Value::Null);
    bed.until("the marker is gone", |bed| (bed.ask("GET", &format!("{markers}/m"), &Value::Null).code == 404).then_some(()));
    assert!(controllers.stop(), "a clean stop");
}
