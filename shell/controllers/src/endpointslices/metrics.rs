//! The metrics of the EndpointSlice controller, by the names of Kubernetes where it has one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use endpoints::metrics::{Gauges, Metric};
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

/// The default buckets of Prometheus clients, which Kubernetes uses here.
const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A counter whose name Kubernetes chose without `_total`: dashboards know it so.
#[derive(Clone, Debug, Default)]
struct PlainCounter(Arc<AtomicU64>);

impl PlainCounter {
    fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl TypedMetric for PlainCounter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for PlainCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        // As a gauge, because a counter would get the suffix.
        encoder.encode_gauge(&i64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(i64::MAX))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TransitionLabels {
    from: &'static str,
    to: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ChangedLabels {
    topology: &'static str,
    traffic_distribution: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DistributionLabel {
    traffic_distribution: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConditionLabels {
    ready: &'static str,
    serving: &'static str,
    terminating: &'static str,
}

/// The metrics of one controller; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    added: Histogram,
    removed: Histogram,
    desired: Gauge,
    slices: Gauge,
    desired_slices: Gauge,
    changes: Family<OperationLabel, PlainCounter>,
    changed: Family<ChangedLabels, Histogram, fn() -> Histogram>,
    syncs: Family<ResultLabel, PlainCounter>,
    services: Family<DistributionLabel, Gauge>,
    transitions: Family<TransitionLabels, Counter>,
    published: Family<ConditionLabels, Gauge>,
    sync_seconds: Histogram,
    latency_seconds: Histogram,
}

fn counts() -> Histogram {
    Histogram::new(exponential_buckets(2.0, 2.0, 15))
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics {
            added: counts(),
            removed: counts(),
            desired: Gauge::default(),
            slices: Gauge::default(),
            desired_slices: Gauge::default(),
            changes: Family::default(),
            changed: Family::new_with_constructor(|| Histogram::new(DEFAULT_BUCKETS)),
            syncs: Family::default(),
            services: Family::default(),
            transitions: Family::default(),
            published: Family::default(),
            sync_seconds: seconds(),
            latency_seconds: seconds(),
        };
        let to = registry.sub_registry_with_prefix("endpoint_slice_controller");
        to.register("endpoints_added_per_sync", "Endpoints added on each sync and family", metrics.added.clone());
        to.register("endpoints_removed_per_sync", "Endpoints removed on each sync and family", metrics.removed.clone());
        to.register("endpoints_desired", "Endpoints desired", metrics.desired.clone());
        to.register("num_endpoint_slices", "EndpointSlices", metrics.slices.clone());
        to.register("desired_endpoint_slices", "EndpointSlices with perfect packing", metrics.desired_slices.clone());
        to.register("changes", "Successful writes of EndpointSlices", metrics.changes.clone());
        to.register("endpointslices_changed_per_sync", "EndpointSlices changed on each sync", metrics.changed.clone());
        to.register("syncs", "Syncs of Services", metrics.syncs.clone());
        to.register("services_count_by_traffic_distribution", "Services by trafficDistribution", metrics.services.clone());
        to.register("endpoint_transitions", "Endpoints that went from one state to another", metrics.transitions.clone());
        to.register("endpoints", "Endpoints published, by conditions", metrics.published.clone());
        to.register("sync_duration_seconds", "Time of a sync with its writes", metrics.sync_seconds.clone());
        to.register("programming_latency_seconds", "Trigger time to successful write", metrics.latency_seconds.clone());
        metrics
    }

    /// Adds a measurement.
    pub(super) fn add(&self, metric: &Metric) {
        match *metric {
            Metric::Sync { result, duration } => {
                self.syncs.get_or_create(&ResultLabel { result: result.name() }).inc();
                if let Some(duration) = duration {
                    self.sync_seconds.observe(duration.as_secs_f64());
                }
            }
            Metric::Endpoints { added, removed } => {
                self.added.observe(added as f64);
                self.removed.observe(removed as f64);
            }
            Metric::Transition { from, to, count } => {
                let labels = TransitionLabels { from: from.name(), to: to.name() };
                self.transitions.get_or_create(&labels).inc_by(count as u64);
            }
            Metric::Changed { count, topology, traffic_distribution } => {
                self.changed.get_or_create(&ChangedLabels { topology, traffic_distribution }).observe(count as f64);
            }
            Metric::Change(operation) => {
                self.changes.get_or_create(&OperationLabel { operation: operation.name() }).inc();
            }
            Metric::ProgrammingLatency(latency) => self.latency_seconds.observe(latency.as_secs_f64()),
        }
    }

    /// Shows what is true now.
    pub(super) fn set(&self, gauges: &Gauges) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let word = |set: bool| if set { "true" } else { "false" };
        self.desired.set(number(gauges.desired));
        self.slices.set(number(gauges.slices));
        self.desired_slices.set(number(gauges.desired_slices));
        for (&traffic_distribution, &count) in &gauges.services {
            self.services.get_or_create(&DistributionLabel { traffic_distribution }).set(number(count));
        }
        for (kind, &count) in gauges.published.iter().enumerate() {
            let labels =
                ConditionLabels { ready: word(kind & 4 != 0), serving: word(kind & 2 != 0), terminating: word(kind & 1 != 0) };
            // A combination that never was has no series.
            if count > 0 || self.published.get(&labels).is_some() {
                self.published.get_or_create(&labels).set(number(count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoints::metrics::{Operation, SyncResult};
    use endpoints::transitions::EndpointState;
    use std::time::Duration;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn names_and_labels_are_those_of_kubernetes_and_the_specification() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.add(&Metric::Sync { result: SyncResult::Success, duration: Some(Duration::from_millis(3)) });
        metrics.add(&Metric::Change(Operation::Update));
        metrics.add(&Metric::Transition { from: EndpointState::Ready, to: EndpointState::TerminatingServing, count: 2 });
        metrics.add(&Metric::Endpoints { added: 3, removed: 0 });
        metrics.add(&Metric::Changed { count: 1, topology: "Disabled", traffic_distribution: "" });
        let mut gauges = Gauges { desired: 7, slices: 2, desired_slices: 1, ..Gauges::default() };
        gauges.published[6] = 5;
        metrics.set(&gauges);
        gauges.published[6] = 0;
        metrics.set(&gauges);
        let text = text(&registry);
        for line in [
            "# TYPE endpoint_slice_controller_changes counter",
            "endpoint_slice_controller_changes{operation=\"update\"} 1",
            "endpoint_slice_controller_syncs{result=\"success\"} 1",
            "endpoint_slice_controller_endpoint_transitions_total{from=\"ready\",to=\"terminating_serving\"} 2",
            "endpoint_slice_controller_endpoints_added_per_sync_bucket{le=\"2.0\"} 0",
            "endpoint_slice_controller_endpoints_added_per_sync_bucket{le=\"4.0\"} 1",
            "endpoint_slice_controller_endpoints_added_per_sync_bucket{le=\"32768.0\"} 1",
            "endpoint_slice_controller_endpointslices_changed_per_sync_count{topology=\"Disabled\",traffic_distribution=\"\"} 1",
            "endpoint_slice_controller_endpoints_desired 7",
            "endpoint_slice_controller_num_endpoint_slices 2",
            "endpoint_slice_controller_desired_endpoint_slices 1",
            "endpoint_slice_controller_endpoints{ready=\"true\",serving=\"true\",terminating=\"false\"} 0",
            "endpoint_slice_controller_sync_duration_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
