//! What is said about scheduling.

use super::*;

fn main(message: &str) -> Option<Filter> {
    Reasons::of(message).main().map(|(filter, _)| filter)
}

#[test]
fn the_reason_of_the_nearest_nodes_counts() {
    let tainted = "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 Insufficient cpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.";
    assert_eq!(main(tainted), Some(Filter::Resources));
    assert_eq!(Reasons::of(tainted).list.len(), 2);
    assert_eq!(
        main(
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ),
        Some(Filter::NodeAffinity)
    );
    assert_eq!(main("0/2 nodes are available: 2 node(s) were unschedulable."), Some(Filter::Unschedulable));
    assert_eq!(
        main("0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) had untolerated taint(s)."),
        Some(Filter::Volumes)
    );
    assert_eq!(main("no nodes available to schedule pods"), Some(Filter::NoNodes));
    assert!(
        Reasons::of("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found").mentions_claims()
    );
}
