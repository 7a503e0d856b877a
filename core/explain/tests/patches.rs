//! Over manifests of any kind: a patch takes its finding away and brings no other, and nothing panics.

use explain::{Options, explain, explain_with_patches, patch};
use proptest::prelude::*;
use serde_json::{Value, json};

fn handler() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"httpGet": {"path": "/", "port": "http"}})),
        Just(json!({"httpGet": {"path": "/health", "port": 8080}})),
        Just(json!({"tcpSocket": {"port": "nobody"}})),
        Just(json!({"exec": {"command": ["true"]}})),
        Just(json!({"exec": {"command": ["cat", "/tmp/ok"]}})),
        Just(json!({"grpc": {"port": 9000}})),
    ]
}

fn probe() -> impl Strategy<Value = Value> {
    let numbers = (0i64..40, 0i64..12, 0i64..12, 0i64..8, prop_oneof![Just(None), (-950i64..500).prop_map(Some)]);
    (handler(), numbers, any::<bool>()).prop_map(|(mut probe, (delay, period, timeout, failures, offset), slip)| {
        for (field, value) in [
            ("initialDelaySeconds", delay),
            ("periodSeconds", period),
            ("timeoutSeconds", timeout),
            ("failureThreshold", failures),
        ] {
            if value > 0 {
                probe[field] = json!(value);
            }
        }
        if let Some(offset) = offset {
            probe["periodMilliseconds"] = json!(offset);
        }
        if slip && delay == 7 {
            probe["periodSecond"] = json!(5);
        }
        probe
    })
}

fn objects() -> impl Strategy<Value = Vec<Value>> {
    let probes = [probe(), probe(), probe()].map(prop::option::of);
    let kind = prop_oneof![
        Just(("apps/v1", "Deployment")),
        Just(("apps/v1", "StatefulSet")),
        Just(("batch/v1", "Job")),
        Just(("batch/v1beta1", "Job")),
        Just(("apps/v1", "Deploymnt")),
        Just(("apps.kruise.io/v1alpha1", "CloneSet")),
    ];
    (probes, kind, any::<bool>(), any::<bool>(), 0i64..60).prop_map(|([startup, readiness, liveness], (version, kind), ports, front, hook)| {
        let mut container = json!({"name": "app", "image": "x"});
        for (field, probe) in [("startupProbe", startup), ("readinessProbe", readiness), ("livenessProbe", liveness)] {
            if let Some(probe) = probe {
                container[field] = probe;
            }
        }
        if ports {
            container["ports"] = json!([{"name": "http", "containerPort": 8080}]);
        }
        if hook > 20 {
            container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": hook}}});
        }
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
        let mut all = vec![json!({"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": {"template": template}})];
        if front {
            all.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}));
        }
        all
    })
}

/// Returns code and path of every finding.
fn marks(objects: &[Value]) -> Vec<(&'static str, String)> {
    explain(objects, &Options::default()).findings().map(|finding| (finding.id, finding.path.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_takes_its_finding_away_and_brings_no_other(objects in objects()) {
        let before = marks(&objects);
        let report = explain_with_patches(&objects, &Options::default());
        for workload in &report.workloads {
            for finding in &workload.findings {
                let Some(change) = &finding.patch else { continue };
                let mut changed = objects.clone();
                let own = changed.iter_mut().find(|object| object["kind"] == workload.kind).expect("the object of the finding");
                patch::apply(own, change);
                let after = marks(&changed);
                prop_assert!(!after.contains(&(finding.id, finding.path.clone())), "{} stays: {}", finding.id, patch::yaml(change));
                let fresh: Vec<_> = after.iter().filter(|mark| !before.contains(mark)).collect();
                prop_assert!(fresh.is_empty(), "{}: {fresh:?}: {}", finding.id, patch::yaml(change));
            }
        }
    }
}
