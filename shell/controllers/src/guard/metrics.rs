//! The metrics of the guard.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The metrics of one guard; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    pods: Gauge,
    lost_agents: Gauge,
    events: Family<ReasonLabel, Counter>,
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let (pods, lost_agents) = (Gauge::default(), Gauge::default());
        registry.register("lifesign_moved_probe_pods", "Pods with moved readiness probes", pods.clone());
        registry.register(
            "lifesign_agents_lost",
            "Agents whose Lease has expired, as far as that is believed",
            lost_agents.clone(),
        );
        let events = Family::<ReasonLabel, Counter>::default();
        registry.register("lifesign_guard_events", "What the guard of moved probes has reported", events.clone());
        Metrics { pods, lost_agents, events }
    }

    pub(super) fn reported(&self, reason: &'static str) {
        self.events.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(super) fn counts(&self, pods: usize, lost_agents: usize) {
        self.pods.set(i64::try_from(pods).unwrap_or(i64::MAX));
        self.lost_agents.set(i64::try_from(lost_agents).unwrap_or(i64::MAX));
    }
}
