use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::rules::{ListStrategy, lookup};
use super::*;

fn strategic(current: Value, patch: Value, message: &str) -> Value {
    strategic_merge(current.clone(), &patch, message).expect("the patch fits")
}

fn deployment(containers: Value) -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": containers}}}})
}

#[test]
fn merge_patch_adds_changes_and_removes() {
    let current = json!({"metadata": {"labels": {"keep": "1", "drop": "1"}}, "data": {"a": "1", "b": "2"}});
    let patch = json!({"metadata": {"labels": {"drop": null, "new": "2"}}, "data": {"b": null, "c": "3"}});
    assert_eq!(
        merge_patch(current.clone(), &patch),
        json!({"metadata": {"labels": {"keep": "1", "new": "2"}}, "data": {"a": "1", "c": "3"}})
    );
}

#[test]
fn json_patch_does_all_six_operations() {
    let current = json!({"metadata": {"labels": {"x/y": "1"}}, "data": {"a": "1", "b": "2", "c": "3"}});
    let patch = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/d", "value": "4"},
        {"op": "replace", "path": "/data/b", "value": "20"},
        {"op": "remove", "path": "/data/c"},
        {"op": "copy", "from": "/data/a", "path": "/data/e"},
        {"op": "move", "from": "/data/e", "path": "/data/f"},
        {"op": "replace", "path": "/metadata/labels/x~1y", "value": "2"},
        {"op": "test", "path": "/data/absent", "value": null},
    ]);
    assert_eq!(
        json_patch(current.clone(), &patch).unwrap(),
        json!({"metadata": {"labels": {"x/y": "2"}}, "data": {"a": "1", "b": "20", "d": "4", "f": "1"}})
    );
}

#[test]
fn json_patch_that_does_not_fit_is_invalid() {
    let current = json!({"data": {"a": "1"}, "list": [1]});
    for operation in [
        json!({"op": "test", "path": "/data/a", "value": "2"}),
        json!({"op": "test", "path": "/data/b", "value": "2"}),
        json!({"op": "remove", "path": "/data/zz"}),
        json!({"op": "remove", "path": "/list/1"}),
        json!({"op": "replace", "path": "/data/zz", "value": 1}),
        json!({"op": "add", "path": "/nowhere/zz", "value": 1}),
        json!({"op": "add", "path": "/list/3", "value": 1}),
        json!({"op": "copy", "from": "/data/zz", "path": "/data/b"}),
        json!({"op": "move", "from": "/data", "path": "/data/a/b"}),
    ] {
        let result = json_patch(current.clone(), &json!([operation]));
        assert!(matches!(result, Err(PatchError::Invalid(_))), "{operation}: {result:?}");
    }
}

#[test]
fn malformed_json_patch_is_a_bad_request() {
    for patch in [json!({"op": "add"}), json!([{"op": "add"}]), json!([{"op": "jump", "path": "/a"}]), json!([1]), json!(null)]
    {
        assert!(matches!(json_patch(json!({}), &patch), Err(PatchError::BadRequest(_))), "{patch}");
    }
}

#[test]
fn json_patch_is_bounded_in_number_width_and_depth() {
    let operation = json!({"op": "test", "path": "", "value": {}});
    assert_eq!(json_patch(json!({}), &Value::Array(vec![operation.clone(); OPERATIONS_MAX])), Ok(json!({})));
    let result = json_patch(json!({}), &Value::Array(vec![operation; OPERATIONS_MAX + 1]));
    assert_eq!(result, Err(PatchError::TooManyOperations(10_001)));

    let double = [json!({"op": "add", "path": "/a", "value": ["x"]})]
        .into_iter()
        .chain((0..40).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})))
        .collect();
    assert!(matches!(json_patch(json!({}), &Value::Array(double)), Err(PatchError::Invalid(_))));

    let deeper = (0..200)
        .flat_map(|_| {
            [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        })
        .collect();
    assert!(matches!(json_patch(json!({"a": 1}), &Value::Array(deeper)), Err(PatchError::Invalid(_))));
}

