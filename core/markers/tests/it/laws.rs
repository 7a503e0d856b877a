//! Laws of the cores over arbitrary input.

use std::collections::BTreeMap;
use std::time::Duration;

use api::marker::{NodePodProbe, PodProbeMarker, ProbeState};
use api::meta::Condition;
use api::{Node, Pod};
use machine::Rng;
use markers::agent::Runtime;
use markers::{Compiled, Marked, MarkerPlan, Marking, ProbeResult, Trigger, mark, plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::world::World;
use super::{marker, node, pod, states};

/// One random thing that happens to the cluster.
fn happen(world: &mut World, rng: &mut Rng) {
    let pick = |rng: &mut Rng, stem: &str, count: u64| format!("{stem}{}", rng.below(count));
    let app = ["x", "y", "z"][rng.below(3) as usize];
    match rng.below(12) {
        0 => world.put("nodes", node(&pick(rng, "n", 3))),
        1 => {
            let mut object = node(&pick(rng, "n", 3));
            match rng.below(2) {
                0 => object["status"]["conditions"][0]["status"] = "False".into(),
                _ => object["metadata"]["labels"] = json!({"type": "virtual-kubelet"}),
            }
            world.put("nodes", object);
        }
        2 => world.delete("nodes", "", &pick(rng, "n", 3)),
        3..6 => {
            let mut object = pod(&pick(rng, "p", 6), &pick(rng, "n", 3), json!({"app": app}));
            match rng.below(8) {
                0 => object["status"]["phase"] = "Failed".into(),
                1 => object["status"]["conditions"] = json!([]),
                2 => object["spec"]["containers"] = json!([{"name": "other"}]),
                _ => {}
            }
            // A pod does not change its node, so the old one goes first.
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let moved = world.server.get("pods", "ns", &name).is_some_and(|old| old["spec"] != object["spec"]);
            if moved {
                world.delete("pods", "ns", &name);
            }
            world.put("pods", object);
        }
        6 => world.delete("pods", "ns", &pick(rng, "p", 6)),
        7 | 8 => {
            let mut object = marker(&pick(rng, "m", 3), app);
            if rng.below(3) == 0 {
                object["spec"]["probes"][0]["probe"]["exec"]["command"] = json!(["other"]);
            }
            if rng.below(4) == 0 {
                object["spec"]["probes"][0]["probe"] = json!({"exec": "bare"});
            }
            if rng.below(3) == 0 {
                object["metadata"]["annotations"] = json!({"lifesign.dev/release-policy": "Remove"});
            }
            world.put("podprobemarkers", object);
        }
        9 => world.delete("podprobemarkers", "ns", &pick(rng, "m", 3)),
        // Where agents run, nobody else writes states.
        10 if !world.with_agents => {
            let name = pick(rng, "n", 3);
            if let Some(mut object) = world.server.get("nodepodprobes", "", &name).cloned() {
                let entry = format!("m{}#p", rng.below(3));
                object["status"] = states(&object, &entry, ["Succeeded", "Failed", "Unknown"][rng.below(3) as usize], "");
                world.put("nodepodprobes", object);
            }
        }
        _ => world.list_all(),
    }
}

/// Returns what the marks of a pod would still need.
fn unmarked(world: &World) -> Vec<String> {
    let usable = world.left_over().usable;
    let read = |object: Value| serde_json::from_value::<PodProbeMarker>(object).unwrap();
    let markers: Vec<Compiled> = world.server.list("podprobemarkers").into_iter().map(|m| Compiled::new(read(m))).collect();
    let markers: Vec<&Compiled> = markers.iter().collect();
    let mut left = Vec::new();
    for object in world.server.list("pods") {
        let pod: Pod = serde_json::from_value(object).unwrap();
        let node = world.server.get("nodepodprobes", "", &pod.spec.node_name);
        let node: NodePodProbe = node.cloned().map(|node| serde_json::from_value(node).unwrap()).unwrap_or_default();
        let states = node.status.pod_probe_statuses.iter().filter(|item| item.uid == pod.metadata.uid);
        let results: Vec<ProbeResult> = states
            .flat_map(|item| &item.probe_states)
            .map(|state| ProbeResult {
                owner: state.name.clone(),
                state: state.state,
                message: state.message.clone(),
                fresh: usable.get(&pod.metadata.uid).is_some_and(|names| names.contains(&state.name)),
                ..ProbeResult::default()
            })
            .collect();
        let marked = pod.metadata.annotations.get("lifesign.dev/marked").map(|text| Marked::parse(text)).unwrap_or_default();
        if !mark(&pod, &markers, &results, &marked, Trigger::Result, None).is_empty() {
            left.push(pod.metadata.name);
        }
    }
    left
}

/// A pod, markers that quarrel about few keys, states and bookkeeping, all at random.
fn quarrel(rng: &mut Rng) -> (Pod, Vec<Compiled>, Vec<ProbeResult>, Marked) {
    let key = |rng: &mut Rng| format!("k{}", rng.below(4));
    let some = |rng: &mut Rng| -> Value {
        let count = rng.below(3);
        (0..count).map(|_| (key(rng), rng.below(3).to_string().into())).collect::<serde_json::Map<_, _>>().into()
    };
    let owner = |rng: &mut Rng| format!("m{}#p{}", rng.below(4), rng.below(3));
    let (mut markers, mut results) = (Vec::new(), Vec::new());
    for m in 0..3 {
        let probe = |p: u64, rng: &mut Rng| {
            json!({"name": format!("p{p}"), "containerName": "app", "probe": {"exec": {"command": ["x"]}},
            "podConditionType": format!("t{}", rng.below(4)),
            "markerPolicy": [
                {"state": "Succeeded", "labels": some(rng), "annotations": {"a": "1"}},
                {"state": "Failed", "labels": {"k0": "f"}, "annotations": some(rng)},
            ]})
        };
        let mut object = json!({
            "metadata": {"name": format!("m{m}"), "namespace": "ns", "creationTimestamp": format!("2026-01-0{}T00:00:00Z", 1 + rng.below(3))},
            "spec": {"selector": {"matchLabels": {"app": if rng.below(4) == 0 { "y" } else { "x" }}}, "probes": [probe(0, rng), probe(1, rng)]},
        });
        if rng.below(4) == 0 {
            object["metadata"]["deletionTimestamp"] = "2026-02-01T00:00:00Z".into();
        }
        if rng.below(2) == 0 {
            object["metadata"]["annotations"] = json!({"lifesign.dev/release-policy": "Remove"});
        }
        markers.push(Compiled::new(serde_json::from_value(object).unwrap()));
    }
    for _ in 0..rng.below(6) {
        let state = [ProbeState::Succeeded, ProbeState::Failed, ProbeState::Unknown][rng.below(3) as usize];
        let (owner, fresh) = (owner(rng), rng.below(3) > 0);
        results.push(ProbeResult { owner, state, fresh, message: rng.below(2).to_string(), ..ProbeResult::default() });
    }
    let mut owned = || (0..rng.below(3)).map(|_| (key(rng), owner(rng))).collect::<BTreeMap<String, String>>();
    let (labels, annotations) = (owned(), owned());
    let conditions = owned().into_iter().map(|(key, owner)| (key.replace('k', "t"), owner)).collect();
    let marked = Marked { labels, annotations, conditions };
    let mut pod: Pod = serde_json::from_value(pod("p", "n", some(rng))).unwrap();
    pod.metadata.labels.insert("app".into(), "x".into());
    pod.metadata.annotations = serde_json::from_value(some(rng)).unwrap();
    for t in 0..rng.below(4) {
        let status = ["True", "False", "Unknown"][rng.below(3) as usize].to_owned();
        pod.status.conditions.push(Condition { type_: format!("t{t}"), status, ..Condition::default() });
    }
    (pod, markers, results, marked)
}

/// Does to a pod what a marking asks.
fn applied(mut pod: Pod, marking: &Marking) -> Pod {
    let change = |map: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>| {
        for (key, value) in changes {
            match value {
                Some(value) => drop(map.insert(key.clone(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
    };
    change(&mut pod.metadata.labels, &marking.labels);
    change(&mut pod.metadata.annotations, &marking.annotations);
    let replaced = |type_: &String| marking.conditions.iter().any(|condition| condition.type_ == *type_);
    pod.status.conditions.retain(|old| !replaced(&old.type_) && !marking.remove_conditions.contains(&old.type_));
    pod.status.conditions.extend(marking.conditions.iter().cloned());
    pod
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(64)))]

    #[test]
    fn marking_twice_is_marking_once(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        for _ in 0..20 {
            let (pod, markers, mut results, marked) = quarrel(&mut rng);
            let markers: Vec<&Compiled> = markers.iter().collect();
            let once = mark(&pod, &markers, &results, &marked, Trigger::Result, None);
            let after = applied(pod.clone(), &once);
            let twice = mark(&after, &markers, &results, &once.marked, Trigger::Result, None);
            prop_assert!(twice.is_empty(), "{once:?}\nthen {twice:?}");
            prop_assert_eq!(&twice.marked, &once.marked);
            prop_assert_eq!(&twice.conflicts, &once.conflicts);
            // What nobody names and nobody owns is never touched.
            prop_assert_eq!(after.metadata.labels.get("app"), pod.metadata.labels.get("app"));
            // States that may not be used change nothing but what has lost its source.
            results.iter_mut().for_each(|result| result.fresh = false);
            let held = mark(&pod, &markers, &results, &marked, Trigger::Result, None);
            prop_assert!(held.conditions.is_empty() && held.labels.values().all(Option::is_none), "{held:?}");
        }
    }

    /// Whatever happens, in whatever order news comes: in the end the incremental controller has done what the plan over
    /// all objects asks, and every mark is where it belongs.
    #[test]
    fn the_controller_ends_where_the_plan_ends(seed in any::<u64>(), steps in 1usize..60, lossy in 0u64..30) {
        let (mut world, mut rng) = (World::new(seed), Rng::new(seed ^ 1));
        world.lossy = lossy;
        for _ in 0..steps {
            happen(&mut world, &mut rng);
            world.advance(Duration::from_millis(rng.below(150)));
        }
        world.lossy = 0;
        world.advance(Duration::from_secs(120));
        let plan = world.left_over();
        prop_assert!(plan.node_pod_probes.is_empty(), "{:?}", plan.node_pod_probes);
        for (key, marker) in &plan.markers {
            let stored = world.server.get("podprobemarkers", &key.namespace, &key.name).unwrap();
            let MarkerPlan::Keep { add_finalizer: false, observed_generation, matched_pods } = marker else {
                return Err(TestCaseError::fail(format!("{key}: {marker:?}")));
            };
            prop_assert_eq!(stored["status"]["observedGeneration"].as_i64(), Some(*observed_generation));
            prop_assert_eq!(stored["status"]["matchedPods"].as_i64().unwrap_or(0), *matched_pods);
        }
        prop_assert_eq!(unmarked(&world), Vec::<String>::new());
        let sent = world.log.len();
        world.advance(Duration::from_secs(600));
        prop_assert_eq!(world.log[sent..].to_vec(), vec![]);
    }

    /// Controller and agents together, whatever happens: in the end every selected pod says what its probes say.
    #[test]
    fn the_whole_pipeline_settles(seed in any::<u64>(), steps in 1usize..40, lossy in 0u64..30) {
        let (mut world, mut rng) = (World::new(seed), Rng::new(seed ^ 2));
        (world.with_agents, world.lossy) = (true, lossy);
        let mut started = BTreeMap::new();
        for _ in 0..steps {
            happen(&mut world, &mut rng);
            for pod in world.server.list("pods") {
                let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
                // Now and then a container starts over.
                if !started.contains_key(&uid) || rng.below(20) == 0 {
                    started.insert(uid, world.start_container(&pod, "app", true, Duration::ZERO));
                }
            }
            world.advance(Duration::from_millis(rng.below(1_500)));
        }
        world.lossy = 0;
        // Agents of nodes that were made anew learn what runs there.
        world.resync_agents();
        for pod in world.server.list("pods") {
            let (id, since) = started[pod["metadata"]["uid"].as_str().unwrap()].clone();
            world.container_news(&pod, "app", &id, Runtime::Running, Some(since), true, world.now);
        }
        world.advance(Duration::from_secs(120));
        let plan = world.left_over();
        prop_assert!(plan.node_pod_probes.is_empty(), "{:?}", plan.node_pod_probes);
        for object in world.server.list("nodepodprobes") {
            for item in object["spec"]["podProbes"].as_array().unwrap() {
                let pod = world.server.get("pods", "ns", item["name"].as_str().unwrap()).unwrap();
                for entry in item["probes"].as_array().unwrap() {
                    let (marker, _) = entry["name"].as_str().unwrap().split_once('#').unwrap();
                    let type_ = format!("x.io/{marker}");
                    let found = pod["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == type_.as_str());
                    prop_assert_eq!(found.map(|c| &c["status"]), Some(&json!("True")), "{} of {}", type_, item["name"]);
                }
                prop_assert_eq!(&pod["metadata"]["labels"]["up"], "yes");
            }
        }
        prop_assert_eq!(unmarked(&world), Vec::<String>::new());
        world.server.writes.clear();
        world.advance(Duration::from_secs(300));
        prop_assert_eq!(&world.server.writes, &BTreeMap::new());
    }

    #[test]
    fn a_plan_does_not_depend_on_the_order_of_objects(seed in any::<u64>()) {
        let (mut world, mut rng) = (World::unlisted(seed), Rng::new(seed));
        for _ in 0..40 {
            happen(&mut world, &mut rng);
        }
        let markers = || -> Vec<PodProbeMarker> { read(world.server.list("podprobemarkers")) };
        let pods = || -> Vec<Pod> { read(world.server.list("pods")) };
        let nodes: Vec<Node> = read(world.server.list("nodes"));
        let objects = || -> Vec<NodePodProbe> { read(world.server.list("nodepodprobes")) };
        let reversed: Vec<Node> = nodes.iter().rev().cloned().collect();
        let one = plan(markers(), pods(), &nodes, objects());
        let two = plan(
            markers().into_iter().rev().collect(),
            pods().into_iter().rev().collect(),
            &reversed,
            objects().into_iter().rev().collect(),
        );
        prop_assert_eq!(one, two);
    }

    #[test]
    fn nothing_panics_on_odd_objects(values in prop::collection::vec(odd(), 8)) {
        let [a, b, c, d, e, f, g, h] = <[Value; 8]>::try_from(values).unwrap();
        let meta = json!({"name": "n", "namespace": "ns", "uid": "u", "labels": {"a": "b"}});
        let marker = json!({"metadata": {"name": "m", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "probes": [a, {"name": "p", "containerName": "c", "probe": b,
                "markerPolicy": c, "podConditionType": "t"}]}, "status": d});
        let object = json!({"metadata": {"name": "n"}, "spec": {"podProbes": [e, {"uid": "u", "probes": [f, {"name": "m#p", "probe": b}]}]},
            "status": {"podProbeStatuses": [g, {"uid": "u", "probeStates": [h, {"name": "m#p", "state": "Failed"}]}]}});
        let pod = json!({"metadata": meta, "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Initialized", "status": "True"}]}});
        let mut pods: Vec<Pod> = vec![serde_json::from_value(pod).unwrap()];
        pods.extend([e, f, g].into_iter().filter_map(|value| serde_json::from_value::<Pod>(value).ok()));
        let markers: Vec<PodProbeMarker> =
            [marker, a, b].into_iter().map(|value| serde_json::from_value(value).unwrap()).collect();
        let objects: Vec<NodePodProbe> =
            [object, c, d].into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect();
        let nodes: Vec<Node> = vec![serde_json::from_value(node("n")).unwrap()];
        let planned = plan(markers.clone(), pods.clone(), &nodes, objects);
        let compiled: Vec<Compiled> = markers.into_iter().map(Compiled::new).collect();
        let results = [ProbeResult { owner: "m#p".into(), fresh: true, ..ProbeResult::default() }];
        for pod in &pods {
            mark(pod, &compiled.iter().collect::<Vec<_>>(), &results, &Marked::parse(&h.to_string()), Trigger::Pod, None);
        }
        prop_assert!(planned.node_pod_probes.len() <= 4);
    }
}

fn read<T: serde::de::DeserializeOwned>(objects: Vec<Value>) -> Vec<T> {
    objects.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect()
}

/// Any JSON, with the words that the cores look for.
fn odd() -> impl Strategy<Value = Value> {
    let words = [
        "name",
        "namespace",
        "uid",
        "metadata",
        "spec",
        "status",
        "probes",
        "probe",
        "exec",
        "httpGet",
        "port",
        "m#p",
        "labels",
        "state",
        "IP",
    ];
    let word = prop_oneof![prop::sample::select(words.to_vec()).prop_map(str::to_owned), "[a-z#]{0,3}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
