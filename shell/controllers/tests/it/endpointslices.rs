//! Pods become endpoints, drain, and go.

use api::endpointslice::EndpointConditions;
use api::{EndpointSlice, FeatureGates, Gate};
use serde_json::{Value, json};

use crate::support::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn service(plane: &Plane) {
    let spec = json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
    let service = json!({"metadata": {"name": "web"}, "spec": spec});
    plane.create("/api/v1/namespaces/default/services", service).await;
}

async fn pod(plane: &Plane, name: &str, address: &str) {
    let spec = json!({"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]});
    plane.create(PODS, json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})).await;
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
    plane.patch(&format!("{PODS}/{name}/status"), status).await;
}

async fn ready(plane: &Plane, name: &str, ready: bool) {
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    plane.patch(&format!("{PODS}/{name}/status"), patch).await;
}

/// Waits until the one slice shows these conditions (ready, serving, terminating) of these pods; returns its generation.
async fn shows(plane: &Plane, wanted: &[(&str, [Option<bool>; 3])]) -> i64 {
    let what = format!("the slice shows {wanted:?}");
    plane
        .until::<EndpointSlice, i64>(&what, |slices| {
            let slice = &slices.values().next()?.view;
            let mut found: Vec<(&str, EndpointConditions)> = Vec::new();
            for endpoint in &slice.endpoints {
                found.push((endpoint.target_ref.as_ref()?.name.as_str(), endpoint.conditions));
            }
            found.sort();
            let conditions =
                |[ready, serving, terminating]: [Option<bool>; 3]| EndpointConditions { ready, serving, terminating };
            let wanted: Vec<_> = wanted.iter().map(|(name, states)| (*name, conditions(*states))).collect();
            (found == wanted && slices.len() == 1).then_some(slice.metadata.generation)
        })
        .await
}

const READY: [Option<bool>; 3] = [Some(true), Some(true), Some(false)];
const NOT_READY: [Option<bool>; 3] = [Some(false), Some(false), Some(false)];
const DRAINING: [Option<bool>; 3] = [Some(false), Some(true), Some(true)];
const STOPPING: [Option<bool>; 3] = [Some(false), Some(false), Some(true)];

#[tokio::test]
async fn every_step_of_a_pods_life_is_one_write() {
    let plane = Plane::start().await;
    plane.node("n1", "4").await;
    let controllers = plane.run(&FeatureGates::default()).await;
    service(&plane).await;
    let mut last = shows(&plane, &[]).await;
    pod(&plane, "a", "127.88.0.1").await;
    let mut steps = Vec::new();
    steps.push(shows(&plane, &[("a", NOT_READY)]).await);
    for flip in [true, false, true] {
        ready(&plane, "a", flip).await;
        steps.push(shows(&plane, &[("a", if flip { READY } else { NOT_READY })]).await);
    }
    plane.delete(&format!("{PODS}/a"), json!({"gracePeriodSeconds": 30})).await;
    steps.push(shows(&plane, &[("a", DRAINING)]).await);
    ready(&plane, "a", false).await;
    steps.push(shows(&plane, &[("a", STOPPING)]).await);
    plane.delete(&format!("{PODS}/a"), json!({"gracePeriodSeconds": 0})).await;
    steps.push(shows(&plane, &[]).await);
    for generation in steps {
        assert_eq!(generation, last + 1, "one write for each step");
        last = generation;
    }
    let metrics = controllers.stop().await;
    let has = |line: &str| assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    has("endpoint_slice_controller_changes{operation=\"create\"} 1");
    has("endpoint_slice_controller_changes{operation=\"update\"} 7");
    has("endpoint_slice_controller_endpoint_transitions_total{from=\"ready\",to=\"terminating_serving\"} 1");
    has("endpoint_slice_controller_endpoint_transitions_total{from=\"terminating_not_serving\",to=\"absent\"} 1");
    has("endpoint_slice_controller_endpoints_desired 0");
    plane.end();
}

