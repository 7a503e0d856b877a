//! Laws of the probe rules over arbitrary JSON, and the cases that the vectors do not have.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::field::{ErrorKind, Path};
use crate::{FeatureGates, Gate};

const KINDS: [&str; 12] = [
    "Pod",
    "PodTemplate",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "PodProbeMarker",
    "Service",
    "",
];

/// JSON whose member names are mostly those that the rules read, so that they get somewhere.
fn arbitrary() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1100i64..1100).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "Always", "HTTP", "http", "a--b", "8080", "X_Bad", "app"]).prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    let names = [
        "spec",
        "template",
        "jobTemplate",
        "containers",
        "initContainers",
        "ephemeralContainers",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "exec",
        "httpGet",
        "tcpSocket",
        "grpc",
        "command",
        "port",
        "ports",
        "scheme",
        "httpHeaders",
        "name",
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
        "terminationGracePeriodSeconds",
        "initialDelayMilliseconds",
        "periodMilliseconds",
        "timeoutMilliseconds",
        "restartPolicy",
        "readinessGates",
        "conditionType",
        "probes",
        "probe",
        "path",
        "service",
    ];
    let name = prop::sample::select(names.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(6, 60, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A pod spec whose probes are arbitrary.
fn pod_spec() -> impl Strategy<Value = Value> {
    let container = (arbitrary(), arbitrary(), arbitrary(), prop::bool::ANY).prop_map(|(a, b, c, sidecar)| {
        let policy = if sidecar { json!("Always") } else { Value::Null };
        json!({"name": "app", "restartPolicy": policy, "livenessProbe": a, "readinessProbe": b, "startupProbe": c})
    });
    prop::collection::vec(container, 0..3).prop_map(
        |containers| json!({"containers": containers, "initContainers": containers, "ephemeralContainers": containers}),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(128)))]

    #[test]
    fn defaulting_is_idempotent(mut spec in prop_oneof![arbitrary(), pod_spec()]) {
        default_pod_probes(&mut spec);
        let once = spec.clone();
        default_pod_probes(&mut spec);
        prop_assert_eq!(once, spec);
    }

    #[test]
    fn every_rule_is_total(mut object in arbitrary(), old in arbitrary(), kind in prop::sample::select(KINDS.to_vec())) {
        let off = FeatureGates::default().with(Gate::SubSecondProbes, false);
        removed_sub_second_fields(kind, &old, &object);
        probe_warnings(kind, &object, &FeatureGates::default().with(Gate::SubSecondProbeTimeouts, true));
        drop_disabled_probe_fields(kind, &mut object, Some(&old), &off);
        drop_disabled_template_fields(&mut object, &off);
        default_pod_probes(&mut object);
        validate_pod_probes(&object, &Path::root());
        for type_ in ProbeType::ALL {
            validate_probe(&object, type_, &Path::root());
        }
    }

    #[test]
    fn what_is_dropped_on_create_is_all_there_was(spec in pod_spec(), mut gates_bits in 0u8..4) {
        let mut gates = FeatureGates::default();
        for gate in [Gate::SubSecondProbes, Gate::SubSecondProbeTimeouts] {
            gates = gates.with(gate, gates_bits & 1 == 1);
            gates_bits >>= 1;
        }
        let mut pod = json!({"spec": spec});
        let mut all = sub_second_fields("Pod", &pod);
        let mut parts = drop_disabled_probe_fields("Pod", &mut pod, None, &gates);
        parts.extend(sub_second_fields("Pod", &pod));
        all.sort();
        parts.sort();
        prop_assert_eq!(all, parts);
    }
}

fn kinds(errors: &[crate::field::Error]) -> Vec<(String, ErrorKind)> {
    errors.iter().map(|error| (error.path.clone(), error.kind)).collect()
}

#[test]
fn probes_of_init_and_ephemeral_containers_are_refused_whole() {
    let bad = json!({"periodSeconds": -1});
    let spec = json!({
        "initContainers": [{"name": "a", "startupProbe": bad}, {"name": "b", "restartPolicy": "Always", "startupProbe": bad}],
        "ephemeralContainers": [{"name": "c", "livenessProbe": bad}],
    });
    assert_eq!(
        kinds(&validate_pod_probes(&spec, &Path::new("spec"))),
        [
            ("spec.initContainers[0].startupProbe".to_owned(), ErrorKind::Forbidden),
            ("spec.initContainers[1].startupProbe".to_owned(), ErrorKind::Required),
            ("spec.initContainers[1].startupProbe.periodSeconds".to_owned(), ErrorKind::Invalid),
            ("spec.ephemeralContainers[0].livenessProbe".to_owned(), ErrorKind::Forbidden),
        ]
    );
}

