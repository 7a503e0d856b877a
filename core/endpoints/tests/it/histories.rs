//! Laws that hold for every history.

use std::collections::BTreeMap;
use std::time::Duration;

use api::endpointslice::{CONTROLLER_NAME, MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use api::{FeatureGates, Gate, Node, Pod};
use endpoints::controller::Resource;
use endpoints::metrics::Gauges;
use endpoints::plan::plan;
use endpoints::{Config, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{Fault, World};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Pod { pod: usize, facts: PodFacts },
    PodDeleted(usize),
    Service { service: usize, variant: u16 },
    ServiceDeleted(usize),
    Node { node: usize, zone: usize },
    NodeDeleted(usize),
    Meddle { slice: usize, how: usize },
    Relist(usize),
    Late(bool),
    Fault(usize),
    Pass(u64),
}

#[derive(Clone, Debug)]
struct PodFacts {
    labels: u8,
    ready: bool,
    deleting: bool,
    terminal: bool,
    addresses: u8,
    node: usize,
    ports: u8,
    uid: u8,
    hostname: bool,
}

impl PodFacts {
    fn json(&self, pod: usize) -> Value {
        let name = format!("p{pod:02}");
        // What cannot change in a pod makes another pod.
        let uid = format!("{name}-{}-{}-{}", self.uid, self.ports, self.hostname);
        let mut labels = json!({});
        for (bit, key) in ["a", "b"].into_iter().enumerate() {
            if self.labels & (1 << bit) != 0 {
                labels[key] = json!("1");
            }
        }
        let (v4, v6) = (format!("10.0.0.{}", pod + 1), format!("fd00::{}", pod + 1));
        let addresses = match self.addresses {
            0 => vec![],
            1 => vec![v4],
            2 => vec![v6],
            3 => vec![v6, v4],
            4 => vec!["nonsense".to_owned()],
            _ => vec![v4, v6],
        };
        let ports: Vec<Value> = match self.ports {
            0 => vec![],
            1 => vec![json!({"name": "web", "containerPort": 8080})],
            2 => vec![json!({"name": "web", "containerPort": 8081})],
            _ => vec![
                json!({"name": "web", "containerPort": 8080}),
                json!({"name": "dns", "containerPort": 53, "protocol": "UDP"}),
            ],
        };
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels},
            "spec": {"nodeName": format!("n{}", self.node), "containers": [{"name": "c", "ports": ports}]},
            "status": {
                "phase": if self.terminal { "Failed" } else { "Running" },
                "podIPs": addresses.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
                "conditions": [{"type": "Ready", "status": if self.ready { "True" } else { "False" }}],
            },
        });
        if self.deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2031-01-01T00:00:30Z");
        }
        if self.hostname {
            pod["spec"]["hostname"] = json!("h");
            pod["spec"]["subdomain"] = json!("s0");
        }
        pod
    }
}

/// Returns a Service; every bit of the variant changes one thing about it.
fn service(number: usize, variant: u16) -> Value {
    let bit = |n: u16| variant & (1 << n) != 0;
    let selector = match number {
        0 => json!({"a": "1"}),
        1 => json!({"b": "1"}),
        _ => json!({"a": "1", "b": "1"}),
    };
    let mut service = json!({
        "metadata": {
            "name": format!("s{number}"), "namespace": "default", "uid": format!("s{number}-{}", u8::from(bit(0) && bit(1))),
            "creationTimestamp": "2031-01-01T00:00:00Z", "labels": if bit(2) { json!({"team": "x"}) } else { json!({}) },
        },
        "spec": {
            "clusterIP": if bit(3) { "None" } else { "10.96.0.1" },
            "ipFamilies": if bit(4) { json!(["IPv6", "IPv4"]) } else { json!(["IPv4"]) },
            "selector": if bit(5) && bit(6) { json!({}) } else { selector },
            "ports": if bit(5) { json!([{"name": "http", "port": 80, "targetPort": 8080}]) } else {
                json!([{"name": "http", "port": 80, "targetPort": "web"}, {"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"}])
            },
            "publishNotReadyAddresses": bit(7),
        },
    });
    if bit(8) {
        service["spec"]["trafficDistribution"] = json!(if bit(6) { "PreferSameNode" } else { "PreferClose" });
    }
    if bit(9) && bit(2) && bit(5) {
        service["metadata"]["deletionTimestamp"] = json!("2031-01-01T00:00:30Z");
    }
    service
}

