use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{json as body, message, message_for};

fn checked(kind: &str, mut value: Value) -> (Value, Checked) {
    let version = if kind == "Lease" {
        "coordination.k8s.io/v1"
    } else if kind == "Deployment" {
        "apps/v1"
    } else if kind == "CustomResourceDefinition" {
        "apiextensions.k8s.io/v1"
    } else {
        "v1"
    };
    let found = check(message_for(version, kind).unwrap(), &mut value);
    (value, found)
}

fn accepted(kind: &str, value: Value) -> Value {
    let (value, found) = checked(kind, value);
    assert_eq!(found, Checked::default());
    value
}

fn refused(kind: &str, value: Value) -> String {
    let (_, found) = checked(kind, value);
    assert_eq!(found.wrong.len(), 1, "{found:?}");
    found.wrong.into_iter().next().unwrap()
}

#[test]
fn unknown_fields_are_dropped_and_named_with_their_path() {
    let (value, found) = checked(
        "ConfigMap",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "nope": 1}, "dataa": {"x": "y"}}),
    );
    assert_eq!(value, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    assert_eq!(found.unknown, ["dataa", "metadata.nope"]);
    let pod = json!({"spec": {"containers": [{"name": "c", "readinesProbe": {}}, {"ports": [{"x": 1}]}], "volumes": [{"emptydir": {}}]}});
    let (value, found) = checked("Pod", pod);
    assert_eq!(value, json!({"spec": {"containers": [{"name": "c"}, {"ports": [{}]}], "volumes": [{}]}}));
    assert_eq!(
        found.unknown,
        ["spec.containers[0].readinesProbe", "spec.containers[1].ports[0].x", "spec.volumes[0].emptydir"]
    );
}

