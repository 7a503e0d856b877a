use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema(value: &Value) -> Schema {
    Schema::compile(value).expect("the schema is good")
}

/// Returns `kind path message` of every error, in order.
fn errors(schema_: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    validate(&schema(schema_), new, old).iter().map(|error| format!("{} {error}", error.kind.name())).collect()
}

fn gadget() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "name": {"type": "string", "maxLength": 4, "pattern": "^[a-z]+$"},
                "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "port": {"x-kubernetes-int-or-string": true},
                "maybe": {"type": "string", "nullable": true},
            },
        }},
    })
}

#[test]
fn a_custom_resource_is_pruned_defaulted_and_accepted() {
    let schema = schema(&gadget());
    let mut object = json!({
        "apiVersion": "a.test/v1", "kind": "Gadget", "metadata": {"name": "ok", "nope": 1, "ownerReferences": [{"name": "x", "no": 1}]},
        "extra": 1,
        "spec": {"size": 3, "junk": "x", "free": {"a": {"b": 1}}, "port": "http", "maybe": null, "tags": null},
    });
    let unknown = prune(&schema, &mut object);
    assert_eq!(unknown, ["extra", "spec.junk", "metadata.nope", "metadata.ownerReferences[0].no"]);
    default(&schema, &mut object);
    assert_eq!(object["spec"], json!({"size": 3, "color": "red", "free": {"a": {"b": 1}}, "port": "http", "maybe": null}));
    assert_eq!(object["metadata"], json!({"name": "ok", "ownerReferences": [{"name": "x"}]}));
    assert_eq!(validate(&schema, &object, None), []);
}

#[test]
fn every_broken_rule_of_the_schema_is_reported_in_the_words_of_kubernetes() {
    let object =
        json!({"spec": {"size": 10, "color": "green", "name": "Abcdef", "tags": ["a", "b", "c"], "port": true, "free": 1}});
    assert_eq!(
        errors(&gadget(), &object, None),
        [
            r#"NotSupported spec.color: Unsupported value: "green": supported values: "red", "blue""#,
            r#"TypeInvalid spec.free: Invalid value: "integer": spec.free in body must be of type object: "integer""#,
            r#"TooLong spec.name: Too long: may not be more than 4 bytes"#,
            r#"Invalid spec.name: Invalid value: "Abcdef": spec.name in body should match '^[a-z]+$'"#,
            r#"TypeInvalid spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
            "Invalid spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9",
            "TooMany spec.tags: Too many: 3: must have at most 2 items",
        ]
    );
    assert_eq!(errors(&gadget(), &json!({"spec": {}}), None), ["Required spec.size: Required value"]);
    assert_eq!(errors(&gadget(), &json!({}), None), ["Required spec: Required value"]);
    assert_eq!(
        errors(&gadget(), &json!({"spec": {"size": "big", "maybe": null}}), None),
        [r#"TypeInvalid spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#]
    );
}

#[test]
fn each_keyword_has_its_effect() {
    let cases = [
        (json!({"type": "string", "minLength": 2}), json!("äö"), json!("ä"), "should be at least 2 chars long"),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("2026-01-31T08:00:00Z"),
            json!("x"),
            "must be of type date-time: \"x\"",
        ),
        (json!({"type": "integer", "exclusiveMinimum": true, "minimum": 1}), json!(2), json!(1), "should be greater than 1"),
        (
            json!({"type": "number", "exclusiveMaximum": true, "maximum": 1.5}),
            json!(1.4),
            json!(1.5),
            "should be less than 1.5",
        ),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3), json!(0.35), "should be a multiple of 0.1"),
        (json!({"type": "integer", "multipleOf": 3}), json!(9), json!(10), "should be a multiple of 3"),
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_647), json!(2_147_483_648_u64), "with format int32"),
        (json!({"type": "integer"}), json!(3.0), json!(3.5), "must be of type integer: \"number\""),
        (json!({"type": "number"}), json!(3), json!("3"), "must be of type number"),
        (json!({"type": "boolean"}), json!(true), json!("true"), "must be of type boolean"),
        (json!({"type": "array", "minItems": 1}), json!([1]), json!([]), "should have at least 1 items"),
        (json!({"type": "object", "minProperties": 1}), json!({"a": 1}), json!({}), "should have at least 1 properties"),
        (json!({"type": "object", "maxProperties": 1}), json!({"a": 1}), json!({"a": 1, "b": 2}), "Too many: 2"),
        (json!({"type": "integer", "enum": [1, 2]}), json!(2.0), json!(3), "supported values: \"1\", \"2\""),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": "b"}),
            json!({"a": 1}),
            "v.a: Invalid value: \"integer\"",
        ),
        (json!({"type": "string", "not": {"enum": ["no"]}}), json!("yes"), json!("no"), "must not validate the schema (not)"),
        (
            json!({"type": "string", "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}),
            json!("bc"),
            json!("c"),
            "at least one schema (anyOf)",
        ),
        (
            json!({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]}),
            json!("a"),
            json!("ab"),
            "Found 2 valid alternatives",
        ),
        (json!({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]}), json!("b"), json!("c"), "Found none valid"),
        (
            json!({"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "b"}]}),
            json!("ab"),
            json!("a"),
            "all the schemas (allOf)",
        ),
        (json!({"type": "string", "nullable": true}), json!(null), json!(1), "must be of type string"),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a"]),
            json!([null]),
            "v[0] in body must be of type string: \"null\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b"]),
            json!(["a", "b", "a", "a"]),
            "v[2]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"], "items": {"type": "object"}}),
            json!([{"k": "a"}, {"k": "a", "l": 1}]),
            json!([{"k": "a", "l": 1, "v": 1}, {"k": "a", "l": 1, "v": 2}]),
            r#"v[1]: Duplicate value: {"k":"a","l":1}"#,
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"apiVersion": "v1", "kind": "Pod", "any": 1}),
            json!({"apiVersion": "v1"}),
            "v.kind: Required value: must not be empty",
        ),
    ];
    for (keyword, good, bad, message) in cases {
        let wrapped = json!({"type": "object", "properties": {"v": keyword}});
        assert_eq!(errors(&wrapped, &json!({"v": good}), None), Vec::<String>::new(), "{keyword}");
        let found = errors(&wrapped, &json!({"v": bad}), None);
        assert!(found.iter().any(|error| error.contains(message)), "{keyword}: {found:?}");
    }
}

