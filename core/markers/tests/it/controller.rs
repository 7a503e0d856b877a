//! The controller: order of writes, quiet, drift, release, scale.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::world::World;
use super::{marker, node, pod, states};

const SECOND: Duration = Duration::from_secs(1);

/// Sets what the agent of a node says.
fn report(world: &mut World, node: &str, entry: &str, state: &str, message: &str) {
    let mut object = world.server.get("nodepodprobes", "", node).expect("it was made").clone();
    object["status"] = states(&object, entry, state, message);
    world.put("nodepodprobes", object);
}

fn labels(world: &World, pod: &str) -> Value {
    world.server.get("pods", "ns", pod).expect("it was made")["metadata"]["labels"].clone()
}

fn condition(world: &World, pod: &str, type_: &str) -> Value {
    let conditions = &world.server.get("pods", "ns", pod).expect("it was made")["status"]["conditions"];
    conditions.as_array().into_iter().flatten().find(|c| c["type"] == type_).map_or(Value::Null, |c| c["status"].clone())
}

/// One node, one pod, one marker whose probe succeeded.
fn marked() -> World {
    let mut world = World::new(1);
    world.put("nodes", node("n1"));
    world.put("pods", pod("a", "n1", json!({"app": "x"})));
    world.put("podprobemarkers", marker("m", "x"));
    world.advance(SECOND);
    report(&mut world, "n1", "m#p", "Succeeded", "");
    world.advance(SECOND);
    assert_eq!(labels(&world, "a"), json!({"app": "x", "up": "yes"}));
    assert_eq!(condition(&world, "a", "x.io/m"), "True");
    world
}

#[test]
fn the_finalizer_is_there_before_the_first_entry() {
    let world = marked();
    let first = |plural: &str, text: &str| {
        world.log.iter().position(|(_, write)| write.plural == plural && format!("{:?}", write.verb).contains(text))
    };
    assert!(first("podprobemarkers", "node-pod-probe-cleanup").unwrap() < first("nodepodprobes", "m#p").unwrap());
    let status = &world.server.get("podprobemarkers", "ns", "m").unwrap()["status"];
    assert_eq!(*status, json!({"observedGeneration": 1, "matchedPods": 1}));
}

#[test]
fn fields_that_the_cluster_would_prune_are_not_written_and_results_count_all_the_same() {
    let mut world = World::new(1);
    world.controller = std::mem::take(&mut world.controller).without_fields(["periodMilliseconds".to_owned()].into());
    world.put("nodes", node("n1"));
    world.put("pods", pod("a", "n1", json!({"app": "x"})));
    let mut asks = marker("m", "x");
    asks["spec"]["probes"][0]["probe"]["periodSeconds"] = 2.into();
    asks["spec"]["probes"][0]["probe"]["periodMilliseconds"] = (-500).into();
    world.put("podprobemarkers", asks);
    world.advance(SECOND);
    let object = world.server.get("nodepodprobes", "", "n1").expect("it was made").clone();
    let probe = &object["spec"]["podProbes"][0]["probes"][0]["probe"];
    assert_eq!((&probe["periodSeconds"], probe.get("periodMilliseconds")), (&json!(2), None), "{object}");
    report(&mut world, "n1", "m#p", "Succeeded", "");
    world.advance(SECOND);
    assert_eq!(labels(&world, "a"), json!({"app": "x", "up": "yes"}));
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut world = marked();
    world.advance(SECOND);
    let sent = world.log.len();
    // The same states again, and a pod status that is none of ours.
    report(&mut world, "n1", "m#p", "Succeeded", "");
    let mut pod = world.server.get("pods", "ns", "a").unwrap().clone();
    pod["status"]["hostIP"] = "10.1.1.1".into();
    world.put("pods", pod);
    world.advance(Duration::from_secs(600));
    assert_eq!(world.log[sent..], []);
    assert_eq!(world.server.conflicts, 0);
}

