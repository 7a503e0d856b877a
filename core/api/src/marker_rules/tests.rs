//! Rules that the vectors do not reach.

use serde_json::{Value, json};

use super::*;

fn marker(probe: Value) -> Value {
    json!({"spec": {"selector": {"matchLabels": {"app": "x"}}, "probes": [probe]}})
}

fn pairs(errors: &[Error]) -> Vec<(String, &'static str)> {
    errors.iter().map(|error| (error.path.clone(), error.kind.name())).collect()
}

#[test]
fn an_empty_label_value_is_not_the_same_as_no_label() {
    let probe = json!({"name": "a", "containerName": "c", "probe": {"exec": {"command": ["x"]}}, "podConditionType": "t"});
    let (mut old, mut new) = (marker(probe.clone()), marker(probe));
    old["spec"]["selector"] = json!({"matchLabels": {"app": "x", "b": ""}});
    assert_eq!(pairs(&validate_pod_probe_marker(&new, Some(&old))), [("spec.selector".into(), "Invalid")]);
    new["spec"]["selector"] = json!({"matchLabels": {"app": "x", "b": ""}, "matchExpressions": []});
    assert_eq!(validate_pod_probe_marker(&new, Some(&old)), []);
}

#[test]
fn dropping_the_selector_is_missing_and_immutable() {
    let probe = json!({"name": "a", "containerName": "c", "probe": {"exec": {"command": ["x"]}}, "podConditionType": "t"});
    let (old, mut new) = (marker(probe.clone()), marker(probe));
    new["spec"].as_object_mut().unwrap().remove("selector");
    let errors = pairs(&validate_pod_probe_marker(&new, Some(&old)));
    assert_eq!(errors, [("spec.selector".into(), "Required"), ("spec.selector".into(), "Invalid")]);
}

#[test]
fn a_value_of_a_wrong_type_is_judged_no_further() {
    let probe = json!({"name": "a", "containerName": "c", "probe": {"exec": {"command": ["x"]}}, "podConditionType": "t"});
    let (old, mut new) = (marker(probe.clone()), marker(probe));
    new["spec"]["selector"] = json!("app=x");
    assert_eq!(pairs(&validate_pod_probe_marker(&new, Some(&old))), [("spec.selector".into(), "TypeInvalid")]);
    new["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": "x"}]});
    let errors = pairs(&validate_pod_probe_marker(&new, None));
    assert_eq!(errors, [("spec.selector.matchExpressions[0].values".into(), "TypeInvalid")]);
}

#[test]
fn escapes_are_judged_before_the_query_only() {
    for (path, good) in [("/a%20b", true), ("/a?x=%zz", true), ("/%", false), ("/%2", false), ("%é", false), ("", true)] {
        let probe = json!({"name": "a", "containerName": "c", "podConditionType": "t",
            "probe": {"httpGet": {"port": 80, "path": path}}});
        assert_eq!(validate_pod_probe_marker(&marker(probe), None).is_empty(), good, "{path}");
    }
}

#[test]
fn only_the_canonical_deletion_cost_is_accepted() {
    for (cost, good) in [("0", true), ("-2147483648", true), ("+1", false), ("01", false), ("-0", false), ("2147483648", false)]
    {
        let probe = json!({"name": "a", "containerName": "c", "probe": {"grpc": {"port": 1}},
            "markerPolicy": [{"state": "Failed", "annotations": {POD_DELETION_COST: cost}}]});
        assert_eq!(validate_pod_probe_marker(&marker(probe), None).is_empty(), good, "{cost}");
    }
}