#[test]
fn containers_and_their_env_merge_by_name() {
    let current = deployment(
        json!([{"name": "one", "image": "i:1", "env": [{"name": "E", "value": "1"}]}, {"name": "two", "image": "j:1"}]),
    );
    let patch = deployment(
        json!([{"name": "one", "image": "i:2", "env": [{"name": "F", "value": "2"}]}, {"name": "three", "image": "k:1"}]),
    );
    let expected = deployment(json!([
        {"name": "one", "image": "i:2", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]},
        {"name": "three", "image": "k:1"},
        {"name": "two", "image": "j:1"},
    ]));
    assert_eq!(strategic(current, patch, "Deployment"), expected);
}

#[test]
fn delete_and_replace_directives_work_in_lists() {
    let current = deployment(json!([{"name": "one", "image": "i:1"}, {"name": "two", "image": "j:1"}]));
    assert_eq!(
        strategic(current.clone(), deployment(json!([{"$patch": "delete", "name": "one"}])), "Deployment"),
        deployment(json!([{"name": "two", "image": "j:1"}]))
    );
    assert_eq!(
        strategic(current.clone(), deployment(json!([{"name": "only", "image": "z:1"}, {"$patch": "replace"}])), "Deployment"),
        deployment(json!([{"name": "only", "image": "z:1"}]))
    );
    assert_eq!(strategic(current, deployment(json!([{"$patch": "replace"}])), "Deployment"), deployment(json!([])));
}

#[test]
fn directives_work_in_maps_and_never_reach_the_object() {
    let current = json!({"data": {"a": "1", "b": "2"}});
    assert_eq!(
        strategic(current.clone(), json!({"data": {"$patch": "replace", "c": "3"}}), "ConfigMap"),
        json!({"data": {"c": "3"}})
    );
    assert_eq!(strategic(current.clone(), json!({"data": {"$patch": "delete"}}), "ConfigMap"), json!({"data": {}}));
    assert_eq!(
        strategic(current.clone(), json!({"data": {"$patch": "merge", "c": "3"}}), "ConfigMap"),
        json!({"data": {"a": "1", "b": "2", "c": "3"}})
    );
    let patch = json!({"spec": {
        "template": {"spec": {
            "$setElementOrder/containers": [{"name": "one"}],
            "containers": [{"name": "one", "image": null, "$retainKeys": ["name"]}, {"name": "gone", "$patch": "delete"}],
            "tolerations": [{"$patch": "replace"}, {"key": "k", "value": null}],
            "affinity": {"$patch": "delete"},
        }},
        "$deleteFromPrimitiveList/finalizers": ["x"],
    }});
    assert_eq!(
        strategic(json!({}), patch, "Deployment"),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "one"}], "tolerations": [{"key": "k"}]}}}})
    );
}

#[test]
fn set_element_order_decides_and_server_only_items_keep_their_place() {
    let order = |patch: Value, order: Value| {
        let mut patch = deployment(patch);
        patch["spec"]["template"]["spec"]["$setElementOrder/containers"] = order;
        patch
    };
    let current = deployment(json!([{"name": "one", "image": "i:1"}, {"name": "two", "image": "j:1"}]));
    assert_eq!(
        strategic(
            current.clone(),
            order(json!([{"name": "one", "image": "i:3"}]), json!([{"name": "two"}, {"name": "one"}])),
            "Deployment"
        ),
        deployment(json!([{"name": "two", "image": "j:1"}, {"name": "one", "image": "i:3"}]))
    );
    let sidecar = deployment(json!([{"name": "a"}, {"name": "injected"}, {"name": "b"}]));
    assert_eq!(
        strategic(sidecar, order(json!([{"name": "c"}]), json!([{"name": "a"}, {"name": "b"}, {"name": "c"}])), "Deployment"),
        deployment(json!([{"name": "a"}, {"name": "injected"}, {"name": "b"}, {"name": "c"}]))
    );
    let mut only_order = order(json!([]), json!([{"name": "two"}, {"name": "one"}]));
    only_order["spec"]["template"]["spec"].as_object_mut().unwrap().remove("containers");
    assert_eq!(
        strategic(current.clone(), only_order, "Deployment"),
        deployment(json!([{"name": "two", "image": "j:1"}, {"name": "one", "image": "i:1"}]))
    );
    let contradiction = order(json!([{"name": "one"}, {"name": "two"}]), json!([{"name": "two"}, {"name": "one"}]));
    assert!(matches!(strategic_merge(current.clone(), &contradiction, "Deployment"), Err(PatchError::BadRequest(_))));
}

