//! Whole writes through the rules, as the pipeline makes them.

mod large;
mod laws;
mod pod_fields;
mod updates;

use api::field::Error;
use api::{FeatureGates, Gate, json};
use serde_json::{Value, json};

use super::*;

/// A context with the default gates, two different tolerations, loopback allowed.
pub(super) fn context() -> Context<'static> {
    static GATES: std::sync::LazyLock<FeatureGates> = std::sync::LazyLock::new(FeatureGates::default);
    Context {
        now: Time::from_secs(1_000_000_000),
        gates: &GATES,
        not_ready_toleration_seconds: 300,
        unreachable_toleration_seconds: 200,
        allow_loopback_endpoints: true,
    }
}

/// Creates an object, with the metadata that the pipeline sets.
fn create_with(kind: Builtin, mut object: Value, ctx: &Context<'_>) -> Result<Value, Vec<Error>> {
    if kind.namespaced() && json::text(&object, &["metadata", "namespace"]).is_empty() {
        json::object_mut(&mut object, &["metadata"]).insert("namespace".to_owned(), "ns".into());
    }
    prepare_create(kind, &mut object, ctx);
    default(kind, &mut object, ctx);
    drop_disabled(kind, &mut object, None, ctx);
    admit(kind, &mut object, ctx);
    let errors = validate_create(kind, &object, ctx);
    if errors.is_empty() { Ok(object) } else { Err(errors) }
}

fn create(kind: Builtin, object: Value) -> Result<Value, Vec<Error>> {
    create_with(kind, object, &context())
}

/// Updates an object that the client has changed.
fn update_with(kind: Builtin, part: Part, mut new: Value, old: &Value, ctx: &Context<'_>) -> Result<Value, Vec<Error>> {
    prepare_update(kind, part, &mut new, old, ctx);
    default(kind, &mut new, ctx);
    drop_disabled(kind, &mut new, Some(old), ctx);
    if part == Part::Main {
        admit(kind, &mut new, ctx);
    }
    let errors = validate_update(kind, part, &new, old, ctx);
    if errors.is_empty() { Ok(new) } else { Err(errors) }
}

fn update(kind: Builtin, part: Part, old: &Value, change: impl FnOnce(&mut Value)) -> Result<Value, Vec<Error>> {
    let mut new = old.clone();
    change(&mut new);
    update_with(kind, part, new, old, &context())
}

fn places(errors: &[Error]) -> Vec<(&str, &'static str)> {
    errors.iter().map(|error| (error.path.as_str(), error.kind.name())).collect()
}

/// The least manifest of every kind.
fn minimal(kind: Builtin) -> Value {
    let pod = json!({"containers": [{"name": "c", "image": "i:1"}]});
    let workload = json!({
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}},
    });
    match kind {
        Builtin::Pod => json!({"metadata": {"name": "p"}, "spec": pod}),
        Builtin::Service => json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        Builtin::Event => json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "ns"}}),
        Builtin::EventsEvent => json!({
            "metadata": {"name": "e"}, "regarding": {"namespace": "ns"}, "eventTime": "2024-05-06T07:08:09.123456Z", "type": "Normal",
            "reportingController": "example.com/c", "reportingInstance": "c-1", "action": "Doing", "reason": "Done",
        }),
        Builtin::EndpointSlice => json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": []}),
        Builtin::Deployment | Builtin::ReplicaSet => workload,
        Builtin::CustomResourceDefinition => json!({"metadata": {"name": "foos.example.com"}}),
        Builtin::Node
        | Builtin::Namespace
        | Builtin::ConfigMap
        | Builtin::ServiceAccount
        | Builtin::Secret
        | Builtin::PodDisruptionBudget
        | Builtin::Lease => json!({"metadata": {"name": "x"}}),
    }
}

#[test]
fn the_two_events_are_told_apart_by_their_group() {
    assert_eq!(Builtin::from_gvk("", "v1", "Event"), Some(Builtin::Event));
    assert_eq!(Builtin::from_gvk("events.k8s.io", "v1", "Event"), Some(Builtin::EventsEvent));
    assert_eq!(Builtin::from_gvk("apps", "v1", "Pod"), None);
    assert_eq!(Builtin::from_gvk("apps", "v1beta1", "Deployment"), None);
    for kind in Builtin::ALL {
        assert_eq!(Builtin::from_gvk(kind.group(), "v1", kind.kind()), Some(kind));
    }
}

#[test]
fn the_least_manifest_of_every_kind_is_good_and_stays_as_it_is() {
    for kind in Builtin::ALL {
        let stored = create(kind, minimal(kind)).unwrap_or_else(|errors| panic!("{kind:?}: {errors:?}"));
        for part in [Part::Main, Part::Status] {
            let again = update(kind, part, &stored, |_| {}).unwrap_or_else(|errors| panic!("{kind:?} {part:?}: {errors:?}"));
            assert_eq!(again, stored, "{kind:?} {part:?}");
            assert!(!generation_changes(kind, &again, &stored), "{kind:?}");
        }
        assert_eq!(warnings(kind, &stored, None, &context()), Vec::<String>::new(), "{kind:?}");
    }
}

