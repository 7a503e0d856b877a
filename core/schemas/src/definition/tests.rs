use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use super::*;
use kinds::resource::builtins;
use machine::Time;

fn crd(plural: &str, kind: &str, schema: Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": format!("{plural}.x.test")},
        "spec": {
            "group": "x.test", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    default_definition(&mut crd);
    crd
}

fn gadgets(schema: Value) -> Value {
    crd("gadgets", "Gadget", schema)
}

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns `Kind path` of every error.
fn errors(crd: &Value) -> Vec<String> {
    validate_definition(crd, None).iter().map(|error| format!("{} {}", error.kind.name(), error.path)).collect()
}

fn errors_of_schema(schema: Value) -> Vec<String> {
    errors(&gadgets(schema)).into_iter().map(|error| error.replace("spec.versions[0].schema.openAPIV3Schema", "S")).collect()
}

fn field(schema: Value) -> Value {
    json!({"type": "object", "properties": {"f": schema}})
}

#[test]
fn a_definition_is_defaulted() {
    let crd = gadgets(open());
    assert_eq!(
        crd["spec"]["names"],
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"})
    );
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(errors(&crd), Vec::<String>::new());
    let mut moved = crd.clone();
    moved["spec"]["versions"][0]["storage"] = json!(false);
    moved["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": open()}}));
    default_definition(&mut moved);
    assert_eq!(moved["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(validate_definition(&moved, Some(&crd)), []);
}

#[test]
fn the_name_is_plural_dot_group() {
    let mut wrong = gadgets(open());
    wrong["metadata"]["name"] = json!("wrong.x.test");
    assert_eq!(errors(&wrong), ["Invalid metadata.name"]);
}

#[test]
fn a_structural_schema_is_needed() {
    let mut without = gadgets(open());
    without["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    assert_eq!(errors(&without), ["Required spec.versions[0].schema.openAPIV3Schema"]);
    let untyped = json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "string"}}}}});
    assert_eq!(errors(&gadgets(untyped)), ["Required spec.versions[0].schema.openAPIV3Schema.properties[spec].type"]);
}

#[test]
fn every_rule_of_structural_schemas_has_its_path() {
    let cases = [
        (json!({}), "Required S.type"),
        (json!({"type": "string"}), "Invalid S.type"),
        (json!({"type": "object", "nullable": true}), "Forbidden S.nullable"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "Forbidden S.additionalProperties"),
        (field(json!({"type": "array"})), "Required S.properties[f].items"),
        (field(json!({"type": "array", "items": {}})), "Required S.properties[f].items.type"),
        (field(json!({"type": "object", "additionalProperties": {}})), "Required S.properties[f].additionalProperties.type"),
        (field(json!({"type": "thing"})), "NotSupported S.properties[f].type"),
        (field(json!({"type": "null"})), "Forbidden S.properties[f].type"),
        (field(json!({"type": "string", "anyOf": [{"type": "string"}]})), "Forbidden S.properties[f].anyOf[0].type"),
        (field(json!({"type": "string", "not": {"nullable": true}})), "Forbidden S.properties[f].not.nullable"),
        (json!({"type": "object", "allOf": [{"properties": {"a": {"maxLength": 1}}}]}), "Required S.properties[a]"),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object"}}, "oneOf": [{"properties": {"metadata": {}}}]}),
            "Forbidden S.oneOf[0].properties[metadata]",
        ),
        (
            field(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})),
            "Invalid S.properties[f].x-kubernetes-preserve-unknown-fields",
        ),
        (
            field(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
            "Invalid S.properties[f].x-kubernetes-preserve-unknown-fields",
        ),
        (field(json!({"type": "object", "x-kubernetes-embedded-resource": true})), "Required S.properties[f].properties"),
        (
            field(json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})),
            "Required S.properties[f].type",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "Forbidden S.properties[metadata]",
        ),
        (json!({"type": "object", "properties": {"kind": {"type": "integer"}}}), "Invalid S.properties[kind].type"),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}}),
            "Forbidden S.properties[metadata].default",
        ),
        (
            field(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})),
            "Forbidden S.properties[f].uniqueItems",
        ),
        (field(json!({"type": "string", "$ref": "#/x"})), "Forbidden S.properties[f].$ref"),
        (
            field(
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            "Forbidden S.properties[f].additionalProperties",
        ),
        (field(json!({"type": "string", "pattern": "("})), "Invalid S.properties[f].pattern"),
        (field(json!({"type": "string", "x-kubernetes-list-type": "set"})), "Invalid S.properties[f].type"),
        (
            field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})),
            "Invalid S.properties[f].items.x-kubernetes-map-type",
        ),
        (
            field(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"})),
            "NotSupported S.properties[f].x-kubernetes-list-type",
        ),
        (
            field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
            "Required S.properties[f].x-kubernetes-list-map-keys",
        ),
        (
            field(
                json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            ),
            "Invalid S.properties[f].x-kubernetes-list-map-keys",
        ),
        (
            field(
                json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            ),
            "Required S.properties[f].items.properties[a].default",
        ),
        (field(json!({"type": "string", "x-kubernetes-map-type": "atomic"})), "Invalid S.properties[f].type"),
        (field(json!({"type": "object", "x-kubernetes-map-type": "x"})), "NotSupported S.properties[f].x-kubernetes-map-type"),
        (field(json!({"type": "string", "default": 1})), "Invalid S.properties[f].default"),
        (field(json!({"type": "object", "default": {"x": 1}})), "Invalid S.properties[f].default"),
        (
            field(json!({"type": "string", "x-kubernetes-validations": [{"rule": " "}]})),
            "Required S.properties[f].x-kubernetes-validations[0].rule",
        ),
        (
            field(json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "reason": "Bad"}]})),
            "NotSupported S.properties[f].x-kubernetes-validations[0].reason",
        ),
        (
            field(json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]})),
            "Invalid S.properties[f].x-kubernetes-validations[0].message",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(errors_of_schema(schema.clone()), [expected], "{schema}");
    }
}