#[test]
fn finalizers_merge_as_a_set() {
    let current = json!({"metadata": {"finalizers": ["x", "y"]}});
    let added = strategic(current.clone(), json!({"metadata": {"finalizers": ["z", "x"]}}), "ConfigMap");
    assert_eq!(added, json!({"metadata": {"finalizers": ["z", "x", "y"]}}));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["y"], "$setElementOrder/finalizers": ["x", "z"]}});
    assert_eq!(strategic(added, patch, "ConfigMap"), json!({"metadata": {"finalizers": ["x", "z"]}}));
    let cidrs = strategic(json!({"spec": {"podCIDRs": ["10.0.0.0/24"]}}), json!({"spec": {"podCIDRs": ["fd00::/64"]}}), "Node");
    assert_eq!(cidrs, json!({"spec": {"podCIDRs": ["fd00::/64", "10.0.0.0/24"]}}));
}

#[test]
fn retain_keys_removes_the_other_member_of_a_union() {
    let current = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(strategic(current.clone(), patch, "Deployment"), json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let bad = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    assert!(matches!(strategic_merge(current.clone(), &bad, "Deployment"), Err(PatchError::BadRequest(_))));
    let volumes = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let patch = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}});
    assert_eq!(strategic(volumes, patch, "Pod"), json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}}));
}

#[test]
fn kubectl_cordon_uncordon_and_taint_have_their_effect() {
    let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}});
    let cordoned = strategic(node.clone(), json!({"spec": {"unschedulable": true}}), "Node");
    assert_eq!(cordoned["spec"]["unschedulable"], true);
    assert_eq!(strategic(cordoned, json!({"spec": {"unschedulable": null}}), "Node"), node);
    let taints = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}});
    assert_eq!(strategic(node, taints.clone(), "Node")["spec"], taints["spec"]);
}

#[test]
fn conditions_merge_by_type_in_the_status_of_every_kind_that_has_them() {
    for kind in ["Pod", "Node", "Namespace", "Service", "Deployment", "ReplicaSet"] {
        let current =
            json!({"status": {"conditions": [{"type": "One", "status": "True"}, {"type": "Two", "status": "False"}]}});
        let patch = json!({"status": {"conditions": [{"type": "Two", "status": "True", "reason": "Later"}]}});
        let expected = json!({"status": {"conditions": [{"type": "One", "status": "True"}, {"type": "Two", "status": "True", "reason": "Later"}]}});
        assert_eq!(strategic(current, patch, kind), expected, "{kind}");
    }
}

#[test]
fn every_row_of_the_specification_is_in_the_model() {
    let by_key = [
        ("ObjectMeta", "uid", "ownerReferences"),
        (
            "PodSpec",
            "name",
            "containers initContainers ephemeralContainers volumes imagePullSecrets schedulingGates resourceClaims",
        ),
        ("PodSpec", "ip", "hostAliases"),
        ("PodSpec", "topologyKey", "topologySpreadConstraints"),
        ("Container", "name", "env"),
        ("Container", "containerPort", "ports"),
        ("Container", "mountPath", "volumeMounts"),
        ("Container", "devicePath", "volumeDevices"),
        ("PodStatus", "ip", "podIPs hostIPs"),
        ("NodeStatus", "type", "addresses"),
        ("ServiceSpec", "port", "ports"),
        ("ServiceAccount", "name", "secrets"),
    ];
    for (message, key, fields) in by_key {
        for field in fields.split(' ') {
            let got = lookup(message, field).list;
            assert!(matches!(got, ListStrategy::Merge(k) if k == key), "{message}.{field}: {got:?}");
        }
    }
    for field in ["tolerations", "readinessGates", "command", "envFrom", "clusterIPs", "taints", "endpoints"] {
        for message in ["PodSpec", "Container", "NodeSpec", "ServiceSpec", "EndpointSlice"] {
            assert_eq!(lookup(message, field).list, ListStrategy::Replace);
        }
    }
    for kind in ["ConfigMap", "Lease", "EndpointSlice", "PodTemplateSpec", "CustomResourceDefinition", "events.Event"] {
        assert_eq!(lookup(kind, "metadata").message, "ObjectMeta", "{kind}");
    }
}