#[test]
fn only_one_error_is_reported_for_an_item_that_stands_in_a_set_many_times() {
    let list = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
    let wrapped = json!({"type": "object", "properties": {"v": list}});
    assert_eq!(errors(&wrapped, &json!({"v": [1, 1, 1, 2, 2]}), None).len(), 2);
}

#[test]
fn what_did_not_change_is_not_checked_again() {
    let old = json!({"spec": {"size": 10, "color": "green"}});
    let mut new = old.clone();
    assert_eq!(errors(&gadget(), &new, Some(&old)), Vec::<String>::new());
    new["spec"]["name"] = json!("ok");
    assert_eq!(errors(&gadget(), &new, Some(&old)), Vec::<String>::new());
    new["spec"]["size"] = json!(11);
    assert_eq!(errors(&gadget(), &new, Some(&old)).len(), 1);
    new["spec"].as_object_mut().unwrap().remove("size");
    assert_eq!(errors(&gadget(), &new, Some(&old)), ["Required spec.size: Required value"]);
}

#[test]
fn items_of_a_list_map_are_compared_with_their_old_selves() {
    let list = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 5}}},
    });
    let wrapped = json!({"type": "object", "properties": {"v": list}});
    let old = json!({"v": [{"name": "a", "n": 9}, {"name": "b", "n": 1}]});
    assert!(errors(&wrapped, &json!({"v": [{"name": "b", "n": 2}, {"name": "a", "n": 9}]}), Some(&old)).is_empty());
    assert_eq!(errors(&wrapped, &json!({"v": [{"name": "b", "n": 9}, {"name": "a", "n": 9}]}), Some(&old)).len(), 1);
}