#[test]
fn a_readiness_gate_is_a_qualified_name() {
    let spec = json!({"readinessGates": [{"conditionType": "example.com/lb"}, {"conditionType": "a b"}, {}]});
    let path = |index| format!("spec.readinessGates[{index}].conditionType");
    assert_eq!(
        kinds(&validate_pod_probes(&spec, &Path::new("spec"))),
        [(path(1), ErrorKind::Invalid), (path(2), ErrorKind::Invalid)]
    );
}

#[test]
fn messages_state_limit_and_value() {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 1, "periodMilliseconds": -850});
    let message = |type_| validate_probe(&probe, type_, &Path::root())[0].message();
    assert!(message(ProbeType::Readiness).contains("effective period 150ms is below the minimum of 200ms for httpGet"));
    assert!(message(ProbeType::Liveness).contains("only allowed on readiness and startup probes"));
}

#[test]
fn every_template_kind_loses_its_fields() {
    let off = FeatureGates::default().with(Gate::SubSecondProbes, false);
    for kind in KINDS {
        let Some(members) = pod_spec_path(kind) else { continue };
        let mut object = Value::Null;
        let probe = json!({"periodMilliseconds": 0});
        json::object_mut(&mut object, members)
            .insert("ephemeralContainers".to_owned(), json!([{"name": "c", "startupProbe": probe}]));
        let path = format!("{}.ephemeralContainers[0].startupProbe.periodMilliseconds", members.join("."));
        assert_eq!(drop_disabled_probe_fields(kind, &mut object, None, &off), [path], "{kind}");
    }
}

#[test]
fn moving_a_container_removes_no_field() {
    let fast = json!({"name": "fast", "readinessProbe": {"periodMilliseconds": -500}});
    let plain = json!({"name": "plain"});
    let pod = |containers: [&Value; 2]| json!({"spec": {"containers": containers}});
    let (old, moved) = (pod([&fast, &plain]), pod([&plain, &fast]));
    assert_eq!(removed_sub_second_fields("Pod", &old, &moved), Vec::<String>::new());
    let erased = pod([&json!({"name": "fast", "readinessProbe": {}}), &plain]);
    assert_eq!(removed_sub_second_fields("Pod", &old, &erased), ["spec.containers[0].readinessProbe.periodMilliseconds"]);
}

#[test]
fn templates_compare_equal_once_a_gate_is_off() {
    let off = FeatureGates::default().with(Gate::SubSecondProbes, false);
    let mut stored = json!({"spec": {"containers": [{"readinessProbe": {"periodMilliseconds": -500, "periodSeconds": 1}}]}});
    let mut child = json!({"spec": {"containers": [{"readinessProbe": {"periodSeconds": 1}}]}});
    drop_disabled_template_fields(&mut stored, &off);
    drop_disabled_template_fields(&mut child, &off);
    assert_eq!(stored, child);
}

#[test]
fn surprises_are_warned_of() {
    let on = FeatureGates::default().with(Gate::SubSecondProbeTimeouts, true);
    let pod = |probe: &str, value: Value| json!({"spec": {"containers": [{"name": "app", "ports": [{"name": "web", "containerPort": 80}], probe: value}]}});
    let count = |probe: &str, value: Value, gates: &FeatureGates| probe_warnings("Pod", &pod(probe, value), gates).len();
    let port = |port: Value| json!({"httpGet": {"port": port}});
    assert_eq!(count("livenessProbe", port(json!("metrics")), &on), 1);
    assert_eq!(count("livenessProbe", port(json!("web")), &on), 0);
    assert_eq!(count("livenessProbe", port(json!(8080)), &on), 0);

    let startup =
        |failures| json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "periodMilliseconds": 0, "failureThreshold": failures});
    assert_eq!(count("startupProbe", startup(9), &on), 1);
    assert_eq!(count("startupProbe", startup(10), &on), 0);
    assert_eq!(count("readinessProbe", startup(9), &on), 0);
    let longer = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "periodMilliseconds": 400});
    assert_eq!(count("startupProbe", longer, &on), 0);

    let fast = |offset: Value| json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "periodMilliseconds": -500, "timeoutMilliseconds": offset});
    assert_eq!(count("readinessProbe", fast(json!(null)), &on), 1);
    assert_eq!(count("readinessProbe", fast(json!(-500)), &on), 0);
    assert_eq!(count("readinessProbe", fast(json!(null)), &FeatureGates::default()), 0);
}
