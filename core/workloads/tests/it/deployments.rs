//! Deployments: templates to ReplicaSets, revisions, scaling, pause, history, deadlines.

use api::{FeatureGates, Gate};
use serde_json::{Value, json};

use crate::world::{World, deployment, template};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn quarter(replicas: i64) -> Value {
    deployment(replicas, &json!("25%"), &json!("25%"))
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": template(image)}})
}

/// The ReplicaSet with an image.
pub(crate) fn set_of(world: &World, image: &str) -> Value {
    let sets = world.names("replicasets").into_iter().map(|name| world.get("replicasets", &name).clone());
    let found = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"] == image;
    sets.into_iter().find(found).unwrap_or_else(|| panic!("no ReplicaSet with {image}"))
}

#[test]
fn a_template_becomes_a_replica_set() {
    let mut world = World::new();
    let mut wanted = quarter(2);
    wanted["metadata"]["annotations"] = json!({"note": "mine", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    world.create("deployments", "d", wanted);
    world.settle();
    let (set, deployment) = (set_of(&world, "i:1"), world.get("deployments", "d"));
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set["metadata"]["name"], format!("d-{hash}"));
    assert_eq!(set["spec"]["selector"], json!({"matchLabels": {"a": "b", "pod-template-hash": hash}}));
    assert_eq!(set["spec"]["template"]["metadata"]["labels"], json!({"a": "b", "pod-template-hash": hash}));
    let annotations = json!({
        REVISION: "1", "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3",
        "note": "mine",
    });
    assert_eq!(set["metadata"]["annotations"], annotations);
    assert_eq!((&set["spec"]["replicas"], &deployment["metadata"]["annotations"][REVISION]), (&json!(2), &json!("1")));
    let status = &deployment["status"];
    assert_eq!(
        (&status["replicas"], &status["updatedReplicas"], &status["unavailableReplicas"]),
        (&json!(2), &json!(2), &json!(2))
    );
    let available = world.condition("deployments", "d", "Available").unwrap();
    assert_eq!((&available["status"], &available["reason"]), (&json!("False"), &json!("MinimumReplicasUnavailable")));
    assert_eq!(world.condition("deployments", "d", "Progressing").unwrap()["status"], "True");
    let name = set["metadata"]["name"].as_str().unwrap();
    assert!(world.events.contains(&("ScalingReplicaSet".into(), format!("Scaled up replica set {name} from 0 to 2"))));
}

#[test]
fn a_complete_rollout_says_so_and_rests() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(3));
    world.run_all(|_| true);
    let progressing = world.condition("deployments", "d", "Progressing").unwrap();
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("True"), &json!("NewReplicaSetAvailable")));
    let name = world.names("replicasets")[0].clone();
    assert_eq!(progressing["message"], format!("ReplicaSet \"{name}\" has successfully progressed."));
    assert_eq!(world.condition("deployments", "d", "Available").unwrap()["reason"], "MinimumReplicasAvailable");
    let log = world.log.len();
    world.pass(7200);
    assert_eq!(world.log.len(), log, "nothing is written while nothing changes");
}