#[test]
fn metadata_is_written_before_conditions() {
    let world = marked();
    let pods: Vec<&str> =
        world.log.iter().filter(|(_, write)| write.plural == "pods").map(|(_, write)| write.subresource).collect();
    assert_eq!(pods, ["", "status"]);
}

#[test]
fn a_pod_recreated_under_the_same_name_is_not_hit() {
    let mut world = marked();
    report(&mut world, "n1", "m#p", "Failed", "");
    world.delete("pods", "ns", "a");
    world.put("pods", pod("a", "n1", json!({"app": "x"})));
    world.advance(SECOND);
    assert_eq!(labels(&world, "a"), json!({"app": "x"}));
}

#[test]
fn drift_is_put_back_at_a_gentle_pace() {
    let mut world = marked();
    world.advance(Duration::from_secs(20));
    for _ in 0..200 {
        let mut pod = world.server.get("pods", "ns", "a").unwrap().clone();
        pod["metadata"]["labels"]["up"] = "mine".into();
        world.put("pods", pod);
        world.advance(Duration::from_millis(100));
    }
    let written = world.log.iter().filter(|(at, write)| write.plural == "pods" && *at > world.now - Duration::from_secs(20));
    let count = written.count();
    assert!((2..=3).contains(&count), "{count} writes in 20 s");
    world.advance(Duration::from_secs(20));
    assert_eq!(labels(&world, "a")["up"], "yes");
    assert!(world.controller.drift_suppressed() > 0);
}

#[test]
fn a_deleted_marker_leaves_its_marks_by_default() {
    let mut world = marked();
    world.delete("podprobemarkers", "ns", "m");
    world.advance(SECOND);
    assert!(world.server.get("podprobemarkers", "ns", "m").is_none());
    assert_eq!(world.server.get("nodepodprobes", "", "n1").unwrap()["spec"]["podProbes"], json!([]));
    assert_eq!(labels(&world, "a")["up"], "yes");
    assert_eq!(condition(&world, "a", "x.io/m"), "True");
}

