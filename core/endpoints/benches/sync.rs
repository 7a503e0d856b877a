//! What a sync costs, from the event to the encoded bodies of the writes: first sync, one readiness flip, rolling replacement.
//!
//! Every flip is checked to be exactly one write.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use api::{EndpointSlice, Node, ObjectMeta, Pod, Service, Verb};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use endpoints::controller::{Answer, Effect, Input, Resource};
use endpoints::{Config, Controller, Settings};
use machine::{Machine, Time};
use serde_json::json;

const SIZES: [usize; 3] = [100, 1_000, 10_000];
const LISTS: [Resource; 4] = [Resource::Pods, Resource::Services, Resource::Nodes, Resource::Slices];

fn service() -> Service {
    let service = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "5f0c8a52-8c40-4a0e-9d3c-3d4f4d1f4a77",
            "creationTimestamp": "2026-11-15T08:00:00Z", "labels": {"app": "web", "team": "shop"}},
        "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    });
    serde_json::from_value(service).expect("a Service")
}

fn node(number: usize) -> Node {
    let zone = ["za", "zb", "zc"][number % 3];
    let node = json!({"metadata": {"name": format!("node-{number:03}"), "labels": {"topology.kubernetes.io/zone": zone}}});
    serde_json::from_value(node).expect("a Node")
}

fn pod(number: usize, ready: bool) -> Pod {
    let address = format!("10.{}.{}.{}", number / 62_500, number / 250 % 250, number % 250 + 1);
    let pod = json!({
        "metadata": {"name": format!("web-6d4b75cb6d-{number:05}"), "namespace": "default",
            "uid": format!("0b7a1c1e-4a55-4a0e-9d3c-{number:012}"), "resourceVersion": if ready { "1" } else { "2" },
            "labels": {"app": "web", "pod-template-hash": "6d4b75cb6d"}},
        "spec": {"nodeName": format!("node-{:03}", number % 100),
            "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-11-15T08:00:01Z"}]},
    });
    serde_json::from_value(pod).expect("a Pod")
}

fn leaving(number: usize) -> Pod {
    let mut pod = pod(number, true);
    pod.metadata.resource_version = "3".to_owned();
    pod.metadata.deletion_timestamp = pod.status.conditions[0].last_transition_time;
    pod
}

/// A controller and the API that answers its writes.
struct Plane {
    controller: Controller,
    now: Time,
    slices: BTreeMap<String, ObjectMeta>,
    effects: Vec<Effect>,
    writes: usize,
}

impl Plane {
    /// Everything is known but the last list is not complete.
    fn new(size: usize, batch: Duration) -> Plane {
        let controller = Controller::new(Config { batch, ..Config::default() });
        let (now, slices) = (Time::from_secs(1_794_729_600), BTreeMap::new());
        let mut plane = Plane { controller, now, slices, effects: Vec::new(), writes: 0 };
        (0..100).for_each(|number| plane.step(Input::Node(node(number).into())));
        plane.step(Input::Service(service().into()));
        (0..size).for_each(|number| plane.step(Input::Pod(pod(number, true).into())));
        plane
    }

    fn synced(size: usize, batch: Duration) -> Plane {
        let mut plane = Plane::new(size, batch);
        plane.start();
        plane
    }

    fn start(&mut self) {
        LISTS.into_iter().for_each(|list| self.step(Input::ListEnded(list)));
    }

    /// Takes an input, answers every write, and does so until nothing more is written.
    fn step(&mut self, input: impl Into<Option<Input>>) {
        let mut inputs = vec![input.into()];
        while let Some(input) = inputs.pop() {
            self.controller.step(self.now, input, &mut self.effects);
            for effect in self.effects.drain(..) {
                let Effect::Write { write, .. } = effect else { continue };
                self.writes += 1;
                let answer = match write.verb {
                    Verb::Create(body) => {
                        black_box(body);
                        let name = format!("web-{:05}", self.slices.len());
                        let meta = created(&name);
                        self.slices.insert(name, meta.clone());
                        Answer::Written(meta.into())
                    }
                    Verb::Update(body) => {
                        black_box(body);
                        let meta = self.slices.get_mut(&write.name).expect("it was created");
                        meta.generation += 1;
                        Answer::Written(meta.clone().into())
                    }
                    Verb::Delete { .. } => Answer::Deleted,
                    verb => panic!("{verb:?}"),
                };
                inputs.push(Some(Input::Answered { id: write.id, answer }));
            }
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
        self.step(None);
    }
}

fn created(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: format!("uid-of-{name}"),
        resource_version: "1".to_owned(),
        generation: 1,
        owner_references: vec![endpoints::labels::owner_reference("web", "5f0c8a52-8c40-4a0e-9d3c-3d4f4d1f4a77")],
        labels: endpoints::labels::wanted_labels(&service()),
        ..ObjectMeta::default()
    }
}

