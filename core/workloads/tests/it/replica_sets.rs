//! ReplicaSets: pods made, adopted, released, deleted, reported.

use serde_json::{Value, json};

use crate::world::{World, replica_set};

fn orphan(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}})
}

#[test]
fn pods_are_made_in_growing_batches_with_one_status_at_the_end() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(10));
    world.settle();
    let pods = world.names("pods");
    assert_eq!(pods.len(), 10);
    let pod = world.get("pods", &pods[0]);
    assert!(pods[0].starts_with("r-") && pod["metadata"]["generateName"] == "r-", "{pod}");
    let set = world.get("replicasets", "r");
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": set["metadata"]["uid"], "controller": true,
        "blockOwnerDeletion": true,
    }]);
    assert_eq!(pod["metadata"]["ownerReferences"], owner);
    let status = json!({"replicas": 10, "fullyLabeledReplicas": 10, "observedGeneration": 1, "terminatingReplicas": 0});
    assert_eq!(set["status"], status);
    assert_eq!(world.log.iter().filter(|line| line.starts_with("status")).count(), 1, "{:?}", world.log);
    assert_eq!(world.events.iter().filter(|(reason, _)| reason == "SuccessfulCreate").count(), 10);
    assert_eq!(world.events[0].1, format!("Created pod: {}", pods[0]));
}

#[test]
fn what_the_watch_has_not_shown_yet_is_not_made_again() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(3));
    // Answers are taken before events for as long as there are any: the watch is always behind.
    for _ in 0..1000 {
        world.step(0, true);
        assert!(world.names("pods").len() <= 3);
    }
    assert_eq!(world.names("pods").len(), 3);
}

#[test]
fn a_pod_that_went_before_its_answer_came_is_replaced_and_not_believed() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(1));
    // The list and the ReplicaSet, until the pod is made; its answer waits.
    while world.names("pods").is_empty() {
        assert!(world.step(0, false));
    }
    let first = world.names("pods")[0].clone();
    world.remove("pods", &first);
    world.settle();
    assert_eq!(world.names("pods").len(), 1);
    assert_ne!(world.names("pods")[0], first);
    assert_eq!(world.get("replicasets", "r")["status"]["replicas"], 1);
}

#[test]
fn a_refused_pod_is_said_reported_and_tried_again_later() {
    let mut world = World::new();
    world.refuse.insert("pods", "pods \"r-\" is forbidden: no".to_owned());
    world.create("replicasets", "r", replica_set(2));
    world.settle();
    let failure = world.condition("replicasets", "r", "ReplicaFailure").expect("a failure");
    assert_eq!((&failure["reason"], &failure["message"]), (&json!("FailedCreate"), &json!("pods \"r-\" is forbidden: no")));
    assert_eq!(world.events[0], ("FailedCreate".into(), "Error creating: pods \"r-\" is forbidden: no".into()));
    let tries = world.events.len();
    world.pass(60);
    assert!((tries + 3..tries + 20).contains(&world.events.len()), "{} tries", world.events.len());
    world.refuse.clear();
    world.pass(31);
    assert_eq!(world.names("pods").len(), 2);
    assert_eq!(world.condition("replicasets", "r", "ReplicaFailure"), None);
}

#[test]
fn nothing_is_tried_in_a_namespace_that_goes() {
    let mut world = World::new();
    world.refuse.insert("pods", "terminating".to_owned());
    world.create("replicasets", "r", replica_set(2));
    world.pass(3600);
    assert_eq!(world.events, []);
    assert_eq!(world.condition("replicasets", "r", "ReplicaFailure"), None);
}

#[test]
fn orphans_are_adopted_and_strangers_released() {
    let mut world = World::new();
    world.create("pods", "orphan", orphan(&json!({"a": "b", "x": "y"})));
    world.create("pods", "other", orphan(&json!({"a": "z"})));
    world.create("replicasets", "r", replica_set(2));
    world.settle();
    let uid = world.get("replicasets", "r")["metadata"]["uid"].clone();
    assert_eq!(world.get("pods", "orphan")["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(world.names("pods").len(), 3, "one was made, one adopted, one is none of its business");
    world.patch("pods", "orphan", &json!({"metadata": {"labels": {"a": "free"}}}));
    world.settle();
    assert_eq!(world.get("pods", "orphan")["metadata"].get("ownerReferences"), None);
    assert_eq!(world.names("pods").len(), 4, "the released one was replaced");
}

#[test]
fn two_replica_sets_never_share_a_pod() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(1));
    world.create("replicasets", "s", replica_set(1));
    world.create("pods", "orphan", orphan(&json!({"a": "b"})));
    world.pass(10);
    let owners = world.get("pods", "orphan")["metadata"]["ownerReferences"].as_array().unwrap().len();
    assert!(owners >= 1);
    assert_eq!(world.names("pods").len(), 2);
}

