//! Every rolling update keeps within its bounds, whatever they are, and comes to its end.

use serde_json::{Value, json};

use crate::deployments::set_of;
use crate::world::{World, deployment, template};

/// Rolls from one image to the next pod by pod; returns the fewest available and the most pods on the way.
fn roll(replicas: i64, surge: &Value, unavailable: &Value) -> (usize, usize) {
    let mut world = World::new();
    world.graceful = true;
    world.create("deployments", "d", deployment(replicas, surge, unavailable));
    world.run_all(|_| true);
    world.patch("deployments", "d", &json!({"spec": {"template": template("i:2")}}));
    world.settle();
    let (mut fewest, mut most) = (usize::MAX, 0);
    let is = |pod: &Value, ready: bool| {
        pod["metadata"].get("deletionTimestamp").is_none() && (pod["status"]["conditions"][0]["status"] == "True") == ready
    };
    for _ in 0..1000 {
        fewest = fewest.min(world.pods(|pod| is(pod, true)).len());
        most = most.max(world.pods(|pod| is(pod, true) || is(pod, false)).len());
        match world.pods(|pod| is(pod, false)).first() {
            Some(pod) => world.run(&pod.clone(), true),
            None => break,
        }
        world.settle();
        world.finish_deletions();
        world.settle();
    }
    let (new, old) = (set_of(&world, "i:2"), set_of(&world, "i:1"));
    assert_eq!((&new["status"]["availableReplicas"], &old["spec"]["replicas"]), (&json!(replicas), &json!(0)));
    assert_eq!(world.condition("deployments", "d", "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
    (fewest, most)
}

#[test]
fn a_rolling_update_keeps_its_bounds() {
    let cases = [
        (10, json!("25%"), json!("25%"), (8, 13)),
        (10, json!(1), json!(0), (10, 11)),
        (10, json!(0), json!(1), (9, 10)),
        (10, json!("100%"), json!(0), (10, 20)),
        (10, json!(0), json!("100%"), (0, 10)),
        (3, json!("0%"), json!("25%"), (2, 3)),
        (1, json!("25%"), json!("25%"), (1, 2)),
    ];
    for (replicas, surge, unavailable, expected) in cases {
        assert_eq!(roll(replicas, &surge, &unavailable), expected, "{replicas} {surge} {unavailable}");
    }
}