/// Pods become known, one by one, before the first sync.
fn learn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("learn");
    for size in SIZES {
        let inputs: Vec<Pod> = (0..size).map(|number| pod(number, true)).collect();
        group.throughput(Throughput::Elements(size as u64)).sample_size(20);
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            let setup = || (Plane::new(0, Duration::ZERO), inputs.iter().cloned().map(Arc::new).collect::<Vec<_>>());
            let routine = |(mut plane, pods): (Plane, Vec<Arc<Pod>>)| {
                pods.into_iter().for_each(|pod| plane.step(Input::Pod(pod)));
                plane
            };
            bench.iter_batched(setup, routine, BatchSize::LargeInput);
        });
    }
}

/// The first sync of a Service whose pods are known.
fn initial(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("initial");
    for size in SIZES {
        group.throughput(Throughput::Elements(size as u64)).sample_size(20);
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            let routine = |mut plane: Plane| {
                plane.start();
                assert_eq!(plane.writes, size.div_ceil(100));
                plane
            };
            bench.iter_batched(|| Plane::new(size, Duration::ZERO), routine, BatchSize::LargeInput);
        });
    }
}

fn flip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flip");
    for size in SIZES {
        let mut plane = Plane::synced(size, Duration::ZERO);
        let states: Vec<[Pod; 2]> = (0..size).map(|number| [pod(number, false), pod(number, true)]).collect();
        let mut flips = 0;
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            let setup = || {
                // A stride visits slices in an order that no cache can guess.
                let (round, number) = (flips / size, flips % size * 7_919 % size);
                flips += 1;
                Arc::new(states[number][round % 2].clone())
            };
            let routine = |pod: Arc<Pod>| {
                let before = plane.writes;
                plane.step(Input::Pod(pod));
                assert_eq!(plane.writes, before + 1, "exactly one slice is written");
            };
            bench.iter_batched(setup, routine, BatchSize::SmallInput);
        });
    }
}

/// What the same flip costs when everything is recomputed: the plan alone, without encoding.
fn recompute(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recompute");
    for size in SIZES {
        let settings = Settings::default();
        let mut pods: Vec<Pod> = (0..size).map(|number| pod(number, true)).collect();
        let nodes: Vec<Node> = (0..100).map(node).collect();
        let plan = |pods: &[Pod], slices: &[EndpointSlice]| {
            endpoints::plan::plan(&settings, &service(), pods, &nodes, slices).expect("managed")
        };
        let first = plan(&pods, &[]);
        let bodies = endpoints::plan::writes(&settings, &service(), &[], &first, None);
        let slices: Vec<EndpointSlice> = bodies
            .creates
            .iter()
            .enumerate()
            .map(|(number, body)| {
                let slice: EndpointSlice = serde_json::from_slice(body).expect("a slice");
                EndpointSlice { metadata: created(&format!("web-{number:05}")), ..slice }
            })
            .collect();
        pods[size / 2] = pod(size / 2, false);
        group.sample_size(20);
        group.bench_function(BenchmarkId::from_parameter(size), |bench| {
            bench.iter(|| assert_eq!(plan(&pods, &slices).updates.len(), 1));
        });
    }
}

/// A new pod, unready and ready, and the old one on its way out.
type Replacement = ([Arc<Pod>; 2], Arc<Pod>);

fn rolling(criterion: &mut Criterion) {
    for (name, batch) in [("rolling", Duration::ZERO), ("rolling-by-100", Duration::from_secs(1))] {
        let mut group = criterion.benchmark_group(name);
        for size in SIZES {
            group.throughput(Throughput::Elements(size as u64)).sample_size(10);
            group.bench_function(BenchmarkId::from_parameter(size), |bench| {
                let setup = || {
                    let new = |number| [pod(size + number, false), pod(size + number, true)].map(Arc::new);
                    let steps: Vec<_> = (0..size).map(|number| (new(number), Arc::new(leaving(number)))).collect();
                    (Plane::synced(size, batch), steps)
                };
                let routine = |(mut plane, steps): (Plane, Vec<Replacement>)| {
                    for (count, ([unready, ready], leaving)) in steps.into_iter().enumerate() {
                        let name = leaving.metadata.name.clone();
                        plane.step(Input::Pod(unready));
                        plane.step(Input::Pod(ready));
                        plane.step(Input::Pod(leaving));
                        plane.step(Input::PodDeleted { namespace: "default".to_owned(), name });
                        if count % 100 == 99 && !batch.is_zero() {
                            plane.pass(batch);
                        }
                    }
                    plane
                };
                bench.iter_batched(setup, routine, BatchSize::LargeInput);
            });
        }
    }
}

criterion_group!(benches, learn, initial, flip, recompute, rolling);
criterion_main!(benches);
