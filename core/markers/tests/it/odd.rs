//! Objects that another admission accepted: whatever is stored, nothing panics, nothing stalls, and what is right works.

use std::time::Duration;

use machine::Machine;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::odd::{json as any_json, nearly};

use super::support::world::World;
use super::{marker, node, pod};

const WORDS: &str = "selector matchLabels matchExpressions key operator values In Exists probes name containerName app side probe \
    exec command httpGet tcpSocket grpc port host path scheme httpHeaders initialDelaySeconds initialDelayMilliseconds \
    timeoutSeconds timeoutMilliseconds periodSeconds periodMilliseconds successThreshold failureThreshold markerPolicy state \
    labels annotations podConditionType Succeeded Failed Unknown odd#p odd0#p # a#b#c podProbes namespace uid IP \
    podProbeStatuses probeStates lastProbeTime lastTransitionTime message observedGeneration 9999-12-31T23:59:59Z \
    0001-01-01T00:00:00Z -1 65536 2147483648 conditions Ready";

/// A marker that uses everything.
fn rich_marker() -> Value {
    json!({"spec": {
        "selector": {"matchLabels": {"app": "y"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["y", "z"]}]},
        "probes": [
            {"name": "p", "containerName": "app", "podConditionType": "x.io/p",
                "probe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "periodMilliseconds": -500,
                    "initialDelayMilliseconds": 0, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 2},
                "markerPolicy": [{"state": "Succeeded", "labels": {"up": "yes"}, "annotations": {"a": "b"}},
                    {"state": "Failed", "labels": {"up": "no"}}]},
            {"name": "q", "containerName": "side", "podConditionType": "x.io/q",
                "probe": {"httpGet": {"path": "/", "port": "web", "scheme": "HTTP", "httpHeaders": [{"name": "a", "value": "b"}]}}},
            {"name": "r", "containerName": "app", "podConditionType": "x.io/r", "probe": {"grpc": {"port": 1, "service": "s"}}},
        ],
    }, "status": {"observedGeneration": 3, "matchedPods": 1}})
}

/// The object of a node with entries and states, of markers that live and of others.
fn rich_node_object() -> Value {
    let at = "2027-01-15T08:00:00Z";
    json!({"spec": {"podProbes": [
        {"name": "odd", "namespace": "ns", "uid": "u-odd", "IP": "10.0.0.1", "probes": [
            {"name": "odd0#p", "containerName": "app", "probe": {"exec": {"command": ["check"]}, "periodSeconds": 1}},
            {"name": "gone#q", "containerName": "app", "probe": {"tcpSocket": {"port": 1, "host": ""}, "failureThreshold": 3}},
        ]},
    ]}, "status": {"observedGeneration": 1, "podProbeStatuses": [
        {"name": "odd", "namespace": "ns", "uid": "u-odd", "probeStates": [
            {"name": "odd0#p", "state": "Succeeded", "lastProbeTime": at, "lastTransitionTime": at, "message": "m"},
        ]},
    ]}})
}

/// A stored object: the API server answers for the metadata, whoever admitted the rest.
fn stored(name: &str, namespace: &str, odd: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "namespace": namespace}});
    for part in ["spec", "status"] {
        if let Some(value) = odd.get(part) {
            object[part] = value.clone();
        }
    }
    object
}

fn assert_the_good_pod_is_marked(world: &World) -> Result<(), TestCaseError> {
    let good = world.server.get("pods", "good", "good").unwrap();
    prop_assert_eq!(&good["metadata"]["labels"]["up"], "yes");
    let marker = world.server.get("podprobemarkers", "good", "good").unwrap();
    prop_assert_eq!(&marker["status"]["observedGeneration"], &marker["metadata"]["generation"]);
    let deadlines = world.agents.values().filter_map(Machine::deadline).chain(world.controller.deadline());
    prop_assert!(deadlines.min().is_none_or(|at| at > world.now), "a deadline that was not acted upon");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_stored_the_right_marker_works(
        odd in prop::collection::vec(prop_oneof![3 => nearly(rich_marker(), WORDS), 1 => any_json(WORDS)], 0..3),
        before in prop_oneof![3 => nearly(rich_node_object(), WORDS), 1 => any_json(WORDS)],
        later in nearly(rich_node_object(), WORDS),
        bookkeeping in prop_oneof![
            nearly(json!({"labels": {"up": "odd0#p", "k": "gone#q"}, "conditions": {"t": "odd0#p"}}), WORDS).prop_map(|v| v.to_string()),
            "\\PC{0,30}",
        ],
        seed in any::<u64>(),
    ) {
        let mut world = World::unlisted(seed);
        world.with_agents = true;
        world.put("nodes", node("n1"));
        let mut pods = [pod("odd", "n1", json!({"app": "y"})), pod("good", "n1", json!({"app": "x"}))];
        pods[0]["metadata"]["annotations"] = json!({"lifesign.dev/marked": bookkeeping});
        pods[0]["metadata"]["uid"] = "u-odd".into();
        pods[0]["spec"]["containers"] = json!([{"name": "app"}, {"name": "side", "ports": [{"name": "web", "containerPort": 80}]}]);
        pods[1]["metadata"]["namespace"] = "good".into();
        pods.iter().for_each(|pod| world.put("pods", pod.clone()));
        world.put("nodepodprobes", stored("n1", "", &before));
        for (number, object) in odd.iter().enumerate() {
            world.put("podprobemarkers", stored(&format!("odd{number}"), "ns", object));
        }
        world.list_all();
        let mut good = marker("good", "x");
        good["metadata"]["namespace"] = "good".into();
        world.put("podprobemarkers", good);
        for (namespace, name) in [("ns", "odd"), ("good", "good")] {
            let object = world.server.get("pods", namespace, name).unwrap().clone();
            world.start_container(&object, "app", true, Duration::ZERO);
        }
        world.advance(Duration::from_secs(20));
        assert_the_good_pod_is_marked(&world)?;
        // Somebody writes over the node's object while everything runs.
        world.put("nodepodprobes", stored("n1", "", &later));
        world.advance(Duration::from_secs(20));
        assert_the_good_pod_is_marked(&world)?;
        for number in 0..odd.len() {
            world.delete("podprobemarkers", "ns", &format!("odd{number}"));
        }
        world.advance(Duration::from_secs(30));
        prop_assert_eq!(world.server.list("podprobemarkers").len(), 1, "a deleted marker goes, whatever it holds");
        assert_the_good_pod_is_marked(&world)?;
        prop_assert_eq!(world.server.conflicts, 0);
    }
}
