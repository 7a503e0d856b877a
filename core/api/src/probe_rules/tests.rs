//! Cases that the vectors do not have.

use serde_json::json;

use super::*;
use crate::field::{ErrorKind, Path};
use crate::{FeatureGates, Gate};

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
    for kind in crate::laws::KINDS {
        let Some(members) = pod_spec_path(kind) else { continue };
        let mut object = Value::Null;
        let probe = json!({"periodMilliseconds": 0});
        json::object_mut(&mut object, members)
            .insert("ephemeralContainers".to_owned(), json!([{"name": "c", "startupProbe": probe}]));
        let path = format!("{}.ephemeralContainers[0].startupProbe.periodMilliseconds", members.join("."));
        let warning = format!("{path}: dropped, because the feature gate SubSecondProbes is off");
        assert_eq!(disabled_field_warnings(kind, &object, None, &off), [warning], "{kind}");
        assert!(disabled_field_warnings(kind, &object, Some(&object), &off).is_empty(), "{kind}: it is in use");
        assert_eq!(drop_disabled_probe_fields(kind, &mut object, None, &off), [path], "{kind}");
        assert!(disabled_field_warnings(kind, &object, None, &off).is_empty(), "{kind}");
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