#[test]
fn names_are_case_sensitive() {
    let (_, found) = checked("Pod", json!({"Spec": {}, "spec": {"NodeName": "n"}}));
    assert_eq!(found.unknown, ["Spec", "spec.NodeName"]);
    // One field of the API does begin with a capital letter.
    accepted("Node", json!({"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}}));
}

#[test]
fn kind_and_version_belong_to_the_object_only() {
    let (_, found) = checked("Deployment", json!({"kind": "Deployment", "spec": {"template": {"kind": "Pod"}}}));
    assert_eq!(found.unknown, ["spec.template.kind"]);
    assert_eq!(
        refused("Pod", json!({"kind": 1})),
        "json: cannot unmarshal number into Go struct field Pod.kind of type string"
    );
}

#[test]
fn sub_second_probe_fields_are_known() {
    let probe =
        json!({"httpGet": {"port": 80}, "periodMilliseconds": -800, "initialDelayMilliseconds": 1, "timeoutMilliseconds": 2});
    let pod = json!({"spec": {"containers": [{"name": "c", "readinessProbe": probe}]}});
    assert_eq!(accepted("Pod", pod.clone()), pod);
}

#[test]
fn null_is_no_value() {
    let value =
        json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": null}, "spec": null, "status": {"phase": null}});
    assert_eq!(accepted("Pod", value), json!({"metadata": {"name": "a"}, "status": {}}));
    assert_eq!(accepted("ConfigMap", json!({"data": {"a": null}})), json!({"data": {"a": ""}}));
    let pod = json!({"spec": {"containers": [null, {"args": [null]}]}});
    assert_eq!(accepted("Pod", pod), json!({"spec": {"containers": [{}, {"args": [""]}]}}));
}

#[test]
fn wrong_types_are_refused_in_the_words_of_kubernetes() {
    for (kind, value, wrong) in [
        (
            "ConfigMap",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string",
        ),
        (
            "ConfigMap",
            json!({"data": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        ("Pod", json!({"spec": []}), "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            "Pod",
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field Pod.spec.containers of type []v1.Container",
        ),
        (
            "Deployment",
            json!({"spec": {"replicas": "3"}}),
            "json: cannot unmarshal string into Go struct field Deployment.spec.replicas of type int32",
        ),
        (
            "Deployment",
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field Deployment.spec.replicas of type int32",
        ),
        (
            "Deployment",
            json!({"spec": {"paused": "true"}}),
            "json: cannot unmarshal string into Go struct field Deployment.spec.paused of type bool",
        ),
        ("Secret", json!({"data": {"a": "%%"}}), "illegal base64 data at input byte 0"),
    ] {
        assert_eq!(refused(kind, value), wrong);
    }
    let mut list = json!([]);
    let found = check(message("Pod").unwrap(), &mut list);
    assert_eq!(found.wrong, ["json: cannot unmarshal array into Go value of type v1.Pod"]);
    let found = Checked { wrong: vec!["json: x".to_owned()], ..Checked::default() };
    assert_eq!(
        found.refusal("apps/v1", "Deployment").unwrap(),
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: x"
    );
}

#[test]
fn integers_have_their_range() {
    let replicas = |n: Value| checked("Deployment", json!({"spec": {"replicas": n}})).1.wrong;
    assert_eq!(replicas(json!(i32::MAX)), Vec::<String>::new());
    let wrong = "json: cannot unmarshal number 2147483648 into Go struct field Deployment.spec.replicas of type int32";
    assert_eq!(replicas(json!(2_147_483_648i64)), [wrong]);
    let grace = |n: Value| checked("Pod", json!({"spec": {"terminationGracePeriodSeconds": n}})).1.wrong.len();
    assert_eq!((grace(json!(i64::MAX)), grace(json!(u64::MAX)), grace(json!(-1))), (0, 1, 0));
}

#[test]
fn ports_are_numbers_or_names() {
    let port =
        |port: Value| checked("Pod", json!({"spec": {"containers": [{"livenessProbe": {"tcpSocket": {"port": port}}}]}})).1;
    assert_eq!(port(json!(80)), Checked::default());
    assert_eq!(port(json!("http")), Checked::default());
    for bad in [json!(true), json!(1.5), json!(3_000_000_000i64), json!([80])] {
        assert_eq!(port(bad).wrong.len(), 1);
    }
}

#[test]
fn times_are_printed_in_utc_with_the_digits_of_their_type() {
    let meta = |text: &str| checked("Pod", json!({"metadata": {"deletionTimestamp": text}}));
    for (text, printed) in [
        ("2024-05-06T07:08:09Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T07:08:09.999Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T09:08:09+02:00", "2024-05-06T07:08:09Z"),
    ] {
        assert_eq!(meta(text).0["metadata"]["deletionTimestamp"], printed);
    }
    for bad in [
        "",
        "yesterday",
        "2024-05-06",
        "2024-05-06 07:08:09Z",
        "2024-05-06T07:08:09",
        "2024-13-06T07:08:09Z",
        "2024-05-06T07:08:60Z",
        "2024-05-06t07:08:09z",
        "20240506T070809Z",
        "2024-05-06T07:08:09Z[UTC]",
        "2024-05-06T07:08:09+0",
    ] {
        assert_eq!(meta(bad).1.wrong.len(), 1, "{bad}");
    }
    let lease = |text: &str| accepted("Lease", json!({"spec": {"renewTime": text}}))["spec"]["renewTime"].clone();
    assert_eq!(lease("2024-05-06T07:08:09.123456Z"), "2024-05-06T07:08:09.123456Z");
    assert_eq!(lease("2024-05-06T07:08:09Z"), "2024-05-06T07:08:09.000000Z");
    assert_eq!(lease("2024-05-06T07:08:09.1234567Z"), "2024-05-06T07:08:09.123456Z");
    assert_eq!(accepted("Pod", json!({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}})), json!({"metadata": {}}));
}

#[test]
fn quantities_are_canonical() {
    let limits = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1024Mi", "x": "0.5", "y": 0.25, "z": null}}}]}});
    let value = accepted("Pod", limits);
    let expected = json!({"cpu": "1", "memory": "1Gi", "x": "500m", "y": "250m", "z": "0"});
    assert_eq!(value.pointer("/spec/containers/0/resources/limits"), Some(&expected));
    let wrong = refused("Node", json!({"status": {"capacity": {"cpu": "lots"}}}));
    assert!(wrong.starts_with("quantities must match the regular expression"), "{wrong}");
}

#[test]
fn bytes_are_printed_without_line_ends() {
    assert_eq!(accepted("Secret", json!({"data": {"a": "Zm9v\nYmFy"}})), json!({"data": {"a": "Zm9vYmFy"}}));
}

#[test]
fn schemas_of_definitions_are_checked_too() {
    let schema = |schema: Value| {
        checked("CustomResourceDefinition", json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})).1
    };
    let good = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "default": {"free": [null]}}},
        "b": {"additionalProperties": true, "x-kubernetes-preserve-unknown-fields": true, "maximum": 1.5, "enum": [1, null]},
        "c": {"additionalProperties": {"type": "string"}}}});
    assert_eq!(schema(good), Checked::default());
    let found = schema(json!({"properties": {"a": {"items": {"tipe": "x"}}}}));
    assert_eq!(found.unknown, ["spec.versions[0].schema.openAPIV3Schema.properties.a.items.tipe"]);
    assert_eq!(schema(json!({"additionalProperties": "yes"})).wrong.len(), 1);
}

