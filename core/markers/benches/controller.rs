//! What one marker over 250 nodes with 40 pods each costs the controller: created, changed, deleted.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use api::marker::{NodePodProbe, PodProbeMarker};
use api::{Node, Pod, Verb};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use machine::{Machine, Time};
use markers::Controller;
use markers::controller::{Effect, Input, Object, Target, Watched};
use serde_json::{Value, json};

const NODES: usize = 250;
const PODS_PER_NODE: usize = 40;

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("the view reads it")
}

fn marker(generation: i64) -> PodProbeMarker {
    read(json!({
        "metadata": {"name": "m", "namespace": "ns", "uid": "m", "generation": generation, "resourceVersion": generation.to_string(),
            "finalizers": [api::marker::MARKER_FINALIZER]},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "probes": [{"name": "p", "containerName": "app",
            "probe": {"exec": {"command": ["check"]}, "periodSeconds": generation}, "podConditionType": "x.io/p"}]},
    }))
}

/// A controller that knows the cluster and has nothing to do.
fn cluster() -> (Controller, Time) {
    let mut controller = Controller::new();
    let names = || (0..NODES).map(|n| format!("node-{n}"));
    let nodes: Vec<Node> = names()
        .map(|name| read(json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})))
        .collect();
    let objects: Vec<NodePodProbe> = names().map(|name| read(json!({"metadata": {"name": name, "uid": name}}))).collect();
    let pod = |node: String, p: usize| -> Pod {
        read(json!({
            "metadata": {"name": format!("{node}-{p}"), "namespace": "ns", "uid": format!("{node}-{p}"), "labels": {"app": "x"}},
            "spec": {"nodeName": node, "containers": [{"name": "app"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Initialized", "status": "True"}]},
        }))
    };
    let pods = names().flat_map(|node| (0..PODS_PER_NODE).map(move |p| (node.clone(), p))).map(|(node, p)| pod(node, p));
    let now = Time::from_secs(1);
    let objects = nodes
        .into_iter()
        .map(|node| Object::Node(node.into()))
        .chain(objects.into_iter().map(|object| Object::NodePodProbe(Arc::new(object))))
        .chain(pods.map(|pod| Object::Pod(pod.into())));
    let inputs = objects.map(Input::Applied).chain(Watched::ALL.map(Input::Synced));
    inputs.for_each(|input| controller.step(now, Some(input), &mut Vec::new()));
    let now = settle(&mut controller, now, Vec::new());
    (controller, now)
}

/// Answers every request at once until nothing is left to do.
fn settle(controller: &mut Controller, mut now: Time, mut effects: Vec<Effect>) -> Time {
    let mut generation = 1;
    loop {
        for effect in std::mem::take(&mut effects) {
            let Effect::Write { target, write, .. } = effect else { continue };
            let object = match (&target, &write.verb) {
                (Target::Node(name), Verb::Merge(patch)) => {
                    generation += 1;
                    let metadata = json!({"name": name, "uid": name, "generation": generation});
                    Some(Object::NodePodProbe(Arc::new(read(json!({"metadata": metadata, "spec": patch["spec"]})))))
                }
                _ => None,
            };
            controller.step(now, Some(Input::Written(target, Ok(object))), &mut effects);
        }
        match controller.deadline().filter(|at| effects.is_empty() && *at < now + Duration::from_secs(5)) {
            Some(at) => {
                now = at;
                controller.step(now, None, &mut effects);
            }
            None if effects.is_empty() => return now,
            None => {}
        }
    }
}

fn one_marker(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("marker over 250 nodes x 40 pods");
    group.sample_size(10);
    let apply = |(mut controller, now): (Controller, Time), input: Input| {
        let mut effects = Vec::new();
        controller.step(now, Some(input), &mut effects);
        let end = settle(&mut controller, now, effects);
        (controller, end)
    };
    let created = || Input::Applied(Object::Marker(marker(1).into()));
    group.bench_function("created", |b| b.iter_batched(cluster, |c| black_box(apply(c, created())), BatchSize::PerIteration));
    let with = || apply(cluster(), created());
    group.bench_function("changed", |b| {
        b.iter_batched(
            with,
            |c| black_box(apply(c, Input::Applied(Object::Marker(marker(2).into())))),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("deleted", |b| {
        b.iter_batched(
            with,
            |c| black_box(apply(c, Input::Deleted(Object::Marker(marker(1).into())))),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn one_pod(bench: &mut Criterion) {
    let (mut controller, now) = cluster();
    let mut effects = Vec::new();
    controller.step(now, Some(Input::Applied(Object::Marker(marker(1).into()))), &mut effects);
    let mut now = settle(&mut controller, now, effects);
    let mut round = 0u8;
    bench.bench_function("address of one of 10000 pods changes", |b| {
        b.iter(|| {
            round = round.wrapping_add(1);
            let pod: Pod = read(json!({
                "metadata": {"name": "node-7-7", "namespace": "ns", "uid": "node-7-7", "labels": {"app": "x"}},
                "spec": {"nodeName": "node-7", "containers": [{"name": "app"}]},
                "status": {"phase": "Running", "podIP": format!("10.0.0.{round}"), "conditions": [{"type": "Initialized", "status": "True"}]},
            }));
            let mut effects = Vec::new();
            controller.step(now, Some(Input::Applied(Object::Pod(pod.into()))), &mut effects);
            now = settle(&mut controller, now, effects);
        });
    });
}

criterion_group!(benches, one_marker, one_pod);
criterion_main!(benches);
