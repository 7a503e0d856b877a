//! A rollout over links that lose one segment in ten.

use std::collections::BTreeSet;

use serde_json::json;

use crate::bed::{Bed, CLUSTER, PODS};

/// Slow enough that a busy machine does not look like a silent node: the shortest grace is eight seconds.
const SPEED: u32 = 5;

#[test]
fn default_to_low_with_five_agents_and_one_in_ten_lost_makes_no_node_not_ready() {
    let bed = Bed::start(5, SPEED);
    bed.agents.iter().for_each(|agent| agent.link.set_loss(0.1));
    let (mut applied, mut reasons, mut slow) = (Vec::new(), BTreeSet::new(), 0);
    bed.set_profile("LowUpdateSlowReaction", |cluster| {
        let profile =
            cluster["metadata"]["annotations"]["lifesign.dev/applied-profile"].as_str().unwrap_or_default().to_owned();
        if applied.last() != Some(&profile) {
            applied.push(profile);
        }
        let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array().into_iter().flatten();
        reasons.extend(conditions.map(|condition| condition["reason"].as_str().unwrap_or_default().to_owned()));
        // At any time a node that speaks slowly is judged by a grace that fits.
        let grace = cluster["metadata"]["annotations"]["lifesign.dev/node-monitor-grace-period"].as_str().unwrap_or("40s");
        let grace = api::duration::parse(grace).expect("a duration").as_secs();
        let leases = bed.items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
        slow = leases.iter().filter(|lease| lease["spec"]["leaseDurationSeconds"] == 240).count();
        let longest = leases.iter().filter_map(|lease| lease["spec"]["leaseDurationSeconds"].as_u64()).max().unwrap_or(0);
        assert!(grace >= longest, "a Lease of {longest} s under a grace of {grace} s");
        assert_eq!(bed.ready().len(), 6, "a node is not ready; log:\n{}", bed.plane.log());
    });
    assert_eq!(
        applied.iter().filter(|profile| !profile.is_empty()).collect::<Vec<_>>(),
        ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"]
    );
    assert!(reasons.contains("ProfileUpdateTriggered") && reasons.contains("WaitingForOtherOwners"), "{reasons:?}");
    assert_eq!(slow, 5, "every worker, and not the control plane");
    bed.until("it is said", || bed.events().contains(&"LatencyProfileCompleted".to_owned()).then_some(()));
    let events = bed.events();
    assert!(!events.contains(&"NodeNotReady".to_owned()), "{events:?}");
}

#[test]
fn an_api_server_controllers_and_agents_in_processes_of_their_own_obey_a_profile() {
    let bed = Bed::apart(2, 2 * SPEED);
    bed.set_profile("MediumUpdateAverageReaction", |_| ());
    let leases = bed.items("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases");
    assert!(leases.iter().all(|lease| lease["spec"]["leaseDurationSeconds"] == 80), "{leases:#?}");
    let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"]});
    let pod = bed.call("POST", PODS, &json!({"metadata": {"name": "new"}, "spec": {"containers": [container]}}));
    assert_eq!(pod["spec"]["tolerations"][1]["tolerationSeconds"], 60, "{pod:#}");
}

#[test]
fn an_older_agent_holds_up_a_rollout_until_it_is_upgraded_and_a_profile_can_be_taken_back_meanwhile() {
    let mut bed = Bed::apart(1, SPEED);
    let old = bed.join("edge-2", SPEED, &["--feature-gates", "WorkerLatencyProfiles=false"]);
    bed.agents.push(old);
    bed.until("both nodes are ready", || (bed.ready().len() == 2).then_some(()));
    let lease = |bed: &Bed, node: &str| {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}");
        bed.get(&path)["spec"]["leaseDurationSeconds"].as_i64().unwrap_or_default()
    };
    let stuck = |bed: &Bed| {
        bed.call("PATCH", CLUSTER, &json!({"spec": {"workerLatencyProfile": "MediumUpdateAverageReaction"}}));
        bed.until("the rollout waits for the old agent", || {
            let cluster = bed.get(CLUSTER);
            let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array()?.clone();
            let nodes = conditions.into_iter().find(|one| one["owner"] == "MachineConfigOperator")?;
            let waits = nodes["reason"] == "ComponentNotAware" && lease(bed, "edge-1") == 80;
            waits.then(|| {
                assert!(nodes["message"].as_str().unwrap_or_default().contains("edge-2 (ComponentNotAware"), "{nodes}")
            })
        });
        assert_eq!(lease(bed, "edge-2"), 40, "it does not know the profile");
    };
    stuck(&bed);
    // Taken back on request: the one that obeyed goes back, the other never left.
    bed.set_profile("Default", |_| ());
    assert_eq!([lease(&bed, "edge-1"), lease(&bed, "edge-2")], [40, 40]);
    stuck(&bed);
    // Upgraded: the rollout goes on by itself.
    drop(bed.agents.pop());
    let upgraded = bed.join("edge-2", SPEED, &[]);
    bed.agents.push(upgraded);
    bed.set_profile("MediumUpdateAverageReaction", |_| ());
    assert_eq!([lease(&bed, "edge-1"), lease(&bed, "edge-2")], [80, 80]);
    let events = bed.events();
    assert!(events.contains(&"LatencyProfileBlocked".to_owned()), "{events:?}");
}
