//! What one change costs among 1,000 ReplicaSets with 10 pods each, and among 10: it must be the same.

use std::hint::black_box;
use std::sync::Arc;

use api::{Pod, ReplicaSet};
use criterion::{Criterion, criterion_group, criterion_main};
use machine::{Machine, Time};
use serde_json::{Value, json};
use workloads::{Effect, Input, Object, ReplicaSets};

const PODS: usize = 10;
const NOW: Time = Time::from_secs(1_800_000_000);

fn read<T: serde::de::DeserializeOwned>(object: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(object).expect("the view reads it"))
}

fn labels(number: usize) -> Value {
    json!({"app": "web", "set": number.to_string()})
}

fn set(number: usize, replicas: usize, revision: u64) -> Arc<ReplicaSet> {
    read(json!({
        "metadata": {"name": format!("r-{number}"), "namespace": "ns", "uid": format!("r-{number}"), "generation": replicas,
            "resourceVersion": revision.to_string()},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels(number)}, "template": {"metadata": {"labels": labels(number)}}},
        "status": {"replicas": PODS, "fullyLabeledReplicas": PODS, "readyReplicas": PODS, "availableReplicas": PODS,
            "terminatingReplicas": 0, "observedGeneration": replicas},
    }))
}

fn pod(number: usize, index: usize, ready: bool, revision: u64) -> Arc<Pod> {
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": format!("r-{number}"), "controller": true}]);
    let status = if ready { "True" } else { "False" };
    read(json!({
        "metadata": {"name": format!("r-{number}-{index}"), "namespace": "ns", "uid": format!("r-{number}-{index}"),
            "labels": labels(number), "ownerReferences": owner, "resourceVersion": revision.to_string()},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    }))
}

/// A controller that knows so many ReplicaSets with their pods and has nothing to do.
fn controller(sets: usize) -> ReplicaSets {
    let mut controller = ReplicaSets::default();
    let mut tell = |input| controller.step(NOW, Some(input), &mut Vec::new());
    ReplicaSets::WATCHED.map(Input::ListStarted).into_iter().for_each(&mut tell);
    for number in 0..sets {
        tell(Input::Applied(Object::ReplicaSet(set(number, PODS, 1))));
        (0..PODS).for_each(|index| tell(Input::Applied(Object::Pod(pod(number, index, true, 1)))));
    }
    ReplicaSets::WATCHED.map(Input::ListEnded).into_iter().for_each(&mut tell);
    controller
}

/// Takes a fact; whatever is wanted is answered as failed, so that the controller stays as it is.
fn flip(controller: &mut ReplicaSets, input: Input, effects: &mut Vec<Effect>) -> usize {
    controller.step(NOW, Some(input), effects);
    let sent = effects.len();
    for effect in std::mem::take(effects) {
        if let Effect::Write(id, _) = effect {
            controller.step(NOW, Some(Input::Answered(id, Ok(None))), &mut Vec::new());
        }
    }
    sent
}

fn one_change(criterion: &mut Criterion) {
    for sets in [10, 1_000] {
        let mut controller = controller(sets);
        let (mut revision, mut effects) = (1, Vec::new());
        criterion.bench_function(&format!("one pod flips, {sets} ReplicaSets"), |bencher| {
            bencher.iter(|| {
                revision += 1;
                let pod = pod(sets / 2, 3, revision % 2 == 0, revision);
                black_box(flip(&mut controller, Input::Applied(Object::Pod(pod)), &mut effects))
            });
        });
        criterion.bench_function(&format!("one ReplicaSet changes, {sets} ReplicaSets"), |bencher| {
            bencher.iter(|| {
                revision += 1;
                let changed = set(sets / 2, PODS, revision);
                black_box(flip(&mut controller, Input::Applied(Object::ReplicaSet(changed)), &mut effects))
            });
        });
    }
}

criterion_group!(benches, one_change);
criterion_main!(benches);