#[test]
fn a_patch_that_breaks_the_rules_is_refused() {
    let current = deployment(json!([{"name": "one"}]));
    let refused = |patch: Value| strategic_merge(current.clone(), &patch, "Deployment").expect_err("refused");
    assert!(matches!(refused(json!({"spec": {"$patch": "shuffle"}})), PatchError::Invalid(_)));
    assert!(matches!(refused(json!({"fresh": {"$patch": "shuffle"}})), PatchError::Invalid(_)));
    assert!(matches!(refused(deployment(json!([{"name": "one", "$patch": 1}]))), PatchError::Invalid(_)));
    assert!(matches!(refused(deployment(json!([{"image": "i:1"}]))), PatchError::BadRequest(_)));
    assert!(matches!(refused(deployment(json!([{"$patch": "delete"}]))), PatchError::BadRequest(_)));
    assert!(matches!(refused(deployment(json!(["one"]))), PatchError::BadRequest(_)));
    assert!(matches!(refused(json!({"metadata": {"finalizers": [{"a": 1}]}})), PatchError::BadRequest(_)));
    assert!(matches!(refused(json!([])), PatchError::BadRequest(_)));
}

/// Returns the merge patch that leads from `from` to `to`, for values without null members.
fn diff(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) if before.is_object() && value.is_object() => {
                patch.insert(key.clone(), diff(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// Any JSON whose members are often those that the table and the directives know.
fn any_json(nulls: bool) -> impl Strategy<Value = Value> {
    let null = if nulls { 1 } else { 0 };
    let leaf = prop_oneof![
        null => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => (-3i64..3).prop_map(Value::from),
        3 => prop::sample::select(vec!["a", "b", "delete", "replace", "merge", "name"]).prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "finalizers",
        "spec",
        "status",
        "template",
        "containers",
        "env",
        "name",
        "image",
        "conditions",
        "type",
        "ports",
    ]);
    let directive = prop::sample::select(vec![
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
    ]);
    let key = if nulls { prop_oneof![9 => key, 1 => directive].boxed() } else { key.boxed() };
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    })
}

/// Any list of operations on the paths of a small object.
fn any_operations() -> impl Strategy<Value = Value> {
    let path = || prop::sample::select(vec!["", "/a", "/a/0", "/a/-", "/a/-1", "/b", "/b/c", "/b/c/d", "/x~1y", "no"]);
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "jump"]);
    let operation = (op, path(), path(), any_json(true))
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    prop::collection::vec(operation, 0..12).prop_map(Value::from)
}

proptest! {
    #[test]
    fn no_list_of_operations_makes_us_panic(operations in any_operations()) {
        let current = json!({"a": [1, {"b": 2}], "b": {"c": {"d": null}}, "x/y": "z"});
        if let Ok(patched) = json_patch(current.clone(), &operations) {
            let text = patched.to_string();
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), patched, "it can be stored and read");
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(mut current in any_json(false)) {
        if !current.is_object() {
            current = json!({"spec": current});
        }
        prop_assert_eq!(&merge_patch(current.clone(), &json!({})), &current);
        prop_assert_eq!(&strategic_merge(current.clone(), &json!({}), "Pod").unwrap(), &current);
        prop_assert_eq!(&json_patch(current.clone(), &json!([])).unwrap(), &current);
    }

    #[test]
    fn a_merge_patch_made_from_a_difference_leads_there(from in any_json(false), to in any_json(false)) {
        prop_assert_eq!(merge_patch(from.clone(), &diff(&from, &to)), to);
    }

    #[test]
    fn a_strategic_patch_applied_twice_is_applied_once(current in any_json(false), patch in any_json(false)) {
        if let Ok(once) = strategic_merge(current.clone(), &patch, "Deployment") {
            prop_assert_eq!(strategic_merge(once.clone(), &patch, "Deployment").unwrap(), once);
        }
    }

    #[test]
    fn no_patch_makes_us_panic(current in any_json(true), patch in any_json(true)) {
        for message in ["Pod", "Deployment", "ConfigMap", ""] {
            let _ = strategic_merge(current.clone(), &patch, message);
        }
        let _ = json_patch(current.clone(), &patch);
        let _ = merge_patch(current.clone(), &patch);
    }

    #[test]
    fn what_a_strategic_patch_yields_holds_no_directive(current in any_json(false), patch in any_json(true)) {
        if let Ok(patched) = strategic_merge(current.clone(), &patch, "Pod") {
            prop_assert!(!patched.to_string().contains('$'), "{}", patched);
        }
    }
}