#[test]
fn release_remove_takes_the_marks_before_the_finalizer() {
    let mut world = marked();
    let mut object = world.server.get("podprobemarkers", "ns", "m").unwrap().clone();
    object["metadata"]["annotations"] = json!({"lifesign.dev/release-policy": "Remove"});
    world.put("podprobemarkers", object);
    world.advance(SECOND);
    // A pod whose bookkeeping is left although somebody took the mark away must not hold the marker for ever.
    world.put("pods", pod("b", "n1", json!({"app": "y"})));
    let mut stale = world.server.get("pods", "ns", "b").unwrap().clone();
    stale["metadata"]["annotations"] = json!({"lifesign.dev/marked": r#"{"labels":{"up":"m#p"}}"#});
    world.put("pods", stale);
    world.delete("podprobemarkers", "ns", "m");
    world.advance(SECOND);
    assert!(world.server.get("podprobemarkers", "ns", "m").is_none());
    assert_eq!(labels(&world, "a"), json!({"app": "x"}));
    assert_eq!(condition(&world, "a", "x.io/m"), Value::Null);
    let annotations = &world.server.get("pods", "ns", "a").unwrap()["metadata"]["annotations"];
    assert_eq!(annotations.get("lifesign.dev/marked"), None);
    let (_, last) = world.log.last().unwrap();
    assert_eq!(last.plural, "podprobemarkers");
}

#[test]
fn a_renamed_condition_type_moves() {
    let mut world = marked();
    let mut object = world.server.get("podprobemarkers", "ns", "m").unwrap().clone();
    object["spec"]["probes"][0]["podConditionType"] = "x.io/new".into();
    world.put("podprobemarkers", object);
    world.advance(SECOND);
    assert_eq!((condition(&world, "a", "x.io/m"), condition(&world, "a", "x.io/new")), (Value::Null, json!("True")));
    let marked = world.server.get("pods", "ns", "a").unwrap()["metadata"]["annotations"]["lifesign.dev/marked"].clone();
    assert_eq!(marked, r#"{"conditions":{"x.io/new":"m#p"},"labels":{"up":"m#p"}}"#);
    let entry = world.log.iter().rfind(|(_, write)| write.plural == "nodepodprobes").unwrap();
    assert!(entry.0 < world.now - SECOND, "a policy alone is no reason to write to a node");
}

#[test]
fn troubles_are_told_once_for_each_generation_with_the_number_of_pods() {
    let mut world = World::new(1);
    world.put("nodes", node("n1"));
    for name in ["a", "b"] {
        let mut pod = pod(name, "n1", json!({"app": "x"}));
        pod["spec"]["containers"] = json!([{"name": "other"}]);
        world.put("pods", pod);
    }
    world.put("podprobemarkers", marker("m", "x"));
    world.advance(Duration::from_secs(5));
    world.put("pods", {
        let mut pod = pod("c", "n1", json!({"app": "x"}));
        pod["spec"]["containers"] = json!([]);
        pod
    });
    world.advance(Duration::from_secs(5));
    let result: Vec<(&str, &str)> = world.events.iter().map(|event| (event.reason, event.message.as_str())).collect();
    assert_eq!(result, [("ProbeTargetMissing", "probe p: pod a has no container \"app\", only other (2 pods)")]);
    let mut object = world.server.get("podprobemarkers", "ns", "m").unwrap().clone();
    object["spec"]["probes"][0]["probe"]["periodSeconds"] = 5.into();
    world.put("podprobemarkers", object);
    world.advance(Duration::from_secs(5));
    assert_eq!(world.events.len(), 2);
    assert!(world.events[1].message.ends_with("(3 pods)"));
}

#[test]
fn a_selector_that_matches_nothing_says_so_once_and_counts_zero() {
    let mut world = World::new(1);
    world.put("nodes", node("n1"));
    world.put("pods", pod("a", "n1", json!({"app": "x"})));
    world.put("podprobemarkers", marker("m", "typo"));
    world.put("podprobemarkers", marker("good", "x"));
    world.advance(Duration::from_secs(9));
    assert_eq!(world.events.len(), 0, "its pods may still come");
    assert_eq!(world.server.get("podprobemarkers", "ns", "m").unwrap()["status"]["matchedPods"], 0);
    world.advance(Duration::from_secs(60));
    let result: Vec<(&str, &str)> = world.events.iter().map(|event| (event.reason, event.message.as_str())).collect();
    assert_eq!(
        result,
        [(
            "NoPodSelected",
            "no pod of namespace ns that is scheduled and initialized matches the selector {\"matchLabels\":{\"app\":\"typo\"}}"
        )]
    );
}

#[test]
fn a_conflict_names_the_pod_and_the_marker_that_decides() {
    let mut world = marked();
    let mut other = marker("z", "x");
    other["spec"]["probes"][0]["podConditionType"] = "x.io/m".into();
    other["spec"]["probes"][0]["markerPolicy"] = json!([{"state": "Succeeded", "labels": {"up": "no"}}]);
    world.put("podprobemarkers", other);
    world.advance(SECOND);
    report(&mut world, "n1", "z#p", "Succeeded", "");
    world.advance(Duration::from_secs(5));
    let messages: Vec<&str> = world.events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "condition x.io/m of pod a is decided by marker m (1 pod)",
            "label up of pod a is decided by m#p, with another value (1 pod)"
        ]
    );
}

#[test]
fn a_server_that_prunes_a_field_is_not_asked_all_the_time() {
    let mut world = World::new(1);
    world.put("nodes", node("n1"));
    world.put("pods", pod("a", "n1", json!({"app": "x"})));
    let mut object = marker("m", "x");
    object["spec"]["probes"][0]["probe"]["periodMilliseconds"] = 5.into();
    world.put("podprobemarkers", object);
    world.server.prunes = true;
    world.advance(Duration::from_secs(60));
    let sent = world.log.iter().filter(|(_, write)| write.plural == "nodepodprobes").count();
    assert!((3..15).contains(&sent), "{sent} writes in a minute");
}

#[test]
fn failed_requests_are_repeated_until_they_succeed() {
    let mut world = World::new(7);
    world.lossy = 60;
    world.put("nodes", node("n1"));
    world.put("pods", pod("a", "n1", json!({"app": "x"})));
    world.put("podprobemarkers", marker("m", "x"));
    world.advance(Duration::from_secs(300));
    report(&mut world, "n1", "m#p", "Succeeded", "");
    world.advance(Duration::from_secs(300));
    assert_eq!(labels(&world, "a")["up"], "yes");
    assert_eq!(condition(&world, "a", "x.io/m"), "True");
}

#[test]
fn nothing_is_done_before_every_kind_was_listed() {
    let mut world = World::unlisted(1);
    world.put("nodes", node("n1"));
    world.advance(SECOND);
    assert_eq!(world.log, []);
    world.list_all();
    world.advance(SECOND);
    assert_eq!(world.log.len(), 1);
}

#[test]
fn one_marker_over_many_nodes_is_one_write_per_node_without_conflict() {
    let mut world = World::unlisted(1);
    for n in 0..100 {
        world.put("nodes", node(&format!("n{n}")));
        for p in 0..10 {
            world.put("pods", pod(&format!("p{n}-{p}"), &format!("n{n}"), json!({"app": "x"})));
        }
    }
    world.list_all();
    world.advance(Duration::from_secs(2));
    assert_eq!(world.server.writes, [("nodepodprobes".to_owned(), 100)].into());
    let mut at_once = 0;
    for (period, round) in ["create", "change", "delete"].into_iter().enumerate() {
        world.server.writes.clear();
        let mut object = marker("m", "x");
        object["spec"]["probes"][0]["probe"]["periodSeconds"] = period.into();
        match round {
            "delete" => world.delete("podprobemarkers", "ns", "m"),
            _ => world.put("podprobemarkers", object),
        }
        let from = world.log.len();
        world.advance(Duration::from_secs(5));
        assert_eq!(world.server.writes["nodepodprobes"], 100, "{round}");
        assert_eq!(world.server.conflicts, 0);
        let mut sent: Vec<_> =
            world.log[from..].iter().filter(|(_, w)| w.plural == "nodepodprobes").map(|(at, _)| *at).collect();
        sent.dedup();
        at_once = at_once.max(100 / sent.len());
    }
    assert!(world.server.get("podprobemarkers", "ns", "m").is_none());
    assert!(at_once <= 16, "{at_once} requests at once");
}

#[test]
fn pods_that_come_one_by_one_do_not_each_cost_a_write_of_thousands_of_entries() {
    let mut world = World::new(1);
    world.put("nodes", node("n1"));
    let mut many = marker("m", "x");
    let probe = |index: usize| json!({"name": format!("p{index}"), "containerName": "app", "podConditionType": format!("x.io/{index}"), "probe": {"tcpSocket": {"port": 1}}});
    many["spec"]["probes"] = (0..100).map(probe).collect();
    world.put("podprobemarkers", many);
    world.advance(SECOND);
    world.server.writes.clear();
    for index in 0..40 {
        world.put("pods", pod(&format!("p{index}"), "n1", json!({"app": "x"})));
        world.advance(Duration::from_millis(100));
    }
    world.advance(SECOND * 3);
    let object = world.server.get("nodepodprobes", "", "n1").expect("it was made");
    assert_eq!(object["spec"]["podProbes"].as_array().map(Vec::len), Some(40));
    let writes = world.server.writes["nodepodprobes"];
    assert!(writes <= 15, "{writes} writes for 40 pods in four seconds");
}
