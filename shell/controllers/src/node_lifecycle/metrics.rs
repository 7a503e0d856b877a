//! What is measured about nodes and evictions, by the names of kube-controller-manager where it has one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use machine::Time;
use nodes::Monitor;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Zone {
    zone: String,
}

/// How a node was last heard.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Time,
    interval: Duration,
}

/// Heartbeats, told when they are asked for: their age changes by itself.
#[derive(Debug, Default)]
struct Heartbeats {
    nodes: Mutex<BTreeMap<String, Heard>>,
    grace_us: AtomicU64,
    clock: Mutex<Option<runtime::Clock>>,
}

/// The metrics of the node lifecycle controller.
#[derive(Clone, Debug)]
pub struct Metrics {
    heartbeats: Arc<Heartbeats>,
    gaps: Histogram,
    isolated: Gauge,
    health: Family<Zone, Gauge>,
    size: Family<Zone, Gauge>,
    unhealthy: Family<Zone, Gauge>,
    evictions: Family<Zone, Counter>,
    node_seconds: Histogram,
    all_seconds: Histogram,
    deletions: Counter,
    deletion_seconds: Histogram,
}

fn quick() -> Histogram {
    Histogram::new([0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384])
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            heartbeats: Arc::default(),
            gaps: Histogram::new([1.0, 5.0, 10.0, 12.0, 20.0, 25.0, 40.0, 60.0, 75.0, 120.0, 300.0, 600.0]),
            isolated: Gauge::default(),
            health: Family::default(),
            size: Family::default(),
            unhealthy: Family::default(),
            evictions: Family::default(),
            node_seconds: quick(),
            all_seconds: quick(),
            deletions: Counter::default(),
            deletion_seconds: Histogram::new([0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0]),
        };
        registry.register_collector(Box::new(Shared(Arc::clone(&metrics.heartbeats))));
        registry.register(
            "lifesign_node_heartbeat_gap_seconds",
            "From one heartbeat of a node to the next",
            metrics.gaps.clone(),
        );
        registry.register(
            "lifesign_control_plane_isolated",
            "Whether all nodes are silent at once, so that none is taken for dead",
            metrics.isolated.clone(),
        );
        registry.register("node_collector_zone_health", "Percentage of ready nodes per zone", metrics.health.clone());
        registry.register("node_collector_zone_size", "Nodes per zone", metrics.size.clone());
        let unhealthy = metrics.unhealthy.clone();
        registry.register("node_collector_unhealthy_nodes_in_zone", "Nodes that are not ready per zone", unhealthy);
        let evictions = metrics.evictions.clone();
        registry.register("node_collector_evictions", "Nodes whose pods were told to go", evictions);
        registry.register(
            "node_collector_update_node_health_duration_seconds",
            "Time to take what a node says",
            metrics.node_seconds.clone(),
        );
        registry.register(
            "node_collector_update_all_nodes_health_duration_seconds",
            "Time to look at all nodes",
            metrics.all_seconds.clone(),
        );
        let deletions = metrics.deletions.clone();
        registry.register("taint_eviction_controller_pod_deletions", "Pods evicted because of a taint", deletions);
        registry.register(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "From the instant that a pod was due to go to its deletion",
            metrics.deletion_seconds.clone(),
        );
        metrics
    }

    /// Sets the clock that ages are told by.
    pub(super) fn use_clock(&self, clock: &runtime::Clock) {
        *self.heartbeats.clock.lock().expect("no code panics while it holds the clock") = Some(clock.clone());
    }

    /// Takes a heartbeat and the duration that its Lease carries.
    pub(super) fn heard(&self, node: &str, now: Time, lease: Duration) {
        let mut nodes = self.heartbeats.nodes.lock().expect("no code panics while it holds the nodes");
        if let Some(before) = nodes.insert(node.to_owned(), Heard { at: now, interval: api::lease::interval_of(lease) }) {
            self.gaps.observe(now.since(before.at).as_secs_f64());
        }
    }

    /// Forgets a node.
    pub(super) fn gone(&self, node: &str) {
        self.heartbeats.nodes.lock().expect("no code panics while it holds the nodes").remove(node);
    }

    /// Takes how long it took to take a fact, or to look at all nodes.
    pub(super) fn took(&self, all: bool, took: Duration) {
        if all { &self.all_seconds } else { &self.node_seconds }.observe(took.as_secs_f64());
    }

    /// Takes the state of the monitor.
    pub(super) fn state(&self, monitor: &Monitor) {
        self.heartbeats
            .grace_us
            .store(u64::try_from(monitor.config().grace.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.isolated.set(i64::from(monitor.isolated()));
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for family in [&self.health, &self.size, &self.unhealthy] {
            family.clear();
        }
        for (zone, _, nodes, unhealthy) in monitor.zones() {
            let label = Zone { zone: zone.to_owned() };
            let percent = (100 * (nodes - unhealthy)).checked_div(nodes).unwrap_or(100);
            self.health.get_or_create(&label).set(number(percent));
            self.size.get_or_create(&label).set(number(nodes));
            self.unhealthy.get_or_create(&label).set(number(unhealthy));
        }
    }

    /// Counts a node whose pods are told to go.
    pub(super) fn tainted(&self, zone: &str) {
        self.evictions.get_or_create(&Zone { zone: zone.to_owned() }).inc();
    }

    /// Counts a pod that was deleted so long after it was due.
    pub(super) fn deleted(&self, late: Duration) {
        self.deletions.inc();
        self.deletion_seconds.observe(late.as_secs_f64());
    }
}

#[derive(Debug)]
struct Shared(Arc<Heartbeats>);

impl Collector for Shared {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let clock = self.0.clock.lock().expect("no code panics while it holds the clock").clone();
        let Some(now) = clock.map(|clock| clock.now()) else { return Ok(()) };
        let grace = Duration::from_micros(self.0.grace_us.load(Ordering::Relaxed));
        let nodes = self.0.nodes.lock().expect("no code panics while it holds the nodes");
        type Value = fn(&Heard, Time, Duration) -> f64;
        let series: [(&str, &str, Value); 3] = [
            ("interval_seconds", "How often a node speaks", |heard, _, _| heard.interval.as_secs_f64()),
            ("age_seconds", "For how long a node has been silent", |heard, now, _| now.since(heard.at).as_secs_f64()),
            ("chances", "How many heartbeats of a node fit into the grace", |heard, _, grace| {
                profiles::hazard::chances(heard.interval, grace) as f64
            }),
        ];
        for (name, help, value) in series {
            let name = format!("lifesign_node_heartbeat_{name}");
            let mut family = encoder.encode_descriptor(&name, help, None, prometheus_client::metrics::MetricType::Gauge)?;
            for (node, heard) in nodes.iter() {
                let labels = [("node", node.as_str())];
                ConstGauge::new(value(heard, now, grace)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