#[test]
fn pruning_follows_maps_lists_and_embedded_resources() {
    let wrapped = schema(&json!({"type": "object", "properties": {
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "any": {"type": "object", "additionalProperties": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        "empty": {"type": "object"},
    }}));
    let mut object = json!({
        "map": {"x": {"a": 1, "b": 2}}, "list": [{"a": 1}, {"a": 1, "b": 2}], "any": {"x": 1, "y": {"z": 1}},
        "open": {"a": {"b": "1", "c": 1}, "d": {"e": 1}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "bad": 1}, "spec": {"x": 1}, "status": {}},
        "empty": {"x": 1},
    });
    let mut unknown = prune(&wrapped, &mut object);
    unknown.sort();
    assert_eq!(
        unknown,
        ["any.y.z", "empty.x", "list[1].b", "map.x.b", "open.a.c", "pod.metadata.bad", "pod.spec.x", "pod.status"]
    );
    assert_eq!(object["pod"], json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}));
    assert_eq!(object["open"], json!({"a": {"b": "1"}, "d": {"e": 1}}));
}

#[test]
fn defaults_nest_and_replace_nulls_that_are_not_nullable() {
    let wrapped = schema(&json!({"type": "object", "properties": {
        "a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}, "n": {"type": "integer", "nullable": true, "default": 2}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string", "default": "x"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
    }}));
    assert!(wrapped.has_defaults());
    let mut object = json!({"list": [{}, {"c": null}, {"c": "y"}], "map": {"k": null, "l": 1}});
    default(&wrapped, &mut object);
    assert_eq!(object["a"], json!({"b": 1, "n": 2}));
    assert_eq!(object["list"], json!([{"c": "x"}, {"c": "x"}, {"c": "y"}]));
    assert_eq!(object["map"], json!({"k": 7, "l": 1}));
    let mut kept = json!({"a": {"b": null, "n": null}});
    default(&wrapped, &mut kept);
    assert_eq!(kept["a"], json!({"b": 1, "n": null}));
}

#[test]
fn a_keyword_of_the_wrong_type_is_an_error_with_its_path() {
    let bad = json!({"type": "object", "properties": {"a": {"type": 1, "maxLength": "x", "pattern": "("}, "b": {"type": "thing", "items": []}}});
    let paths: Vec<String> = Schema::compile(&bad).expect_err("bad").into_iter().map(|error| error.path).collect();
    assert_eq!(
        paths,
        [
            "openAPIV3Schema.properties[a].type",
            "openAPIV3Schema.properties[a].pattern",
            "openAPIV3Schema.properties[a].maxLength",
            "openAPIV3Schema.properties[b].type",
            "openAPIV3Schema.properties[b].items",
        ]
    );
}

#[test]
fn rules_are_checked_and_transition_rules_only_on_update() {
    let with_rules = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "min must not be above max", "fieldPath": ".min"},
            {"rule": "self.kind == oldSelf.kind", "messageExpression": "'kind is ' + oldSelf.kind + ' for ever'", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.note) || self.note.size() < 5"},
        ],
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"}, "kind": {"type": "string"}, "note": {"type": "string"},
            "name": {"type": "string", "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}]},
        },
    }}});
    let old = json!({"spec": {"min": 1, "max": 2, "kind": "A"}});
    assert_eq!(errors(&with_rules, &old, None), Vec::<String>::new());
    let new = json!({"spec": {"min": 3, "max": 2, "kind": "B", "note": "too long", "name": "b"}});
    assert_eq!(
        errors(&with_rules, &new, Some(&old)),
        [
            "Invalid spec.min: Invalid value: min must not be above max",
            "Forbidden spec: Forbidden: kind is A for ever",
            "Invalid spec: Invalid value: failed rule: !has(self.note) || self.note.size() < 5",
            r#"Invalid spec.name: Invalid value: "b": failed rule: self.startsWith('a')"#,
        ]
    );
    // A rule that cannot be evaluated refuses the object rather than letting it pass.
    assert_eq!(
        errors(&with_rules, &json!({"spec": {"min": 3}}), None),
        ["Invalid spec: Invalid value: no such key: max evaluating rule: min must not be above max"]
    );
    // What the schema refuses already is not put to the rules.
    let found = errors(&with_rules, &json!({"spec": {"min": "x"}}), None);
    assert!(found.len() == 2 && found[1].contains("some validation rules were not checked"), "{found:?}");
}

#[test]
fn a_rule_that_is_not_covered_is_reported_with_its_path() {
    let with_rules = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.a.getFullYear() > 2025"},
        {"rule": "true", "messageExpression": "cel.bind(a, self.b, a)"},
    ]});
    let compiled = schema(&with_rules);
    let warnings: Vec<String> = compiled.not_enforced().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2);
    assert_eq!(
        warnings[0],
        "openAPIV3Schema.x-kubernetes-validations[0].rule: the expression \"self.a.getFullYear() > 2025\" is not enforced: \
         the function getFullYear() is not covered"
    );
    assert!(warnings[1].starts_with("openAPIV3Schema.x-kubernetes-validations[1].messageExpression: "));
}