#[test]
fn a_rollback_reuses_its_replica_set_and_gets_the_next_revision() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(2));
    world.run_all(|_| true);
    world.patch("deployments", "d", &image("i:2"));
    world.run_all(|_| true);
    assert_eq!(world.names("replicasets").len(), 2);
    assert_eq!(set_of(&world, "i:2")["metadata"]["annotations"][REVISION], "2");
    world.patch("deployments", "d", &image("i:1"));
    world.run_all(|_| true);
    assert_eq!(world.names("replicasets").len(), 2);
    let first = set_of(&world, "i:1");
    assert_eq!(first["metadata"]["annotations"][REVISION], "3");
    assert_eq!(first["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!((&first["spec"]["replicas"], &set_of(&world, "i:2")["spec"]["replicas"]), (&json!(2), &json!(0)));
    assert_eq!(world.get("deployments", "d")["metadata"]["annotations"][REVISION], "3");
}

#[test]
fn old_replica_sets_go_beyond_the_limit_of_the_history() {
    let mut world = World::new();
    let mut wanted = quarter(1);
    wanted["spec"]["revisionHistoryLimit"] = json!(2);
    world.create("deployments", "d", wanted);
    for number in 1..=5 {
        world.patch("deployments", "d", &image(&format!("i:{number}")));
        world.run_all(|_| true);
    }
    assert_eq!(world.names("replicasets").len(), 3);
    for number in 3..=5 {
        set_of(&world, &format!("i:{number}"));
    }
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(2));
    world.run_all(|_| true);
    world.patch("deployments", "d", &json!({"spec": {"paused": true, "replicas": 4, "template": template("i:2")}}));
    world.run_all(|_| true);
    assert_eq!(world.names("replicasets").len(), 1);
    assert_eq!(set_of(&world, "i:1")["spec"]["replicas"], 4);
    let progressing = world.condition("deployments", "d", "Progressing").unwrap();
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("Unknown"), &json!("DeploymentPaused")));
    world.patch("deployments", "d", &json!({"spec": {"paused": false}}));
    world.run_all(|_| true);
    assert_eq!(set_of(&world, "i:2")["spec"]["replicas"], 4);
    assert_eq!(world.condition("deployments", "d", "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
}

#[test]
fn a_rollout_that_makes_no_progress_times_out_and_recovers() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(2));
    world.run_all(|_| true);
    world.patch("deployments", "d", &image("bad"));
    world.run_all(|pod| pod["spec"]["containers"][0]["image"] != "bad");
    world.pass(590);
    assert_eq!(world.condition("deployments", "d", "Progressing").unwrap()["status"], "True");
    world.pass(15);
    let progressing = world.condition("deployments", "d", "Progressing").unwrap();
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("False"), &json!("ProgressDeadlineExceeded")));
    assert_eq!(world.condition("deployments", "d", "Available").unwrap()["status"], "True");
    assert_eq!(set_of(&world, "i:1")["spec"]["replicas"], 2, "the old pods stay");
    world.run_all(|_| true);
    assert_eq!(world.condition("deployments", "d", "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    let mut world = World::new();
    world.graceful = true;
    let mut wanted = quarter(3);
    wanted["spec"]["strategy"] = json!({"type": "Recreate"});
    world.create("deployments", "d", wanted);
    world.run_all(|_| true);
    world.patch("deployments", "d", &image("i:2"));
    world.settle();
    assert_eq!(world.names("replicasets").len(), 1, "nothing new while old pods are on their way out");
    assert_eq!(world.get("deployments", "d")["status"]["terminatingReplicas"], 3);
    let going = world.names("pods");
    world.remove("pods", &going[0]);
    world.remove("pods", &going[1]);
    world.settle();
    assert_eq!(world.names("replicasets").len(), 1);
    world.run_all(|_| true);
    assert_eq!(set_of(&world, "i:2")["status"]["availableReplicas"], 3);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_shared_in_proportion() {
    let mut world = World::new();
    world.create("deployments", "d", deployment(10, &json!(3), &json!(2)));
    world.run_all(|_| true);
    world.patch("deployments", "d", &image("bad"));
    world.run_all(|pod| pod["spec"]["containers"][0]["image"] != "bad");
    let sizes =
        |world: &World| (set_of(world, "i:1")["spec"]["replicas"].clone(), set_of(world, "bad")["spec"]["replicas"].clone());
    assert_eq!(sizes(&world), (json!(8), json!(5)));
    world.patch("deployments", "d", &json!({"spec": {"replicas": 15}}));
    world.run_all(|pod| pod["spec"]["containers"][0]["image"] != "bad");
    // The example of the Kubernetes documentation: 5 more are shared as 8 to 5.
    assert_eq!(sizes(&world), (json!(11), json!(7)));
    world.patch("deployments", "d", &json!({"spec": {"replicas": 0}}));
    world.run_all(|_| true);
    assert_eq!(sizes(&world), (json!(0), json!(0)));
}

#[test]
fn a_name_that_is_taken_is_counted_and_another_is_used() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(1));
    world.settle();
    let name = world.names("replicasets")[0].clone();
    let mut other = World::new();
    let stranger = json!({"metadata": {"labels": {"x": "y"}}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}},
    }});
    other.create("replicasets", &name, stranger);
    other.create("deployments", "d", quarter(1));
    other.pass(5);
    assert_eq!(other.get("deployments", "d")["status"]["collisionCount"], 1);
    let own = set_of(&other, "i:1");
    assert_ne!(own["metadata"]["name"], name);
    assert_eq!(own["spec"]["replicas"], 1);
}