#[test]
fn an_owner_that_is_gone_adopts_nothing_although_the_watch_has_not_shown_it() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(0));
    world.settle();
    // Somebody orphans: the ReplicaSet goes, its pod stays. The controller hears of the pod first.
    let mut set = world.get("replicasets", "r").clone();
    world.objects.remove(&("replicasets", "r".to_owned()));
    world.create("pods", "orphan", orphan(&json!({"a": "b"})));
    world.settle();
    assert_eq!(world.get("pods", "orphan")["metadata"].get("ownerReferences"), None);
    set["metadata"]["uid"] = json!("another");
    world.objects.insert(("replicasets", "r".to_owned()), set);
    world.pass(1);
    assert_eq!(world.get("pods", "orphan")["metadata"].get("ownerReferences"), None, "another of that name is not it");
}

#[test]
fn scaling_down_takes_the_cheapest_first() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(3));
    world.run_all(|_| true);
    let pods = world.names("pods");
    for (pod, cost) in [(&pods[0], "10"), (&pods[2], "-10")] {
        let annotation = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        world.patch("pods", pod, &json!({"metadata": {"annotations": annotation}}));
    }
    world.patch("replicasets", "r", &json!({"spec": {"replicas": 2}}));
    world.settle();
    assert_eq!(world.names("pods"), [pods[0].clone(), pods[1].clone()]);
    world.patch("replicasets", "r", &json!({"spec": {"replicas": 1}}));
    world.settle();
    assert_eq!(world.names("pods"), [pods[0].clone()]);
    assert!(world.events.contains(&("SuccessfulDelete".into(), format!("Deleted pod: {}", pods[2]))));
}

#[test]
fn pods_on_their_way_out_are_replaced_counted_and_not_deleted_again() {
    let mut world = World::new();
    world.graceful = true;
    world.create("replicasets", "r", replica_set(2));
    world.run_all(|_| true);
    world.patch("replicasets", "r", &json!({"spec": {"replicas": 1}}));
    world.settle();
    let status = &world.get("replicasets", "r")["status"];
    assert_eq!((&status["replicas"], &status["terminatingReplicas"]), (&json!(1), &json!(1)));
    world.patch("replicasets", "r", &json!({"spec": {"replicas": 2}}));
    world.settle();
    assert_eq!(world.names("pods").len(), 3);
    assert_eq!(world.log.iter().filter(|line| line.starts_with("delete")).count(), 1, "{:?}", world.log);
    world.finish_deletions();
    world.settle();
    assert_eq!(world.get("replicasets", "r")["status"]["terminatingReplicas"], 0);
}

#[test]
fn a_pod_is_available_after_it_was_ready_long_enough() {
    let mut world = World::new();
    let mut set = replica_set(2);
    set["spec"]["minReadySeconds"] = json!(30);
    world.create("replicasets", "r", set);
    world.run_all(|_| true);
    let status = |world: &World| world.get("replicasets", "r")["status"].clone();
    assert_eq!((&status(&world)["readyReplicas"], status(&world).get("availableReplicas")), (&json!(2), None));
    world.pass(29);
    assert_eq!(status(&world).get("availableReplicas"), None);
    world.pass(1);
    assert_eq!(status(&world)["availableReplicas"], 2);
    let pod = world.names("pods")[0].clone();
    world.run(&pod, false);
    world.settle();
    assert_eq!((&status(&world)["readyReplicas"], &status(&world)["availableReplicas"]), (&json!(1), &json!(1)));
}

#[test]
fn a_burst_of_changes_is_few_statuses() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(100));
    world.settle();
    let before = world.log.len();
    for pod in world.names("pods") {
        world.run(&pod, true);
    }
    world.settle();
    assert_eq!(world.get("replicasets", "r")["status"]["readyReplicas"], 100);
    let statuses = world.log.len() - before;
    assert!(statuses <= 3, "{statuses} statuses for 100 pods that came at once");
}

#[test]
fn a_new_start_and_a_new_list_change_nothing() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(3));
    world.run_all(|_| true);
    let (objects, log) = (world.objects.clone(), world.log.len());
    world.relist(0);
    world.pass(5);
    world.restart(api::FeatureGates::default());
    world.pass(5);
    assert_eq!((world.objects, world.log.len()), (objects, log));
}

#[test]
fn what_a_new_list_does_not_name_is_gone() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(2));
    world.settle();
    let lost = world.names("pods")[0].clone();
    world.objects.remove(&("pods", lost));
    world.relist(0);
    world.settle();
    assert_eq!(world.names("pods").len(), 2);
}

#[test]
fn a_pod_that_went_while_the_watch_was_lost_is_not_believed_from_its_answer() {
    let mut world = World::new();
    world.create("replicasets", "r", replica_set(1));
    while world.names("pods").is_empty() {
        assert!(world.step(0, false));
    }
    // The answer waits, the pod goes, and the watch begins anew: nothing tells that it was ever there.
    let first = world.names("pods")[0].clone();
    world.remove("pods", &first);
    world.relist(0);
    world.settle();
    assert_eq!(world.names("pods").len(), 1);
}
