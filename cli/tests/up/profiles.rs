//! Latency profiles on a whole plane: the desired profile is rolled out step by step, and the conditions show it.
//!
//! The clock of these planes runs faster than the world, so that minutes of a rollout take seconds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{Up, script};

const CLUSTERS: &str = "/apis/config.openshift.io/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CLUSTER: &str = "/apis/config.openshift.io/v1/nodes/cluster";

/// A plane whose seconds take a tenth of one.
fn quick() -> Up {
    Up::start_in(&[], &[("LIFESIGN_CLOCK_SPEED", "10")])
}

/// What a plane tells about nodes, evictions and profiles once a rollout is over.
const METRICS: [&str; 16] = [
    "lifesign_latency_profile_info{",
    "lifesign_latency_profile_condition{owner=\"MachineConfigOperator\",type=\"Complete\"} 1",
    "lifesign_latency_profile_steps_total{kind=\"node\",result=\"ok\"} 2",
    "lifesign_node_heartbeat_interval_seconds{node=",
    "lifesign_node_heartbeat_age_seconds{node=",
    "lifesign_node_heartbeat_chances{node=",
    "lifesign_node_heartbeat_gap_seconds_bucket{le=\"75.0\"}",
    "lifesign_nodes_in_hazard_class{class=\"Elevated\"} 0",
    "lifesign_control_plane_isolated 0",
    "node_collector_zone_health{zone=\"-\"} 100",
    "node_collector_zone_size{zone=\"-\"} 1",
    "node_collector_unhealthy_nodes_in_zone{zone=\"-\"} 0",
    "node_collector_update_node_health_duration_seconds_count",
    "node_collector_update_all_nodes_health_duration_seconds_count",
    "taint_eviction_controller_pod_deletions_total 0",
    "taint_eviction_controller_pod_deletion_duration_seconds_count 0",
];

fn conditions(cluster: &Value) -> Vec<&Value> {
    cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array().into_iter().flatten().collect()
}

fn complete(cluster: &Value, reason: &str) -> bool {
    let complete: Vec<&Value> = conditions(cluster).into_iter().filter(|condition| condition["type"] == "Complete").collect();
    complete.len() == 3 && complete.iter().all(|condition| condition["status"] == "True" && condition["reason"] == reason)
}

fn annotation(object: &Value, name: &str) -> String {
    object["metadata"]["annotations"][format!("lifesign.dev/{name}")].as_str().unwrap_or_default().to_owned()
}

/// Returns the Lease of the one node.
/// Returns the Lease of the only node as it is now, once it is there: a profile may be complete before the first node.
fn lease(up: &Up) -> Value {
    up.patiently(up.follow(&format!("{LEASES}?watch=true"), |_, _| true)).expect("a node has a Lease")
}

fn lease_seconds(up: &Up) -> Value {
    lease(up)["spec"]["leaseDurationSeconds"].clone()
}