#[test]
fn rules_that_never_end_run_out_of_budget() {
    let items: Vec<i64> = (0..200).collect();
    let with_rules = json!({"type": "object", "properties": {"v": {
        "type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}, {"rule": "true"}],
    }}});
    let found = errors(&with_rules, &json!({"v": items}), None);
    assert!(found.len() == 1 && found[0].contains("running out of cost budget"), "{found:?}");
}

/// Any JSON over a small alphabet of names, so that schemas and values meet.
fn any_json() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn name() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec!["a", "b", "c", "metadata", "kind", "apiVersion", "spec"])
}

/// Any structural schema: the keywords fit the type, but nothing else is promised.
fn any_schema() -> impl Strategy<Value = Value> {
    let common = (
        any::<bool>(),
        prop::option::of(any_json()),
        prop::sample::select(vec!["", "self == self", "oldSelf != self", "size(self) > 1"]),
    );
    let leaf = (prop::sample::select(vec!["string", "integer", "number", "boolean"]), common.clone(), 0u64..5).prop_map(
        |(kind, (nullable, default, rule), bound)| {
            json!({
                "type": kind, "nullable": nullable, "default": default, "maxLength": bound, "minimum": bound, "multipleOf": bound,
                "pattern": "^[a-b]*$", "x-kubernetes-validations": if rule.is_empty() { json!([]) } else { json!([{"rule": rule}]) },
            })
        },
    );
    leaf.prop_recursive(3, 16, 4, move |inner| {
        let flags = (any::<bool>(), any::<bool>(), prop::sample::select(vec!["atomic", "set", "map"]));
        prop_oneof![
            (prop::collection::btree_map(name(), inner.clone(), 0..4), flags.clone(), common.clone()).prop_map(
                |(properties, (preserve, embedded, _), (nullable, default, _))| {
                    json!({
                        "type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": preserve,
                        "x-kubernetes-embedded-resource": embedded, "nullable": nullable, "default": default, "required": ["a"],
                        "maxProperties": 3,
                    })
                }
            ),
            (inner.clone(), common.clone()).prop_map(|(values, (nullable, default, _))| {
                json!({"type": "object", "additionalProperties": values, "nullable": nullable, "default": default})
            }),
            (inner.clone(), flags).prop_map(|(items, (_, _, list_type))| {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": list_type, "x-kubernetes-list-map-keys": ["a"], "maxItems": 2})
            }),
            (inner.clone(), inner).prop_map(|(one, two)| json!({"x-kubernetes-int-or-string": true, "anyOf": [one, two], "not": {"enum": ["a"]}})),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_and_no_value_make_us_panic(schema_ in any_schema(), mut value in any_json(), old in any_json()) {
        let schema = schema(&schema_);
        prune(&schema, &mut value);
        default(&schema, &mut value);
        let created = validate(&schema, &value, None);
        let unchanged = validate(&schema, &value, Some(&value));
        let _ = validate(&schema, &value, Some(&old));
        let only_rules = |error: &api::field::Error| error.detail.contains("oldSelf");
        prop_assert!(unchanged.iter().all(|error| created.contains(error) || only_rules(error)));
    }

    #[test]
    fn no_json_is_a_schema_that_makes_us_panic(schema_ in any_json()) {
        let _ = Schema::compile(&schema_);
        let _ = Schema::compile(&json!({"type": "object", "properties": schema_.clone(), "items": schema_}));
    }

    #[test]
    fn pruning_twice_is_pruning_once(schema_ in any_schema(), mut value in any_json()) {
        let schema = schema(&schema_);
        prune(&schema, &mut value);
        let once = value.clone();
        prop_assert!(prune(&schema, &mut value).is_empty());
        prop_assert_eq!(value, once);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(schema_ in any_schema(), mut value in any_json()) {
        let schema = schema(&schema_);
        default(&schema, &mut value);
        let once = value.clone();
        default(&schema, &mut value);
        prop_assert_eq!(value, once);
    }
}
