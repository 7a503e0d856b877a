//! The metrics of the marker controller. No label names a pod: a marker may select thousands.

use std::time::Duration;

use api::WriteError;
use markers::Key;
use markers::controller::Target;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MarkerLabels {
    namespace: String,
    marker: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    resource: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

/// The metrics of one controller; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    matched_pods: Family<MarkerLabels, Gauge>,
    writeback_seconds: Histogram,
    writes: Family<WriteLabels, Counter>,
    suppressed: Family<CauseLabel, Counter>,
    kruise_leads: Gauge,
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let matched_pods = Family::<MarkerLabels, Gauge>::default();
        registry.register("lifesign_marker_matched_pods", "Pods that a marker selects", matched_pods.clone());
        let writeback_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 15));
        registry.register(
            "lifesign_marker_writeback_latency_seconds",
            "Report of a state to the answer to the write of its pod",
            writeback_seconds.clone(),
        );
        let writes = Family::<WriteLabels, Counter>::default();
        registry.register("lifesign_marker_writes", "Writes for markers by how they ended", writes.clone());
        let suppressed = Family::<CauseLabel, Counter>::default();
        registry.register("lifesign_marker_suppressed", "What was held back, by cause", suppressed.clone());
        let kruise_leads = Gauge::default();
        registry.register(
            "lifesign_marker_kruise_leads",
            "1 while kruise-manager leads and markers are left to it",
            kruise_leads.clone(),
        );
        Metrics { matched_pods, writeback_seconds, writes, suppressed, kruise_leads }
    }

    /// A marker selects so many pods; `None`: it is gone.
    pub(super) fn matched(&self, marker: &Key, pods: Option<usize>) {
        let labels = MarkerLabels { namespace: marker.namespace.clone(), marker: marker.name.clone() };
        match pods {
            Some(pods) => drop(self.matched_pods.get_or_create(&labels).set(i64::try_from(pods).unwrap_or(i64::MAX))),
            None => drop(self.matched_pods.remove(&labels)),
        }
    }

    /// Markers are left to somebody else, or not any more.
    pub(super) fn kruise_leads(&self, leads: bool) {
        self.kruise_leads.set(i64::from(leads));
    }

    /// A request has ended.
    pub(super) fn wrote(&self, target: &Target, is_status: bool, error: Option<WriteError>, took: Duration) {
        let resource = match (target, is_status) {
            (Target::Node(_), _) => "nodepodprobes",
            (Target::Pod(_), false) => "pods",
            (Target::Pod(_), true) => "pods/status",
            (Target::Marker(_), false) => "podprobemarkers",
            (Target::Marker(_), true) => "podprobemarkers/status",
        };
        self.writes.get_or_create(&WriteLabels { resource, result: error.map_or("ok", WriteError::word) }).inc();
        if let (Target::Pod(_), None) = (target, error) {
            self.writeback_seconds.observe(took.as_secs_f64());
        }
    }

    /// Corrections of drift were put off.
    pub(super) fn put_off(&self, count: u64) {
        if count > 0 {
            self.suppressed.get_or_create(&CauseLabel { cause: "drift" }).inc_by(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_those_of_the_contract() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (marker, pod) = (Key::new("ns", "m"), Target::Pod(Key::new("ns", "p")));
        metrics.matched(&marker, Some(3));
        metrics.wrote(&pod, true, None, Duration::from_millis(3));
        metrics.wrote(&Target::Node("n".to_owned()), false, Some(WriteError::Conflict), Duration::ZERO);
        metrics.put_off(2);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let found = text();
        for line in [
            "lifesign_marker_matched_pods{namespace=\"ns\",marker=\"m\"} 3",
            "lifesign_marker_writeback_latency_seconds_count 1",
            "lifesign_marker_writes_total{resource=\"pods/status\",result=\"ok\"} 1",
            "lifesign_marker_writes_total{resource=\"nodepodprobes\",result=\"conflict\"} 1",
            "lifesign_marker_suppressed_total{cause=\"drift\"} 2",
        ] {
            assert!(found.lines().any(|has| has == line), "{line}\n{found}");
        }
        metrics.matched(&marker, None);
        assert!(!text().contains("marker=\"m\""), "a series goes with its marker");
    }
}