#[test]
fn a_replica_set_that_cannot_be_made_is_said_and_tried_again() {
    let mut world = World::new();
    world.refuse.insert("replicasets", "no room".to_owned());
    world.create("deployments", "d", quarter(1));
    world.settle();
    let progressing = world.condition("deployments", "d", "Progressing").unwrap();
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("False"), &json!("ReplicaSetCreateError")));
    assert!(progressing["message"].as_str().unwrap().ends_with(": no room"));
    assert_eq!(world.events[0].0, "ReplicaSetCreateError");
    world.refuse.clear();
    world.pass(31);
    assert_eq!(set_of(&world, "i:1")["spec"]["replicas"], 1);
    assert_eq!(world.condition("deployments", "d", "Progressing").unwrap()["status"], "True");
}

#[test]
fn a_failure_of_its_pods_shows_on_the_deployment() {
    let mut world = World::new();
    world.refuse.insert("pods", "quota".to_owned());
    world.create("deployments", "d", quarter(1));
    world.settle();
    let failure = world.condition("deployments", "d", "ReplicaFailure").unwrap();
    assert_eq!((&failure["reason"], &failure["message"]), (&json!("FailedCreate"), &json!("quota")));
    world.refuse.clear();
    world.pass(31);
    assert_eq!(world.condition("deployments", "d", "ReplicaFailure"), None);
}

#[test]
fn orphaned_replica_sets_are_adopted_with_their_revision() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(2));
    world.run_all(|_| true);
    world.remove("deployments", "d");
    let name = world.names("replicasets")[0].clone();
    world.patch("replicasets", &name, &json!({"metadata": {"ownerReferences": null}}));
    let pods = world.names("pods");
    world.create("deployments", "d", quarter(2));
    world.run_all(|_| true);
    assert_eq!((world.names("replicasets"), world.names("pods")), (vec![name.clone()], pods));
    let uid = &world.get("deployments", "d")["metadata"]["uid"];
    assert_eq!(world.get("replicasets", &name)["metadata"]["ownerReferences"][0]["uid"], *uid);
    world.patch("replicasets", &name, &json!({"metadata": {"labels": {"a": "other"}}}));
    world.settle();
    assert_eq!(world.get("replicasets", &name)["metadata"].get("ownerReferences"), None, "released");
}

#[test]
fn switching_a_gate_off_and_on_rolls_nothing() {
    let on = FeatureGates::default().with(Gate::SubSecondProbes, true);
    let off = FeatureGates::default().with(Gate::SubSecondProbes, false);
    let mut world = World::with_gates(on.clone());
    let mut wanted = quarter(2);
    wanted["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({"periodSeconds": 1, "periodMilliseconds": -500});
    world.create("deployments", "d", wanted);
    world.run_all(|_| true);
    let (sets, pods) = (world.names("replicasets"), world.names("pods"));
    for gates in [off, on] {
        world.restart(gates);
        world.run_all(|_| true);
        assert_eq!((world.names("replicasets"), world.names("pods")), (sets.clone(), pods.clone()));
    }
}

#[test]
fn a_deployment_that_is_being_deleted_is_only_reported() {
    let mut world = World::new();
    world.create("deployments", "d", quarter(1));
    world.run_all(|_| true);
    let patch = json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}, "spec": {"template": template("i:2")}});
    world.patch("deployments", "d", &patch);
    world.settle();
    assert_eq!(world.names("replicasets").len(), 1);
    assert_eq!(world.get("deployments", "d")["status"]["observedGeneration"], 2);
}
