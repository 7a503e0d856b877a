//! Laws of the rules, over any JSON and over objects that are nearly right.
//!
//! Rules are total: whatever a client sends gets an answer. Defaulting and dropping twice is the same as once, and what is
//! dropped is really gone.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{cases, odd};

use crate::endpointslice_rules as slices;
use crate::field::Path;
use crate::probe_rules::{self as probes, ProbeType};
use crate::{FeatureGates, Gate, config_node_rules, duration, ip, marker_rules, names};

/// Member names and texts that the rules read.
const WORDS: &str = "\
    spec status metadata template jobTemplate containers initContainers ephemeralContainers name livenessProbe \
    readinessProbe startupProbe probe probes exec httpGet tcpSocket grpc command port ports scheme path service \
    httpHeaders value initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold \
    terminationGracePeriodSeconds initialDelayMilliseconds periodMilliseconds timeoutMilliseconds restartPolicy \
    readinessGates conditionType addressType endpoints addresses conditions ready serving terminating hints forZones \
    deprecatedTopology protocol selector matchLabels matchExpressions key operator values markerPolicy state labels \
    annotations workerLatencyProfile workerLatencyProfileStatus owner type Always HTTP 8080 In Succeeded Failed IPv4 IPv6 \
    FQDN 10.0.0.1 ::1 Default a--b X_Bad http -10";

/// Kinds that have probes, and two that have none.
pub(crate) const KINDS: [&str; 12] = [
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

fn any_json() -> impl Strategy<Value = Value> + Clone {
    odd::json(WORDS)
}

fn probe() -> Value {
    json!({
        "httpGet": {"port": 8080, "path": "/a", "scheme": "HTTP", "httpHeaders": [{"name": "A", "value": "b"}]},
        "periodSeconds": 1, "periodMilliseconds": -500, "initialDelayMilliseconds": 200, "timeoutMilliseconds": -100,
        "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3, "initialDelaySeconds": 0, "terminationGracePeriodSeconds": 5,
    })
}

fn pod_spec() -> impl Strategy<Value = Value> {
    let container = json!({"name": "app", "ports": [{"name": "http", "containerPort": 80}], "restartPolicy": "Always",
        "livenessProbe": probe(), "readinessProbe": {"exec": {"command": ["x"]}, "periodMilliseconds": 300},
        "startupProbe": {"grpc": {"port": 1, "service": "s"}}});
    let spec = json!({"containers": [container], "initContainers": [container], "ephemeralContainers": [{"name": "e"}],
        "readinessGates": [{"conditionType": "a/b"}]});
    odd::nearly(spec, WORDS)
}

/// An object of a kind that has probes, nearly right.
fn with_probes() -> impl Strategy<Value = (&'static str, Value)> {
    (select(&KINDS[..]), pod_spec(), any_json()).prop_map(|(kind, spec, other)| {
        let object = match kind {
            "Pod" => json!({"spec": spec}),
            "PodTemplate" => json!({"template": {"spec": spec}}),
            "CronJob" => json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}),
            "PodProbeMarker" => json!({"spec": {"probes": [{"name": "a", "probe": probe()}, {"probe": other}]}}),
            "" => other,
            _ => json!({"spec": {"template": {"spec": spec}}}),
        };
        (kind, object)
    })
}

fn slice() -> impl Strategy<Value = Value> {
    let endpoint = json!({"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {"ready": true, "serving": true, "terminating": false},
        "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]}, "nodeName": "n", "hostname": "h",
        "deprecatedTopology": {"a": "b"}, "targetRef": {"kind": "Pod", "name": "p"}});
    let slice = json!({"metadata": {"name": "s", "labels": {"a": "b"}}, "addressType": "IPv4", "endpoints": [endpoint, endpoint],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}, {"port": 81, "name": "b"}]});
    odd::nearly(slice, WORDS)
}

fn marker() -> impl Strategy<Value = Value> {
    let marker = json!({"metadata": {"name": "m"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "probes": [{"name": "Idle", "containerName": "c", "probe": probe(), "podConditionType": "game.io/idle", "markerPolicy": [
            {"state": "Succeeded", "labels": {"idle": "true"}, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}},
            {"state": "Failed", "labels": {"idle": "false"}, "annotations": {"a": "b"}}]}]}});
    odd::nearly(marker, WORDS)
}

fn config_node() -> impl Strategy<Value = Value> {
    let condition = json!({"owner": "MachineConfigOperator", "type": "Progressing", "status": "True", "reason": "r",
        "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let node = json!({"metadata": {"name": "cluster"}, "spec": {"workerLatencyProfile": "Default", "cgroupMode": "v2"},
        "status": {"workerLatencyProfileStatus": {"conditions": [condition, condition],
            "relatedObjects": [{"group": "", "resource": "nodes", "name": "n"}]}}});
    odd::nearly(node, WORDS)
}