#[test]
fn default_to_low_goes_through_medium_and_new_pods_feel_it() {
    let up = quick();
    up.wait_for(CLUSTERS, "cluster", "complete with no profile", |cluster| complete(cluster, "ProfileEmpty"));
    let (code, answer) = up.call("PATCH", CLUSTER, &json!({"spec": {"workerLatencyProfile": "LowUpdateSlowReaction"}}));
    assert_eq!(code, 200, "{answer}");
    let (mut applied, mut reasons, mut graces) = (Vec::new(), BTreeSet::new(), Vec::new());
    let path = format!("{CLUSTERS}?watch=true&fieldSelector=metadata.name%3Dcluster");
    let finished = up.patiently(up.follow(&path, |_, cluster| {
        for (seen, name) in [(&mut applied, "applied-profile"), (&mut graces, "node-monitor-grace-period")] {
            let text = annotation(cluster, name);
            if !text.is_empty() && seen.last() != Some(&text) {
                seen.push(text);
            }
        }
        reasons.extend(conditions(cluster).iter().map(|condition| condition["reason"].as_str().unwrap_or("").to_owned()));
        complete(cluster, "ProfileUpdated") && annotation(cluster, "applied-profile") == "LowUpdateSlowReaction"
    }));
    assert!(finished.is_some(), "{:#}\nlog:\n{}", up.get(CLUSTER), up.plane.log());
    assert_eq!(applied, ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"]);
    assert_eq!(graces, ["2m0s", "5m0s"]);
    for reason in ["ProfileUpdateTriggered", "WaitingForOtherOwners"] {
        assert!(reasons.contains(reason), "{reasons:?}");
    }
    assert_eq!(lease_seconds(&up), 240);
    let pod = up.create_pod(&script("patient", "sleep 1000"));
    let seconds: Vec<&Value> = pod["spec"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|toleration| &toleration["tolerationSeconds"])
        .collect();
    assert_eq!(seconds, [&json!(60), &json!(60)], "new pods get the tolerations of the profile");
    let reasons: BTreeSet<String> = up.get("/api/v1/namespaces/default/events")["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|event| event["involvedObject"]["name"] == "cluster")
        .map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(reasons.contains("LatencyProfileStarted") && reasons.contains("LatencyProfileStepApplied"), "{reasons:?}");
    let metrics = up.text("/metrics");
    let info = "lifesign_latency_profile_info{spec=\"LowUpdateSlowReaction\",effective=\"LowUpdateSlowReaction\",\
                applied=\"LowUpdateSlowReaction\",leg=\"LowUpdateSlowReaction\"} 1";
    assert!(metrics.contains(info), "{metrics}");
    assert!(metrics.contains("lifesign_nodes_in_hazard_class{class=\"Safe\"} 1"), "{metrics}");
    for name in METRICS {
        assert!(metrics.lines().any(|line| line.starts_with(name) && !line.starts_with('#')), "no {name} in\n{metrics}");
    }
}

#[test]
fn a_profile_that_is_there_before_the_first_node_is_applied_directly_and_the_node_begins_with_it() {
    let up = Up::start_with(&["--worker-latency-profile", "Low"]);
    let cluster = up.wait_for(CLUSTERS, "cluster", "at Low", |cluster| complete(cluster, "ProfileUpdated"));
    assert_eq!(annotation(&cluster, "applied-profile"), "LowUpdateSlowReaction");
    assert_eq!(lease_seconds(&up), 240);
    let metrics = up.text("/metrics");
    let steps = |kind: &str| {
        metrics.lines().any(|line| line.starts_with(&format!("lifesign_latency_profile_steps_total{{kind=\"{kind}\"")))
    };
    assert!(steps("kcm") && steps("kas"), "{metrics}");
    assert!(!steps("node"), "the node never had another heartbeat");
    let events = up.get("/api/v1/namespaces/default/events");
    assert!(!events.to_string().contains("MediumUpdateAverageReaction"), "the way is direct: {events:#}");
}

#[test]
fn a_profile_survives_a_restart_and_an_empty_one_leaves_nothing_behind() {
    let mut up = quick();
    up.wait_for(CLUSTERS, "cluster", "complete with no profile", |cluster| complete(cluster, "ProfileEmpty"));
    up.call("PATCH", CLUSTER, &json!({"spec": {"workerLatencyProfile": "MediumUpdateAverageReaction"}}));
    up.wait_for(CLUSTERS, "cluster", "at Medium", |cluster| complete(cluster, "ProfileUpdated"));
    let before = lease(&up);
    up.plane.kill();
    up.start_again(&[]);
    let name = before["metadata"]["name"].as_str().expect("a name");
    let first = up.wait_for(LEASES, name, "renewed", |lease| lease["spec"]["renewTime"] != before["spec"]["renewTime"]);
    assert_eq!(first["spec"]["leaseDurationSeconds"], 80, "the agent remembers it from its first heartbeat on");
    let pod = up.create_pod(&script("first", "sleep 1000"));
    assert_eq!(pod["spec"]["tolerations"][0]["tolerationSeconds"], 60, "also for the first pod after the restart");
    up.call("PATCH", CLUSTER, &json!({"spec": {"workerLatencyProfile": null}}));
    let cluster = up.wait_for(CLUSTERS, "cluster", "empty again", |cluster| {
        complete(cluster, "ProfileEmpty") && annotation(cluster, "node-monitor-grace-period").is_empty()
    });
    assert_eq!(annotation(&cluster, "applied-profile"), "Default");
    let node = up.wait_for(
        "/api/v1/nodes",
        up.get("/api/v1/nodes")["items"][0]["metadata"]["name"].as_str().unwrap(),
        "tidy",
        |node| annotation(node, "node-status-update-frequency").is_empty(),
    );
    assert_eq!(lease_seconds(&up), 40, "{node}");
}

#[test]
fn the_lease_of_a_node_belongs_to_it_and_both_come_back_when_the_node_is_deleted() {
    let up = quick();
    let node = up.get("/api/v1/nodes")["items"][0].clone();
    let name = node["metadata"]["name"].as_str().expect("a name");
    let owner = |lease: &Value| lease["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default().to_owned();
    up.wait_for(LEASES, name, "owned by its node", |lease| owner(lease) == node["metadata"]["uid"]);
    let (code, answer) = up.call("DELETE", &format!("/api/v1/nodes/{name}"), &Value::Null);
    assert_eq!(code, 200, "{answer}");
    let again =
        up.wait_for("/api/v1/nodes", name, "registered again", |again| again["metadata"]["uid"] != node["metadata"]["uid"]);
    up.wait_for(LEASES, name, "owned by the new node", |lease| owner(lease) == again["metadata"]["uid"]);
}

#[test]
fn a_node_may_have_a_profile_of_its_own_where_the_plane_allows_it() {
    let up = Up::start_in(&["--per-node-latency-profiles"], &[("LIFESIGN_CLOCK_SPEED", "10")]);
    up.wait_for(CLUSTERS, "cluster", "complete with no profile", |cluster| complete(cluster, "ProfileEmpty"));
    let name = up.get("/api/v1/nodes")["items"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let own = |profile: Value| {
        let patch = json!({"metadata": {"annotations": {"lifesign.dev/worker-latency-profile": profile}}});
        assert_eq!(up.call("PATCH", &format!("/api/v1/nodes/{name}"), &patch).0, 200);
    };
    own(json!("LowUpdateSlowReaction"));
    up.wait_for(LEASES, &name, "as slow as its own profile", |lease| lease["spec"]["leaseDurationSeconds"] == 240);
    let cluster = up.get(CLUSTER);
    assert!(complete(&cluster, "ProfileEmpty"), "the profile of the others is what it was: {cluster:#}");
    own(Value::Null);
    up.wait_for(LEASES, &name, "like the others again", |lease| lease["spec"]["leaseDurationSeconds"] == 40);
}
