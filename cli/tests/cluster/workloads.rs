//! Deployments and ReplicaSets live the same life under our controllers as under those of Kubernetes: the same script on both,
//! the same objects at rest after every step, the same pods deleted in the same order.

mod side;

use std::path::Path;

use serde_json::{Value, json};
use testkit::plane::Plane;

use crate::bed::Bed;
use crate::{LIFESIGN, Test};
use side::Side;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("workloads::deployments_live_the_same_life_on_both", deployments_live_the_same_life_on_both),
    ("workloads::pods_are_deleted_in_the_same_order", pods_are_deleted_in_the_same_order),
];

/// What is done, and how the objects differ then, if they do: `docs/compatibility.md` has these.
type Step = (&'static str, fn(&Side), &'static str);

/// In this order.
const STEPS: &[Step] = &[
    ("created", |side| side.deploy("web", 3, &rolling(json!("25%"), json!("25%"))), ""),
    ("scaled up", |side| side.kubectl("scale deployment web --replicas=5"), ""),
    ("scaled down", |side| side.kubectl("scale deployment web --replicas=2"), ""),
    ("updated", |side| side.run("web", &["sleep", "3601"]), ""),
    ("rolled back", |side| side.kubectl("rollout undo deployment web"), ""),
    (
        "updated while paused",
        |side| {
            side.kubectl("rollout pause deployment web");
            side.run("web", &["sleep", "3602"]);
        },
        "",
    ),
    ("scaled while paused", |side| side.kubectl("scale deployment web --replicas=3"), ""),
    ("resumed", |side| side.kubectl("rollout resume deployment web"), ""),
    ("with a program that does not exist", |side| side.run("web", &["/no/such/program"]), ""),
    ("scaled in the middle of a rollout", |side| side.kubectl("scale deployment web --replicas=6"), ""),
    ("rolled back from the middle", |side| side.kubectl("rollout undo deployment web"), ""),
    (
        "with an image that does not exist",
        |side| side.kubectl("set image deployment web c=no.such/image:1"),
        "images are not pulled",
    ),
    ("rolled back from the image", |side| side.kubectl("rollout undo deployment web"), ""),
    ("restarted", |side| side.kubectl("rollout restart deployment web"), ""),
    ("orphaned", |side| side.kubectl("delete deployment web --cascade=orphan"), ""),
    ("adopted", |side| side.deploy("web", 2, &rolling(json!("25%"), json!("25%"))), ""),
    ("a pod released", |side| side.relabel("app=web", "released"), ""),
    ("a pod taken back", |side| side.relabel("app=released", "web"), ""),
    ("a ReplicaSet scaled by hand", |side| side.scale_replica_set("web", 4), ""),
    ("deleted", |side| side.kubectl("delete deployment web --cascade=foreground"), ""),
    ("surge 1 0", |side| side.deploy("surge", 4, &rolling(json!(1), json!(0))), ""),
    ("surge 1 0, updated", |side| side.run("surge", &["sleep", "3601"]), ""),
    ("surge 0 1", |side| side.deploy("surge", 4, &rolling(json!(0), json!(1))), ""),
    ("surge 100% 0", |side| side.deploy_with("surge", 4, &rolling(json!("100%"), json!(0)), "3602"), ""),
    ("surge 0 100%", |side| side.deploy_with("surge", 4, &rolling(json!(0), json!("100%")), "3603"), ""),
    ("surge 2 2, scaled and updated at once", |side| side.deploy_with("surge", 6, &rolling(json!(2), json!(2)), "3604"), ""),
    ("recreated", |side| side.deploy_with("surge", 3, &json!({"type": "Recreate"}), "3605"), ""),
    ("scaled to nothing", |side| side.kubectl("scale deployment surge --replicas=0"), ""),
];

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// Starts a plane whose pods are processes, and runs a script there and on the bed, side by side.
fn both<T: Send>(bed: &Bed, script: impl Fn(&Side) -> T + Sync) -> (T, T) {
    let mut plane = Plane::new(LIFESIGN).whole();
    plane.start().expect("the plane starts");
    let kubeconfig = plane.kubeconfig();
    let run = |kubeconfig: &Path| script(&Side::new(kubeconfig, &bed.image));
    std::thread::scope(|scope| {
        let ours = scope.spawn(|| run(&kubeconfig));
        let theirs = run(bed.kubeconfig());
        let ours = ours.join().unwrap_or_else(|_| panic!("our script failed; log:\n{}", plane.log()));
        (theirs, ours)
    })
}

fn deployments_live_the_same_life_on_both(bed: &Bed) {
    let life = |side: &Side| {
        let states: Vec<Value> = STEPS
            .iter()
            .map(|(name, act, _)| {
                act(side);
                side.at_rest(name)
            })
            .collect();
        (states, side.events())
    };
    let ((theirs, their_events), (ours, our_events)) = both(bed, life);
    let mut wrong = Vec::new();
    for (((name, _, difference), theirs), ours) in STEPS.iter().zip(&theirs).zip(&ours) {
        let known = !difference.is_empty();
        if known == (theirs == ours) {
            let heading = if known { "no longer differs" } else { "differs" };
            let found = testkit::diff::diff(theirs, ours).join("\n  ");
            wrong.push(format!("{name} {heading}:\n  {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} (Kubernetes, then Lifesign):\n{}", wrong.len(), STEPS.len(), wrong.join("\n"));
    assert_eq!(their_events, our_events, "events (Kubernetes, then Lifesign)");
}

/// What decides who goes first, beside the age: whether a pod is ready, then what its deletion costs.
const PODS: [(bool, Option<&str>); 6] =
    [(true, Some("10")), (true, Some("-5")), (true, Some("3")), (true, None), (false, Some("100")), (true, Some("5"))];

fn pods_are_deleted_in_the_same_order(bed: &Bed) {
    let order = |side: &Side| {
        side.replica_set("rank", "example.com/ready");
        for (number, (ready, cost)) in PODS.iter().enumerate() {
            side.scale_replica_set("rank", number + 1);
            side.mark_new_pod(number, *ready, *cost);
        }
        let mut order = Vec::new();
        for left in (1..PODS.len()).rev() {
            let before = side.numbers();
            side.scale_replica_set("rank", left);
            let after = side.until("a pod is gone", |side| Some(side.numbers()).filter(|numbers| numbers.len() == left));
            order.extend(before.difference(&after).copied());
        }
        order
    };
    let (theirs, ours) = both(bed, order);
    assert_eq!(theirs, [4, 1, 3, 2, 5], "not ready, then the cheapest first");
    assert_eq!(ours, theirs);
}
