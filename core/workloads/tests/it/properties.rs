//! Whatever the order in which watches, answers and users come: the same objects at rest, and never a pod too many.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, deployment, replica_set, template};

#[derive(Clone, Debug)]
enum Act {
    /// A controller takes what waits for it, an answer first or an event first.
    Step(usize, bool),
    /// The user scales.
    Scale(i64),
    /// The user changes the template.
    Image(u8),
    /// A pod becomes ready or stops to be.
    Flip(usize, bool),
    /// A pod vanishes.
    Kill(usize),
    /// A watch is lost.
    Relist(usize),
    /// Time passes.
    Pass(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => (0..3usize, any::<bool>()).prop_map(|(seat, first)| Act::Step(seat, first)),
        1 => (0..6i64).prop_map(Act::Scale),
        1 => (1..4u8).prop_map(Act::Image),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(pod, ready)| Act::Flip(pod, ready)),
        1 => any::<usize>().prop_map(Act::Kill),
        1 => (0..3usize).prop_map(Act::Relist),
        1 => (1..40i64).prop_map(Act::Pass),
    ]
}

fn apply(world: &mut World, act: &Act, plural: &'static str) {
    let pods = world.names("pods");
    let nth = |number: usize| pods.get(number % pods.len().max(1)).cloned();
    match act {
        Act::Step(seat, first) => drop(world.step(seat % world.controllers(), *first)),
        Act::Scale(replicas) => world.patch(plural, "w", &json!({"spec": {"replicas": replicas}})),
        Act::Image(number) if plural == "deployments" => {
            world.patch(plural, "w", &json!({"spec": {"template": template(&format!("i:{number}"))}}));
        }
        Act::Image(_) => {}
        Act::Flip(pod, ready) => nth(*pod).iter().for_each(|pod| world.run(pod, *ready)),
        Act::Kill(pod) => nth(*pod).iter().for_each(|pod| world.remove("pods", pod)),
        Act::Relist(seat) => world.relist(seat % world.controllers()),
        Act::Pass(seconds) => world.now += std::time::Duration::from_secs(seconds.unsigned_abs()),
    }
}

/// Lets the world come to rest, with every pod ready.
fn rest(world: &mut World) {
    world.pass(60);
    world.run_all(|_| true);
    world.pass(60);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(64)))]

    #[test]
    fn a_replica_set_comes_to_what_is_wanted(acts in prop::collection::vec(act(), 1..200)) {
        let mut world = World::new();
        world.create("replicasets", "w", replica_set(3));
        for act in &acts {
            apply(&mut world, act, "replicasets");
        }
        rest(&mut world);
        let set = world.get("replicasets", "w").clone();
        let replicas = set["spec"]["replicas"].as_i64().unwrap();
        prop_assert_eq!(world.names("pods").len() as i64, replicas);
        let status = &set["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        prop_assert_eq!(
            (number("replicas"), number("readyReplicas"), number("availableReplicas"), number("observedGeneration")),
            (replicas, replicas, replicas, set["metadata"]["generation"].as_i64().unwrap())
        );
        let log = world.log.len();
        world.pass(3600);
        prop_assert_eq!(world.log.len(), log, "at rest nothing is written");
    }

    #[test]
    fn a_replica_set_never_makes_a_pod_too_many(acts in prop::collection::vec(act(), 1..200)) {
        let mut world = World::new();
        world.create("replicasets", "w", replica_set(5));
        for act in acts.iter().filter(|act| matches!(act, Act::Step(..) | Act::Flip(..))) {
            apply(&mut world, act, "replicasets");
            prop_assert!(world.names("pods").len() <= 5);
        }
    }

    #[test]
    fn a_deployment_comes_to_what_is_wanted(
        acts in prop::collection::vec(act(), 1..200), surge in 0..4i64, unavailable in 0..4i64, graceful in any::<bool>(),
    ) {
        let mut world = World::new();
        world.graceful = graceful;
        world.create("deployments", "w", deployment(3, &json!(surge), &json!(unavailable)));
        for act in &acts {
            apply(&mut world, act, "deployments");
        }
        rest(&mut world);
        let wanted = world.get("deployments", "w").clone();
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap();
        let image = &wanted["spec"]["template"]["spec"]["containers"][0]["image"];
        let of = |pod: &Value| pod["spec"]["containers"][0]["image"] == *image;
        prop_assert_eq!(world.pods(of).len() as i64, replicas);
        prop_assert_eq!(world.names("pods").len() as i64, replicas, "no pod of another template is left");
        let status = &wanted["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        prop_assert_eq!(
            (number("replicas"), number("updatedReplicas"), number("availableReplicas"), number("unavailableReplicas")),
            (replicas, replicas, replicas, 0)
        );
        prop_assert_eq!(&world.condition("deployments", "w", "Progressing").unwrap()["reason"], "NewReplicaSetAvailable");
        let log = world.log.len();
        world.pass(3600);
        prop_assert_eq!(world.log.len(), log, "at rest nothing is written");
    }
}
