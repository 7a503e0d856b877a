//! Large objects: judging them takes in step with their size.

use std::time::Duration;

use serde_json::{Value, json};

use super::{context, update_with};
use crate::builtin::{Builtin, Part, default, validate_create};

/// What takes longer than this does not grow in step with its input; each of these takes a tenth of it, unoptimised.
const QUICK: Duration = Duration::from_secs(3);
const COUNT: usize = 8_000;

fn many(item: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..COUNT).map(item).collect()
}

fn pod(spec: Value, status: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        "status": status,
    });
    for (key, value) in spec.as_object().expect("members of a spec") {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn objects() -> Vec<(Builtin, Value)> {
    let name = |n: usize| format!("n{n}");
    let named = |n: usize| json!({"name": name(n)});
    let container = |member: &str, items: Vec<Value>| {
        let mut container = json!({"name": "c", "image": "i"});
        container[member] = items.into();
        pod(json!({"containers": [container]}), json!({}))
    };
    let with_metadata = |member: &str, items: Vec<Value>| {
        let mut object = json!({"metadata": {"name": "m", "namespace": "default", "uid": "u"}});
        object["metadata"][member] = items.into();
        object
    };
    let conditions = many(|n| json!({"type": name(n), "status": "True", "observedGeneration": n}));
    vec![
        (Builtin::Pod, pod(json!({"tolerations": many(|n| json!({"key": name(n), "operator": "Exists"}))}), json!({}))),
        (Builtin::Pod, pod(json!({"schedulingGates": many(named)}), json!({}))),
        (Builtin::Pod, pod(json!({"volumes": many(|n| json!({"name": name(n), "emptyDir": {}}))}), json!({}))),
        (Builtin::Pod, pod(json!({"hostAliases": many(|n| json!({"ip": "10.0.0.1", "hostnames": [name(n)]}))}), json!({}))),
        (Builtin::Pod, pod(json!({"imagePullSecrets": many(named)}), json!({}))),
        (Builtin::Pod, pod(json!({"readinessGates": many(|n| json!({"conditionType": name(n)}))}), json!({}))),
        (Builtin::Pod, pod(json!({}), json!({"conditions": conditions.clone()}))),
        (Builtin::Pod, pod(json!({}), json!({"podIPs": many(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)}))}))),
        (
            Builtin::Pod,
            pod(
                json!({"containers": many(|n| json!({"name": name(n), "image": "i"}))}),
                json!({"containerStatuses": many(|n| json!({"name": name(n), "state": {"terminated": {"exitCode": 1}}}))}),
            ),
        ),
        (Builtin::Pod, container("env", many(|n| json!({"name": name(n), "value": "$(n1)"})))),
        (
            Builtin::Pod,
            container("ports", many(|n| json!({"name": format!("p{n}"), "containerPort": 1 + n, "hostPort": 1 + n}))),
        ),
        (Builtin::Pod, container("volumeMounts", many(|n| json!({"name": name(n), "mountPath": format!("/{n}")})))),
        (
            Builtin::Node,
            json!({"metadata": {"name": "n"}, "spec": {"taints": many(|n| json!({"key": name(n), "effect": "NoSchedule"}))}}),
        ),
        (Builtin::Node, json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}})),
        (
            Builtin::Node,
            json!({"metadata": {"name": "n"}, "status": {"addresses": many(|n| json!({"type": "Hostname", "address": name(n)}))}}),
        ),
        (
            Builtin::Node,
            json!({"metadata": {"name": "n"}, "status": {"images": many(|n| json!({"names": [name(n)], "sizeBytes": n}))}}),
        ),
        (
            Builtin::Service,
            json!({"metadata": {"name": "s", "namespace": "default"}, "spec": {
                "type": "NodePort", "ports": many(|n| json!({"name": name(n), "port": 1 + n, "nodePort": 30_000 + n % 2_000})),
            }}),
        ),
        (
            Builtin::EndpointSlice,
            json!({"metadata": {"name": "e", "namespace": "default"}, "addressType": "IPv4",
                "endpoints": many(|n| json!({"addresses": [format!("10.0.{}.{}", n / 250, n % 250)]})),
                "ports": many(|n| json!({"name": name(n), "port": 1 + n})),
            }),
        ),
        (Builtin::ConfigMap, with_metadata("finalizers", many(|n| json!(format!("example.com/{n}"))))),
        (
            Builtin::ConfigMap,
            with_metadata(
                "ownerReferences",
                many(|n| json!({"apiVersion": "v1", "kind": "Pod", "name": name(n), "uid": name(n)})),
            ),
        ),
    ]
}

fn judge(kind: Builtin, object: &mut Value) {
    default(kind, object, &context());
    let _ = validate_create(kind, object, &context());
    for part in [Part::Main, Part::Status] {
        // In the other order nothing is where it was.
        let mut reversed = object.clone();
        reverse(&mut reversed);
        let _ = update_with(kind, part, reversed, object, &context());
    }
}

#[test]
fn large_objects_are_judged_in_step_with_their_size() {
    for (kind, mut object) in objects() {
        let ((), effort) = testkit::effort::of(|| judge(kind, &mut object));
        let shown: String = object.to_string().chars().skip(60).take(200).collect();
        assert!(effort < QUICK, "{kind:?} takes {effort:?}: {shown}");
    }
}

/// Puts every list of a value in the opposite order.
fn reverse(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.reverse();
            items.iter_mut().for_each(reverse);
        }
        Value::Object(members) => members.values_mut().for_each(reverse),
        _ => {}
    }
}
