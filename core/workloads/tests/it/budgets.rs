//! Budgets: what they count, and that evictions are neither forgotten nor counted twice.

use api::Timestamp;
use serde_json::{Value, json};

use crate::world::{World, deployment};

fn budget(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"a": "b"}});
    json!({"metadata": {}, "spec": spec})
}

fn web(world: &mut World, replicas: i64) {
    world.create("deployments", "d", deployment(replicas, &json!(1), &json!(0)));
    world.run_all(|_| true);
}

fn numbers(world: &World) -> (i64, i64, i64, i64) {
    let status = &world.get("poddisruptionbudgets", "b")["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(-1);
    (number("expectedPods"), number("currentHealthy"), number("desiredHealthy"), number("disruptionsAllowed"))
}

#[test]
fn a_budget_follows_its_pods_and_the_size_of_their_deployment() {
    let mut world = World::new();
    web(&mut world, 4);
    world.create("poddisruptionbudgets", "b", budget(&json!({"maxUnavailable": 1})));
    world.settle();
    assert_eq!(numbers(&world), (4, 4, 3, 1));
    assert_eq!(world.condition("poddisruptionbudgets", "b", "DisruptionAllowed").unwrap()["reason"], "SufficientPods");
    let pod = world.names("pods")[0].clone();
    world.run(&pod, false);
    world.settle();
    assert_eq!(numbers(&world), (4, 3, 3, 0));
    assert_eq!(world.condition("poddisruptionbudgets", "b", "DisruptionAllowed").unwrap()["reason"], "InsufficientPods");
    world.patch("deployments", "d", &json!({"spec": {"replicas": 6}}));
    world.run_all(|_| true);
    assert_eq!(numbers(&world), (6, 6, 5, 1));
    world.patch("poddisruptionbudgets", "b", &json!({"spec": {"maxUnavailable": null, "minAvailable": "50%"}}));
    world.settle();
    assert_eq!(numbers(&world), (6, 6, 3, 3));
}

#[test]
fn an_allowed_eviction_counts_until_it_is_seen_or_given_up() {
    let mut world = World::new();
    world.graceful = true;
    web(&mut world, 3);
    world.create("poddisruptionbudgets", "b", budget(&json!({"minAvailable": 2})));
    world.settle();
    assert_eq!(numbers(&world), (3, 3, 2, 1));
    // What the API server does when it allows an eviction.
    let pod = world.names("pods")[0].clone();
    let at = Timestamp(world.now).to_string();
    let taken = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {pod.as_str(): at}}});
    world.patch("poddisruptionbudgets", "b", &taken);
    world.settle();
    assert_eq!(numbers(&world), (3, 2, 2, 0), "the eviction is not given back");
    assert!(world.get("poddisruptionbudgets", "b")["status"]["disruptedPods"].get(&pod).is_some());
    world.pass(121);
    assert_eq!(numbers(&world), (3, 3, 2, 1), "nothing came of it");
    world.patch(
        "poddisruptionbudgets",
        "b",
        &json!({"status": {"disruptedPods": {pod.as_str(): Timestamp(world.now).to_string()}}}),
    );
    world.delete("pods", &pod);
    world.settle();
    let status = &world.get("poddisruptionbudgets", "b")["status"];
    assert_eq!((status.get("disruptedPods"), &status["currentHealthy"]), (None, &json!(2)), "it is seen to go");
}

#[test]
fn a_budget_without_pods_or_countable_controllers_says_so() {
    let mut world = World::new();
    world.create("poddisruptionbudgets", "b", budget(&json!({"maxUnavailable": 1})));
    world.settle();
    assert_eq!(world.events, [("NoPods".to_owned(), "No matching pods found".to_owned())]);
    let owner = json!([{"apiVersion": "x/v1", "kind": "Thing", "name": "t", "uid": "t", "controller": true}]);
    world.create("pods", "p", json!({"metadata": {"labels": {"a": "b"}, "ownerReferences": owner}, "spec": {}}));
    world.settle();
    let condition = world.condition("poddisruptionbudgets", "b", "DisruptionAllowed").unwrap();
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("SyncFailed"), &json!("found no controllers for pod \"p\""))
    );
    assert_eq!(numbers(&world).3, 0);
}