#[test]
fn schemas_of_real_definitions_are_accepted() {
    for schema in [
        open(),
        field(json!({"x-kubernetes-int-or-string": true})),
        field(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        field(
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^1"}]}),
        ),
        field(json!({"x-kubernetes-preserve-unknown-fields": true})),
        field(json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3})),
        field(json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})),
        field(
            json!({"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}, "oneOf": [{"required": ["a"]}]}),
        ),
        field(
            json!({"type": "array", "default": [], "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        ),
        json!({"type": "object", "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {"type": "object", "x-kubernetes-validations": [{"rule": "has(self.a)", "message": "m", "fieldPath": ".a"}], "properties": {"a": {"type": "string"}}}}}),
    ] {
        assert_eq!(errors_of_schema(schema.clone()), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn everything_outside_the_schema_is_checked_too() {
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut crd = gadgets(field(json!({"type": "string"})));
        change(&mut crd);
        errors(&crd)
    };
    assert_eq!(broken(&|crd| crd["spec"]["scope"] = json!("Global")), ["NotSupported spec.scope"]);
    assert_eq!(broken(&|crd| drop(crd["spec"].as_object_mut().unwrap().remove("scope"))), ["Required spec.scope"]);
    assert_eq!(broken(&|crd| crd["spec"]["group"] = json!("test")), ["Invalid metadata.name", "Invalid spec.group"]);
    assert_eq!(broken(&|crd| crd["spec"]["names"]["kind"] = json!("Gad get")), ["Invalid spec.names.kind"]);
    assert_eq!(broken(&|crd| crd["spec"]["names"]["listKind"] = json!("Gadget")), ["Invalid spec.names.listKind"]);
    assert_eq!(broken(&|crd| crd["spec"]["names"]["shortNames"] = json!(["ok", "B"])), ["Invalid spec.names.shortNames[1]"]);
    assert_eq!(
        broken(&|crd| crd["spec"]["conversion"] = json!({"strategy": "Webhook"})),
        ["NotSupported spec.conversion.strategy"]
    );
    assert_eq!(broken(&|crd| crd["spec"]["preserveUnknownFields"] = json!(true)), ["Invalid spec.preserveUnknownFields"]);
    assert_eq!(broken(&|crd| crd["spec"]["versions"][0]["storage"] = json!(false)), ["Invalid spec.versions"]);
    assert_eq!(broken(&|crd| crd["spec"]["versions"][0]["name"] = json!("V1")).len(), 3);
    assert_eq!(
        broken(&|crd| {
            let version = crd["spec"]["versions"][0].clone();
            crd["spec"]["versions"].as_array_mut().unwrap().push(version);
        }),
        ["Invalid spec.versions", "Invalid spec.versions"]
    );
    assert_eq!(
        broken(&|crd| crd["spec"]["versions"][0]["deprecationWarning"] = json!("x")),
        ["Invalid spec.versions[0].deprecationWarning"]
    );
    assert_eq!(
        broken(&|crd| crd["spec"]["versions"][0]["subresources"] =
            json!({"scale": {"specReplicasPath": ".status.x", "labelSelectorPath": ".x"}})),
        [
            "Invalid spec.versions[0].subresources.scale.specReplicasPath",
            "Required spec.versions[0].subresources.scale.statusReplicasPath",
            "Invalid spec.versions[0].subresources.scale.labelSelectorPath",
        ]
    );
    assert_eq!(
        broken(&|crd| crd["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{"type": "thing", "jsonPath": "f"}, {"name": "N", "type": "string", "format": "x", "jsonPath": ".a["}])),
        [
            "Required spec.versions[0].additionalPrinterColumns[0].name",
            "Invalid spec.versions[0].additionalPrinterColumns[0].type",
            "Invalid spec.versions[0].additionalPrinterColumns[0].jsonPath",
            "Invalid spec.versions[0].additionalPrinterColumns[1].format",
            "Invalid spec.versions[0].additionalPrinterColumns[1].jsonPath",
        ]
    );
    assert_eq!(
        broken(
            &|crd| crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".f"}, {"jsonPath": ".f"}, {"jsonPath": ".g"}, {"jsonPath": ".metadata.name"}, {"jsonPath": ".f[0]"}, {}])
        ),
        [
            "Duplicate spec.versions[0].selectableFields[1].jsonPath",
            "Invalid spec.versions[0].selectableFields[2].jsonPath",
            "Invalid spec.versions[0].selectableFields[3].jsonPath",
            "Invalid spec.versions[0].selectableFields[4].jsonPath",
            "Required spec.versions[0].selectableFields[5].jsonPath",
        ]
    );
    let mut protected = gadgets(open());
    protected["spec"]["group"] = json!("x.k8s.io");
    protected["metadata"]["name"] = json!("gadgets.x.k8s.io");
    assert_eq!(errors(&protected), ["Required metadata.annotations[api-approved.kubernetes.io]"]);
    protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/1"});
    assert_eq!(errors(&protected), Vec::<String>::new());
}

#[test]
fn what_objects_depend_on_cannot_change() {
    let mut old = gadgets(open());
    old["status"] = accept_names(&old, [], &[], Time::default());
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Other");
    let paths: Vec<String> = validate_definition(&new, Some(&old)).into_iter().map(|error| error.path).collect();
    assert_eq!(paths, ["spec.scope", "spec.names.kind"]);
    let mut removed = old.clone();
    removed["spec"]["versions"][0]["name"] = json!("v2");
    default_definition(&mut removed);
    let paths: Vec<String> = validate_definition(&removed, Some(&old)).into_iter().map(|error| error.path).collect();
    assert_eq!(paths, ["status.storedVersions[0]"]);
}

#[test]
fn names_are_accepted_and_the_definition_is_established() {
    let mut crd = gadgets(open());
    crd["spec"]["names"]["shortNames"] = json!(["gd"]);
    crd["spec"]["names"]["categories"] = json!(["toys"]);
    let now = api::Timestamp::parse("2026-01-31T08:00:00Z").unwrap().0;
    let status = accept_names(&crd, [], &[], now);
    assert_eq!(status["acceptedNames"], crd["spec"]["names"]);
    assert_eq!(
        status["conditions"],
        json!([
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": "2026-01-31T08:00:00Z"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": "2026-01-31T08:00:00Z"},
        ])
    );
    assert_eq!(status["storedVersions"], json!(["v1"]));
    crd["status"] = status.clone();
    assert_eq!(accept_names(&crd, [&crd.clone()], &[], Time::default()), status, "nothing changes the second time");
}

#[test]
fn a_name_that_is_in_use_is_refused() {
    let mut first = gadgets(open());
    first["spec"]["names"]["shortNames"] = json!(["gd"]);
    first["status"] = accept_names(&first, [], &[], Time::default());
    let reason = |crd: &Value, others: &[&Value]| {
        let status = accept_names(crd, others.iter().copied(), &[], Time::default());
        let condition = status["conditions"][0].clone();
        let established = status["conditions"][1]["status"].clone();
        (condition["reason"].as_str().unwrap().to_owned(), condition["message"].as_str().unwrap().to_owned(), established)
    };
    let clash = |change: &dyn Fn(&mut Value)| {
        let mut second = crd("widgets", "Widget", open());
        change(&mut second["spec"]["names"]);
        reason(&second, &[&first])
    };
    assert_eq!(clash(&|_| {}).0, "NoConflicts");
    assert_eq!(
        clash(&|names| names["kind"] = json!("Gadget")),
        ("KindConflict".to_owned(), "\"Gadget\" is already in use".to_owned(), json!("False"))
    );
    assert_eq!(clash(&|names| names["listKind"] = json!("GadgetList")).0, "ListKindConflict");
    assert_eq!(clash(&|names| names["singular"] = json!("gadget")).0, "SingularConflict");
    assert_eq!(clash(&|names| names["shortNames"] = json!(["wd", "gd"])).0, "ShortNamesConflict");
    let mut elsewhere = first.clone();
    elsewhere["spec"]["group"] = json!("y.test");
    elsewhere["metadata"]["name"] = json!("gadgets.y.test");
    elsewhere.as_object_mut().unwrap().remove("status");
    assert_eq!(reason(&elsewhere, &[&first]).0, "NoConflicts", "another group, other names");

    let all = builtins();
    let all: Vec<&Resource> = all.iter().map(Arc::as_ref).collect();
    let mut lease = crd("leasings", "Lease", open());
    lease["spec"]["group"] = json!("coordination.k8s.io");
    assert_eq!(
        accept_names(&lease, [], &all, Time::default())["conditions"][0]["reason"],
        "ListKindConflict",
        "the last one is named"
    );
}

#[test]
fn a_compiled_definition_says_what_is_served() {
    let mut crd = gadgets(field(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.getFullYear() == 1"}]})));
    crd["spec"]["names"]["shortNames"] = json!(["gd"]);
    crd["spec"]["versions"][0]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    crd["spec"]["versions"].as_array_mut().unwrap().extend([
        json!({"name": "v2alpha1", "served": true, "storage": false, "deprecated": true, "schema": {"openAPIV3Schema": open()}}),
        json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": open()}}),
        json!({"name": "v0", "served": false, "storage": false, "schema": {"openAPIV3Schema": open()}}),
    ]);
    assert_eq!(errors(&crd), Vec::<String>::new());
    let definition = Definition::compile(&crd).unwrap();
    let served = definition.versions.iter().filter(|version| version.served);
    let resources: Vec<_> = served.map(|version| definition.resource(version)).collect();
    let versions: Vec<&str> = resources.iter().map(|resource| resource.version.as_str()).collect();
    assert_eq!(versions, ["v2", "v1", "v2alpha1"]);
    let v1 = &resources[1];
    assert!(v1.custom && v1.has_status() && v1.subresource("scale").is_some() && !v1.unconditional_update && v1.generation);
    assert_eq!((v1.list_kind.as_str(), v1.short_names.as_slice()), ("GadgetList", &["gd".to_owned()][..]));
    assert_eq!(definition.version("v2alpha1").unwrap().deprecation.as_deref(), Some("x.test/v2alpha1 Gadget is deprecated"));
    assert!(!definition.established);
    assert_eq!(
        definition_warnings(&crd),
        [
            "spec.versions[0].schema.openAPIV3Schema.properties[f].x-kubernetes-validations[0].rule: the expression \"self.getFullYear() == 1\" is not enforced: the function getFullYear() is not covered"
        ]
    );
}

/// Any JSON made of the words that definitions are made of.
fn any_json() -> impl Strategy<Value = Value> {
    let words = vec![
        "type",
        "properties",
        "items",
        "object",
        "array",
        "string",
        "anyOf",
        "allOf",
        "not",
        "default",
        "x-kubernetes-list-type",
        "map",
        "x-kubernetes-list-map-keys",
        "metadata",
        "kind",
        "a",
        "x-kubernetes-validations",
        "rule",
        "additionalProperties",
        "nullable",
        "spec",
        "versions",
        "schema",
        "openAPIV3Schema",
        "name",
        "names",
        "status",
        "subresources",
        "scale",
        "selectableFields",
        "jsonPath",
        ".a",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        prop::sample::select(words.clone()).prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 64, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            3 => prop::collection::btree_map(prop::sample::select(words.clone()), inner, 0..5).prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #[test]
    fn no_definition_makes_us_panic(mut crd in any_json(), old in any_json()) {
        validate_definition(&crd, Some(&old));
        default_definition(&mut crd);
        validate_definition(&crd, None);
        definition_warnings(&crd);
        accept_names(&crd, [&old], &[], Time::default());
        let _ = Definition::compile(&crd);
    }

    #[test]
    fn what_validation_accepts_compiles(schema in any_json(), value in any_json()) {
        let crd = gadgets(json!({"type": "object", "properties": {"f": {"type": "object", "properties": schema}}}));
        if validate_definition(&crd, None).is_empty() {
            let definition = Definition::compile(&crd).unwrap();
            let schema = &definition.version("v1").unwrap().schema;
            let mut object = json!({"f": value});
            default(schema, &mut object);
            prune(schema, &mut object);
            validate(schema, &object, None);
        }
    }
}