fn facts() -> impl Strategy<Value = PodFacts> {
    let state = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    let rest = (0u8..4, prop_oneof![4 => Just(5u8), 1 => 0u8..5], prop_oneof![5 => 0usize..2, 1 => Just(2usize)]);
    (state, rest, 0u8..4, prop_oneof![5 => Just(0u8), 1 => Just(1u8)], prop::bool::weighted(0.1)).prop_map(
        |((ready, deleting, terminal), (labels, addresses, node), ports, uid, hostname)| PodFacts {
            labels,
            ready,
            deleting,
            terminal,
            addresses,
            node,
            ports,
            uid,
            hostname,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => (0usize..12, facts()).prop_map(|(pod, facts)| Event::Pod { pod, facts }),
        5 => (0usize..12).prop_map(Event::PodDeleted),
        3 => (0usize..3, 0u16..1024).prop_map(|(service, variant)| Event::Service { service, variant }),
        1 => (0usize..3).prop_map(Event::ServiceDeleted),
        3 => (0usize..3, 0usize..3).prop_map(|(node, zone)| Event::Node { node, zone }),
        1 => (0usize..3).prop_map(Event::NodeDeleted),
        3 => (0usize..8, 0usize..8).prop_map(|(slice, how)| Event::Meddle { slice, how }),
        1 => (0usize..4).prop_map(Event::Relist),
        1 => any::<bool>().prop_map(Event::Late),
        1 => (0usize..2).prop_map(Event::Fault),
        4 => prop_oneof![Just(1u64), Just(300), Just(1_000), Just(5_000)].prop_map(Event::Pass),
    ]
}

fn apply(world: &mut World, event: &Event) {
    match event {
        Event::Pod { pod, facts } => world.put_pod(facts.json(*pod)),
        Event::PodDeleted(pod) => world.delete_pod(&format!("p{pod:02}")),
        Event::Service { service: number, variant } => world.put_service(service(*number, *variant)),
        Event::ServiceDeleted(number) => world.delete_service(&format!("s{number}")),
        Event::Node { node, zone } => world.put_node(&format!("n{node}"), [None, Some("za"), Some("zb")][*zone]),
        Event::NodeDeleted(node) => world.delete_node(&format!("n{node}")),
        Event::Meddle { slice, how } => meddle(world, *slice, *how),
        Event::Relist(kind) => {
            world.relist([Resource::Pods, Resource::Services, Resource::Nodes, Resource::Slices][*kind]);
        }
        Event::Late(late) => {
            world.late = *late;
            world.deliver_events();
        }
        Event::Fault(fault) => world.faults.push_back([Fault::Refused, Fault::Lost][*fault]),
        Event::Pass(millis) => world.pass(Duration::from_millis(*millis)),
    }
}

/// Lets somebody else write, copy, take, give or delete a slice.
fn meddle(world: &mut World, slice: usize, how: usize) {
    let names: Vec<String> = world.slices.keys().cloned().collect();
    let Some(name) = names.get(slice % names.len().max(1)) else {
        let labels = json!({SERVICE_NAME_LABEL: "s0", MANAGED_BY_LABEL: CONTROLLER_NAME});
        let stray = json!({"metadata": {"labels": labels}, "addressType": "IPv4", "endpoints": [], "ports": []});
        return world.meddle("stray", Some(stray));
    };
    let mut body = world.slices[name].clone();
    match how {
        0 => return world.meddle(name, None),
        1 => body["endpoints"].as_array_mut().expect("a list").truncate(1),
        2 => body["metadata"]["labels"]["foreign"] = json!("x"),
        3 => body["metadata"]["annotations"] = json!({"foreign": "x"}),
        4 => body["metadata"]["labels"][MANAGED_BY_LABEL] = json!("somebody"),
        5 => body["metadata"]["labels"][SERVICE_NAME_LABEL] = json!("s1"),
        6 => return world.meddle(&format!("{name}-copy"), Some(body)),
        _ => {
            for endpoint in body["endpoints"].as_array_mut().expect("a list") {
                endpoint["conditions"] = json!({"ready": false, "serving": true, "terminating": false});
                endpoint["hints"] = json!({"forZones": [{"name": "zq"}]});
            }
        }
    }
    world.meddle(name, Some(body));
}

fn config(max: usize, gate: bool, batch: u64) -> Config {
    let gates = FeatureGates::default().with(Gate::EndpointSliceTerminatingCondition, gate);
    Config {
        settings: Settings { max_endpoints_per_slice: max, ..Settings::new(&gates) },
        concurrent_syncs: 2,
        batch: Duration::from_millis(batch),
    }
}

/// What is listed is what is wanted: each endpoint in exactly one slice of its ports and family.
fn assert_consistent(world: &World) {
    let pods: Vec<Pod> = world.pods.values().cloned().collect();
    let nodes: Vec<Node> = world.nodes.values().cloned().collect();
    for (name, service) in &world.services {
        if service.metadata.deleting() {
            continue;
        }
        assert_eq!(world.recomputed(name), Default::default(), "nothing is left to write for {name}");
        let Some(wanted) = plan(&world.config.settings, service, &pods, &nodes, &[]) else { continue };
        let mut listed: Vec<Value> = Vec::new();
        for slice in world.stored().iter().filter(|slice| slice.service_name() == name && slice.managed_by() == CONTROLLER_NAME)
        {
            for endpoint in &slice.endpoints {
                listed.push(json!([slice.address_type, slice.ports, endpoint.addresses, endpoint.target_ref]));
            }
        }
        let mut expected: Vec<Value> = Vec::new();
        for slice in &wanted.creates {
            for record in &slice.packed.records {
                let endpoint = record.endpoint("default", endpoints::hints::Mode::None);
                expected.push(json!([
                    slice.family.name(),
                    slice.packed.ports.listed(),
                    endpoint.addresses,
                    endpoint.target_ref
                ]));
            }
        }
        let sorted = |mut list: Vec<Value>| {
            list.sort_by_key(Value::to_string);
            list
        };
        assert_eq!(sorted(listed), sorted(expected), "what {name} lists");
    }
}

/// What the gauges should say, counted from scratch.
fn counted(world: &World) -> Gauges {
    let mut gauges = Gauges::default();
    let pods: Vec<Pod> = world.pods.values().cloned().collect();
    let nodes: Vec<Node> = world.nodes.values().cloned().collect();
    for (name, service) in &world.services {
        let Some(plan) = plan(&world.config.settings, service, &pods, &nodes, &[]) else { continue };
        gauges.desired += plan.endpoints;
        gauges.desired_slices += plan.slices;
        for slice in world.stored().iter().filter(|slice| slice.service_name() == name && slice.managed_by() == CONTROLLER_NAME)
        {
            gauges.slices += 1;
            for endpoint in &slice.endpoints {
                gauges.published[endpoints::content::kind(&endpoint.conditions)] += 1;
            }
        }
        if let Some(distribution) = &service.spec.traffic_distribution {
            *gauges.services.entry(endpoints::metrics::known_distribution(distribution)).or_default() += 1;
        }
    }
    gauges
}

fn run(events: &[Event], config: Config, api_gate: bool) -> World {
    let mut world = World::new(config);
    world.api_gate = api_gate;
    world.start();
    world.put_node("n0", Some("za"));
    world.put_node("n1", None);
    for number in 0..3 {
        world.put_service(service(number, [0, 0b0001_1000, 0b1_0000_0000][number]));
    }
    for event in events {
        apply(&mut world, event);
    }
    world.late = false;
    world.faults.clear();
    world.deliver_events();
    if events.iter().any(|event| matches!(event, Event::NodeDeleted(_))) {
        // The end of a node is no reason for a sync, so somebody else must give one.
        nudge(&mut world);
    }
    world.pass(Duration::from_secs(4_000));
    world
}

/// Shows every Service again as it is.
fn nudge(world: &mut World) {
    for service in world.services.clone().into_values() {
        world.put_service(serde_json::to_value(&service).expect("JSON"));
    }
}

/// How many histories each law is tried on: a quarter of what is asked for (`PROPTEST_CASES`), for each is long.
fn cases() -> u32 {
    ProptestConfig::default().cases / 4
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// The world compares every write with full recomputation from the same slices, in every history.
    #[test]
    fn increments_write_what_recomputation_writes(
        events in prop::collection::vec(event(), 1..80),
        max in 1usize..5,
        batch in prop_oneof![2 => Just(0u64), 1 => Just(400)],
    ) {
        let world = run(&events, config(max, true, batch), true);
        assert_consistent(&world);
        let (mut got, counted) = (world.controller.gauges().clone(), counted(&world));
        got.services.retain(|_, count| *count > 0);
        prop_assert_eq!(got, counted);
    }

    /// With the gate off, here or in the API, nothing is written again and again.
    #[test]
    fn a_gate_that_is_off_does_not_make_writes_repeat(events in prop::collection::vec(event(), 1..50), gate in any::<bool>()) {
        let mut world = run(&events, config(3, gate, 0), false);
        world.writes_done();
        nudge(&mut world);
        world.pass(Duration::from_secs(10));
        prop_assert_eq!(world.writes_done(), (0, 0, 0));
    }

    /// A new instance that finds the slices of the old one writes nothing.
    #[test]
    fn a_restart_writes_nothing(events in prop::collection::vec(event(), 1..50)) {
        let mut world = run(&events, config(3, true, 0), true);
        let before = world.slices.clone();
        world.writes_done();
        world.restart(config(3, true, 0));
        world.pass(Duration::from_secs(10));
        if world.services.values().all(|service| !service.metadata.deleting()) {
            prop_assert_eq!(world.writes_done(), (0, 0, 0));
            prop_assert_eq!(&world.slices, &before);
        }
    }

    /// The order in which things become known before the start does not matter.
    #[test]
    fn the_order_of_the_inputs_does_not_matter(
        pods in prop::collection::btree_map(0usize..12, facts(), 0..12),
        seed in any::<u64>(),
    ) {
        let settings = Settings { max_endpoints_per_slice: 3, ..Settings::default() };
        let service: api::Service = serde_json::from_value(service(0, 16)).unwrap();
        let nodes: Vec<Node> = vec![serde_json::from_value(json!({"metadata": {"name": "n0"}})).unwrap()];
        let mut pods: Vec<Pod> = pods.iter().map(|(pod, facts)| serde_json::from_value(facts.json(*pod)).unwrap()).collect();
        let first = plan(&settings, &service, &pods, &nodes, &[]);
        let mut rng = machine::Rng::new(seed);
        let keys: BTreeMap<String, u64> = pods.iter().map(|pod| (pod.metadata.name.clone(), rng.next_u64())).collect();
        pods.sort_by_key(|pod| keys[&pod.metadata.name]);
        prop_assert_eq!(first, plan(&settings, &service, &pods, &nodes, &[]));
    }
}
