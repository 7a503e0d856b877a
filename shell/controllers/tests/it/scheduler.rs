//! Pods find their node, or say why not.

use std::collections::BTreeMap;

use api::{FeatureGates, Pod};
use runtime::Obj;
use serde_json::{Value, json};

use crate::support::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod(plane: &Plane, name: &str, cpu: &str) {
    let container = json!({"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}});
    plane.create(PODS, json!({"metadata": {"name": name}, "spec": {"containers": [container]}})).await;
}

async fn bound(plane: &Plane, name: &str) -> String {
    let node =
        |pods: &BTreeMap<String, Obj<Pod>>| Some(pods.get(name)?.view.spec.node_name.clone()).filter(|node| !node.is_empty());
    plane.until(&format!("{name} is bound"), node).await
}

async fn refused(plane: &Plane, name: &str, text: &str) {
    plane
        .until::<Pod, ()>(&format!("{name} is refused with {text}"), |pods| {
            let condition = pods.get(name)?.view.condition("PodScheduled")?;
            let refused = condition.status == "False" && condition.reason == "Unschedulable" && condition.message == text;
            refused.then_some(())
        })
        .await;
}

/// Waits until there are this many events of a reason about a pod, and returns them.
async fn events(plane: &Plane, reason: &str, pod: &str, count: usize) -> Vec<Value> {
    // Events are few and written soon after what they tell; there is no view of them to watch.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let list: Value =
            runtime::request(&plane.client, http::Method::GET, "/api/v1/namespaces/default/events", &json!({})).await.unwrap();
        let about = |event: &&Value| event["reason"] == reason && event["involvedObject"]["name"] == pod;
        let found: Vec<Value> = list["items"].as_array().unwrap().iter().filter(about).cloned().collect();
        if found.len() >= count {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "no {count} events {reason} about {pod}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_pod_is_bound_to_the_first_node_with_room() {
    let plane = Plane::start().await;
    plane.node("a", "1").await;
    plane.node("b", "2").await;
    let controllers = plane.run(&FeatureGates::default()).await;
    pod(&plane, "x", "1500m").await;
    assert_eq!(bound(&plane, "x").await, "b");
    pod(&plane, "y", "1").await;
    assert_eq!(bound(&plane, "y").await, "a");
    let events = events(&plane, "Scheduled", "x", 1).await;
    assert_eq!(events[0]["message"], "Successfully assigned default/x to b");
    assert_eq!((&events[0]["type"], &events[0]["source"]["component"]), (&json!("Normal"), &json!("default-scheduler")));
    controllers.stop().await;
    plane.end();
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why_and_is_bound_when_there_is_room() {
    let plane = Plane::start().await;
    let controllers = plane.run(&FeatureGates::default()).await;
    pod(&plane, "x", "2").await;
    refused(&plane, "x", "no nodes available to schedule pods").await;
    plane.node("a", "1").await;
    refused(&plane, "x", "0/1 nodes are available: 1 Insufficient cpu.").await;
    plane.node("b", "2").await;
    assert_eq!(bound(&plane, "x").await, "b");
    let events = events(&plane, "FailedScheduling", "x", 2).await;
    assert!(events.iter().all(|event| event["type"] == "Warning" && event["count"] == 1), "{events:?}");
    controllers.stop().await;
    plane.end();
}

#[tokio::test]
async fn room_that_a_deleted_pod_leaves_is_used() {
    let plane = Plane::start().await;
    plane.node("a", "1").await;
    let controllers = plane.run(&FeatureGates::default()).await;
    pod(&plane, "x", "1").await;
    bound(&plane, "x").await;
    pod(&plane, "y", "1").await;
    refused(&plane, "y", "0/1 nodes are available: 1 Insufficient cpu.").await;
    plane.delete(&format!("{PODS}/x"), json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(bound(&plane, "y").await, "a");
    controllers.stop().await;
    plane.end();
}