/// What takes longer than this does not grow in step with its input; each of these takes a tenth of it, unoptimised.
const QUICK: std::time::Duration = std::time::Duration::from_secs(8);

#[test]
fn long_lists_merge_in_step_with_their_length() {
    let started = testkit::effort::cpu_time();
    let count = 20_000;
    let condition = |n: usize, status: &str| json!({"type": format!("t{n}"), "status": status});
    let current = json!({"status": {"conditions": (0..count).map(|n| condition(n, "True")).collect::<Vec<_>>()}});
    let named: Vec<Value> = (0..count).rev().map(|n| json!({"type": format!("t{n}")})).collect();
    let all: Vec<Value> = (0..count).rev().map(|n| condition(n, "False")).collect();
    let merged = strategic(current.clone(), json!({"status": {"conditions": all}}), "Node");
    assert_eq!(merged["status"]["conditions"][0], condition(count - 1, "False"));
    let ordered = json!({"status": {"$setElementOrder/conditions": named}});
    assert_eq!(strategic(current.clone(), ordered, "Node")["status"]["conditions"][0], condition(count - 1, "True"));
    let gone: Vec<Value> = (1..count).map(|n| json!({"type": format!("t{n}"), "$patch": "delete"})).collect();
    let left = strategic(current.clone(), json!({"status": {"conditions": gone}}), "Node");
    assert_eq!(left["status"]["conditions"], json!([condition(0, "True")]));
    let finalizers: Vec<String> = (0..count).map(|n| format!("example.com/f{n}")).collect();
    let held = strategic(json!({}), json!({"metadata": {"finalizers": finalizers}}), "Node");
    let free = strategic(held.clone(), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers}}), "Node");
    assert_eq!(
        (held["metadata"]["finalizers"].as_array().map(Vec::len), &free["metadata"]["finalizers"]),
        (Some(count), &json!([]))
    );
    let keys: Vec<String> = (0..count).map(|n| format!("k{n}")).collect();
    let members: Map<String, Value> = keys.iter().map(|key| (key.clone(), json!(1))).collect();
    let kept = strategic(json!({"data": members.clone()}), json!({"data": {"$retainKeys": keys}}), "ConfigMap");
    assert_eq!(kept["data"].as_object().map(Map::len), Some(count));
    let effort = testkit::effort::cpu_time() - started;
    assert!(effort < QUICK, "{effort:?}");
}

#[test]
fn json_patches_pay_for_what_they_move_and_shift() {
    let started = testkit::effort::cpu_time();
    let large = json!({"a": vec![1; 100_000], "b": {}});
    let refused = |operations: Vec<Value>| json_patch(large.clone(), &Value::from(operations)) == Err(PatchError::TooMuchWork);
    let there_and_back = |n: usize| {
        let (from, path) = if n.is_multiple_of(2) { ("/a", "/b/a") } else { ("/b/a", "/a") };
        json!({"op": "move", "from": from, "path": path})
    };
    assert!(refused((0..10_000).map(there_and_back).collect()));
    assert!(refused((0..10_000).map(|_| json!({"op": "add", "path": "/a/0", "value": 1})).collect()));
    assert!(refused((0..10_000).map(|_| json!({"op": "remove", "path": "/a/0"})).collect()));
    assert!(refused((0..10_000).map(|_| json!({"op": "move", "from": "/a/0", "path": "/a/1"})).collect()));
    let at_the_end = (0..10_000).map(|n| json!({"op": "add", "path": format!("/b/k{n}"), "value": n})).collect();
    assert!(!refused(at_the_end), "many small operations are fine");
    assert!(!refused((0..10).map(there_and_back).collect()), "and so are a few large ones");
    let effort = testkit::effort::cpu_time() - started;
    assert!(effort < QUICK, "{effort:?}");
}
