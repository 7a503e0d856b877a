//! Laws that hold for every object of every kind, however odd.

use proptest::prelude::*;
use testkit::odd;

use super::*;

/// A manifest that reaches most rules of a kind.
fn full(kind: Builtin) -> Value {
    let probe = json!({"httpGet": {"port": "http", "httpHeaders": [{"name": "A", "value": "b"}]}, "periodMilliseconds": 5, "initialDelaySeconds": 0});
    let container = json!({
        "name": "c", "image": "i:1", "command": ["x"], "stdin": false, "readinessProbe": probe, "livenessProbe": {"exec": {"command": ["x"]}},
        "ports": [{"name": "http", "containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}],
        "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
        "envFrom": [{"configMapRef": {"name": "m"}}],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
        "lifecycle": {"preStop": {"httpGet": {"port": 1}}, "postStart": {"sleep": {"seconds": 1}}},
        "securityContext": {"runAsUser": 1, "allowPrivilegeEscalation": false, "capabilities": {"add": ["X"]}, "seccompProfile": {"type": "Unconfined"}},
    });
    let pod = json!({
        "containers": [container], "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
        "volumes": [
            {"name": "v"}, {"name": "w", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
            {"name": "x", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 1}]}}, {"name": "h", "hostPath": {"path": "/h"}},
        ],
        "hostNetwork": true, "tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"a": "b"},
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["a"], "options": [{"name": "o"}]}, "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h"]}],
        "readinessGates": [{"conditionType": "a/b"}], "securityContext": {"supplementalGroups": [1], "sysctls": [{"name": "s", "value": "v"}]},
        "imagePullSecrets": [{"name": "s"}], "serviceAccount": "robot", "os": {"name": "linux"}, "activeDeadlineSeconds": 5,
    });
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": true});
    let mut object = minimal(kind);
    for (key, value) in [
        ("labels", json!({"a": "b"})),
        ("annotations", json!({"controller.kubernetes.io/pod-deletion-cost": "5"})),
        ("finalizers", json!(["a/b"])),
        ("ownerReferences", json!([owner])),
    ] {
        object["metadata"][key] = value;
    }
    match kind {
        Builtin::Pod => object["spec"] = pod,
        Builtin::Deployment | Builtin::ReplicaSet => {
            object["spec"]["template"]["spec"] = pod;
            object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1}});
            object["status"] = json!({"replicas": 1, "readyReplicas": 1});
        }
        Builtin::Service => {
            object["spec"] = json!({
                "type": "LoadBalancer", "ports": [{"name": "a", "port": 80, "nodePort": 30080, "targetPort": "http", "appProtocol": "a/b"}],
                "sessionAffinity": "ClientIP", "clusterIPs": ["10.0.0.1"], "externalIPs": ["1.2.3.4"], "loadBalancerSourceRanges": ["10.0.0.0/8"],
                "trafficDistribution": "PreferClose", "selector": {"a": "b"},
            });
        }
        Builtin::Node => {
            object["spec"] =
                json!({"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "effect": "NoExecute"}], "unschedulable": false});
            object["status"] = json!({"capacity": {"cpu": "1"}, "addresses": [{"type": "Hostname", "address": "h"}]});
        }
        Builtin::Secret => {
            object["stringData"] = json!({"a": "b"});
            object["data"] = json!({"c": "eA=="});
        }
        Builtin::ConfigMap => object["data"] = json!({"a": "b"}),
        Builtin::EndpointSlice => {
            object["endpoints"] = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true}}]);
            object["ports"] = json!([{"port": 80}]);
        }
        Builtin::Lease => object["spec"] = json!({"leaseDurationSeconds": 5, "leaseTransitions": 1}),
        _ => {}
    }
    object
}

fn any_json() -> impl Strategy<Value = Value> {
    odd::json("name spec key port type metadata labels status")
}

fn kinds() -> impl Strategy<Value = Builtin> {
    prop::sample::select(Builtin::ALL.to_vec())
}

fn odd_objects() -> impl Strategy<Value = (Builtin, Value)> {
    kinds().prop_flat_map(|kind| (Just(kind), odd::nearly(full(kind), "name spec key port type")))
}

#[test]
fn the_full_manifests_are_nearly_good() {
    for kind in Builtin::ALL {
        match create(kind, full(kind)) {
            Ok(_) => {}
            // Templates restart for ever, so the deadline of the pod is the one thing wrong.
            Err(errors) => assert_eq!(places(&errors), [("spec.template.spec.activeDeadlineSeconds", "Forbidden")], "{kind:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(256)))]

    #[test]
    fn defaulting_twice_is_defaulting_once((kind, mut object) in odd_objects()) {
        default(kind, &mut object, &context());
        let once = object.clone();
        default(kind, &mut object, &context());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn admission_and_preparation_settle((kind, mut object) in odd_objects()) {
        for _ in 0..2 {
            prepare_create(kind, &mut object, &context());
            default(kind, &mut object, &context());
            admit(kind, &mut object, &context());
        }
        let once = object.clone();
        prepare_create(kind, &mut object, &context());
        default(kind, &mut object, &context());
        admit(kind, &mut object, &context());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn no_object_makes_the_rules_panic((kind, object) in odd_objects(), (_, other) in odd_objects(), part in 0usize..4) {
        let part = [Part::Main, Part::Status, Part::Finalize, Part::Binding][part];
        let ctx = context();
        let _ = validate_create(kind, &object, &ctx);
        let _ = validate_update(kind, part, &object, &other, &ctx);
        let _ = update_with(kind, part, object.clone(), &other, &ctx);
        let _ = generation_changes(kind, &object, &other);
        let _ = warnings(kind, &object, Some(&other), &ctx);
        prop_assert!(selectable_fields(kind, &object).iter().all(|(label, _)| supported_field_label(kind, label)));
        let _ = (service::cluster_ip(&object), service::node_ports(&object), service::ports_without_node_port(&object));
    }

    #[test]
    fn an_accepted_object_may_be_written_back((kind, object) in odd_objects(), part in 0usize..2) {
        if let Ok(stored) = create(kind, object) {
            let part = [Part::Main, Part::Status][part];
            let again = update(kind, part, &stored, |_| {});
            // The decoder leaves no nulls, so the rules may read them as absent.
            prop_assert!(json::same_but_nils(again.as_ref().ok(), Some(&stored)), "{again:?} instead of {stored}");
            prop_assert!(!generation_changes(kind, &again.expect("just compared"), &stored));
        }
    }

    #[test]
    fn any_json_at_all_is_an_answer(kind in kinds(), object in any_json(), other in any_json()) {
        let _ = create(kind, object.clone());
        let _ = update_with(kind, Part::Main, object.clone(), &other, &context());
        let _ = update_with(kind, Part::Status, object, &other, &context());
    }
}