#[test]
fn a_new_object_has_no_status_but_that_of_the_server() {
    let status = |kind: Builtin, given: Value| {
        let mut object = minimal(kind);
        object["status"] = given;
        create(kind, object).unwrap().get("status").cloned()
    };
    let lie = json!({"phase": "Running", "message": "set by client", "replicas": 5, "capacity": {"cpu": "4"}});
    assert_eq!(status(Builtin::Pod, lie.clone()), Some(json!({"phase": "Pending", "qosClass": "BestEffort"})));
    assert_eq!(status(Builtin::Deployment, lie.clone()), Some(json!({})));
    assert_eq!(status(Builtin::ReplicaSet, lie.clone()), Some(json!({"replicas": 0})));
    assert_eq!(status(Builtin::Service, lie.clone()), Some(json!({"loadBalancer": {}})));
    assert_eq!(status(Builtin::Namespace, lie.clone()), Some(json!({"phase": "Active"})));
    assert_eq!(status(Builtin::CustomResourceDefinition, lie.clone()), None);
    assert_eq!(status(Builtin::Node, lie).unwrap()["capacity"], json!({"cpu": "4"}));
}

#[test]
fn a_pod_is_classed_and_tolerates() {
    let mut pod = minimal(Builtin::Pod);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "100m", "memory": "1Mi"}});
    let pod = create(Builtin::Pod, pod).unwrap();
    assert_eq!(pod["status"]["qosClass"], "Guaranteed");
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "100m", "memory": "1Mi"}));
    let seconds: Vec<_> =
        json::items(&pod, &["spec", "tolerations"]).iter().map(|t| json::int(t, &["tolerationSeconds"])).collect();
    assert_eq!(seconds, [Some(300), Some(200)]);
}

#[test]
fn a_gated_pod_says_that_it_waits() {
    let mut pod = minimal(Builtin::Pod);
    pod["spec"]["schedulingGates"] = json!([{"name": "a/b"}]);
    let pod = create(Builtin::Pod, pod).unwrap();
    assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
}

#[test]
fn errors_of_one_pod_are_reported_together() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"restartPolicy": "Sometimes", "containers": [
        {"name": "Bad_Name", "image": "i:1"}, {"name": "x"}, {"name": "x", "image": "i:1"},
    ]}});
    let errors = create(Builtin::Pod, pod).unwrap_err();
    let expected = [
        ("spec.containers[0].name", "Invalid"),
        ("spec.containers[1].image", "Required"),
        ("spec.containers[2].name", "Duplicate"),
        ("spec.restartPolicy", "NotSupported"),
    ];
    assert_eq!(places(&errors), expected);
    let errors = create(Builtin::Pod, json!({"metadata": {"name": "p"}})).unwrap_err();
    assert_eq!(places(&errors), [("spec.containers", "Required")]);
}

#[test]
fn fields_of_a_gate_that_is_off_are_dropped_before_validation() {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 1, "periodMilliseconds": -5000});
    let mut pod = minimal(Builtin::Pod);
    pod["spec"]["containers"][0]["readinessProbe"] = probe;
    let gates = FeatureGates::default().with(Gate::SubSecondProbes, false);
    let off = Context { gates: &gates, ..context() };
    let stored = create_with(Builtin::Pod, pod.clone(), &off).unwrap();
    assert_eq!(stored["spec"]["containers"][0]["readinessProbe"].get("periodMilliseconds"), None);
    let errors = create(Builtin::Pod, pod).unwrap_err();
    assert_eq!(places(&errors), [("spec.containers[0].readinessProbe.periodMilliseconds", "Invalid")]);
}

#[test]
fn an_endpoint_slice_follows_its_own_rules() {
    let slice = json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.88.0.1"]}], "ports": [{"port": 80}]});
    let stored = create(Builtin::EndpointSlice, slice.clone()).unwrap();
    assert_eq!(stored["ports"], json!([{"port": 80, "name": "", "protocol": "TCP"}]));
    assert_eq!(stored["endpoints"][0]["conditions"], json!({}));
    let strict = Context { allow_loopback_endpoints: false, ..context() };
    assert!(create_with(Builtin::EndpointSlice, slice, &strict).is_err());
    let errors = update(Builtin::EndpointSlice, Part::Main, &stored, |slice| slice["addressType"] = json!("IPv6")).unwrap_err();
    assert!(places(&errors).contains(&("addressType", "Invalid")));
}

#[test]
fn surprising_pods_are_warned_of() {
    let mut pod = minimal(Builtin::Pod);
    pod["metadata"]["name"] = json!("a.b");
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": "http"}});
    let stored = create(Builtin::Pod, pod).unwrap();
    let found = warnings(Builtin::Pod, &stored, None, &context());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("metadata.name: "), "{found:?}");
    assert_eq!(warnings(Builtin::Pod, &stored, Some(&stored), &context()), Vec::<String>::new());
}
