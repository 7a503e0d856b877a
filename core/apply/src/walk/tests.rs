use serde_json::{Value, json};

use super::*;
use crate::set::Set;
use crate::testing::KIND;

fn set(paths: &str) -> String {
    paths.split_whitespace().collect::<Vec<_>>().join("\n")
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[test]
fn leaves_and_told_elements_are_fields() {
    let value = json!({
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "replicas": 1, "selector": {"a": "b"}, "free": {"a": {"b": [1]}, "n": null},
            "items": [{"name": "one", "args": ["x"], "ports": [{"port": 80}]}],
        },
    });
    let fields = fields(KIND, &value).unwrap();
    assert_eq!(
        fields.to_string(),
        set(
            r#".metadata.finalizers[="x/y"] .metadata.labels.a .spec.replicas .spec.selector .spec.free.a .spec.free.n .spec.free.a.b
               .spec.items[name="one"] .spec.items[name="one"].args .spec.items[name="one"].name
               .spec.items[name="one"].ports[port=80,protocol="TCP"] .spec.items[name="one"].ports[port=80,protocol="TCP"].port"#
        )
    );
}

#[test]
fn empty_maps_and_nulls_are_fields_and_empty_lists_are_not() {
    let value = spec(json!({"data": {}, "free": null, "items": [], "selector": {}}));
    assert_eq!(fields(KIND, &value).unwrap().to_string(), set(".spec.data .spec.free .spec.selector"));
}