#[tokio::test]
async fn slices_are_found_by_label_and_go_with_their_service() {
    let plane = Plane::start().await;
    plane.node("n1", "4").await;
    let controllers = plane.run(&FeatureGates::default()).await;
    service(&plane).await;
    pod(&plane, "a", "127.88.0.1").await;
    ready(&plane, "a", true).await;
    shows(&plane, &[("a", READY)]).await;
    let found = |slices: &std::collections::BTreeMap<String, runtime::Obj<EndpointSlice>>| slices.values().next().cloned();
    let slice = plane.until("there is a slice", found).await;
    assert!(slice.view.metadata.name.starts_with("web-"), "{}", slice.view.metadata.name);
    assert_eq!((slice.view.service_name(), slice.view.managed_by()), ("web", "endpointslice-controller.k8s.io"));
    assert_eq!((slice.view.address_type.as_str(), slice.view.ports[0].port), ("IPv4", Some(8080)));
    plane.delete("/api/v1/namespaces/default/services/web", json!({})).await;
    plane.until::<EndpointSlice, ()>("the slice is collected", |slices| slices.is_empty().then_some(())).await;
    controllers.stop().await;
    plane.end();
}

#[tokio::test]
async fn a_slice_that_somebody_deletes_is_made_again() {
    let plane = Plane::start().await;
    plane.node("n1", "4").await;
    let controllers = plane.run(&FeatureGates::default()).await;
    service(&plane).await;
    pod(&plane, "a", "127.88.0.1").await;
    ready(&plane, "a", true).await;
    shows(&plane, &[("a", READY)]).await;
    let name = |slices: &std::collections::BTreeMap<String, runtime::Obj<EndpointSlice>>| slices.keys().next().cloned();
    let first = plane.until("there is a slice", name).await;
    plane.delete(&format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{first}"), json!({})).await;
    let second = plane
        .until::<EndpointSlice, String>("there is another slice", |slices| slices.keys().find(|name| **name != first).cloned());
    assert_ne!(second.await, first);
    controllers.stop().await;
    plane.end();
}

#[tokio::test]
async fn the_gate_can_be_turned_off_and_on_again() {
    let directory = tempfile::tempdir().unwrap();
    let on = FeatureGates::default();
    let off = FeatureGates::default().with(Gate::EndpointSliceTerminatingCondition, false);

    let plane = Plane::on(directory.path(), on.clone()).await;
    plane.node("n1", "4").await;
    let controllers = plane.run(&on).await;
    service(&plane).await;
    for (name, address) in [("a", "127.88.0.1"), ("b", "127.88.0.2")] {
        pod(&plane, name, address).await;
        ready(&plane, name, true).await;
    }
    let stored = shows(&plane, &[("a", READY), ("b", READY)]).await;
    controllers.stop().await;
    plane.end();

    // Off: what is stored stays as it is until it is written for another reason.
    let plane = Plane::on(directory.path(), off.clone()).await;
    let controllers = plane.run(&off).await;
    assert_eq!(shows(&plane, &[("a", READY), ("b", READY)]).await, stored, "no write at the start");
    plane.delete(&format!("{PODS}/a"), json!({"gracePeriodSeconds": 30})).await;
    let ready_only = [Some(true), None, None];
    assert_eq!(shows(&plane, &[("b", ready_only)]).await, stored + 1, "a terminating pod is left out");
    controllers.stop().await;
    plane.end();

    // On again: the next sync writes the fields and lists the terminating pod.
    let plane = Plane::on(directory.path(), on.clone()).await;
    let controllers = plane.run(&on).await;
    shows(&plane, &[("a", DRAINING), ("b", READY)]).await;
    controllers.stop().await;
    plane.end();
}

#[tokio::test]
async fn a_server_that_drops_the_fields_is_not_written_to_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let on = FeatureGates::default();
    let plane = Plane::on(directory.path(), on.clone().with(Gate::EndpointSliceTerminatingCondition, false)).await;
    plane.node("n1", "4").await;
    let controllers = plane.run(&on).await;
    service(&plane).await;
    pod(&plane, "a", "127.88.0.1").await;
    let first = shows(&plane, &[("a", [Some(false), None, None])]).await;
    ready(&plane, "a", true).await;
    let second = shows(&plane, &[("a", [Some(true), None, None])]).await;
    assert_eq!(second, first + 1);
    // Another Service changes nothing for this one.
    let other: Value = json!({"metadata": {"name": "other"}, "spec": {"selector": {"app": "none"}, "ports": [{"port": 1}]}});
    plane.create("/api/v1/namespaces/default/services", other).await;
    let generation = plane.until::<EndpointSlice, i64>("the other Service has its slice", |slices| {
        let of = |name: &str| slices.values().find(|slice| slice.view.service_name() == name);
        of("other").and_then(|_| of("web")).map(|slice| slice.view.metadata.generation)
    });
    assert_eq!(generation.await, second);
    controllers.stop().await;
    plane.end();
}