/// Every way to set the gates.
fn gates() -> impl Strategy<Value = FeatureGates> {
    prop::collection::vec(any::<bool>(), Gate::ALL.len())
        .prop_map(|on| Gate::ALL.into_iter().zip(on).fold(FeatureGates::default(), |gates, (gate, on)| gates.with(gate, on)))
}

/// Reads a value as a view, if it can be; what matters is that there is an answer.
fn read<T: DeserializeOwned>(value: &Value) {
    let _ = T::deserialize(value);
}

fn twice(mut object: Value, change: impl Fn(&mut Value)) -> (Value, Value) {
    change(&mut object);
    let once = object.clone();
    change(&mut object);
    (once, object)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(128)))]

    #[test]
    fn defaulting_twice_is_defaulting_once(any in any_json(), spec in pod_spec(), slice in slice()) {
        for rule in [probes::default_pod_probes, probes::default_probe, probes::default_http_get, slices::default_endpoint_slice] {
            for object in [&any, &spec, &spec["containers"][0]["livenessProbe"], &slice] {
                let (once, again) = twice(object.clone(), rule);
                prop_assert_eq!(once, again);
            }
        }
    }

    #[test]
    fn dropping_twice_is_dropping_once((kind, object) in with_probes(), (_, old) in with_probes(), slice in slice(), gates in gates()) {
        for old in [None, Some(&old)] {
            let (once, again) = twice(object.clone(), |object| { probes::drop_disabled_probe_fields(kind, object, old, &gates); });
            prop_assert_eq!(once, again);
            let (once, again) = twice(slice.clone(), |slice| slices::drop_disabled_endpoint_fields(slice, old, &gates));
            prop_assert_eq!(once, again);
        }
    }

    #[test]
    fn writing_back_what_is_stored_drops_nothing((kind, object) in with_probes(), slice in slice(), gates in gates()) {
        let mut same = object.clone();
        prop_assert_eq!(probes::drop_disabled_probe_fields(kind, &mut same, Some(&object), &gates), Vec::<String>::new());
        prop_assert_eq!(&same, &object);
        prop_assert_eq!(probes::removed_sub_second_fields(kind, &object, &same), Vec::<String>::new());
        let mut same = slice.clone();
        slices::drop_disabled_endpoint_fields(&mut same, Some(&slice), &gates);
        prop_assert_eq!(&same, &slice);
        prop_assert!(!slices::raises_endpoint_slice_generation(&same, &slice));
    }

    #[test]
    fn what_is_dropped_on_create_is_what_the_gates_say((kind, mut object) in with_probes(), mut slice in slice(), gates in gates()) {
        let mut before = probes::sub_second_fields(kind, &object);
        let mut dropped = probes::drop_disabled_probe_fields(kind, &mut object, None, &gates);
        let left = probes::sub_second_fields(kind, &object);
        for (field, gate) in [
            ("periodMilliseconds", Gate::SubSecondProbes),
            ("initialDelayMilliseconds", Gate::SubSecondProbes),
            ("timeoutMilliseconds", Gate::SubSecondProbeTimeouts),
        ] {
            prop_assert!(gates.enabled(gate) || !left.iter().any(|path| path.ends_with(field)), "{:?}", left);
        }
        dropped.extend(left);
        before.sort();
        dropped.sort();
        prop_assert_eq!(before, dropped);

        slices::drop_disabled_endpoint_fields(&mut slice, None, &gates);
        let text = slice["endpoints"].to_string();
        prop_assert!(!text.contains("\"deprecatedTopology\":{\"a\":\"b\"}"), "{}", text);
        if !gates.enabled(Gate::EndpointSliceTerminatingCondition) {
            let conditions = slice["endpoints"].as_array().into_iter().flatten().map(|endpoint| &endpoint["conditions"]);
            prop_assert!(conditions.into_iter().all(|all| all.get("serving").is_none() && all.get("terminating").is_none()));
        }
    }

    #[test]
    fn dropping_defaulting_and_validating_any_object_is_an_answer(
        (kind, mut object) in with_probes(), any in any_json(), slice in slice(), old in prop_oneof![slice(), any_json()],
        gates in gates(),
    ) {
        let path = Path::root();
        for mut object in [any.clone(), object.clone(), slice.clone()] {
            probes::drop_disabled_probe_fields(kind, &mut object, Some(&any), &gates);
            probes::drop_disabled_template_fields(&mut object, &gates);
            probes::default_pod_probes(&mut object);
            probes::validate_pod_probes(&object, &path);
            probes::probe_warnings(kind, &object, &gates);
            probes::removed_sub_second_fields(kind, &any, &object);
            for type_ in ProbeType::ALL {
                probes::validate_probe(&object, type_, &path);
                probes::validate_probe(&object["livenessProbe"], type_, &path);
            }
            slices::drop_disabled_endpoint_fields(&mut object, Some(&old), &gates);
            slices::default_endpoint_slice(&mut object);
            for allow_loopback in [true, false] {
                slices::validate_endpoint_slice(&object, None, allow_loopback);
                slices::validate_endpoint_slice(&object, Some(&old), allow_loopback);
                slices::endpoint_slice_warnings(&object, allow_loopback);
            }
            slices::raises_endpoint_slice_generation(&object, &old);
        }
        probes::drop_disabled_template_fields(&mut object, &gates);
        let spec = probes::pod_spec_path(kind).and_then(|path| crate::json::at(&object, path)).cloned().unwrap_or_default();
        probes::validate_pod_probes(&spec, &path);
    }

    #[test]
    fn validating_markers_and_config_nodes_is_an_answer(marker in marker(), old in marker(), node in config_node(), any in any_json()) {
        for object in [&marker, &old, &node, &any, &json!({"spec": any}), &json!({"status": any})] {
            for old in [None, Some(&old), Some(&any)] {
                marker_rules::validate_pod_probe_marker(object, old);
            }
            marker_rules::probe_errors(object);
            marker_rules::probe_errors(&object["spec"]);
            config_node_rules::validate(object);
            config_node_rules::validate_status(object);
            let _ = crate::PodProbeMarker::from(object.clone());
        }
        // What is valid may be written back.
        if marker_rules::validate_pod_probe_marker(&marker, None).is_empty() {
            prop_assert_eq!(marker_rules::validate_pod_probe_marker(&marker, Some(&marker)), []);
        }
    }

    #[test]
    fn a_valid_slice_may_be_written_back(mut slice in slice(), allow_loopback in any::<bool>()) {
        slices::default_endpoint_slice(&mut slice);
        if slices::validate_endpoint_slice(&slice, None, allow_loopback).is_empty() {
            prop_assert_eq!(slices::validate_endpoint_slice(&slice, Some(&slice), allow_loopback), []);
        }
    }

    #[test]
    fn reading_any_object_as_a_view_is_an_answer(any in any_json(), spec in pod_spec(), slice in slice(), marker in marker(), node in config_node()) {
        for object in [any, json!({"spec": spec}), slice, marker, node] {
            read::<crate::Pod>(&object);
            read::<crate::Service>(&object);
            read::<crate::Node>(&object);
            read::<crate::Lease>(&object);
            read::<crate::EndpointSlice>(&object);
            read::<crate::NodePodProbe>(&object);
            read::<crate::ConfigNode>(&object);
            read::<crate::LabelSelector>(&object["spec"]["selector"]);
        }
    }

    #[test]
    fn every_text_is_an_answer(text in prop_oneof!["\\PC{0,40}", "[a-z0-9=!,()./: ~<>-]{0,40}", "[0-9.:a-fmsunhTZ+-]{0,30}"]) {
        let _ = text.parse::<FeatureGates>();
        let _ = crate::Selector::parse(&text).map(|selector| selector.matches(&Default::default()));
        let _ = crate::FieldSelector::parse(&text).map(|selector| selector.matches_with(|_| None));
        let _ = crate::Timestamp::parse(&text).map(|time| (time.micro(), time.shortest()));
        let _ = duration::parse(&text).map(duration::format);
        for rule in [
            names::dns1123_label, names::dns1123_subdomain, names::dns1035_label, names::qualified_name, names::label_value,
            names::http_header_name, ip::check,
        ] {
            let _ = rule(&text);
        }
        names::port_name(&text);
        // The canonical form of an address is canonical.
        if let Some(address) = ip::parse(&text) {
            prop_assert_eq!(ip::parse(&address.to_string()), Some(address));
        }
    }

    #[test]
    fn durations_and_instants_read_back_as_they_were_written(nanos in any::<u64>(), micros in -62_135_596_800_000_000i64..253_402_300_800_000_000) {
        let span = Duration::from_nanos(nanos);
        prop_assert_eq!(duration::parse(&duration::format(span)), Ok(span));
        let instant = crate::Timestamp(machine::Time::from_micros(micros));
        prop_assert_eq!(crate::Timestamp::parse(&instant.micro()), Ok(instant));
        prop_assert_eq!(crate::Timestamp::parse(&instant.shortest()), Ok(instant));
    }

    #[test]
    fn gates_read_back_as_they_were_written(gates in gates()) {
        let again: FeatureGates = gates.to_string().parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
        for gate in Gate::ALL {
            prop_assert_eq!(again.enabled(gate), gates.enabled(gate));
        }
    }
}