#[test]
fn metadata_of_custom_resources_is_checked() {
    let mut object = json!({"metadata": {"name": "g", "nope": 1, "creationTimestamp": null}, "spec": {"anything": null}});
    assert_eq!(check_metadata(&mut object).unknown, ["metadata.nope"]);
    assert_eq!(object, json!({"metadata": {"name": "g"}, "spec": {"anything": null}}));
    let wrong = check_metadata(&mut json!({"metadata": {"labels": {"a": 1}}})).wrong;
    assert_eq!(wrong, ["json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels.a of type string"]);
    assert_eq!(check_metadata(&mut json!({"metadata": 7})).wrong.len(), 1);
    assert_eq!(check_metadata(&mut json!({})), Checked::default());
}

#[test]
fn strict_errors_name_unknown_and_repeated_fields() {
    let text = br#"{"data": {"k": "1", "k": "2"}, "dataa": {"x": 1, "x": 2}, "metadata": {"name": "a", "nope": 1}}"#;
    let mut parsed = body::parse(text).unwrap();
    let found = check(message_for("v1", "ConfigMap").unwrap(), &mut parsed.value);
    assert_eq!(
        strict_error(&found.unknown, &parsed.duplicates).unwrap(),
        r#"strict decoding error: unknown field "dataa", unknown field "metadata.nope", duplicate field "data.k""#
    );
    assert_eq!(strict_findings(&[], &["data.k".to_owned()]), [r#"duplicate field "data.k""#]);
    assert_eq!(strict_error(&[], &[]), None);
}

#[test]
fn findings_are_bounded() {
    let many: Map<String, Value> = (0..1_000).map(|n| (format!("f{n}"), json!(1))).collect();
    let (value, found) = checked("ConfigMap", Value::Object(many));
    assert_eq!((value, found.unknown.len()), (json!({}), MAX_FINDINGS));
}

fn any_json() -> impl Strategy<Value = Value> {
    let names =
        ["spec", "metadata", "status", "containers", "ports", "readinessProbe", "data", "labels", "resources", "limits", "x"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,10}".prop_map(Value::from),
        Just(json!("2024-05-06T07:08:09Z")),
        Just(json!("1500m")),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names.to_vec()), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_checked_once_stays_as_it_is(mut value in any_json()) {
        let pod = message_for("v1", "Pod").unwrap();
        let first = check(pod, &mut value);
        if first.wrong.is_empty() {
            let once = value.clone();
            prop_assert_eq!(check(pod, &mut value), Checked::default());
            prop_assert_eq!(value, once);
        }
    }
}