#[test]
fn differences_name_what_is_new_changed_and_gone() {
    let old = spec(json!({"replicas": 1, "data": {"a": "1", "b": "1"}, "items": [{"name": "one", "image": "i"}]}));
    let new = spec(json!({"replicas": 2, "data": {"a": "1", "c": "1"}, "items": [{"name": "two", "image": "i"}]}));
    let found = compare(KIND, &old, &new).unwrap();
    assert_eq!(
        found.changed.to_string(),
        set(
            r#".spec.replicas .spec.data.c .spec.items[name="two"] .spec.items[name="two"].image .spec.items[name="two"].name"#
        )
    );
    assert_eq!(
        found.removed.to_string(),
        set(r#".spec.data.b .spec.items[name="one"] .spec.items[name="one"].image .spec.items[name="one"].name"#)
    );
    let same = compare(KIND, &old, &old).unwrap();
    assert!(same.changed.is_empty() && same.removed.is_empty());
}

#[test]
fn a_new_branch_counts_with_its_parents() {
    let found = compare(KIND, &json!({}), &spec(json!({"data": {"a": "1"}}))).unwrap();
    assert_eq!(found.changed.to_string(), set(".spec .spec.data .spec.data.a"));
}

#[test]
fn the_order_of_told_elements_is_no_difference_but_that_of_atomic_lists_is() {
    let items = |names: [&str; 2]| spec(json!({"items": names.map(|name| json!({"name": name}))}));
    assert!(compare(KIND, &items(["a", "b"]), &items(["b", "a"])).unwrap().changed.is_empty());
    let args = |args: Value| spec(json!({"items": [{"name": "a", "args": args}]}));
    let found = compare(KIND, &args(json!(["x", "y"])), &args(json!(["y", "x"]))).unwrap();
    assert_eq!(found.changed.to_string(), r#".spec.items[name="a"].args"#);
}

#[test]
fn a_value_that_becomes_of_another_form_has_changed_as_both() {
    let free = |value: Value| spec(json!({ "free": value }));
    let found = compare(KIND, &free(json!("text")), &free(json!({"a": 1}))).unwrap();
    assert_eq!(found.changed.to_string(), set(".spec.free .spec.free.a"));
    let found = compare(KIND, &free(json!({"a": 1})), &free(json!([1]))).unwrap();
    assert_eq!((found.changed.to_string(), found.removed.to_string()), (".spec.free".to_owned(), ".spec.free.a".to_owned()));
}

#[test]
fn elements_that_cannot_be_told_apart_are_one_thing() {
    let items = |images: &[&str]| {
        spec(json!({"items": images.iter().map(|image| json!({"name": "a", "image": image})).collect::<Vec<_>>()}))
    };
    assert_eq!(fields(KIND, &items(&["x", "y"])).unwrap().to_string(), r#".spec.items[name="a"]"#);
    let found = compare(KIND, &items(&["x", "y"]), &items(&["x", "z"])).unwrap();
    assert_eq!(found.changed.to_string(), r#".spec.items[name="a"]"#);
    let found = compare(KIND, &items(&["x"]), &items(&["x", "x"])).unwrap();
    assert_eq!(found.changed.to_string(), r#".spec.items[name="a"]"#);
    assert!(found.removed.contains(&[
        Element::field("spec"),
        Element::field("items"),
        Element::key(vec![("name".into(), json!("a"))])
    ]));
    assert!(!check(KIND, &items(&["x", "y"])).is_empty(), "a configuration may not be so");
    assert!(merge(KIND, &spec(json!({})), &items(&["x", "y"])).is_err());
}

#[test]
fn merging_keeps_what_the_configuration_does_not_speak_of() {
    let live = spec(
        json!({"replicas": 1, "data": {"a": "1"}, "selector": {"x": "y"}, "items": [{"name": "one", "image": "i", "args": ["x"]}]}),
    );
    let config =
        spec(json!({"data": {"b": "2"}, "selector": {"z": "w"}, "items": [{"name": "one", "image": "j"}, {"name": "two"}]}));
    assert_eq!(
        merge(KIND, &live, &config).unwrap(),
        spec(json!({
            "replicas": 1, "data": {"a": "1", "b": "2"}, "selector": {"z": "w"},
            "items": [{"name": "one", "image": "j", "args": ["x"]}, {"name": "two"}],
        }))
    );
}

#[test]
fn merged_lists_follow_the_order_of_the_configuration() {
    let list =
        |names: &str| json!({"metadata": {"finalizers": names.split(' ').filter(|name| !name.is_empty()).collect::<Vec<_>>()}});
    for (live, config, merged) in [
        ("a b c", "c a", "b c a"),
        ("a b c", "a c", "a b c"),
        ("a b", "c", "a b c"),
        ("", "b a", "b a"),
        ("a b c d", "d x b", "a c d x b"),
        ("a b", "b c a", "b c a"),
    ] {
        assert_eq!(merge(KIND, &list(live), &list(config)).unwrap(), list(merged), "{live} + {config}");
    }
}

#[test]
fn null_and_empty_are_kept_apart() {
    let merged = |live: Value, config: Value| merge(KIND, &spec(live), &spec(config)).unwrap();
    assert_eq!(merged(json!({"data": {"a": "1"}}), json!({"data": null})), spec(json!({"data": {"a": "1"}})));
    assert_eq!(merged(json!({"data": {}}), json!({"data": null})), spec(json!({"data": null})));
    assert_eq!(merged(json!({}), json!({"data": {}, "items": []})), spec(json!({"data": {}, "items": []})));
    assert_eq!(merged(json!({"replicas": 1}), json!({"replicas": null})), spec(json!({"replicas": null})));
}

#[test]
fn removing_takes_members_and_nothing_else() {
    let value =
        spec(json!({"replicas": 1, "data": {"a": "1", "b": "2"}, "items": [{"name": "one", "image": "i"}, {"name": "two"}]}));
    let gone = fields(KIND, &spec(json!({"replicas": 1, "data": {"a": ""}, "items": [{"name": "two"}]}))).unwrap();
    assert_eq!(remove(KIND, &value, &gone), spec(json!({"data": {"b": "2"}, "items": [{"name": "one", "image": "i"}]})));
    assert_eq!(remove(KIND, &spec(json!({"replicas": 1})), &Set::default().with(&["spec"])), Value::Null);
}

#[test]
fn a_configuration_that_is_not_of_the_type_is_told_where() {
    let wrong = json!({"dataa": {}, "spec": {"replicas": "1", "data": [], "items": [{"image": "i"}], "free": {"x": [null]}}});
    let found: Vec<String> = check(KIND, &wrong).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            ".dataa: field not declared in schema".to_owned(),
            ".spec.data: expected map, got []".to_owned(),
            ".spec.items: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have \
             default values for any key fields)"
                .to_owned(),
            ".spec.replicas: expected numeric (int or float), got \"1\"".to_owned(),
        ]
    );
    assert!(check(KIND, &json!({"spec": {"replicas": null, "items": null}})).is_empty());
}

#[test]
fn what_became_atomic_is_owned_as_a_whole() {
    let old = Set::default().with(&["spec", "selector", "a"]).with(&["spec", "free", "x"]).with(&["spec", "gone", "y"]);
    let new = reconcile(KIND, &old).unwrap();
    assert_eq!(new.to_string(), set(".spec.selector .spec.free.x .spec.gone.y"), "what is not known keeps its owner");
    assert_eq!(reconcile(KIND, &new), None);
}
