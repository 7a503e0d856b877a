//! Laws of admission: it answers whatever arrives, and its own output it leaves alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its own objects has failed")]

use admission::{MOVED_PROBES, READY, ReviewOutcome, mutate, read_moved, review};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::odd;

const WORDS: &str = "metadata annotations lifesign.dev/probes lifesign.dev/moved-probes spec containers initContainers name app side \
    readinessProbe livenessProbe periodMilliseconds timeoutMilliseconds initialDelayMilliseconds periodSeconds httpGet tcpSocket \
    exec grpc port host path command readinessGates conditionType lifesign.dev/ready restartPolicy Always";

/// What users write into the annotation.
fn request() -> Value {
    json!({"app": {"readinessProbe": {"periodMilliseconds": -800, "timeoutMilliseconds": 0}}, "side": {"readinessProbe": {}}})
}

fn moved() -> Value {
    json!({"app": {"tcpSocket": {"port": 80}, "periodSeconds": 1}})
}

fn spec() -> Value {
    json!({
        "containers": [
            {"name": "app", "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}},
            {"name": "other", "readinessProbe": {"exec": {"command": ["true"]}}},
        ],
        "initContainers": [{"name": "side", "restartPolicy": "Always", "readinessProbe": {"grpc": {"port": 5}}}],
        "readinessGates": [{"conditionType": "example.com/lb"}],
    })
}

/// A pod whose annotations are nearly right.
fn pod() -> impl Strategy<Value = Value> {
    let annotations = (odd::nearly(request(), WORDS), proptest::option::of(odd::nearly(moved(), WORDS)));
    (annotations, odd::nearly(spec(), WORDS)).prop_map(|((asked, held), spec)| {
        let mut pod =
            json!({"metadata": {"name": "p", "annotations": {"lifesign.dev/probes": asked.to_string()}}, "spec": spec});
        if let Some(held) = held {
            pod["metadata"]["annotations"][MOVED_PROBES] = held.to_string().into();
        }
        pod
    })
}

fn patched(pod: &Value, patch: &[Value]) -> Value {
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &serde_json::from_value::<json_patch::Patch>(patch.into()).unwrap()).unwrap();
    pod
}

fn as_review(object: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "object": object,
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"group": "", "version": "v1", "kind": "Pod"},
    }})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn its_own_output_does_not_change(pod in pod()) {
        if let Ok(mutation) = mutate(&pod) {
            let pod = patched(&pod, &mutation.patch);
            let again = mutate(&pod).map_err(|errors| TestCaseError::fail(format!("{errors:?}")))?;
            prop_assert_eq!(again.patch, Vec::<Value>::new());
            prop_assert_eq!(again.warnings, mutation.warnings);
        }
    }

    #[test]
    fn what_is_moved_is_read_by_the_agent_and_waited_for(pod in pod()) {
        if let Ok(mutation) = mutate(&pod) {
            let pod = patched(&pod, &mutation.patch);
            let Some(text) = pod["metadata"]["annotations"][MOVED_PROBES].as_str() else { return Ok(()) };
            let read = read_moved(text);
            prop_assert_eq!(read.errors, Vec::new());
            let gates = pod["spec"]["readinessGates"].as_array().cloned().unwrap_or_default();
            let ours = gates.iter().filter(|gate| gate["conditionType"] == READY).count();
            prop_assert!(read.probes.is_empty() || ours > 0);
            let lists = ["containers", "initContainers"].into_iter().filter_map(|list| pod["spec"][list].as_array()).flatten();
            let doubly = lists.filter(|item| !item["readinessProbe"].is_null())
                .filter_map(|item| item["name"].as_str())
                .filter(|name| read.probes.contains_key(*name));
            // Of two containers with one name, which the API server refuses, only the first is looked at.
            let names: Vec<&str> = doubly.collect();
            let twice = |name: &str| pod["spec"].to_string().matches(&format!("\"name\":{name:?}")).count() > 1;
            prop_assert!(names.iter().all(|name| twice(name)), "probed twice: {:?}", names);
        }
    }

    #[test]
    fn every_review_gets_an_answer(body in odd::nearly(as_review(&json!({"metadata": {}, "spec": spec()})), WORDS)) {
        let answer = review(body.to_string().as_bytes());
        let response = &answer.review["response"];
        prop_assert!(response["allowed"].is_boolean() && response["uid"].is_string());
        prop_assert_eq!(response["allowed"] == true, matches!(answer.outcome, ReviewOutcome::Allowed | ReviewOutcome::Patched));
    }

    #[test]
    fn every_text_gets_an_answer(body in proptest::collection::vec(any::<u8>(), 0..200), annotation in "\\PC{0,40}") {
        prop_assert_eq!(review(&body).review["response"]["allowed"].clone(), json!(false));
        let pod = json!({"metadata": {"annotations": {"lifesign.dev/probes": annotation}}, "spec": spec()});
        prop_assert!(review(as_review(&pod).to_string().as_bytes()).review["response"]["allowed"].is_boolean());
    }
}

#[test]
fn nothing_but_the_probe_the_annotation_and_the_gate_changes() {
    let pod = json!({"metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"lifesign.dev/probes": request().to_string(), "x": "y"}},
        "spec": spec()});
    let mutation = mutate(&pod).unwrap();
    let mut after = patched(&pod, &mutation.patch);
    assert_eq!(after["spec"]["readinessGates"], json!([{"conditionType": "example.com/lb"}, {"conditionType": READY}]));
    after["spec"]["readinessGates"] = pod["spec"]["readinessGates"].clone();
    for (list, index) in [("containers", 0), ("initContainers", 0)] {
        assert!(after["spec"][list][index].get("readinessProbe").is_none());
        after["spec"][list][index]["readinessProbe"] = pod["spec"][list][index]["readinessProbe"].clone();
    }
    after["metadata"]["annotations"].as_object_mut().unwrap().remove(MOVED_PROBES);
    assert_eq!(after, pod);
}
