//! What the proxy measures: how long a change takes until it is acted on, and which endpoints its ports use.

use std::time::Duration;

use endpoints::usable::Mode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModeLabel {
    mode: &'static str,
}

/// The metrics of the proxy; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    programming_seconds: Histogram,
    ports: Family<ModeLabel, Gauge>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics { programming_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 18)), ports: Family::default() }
    }
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        registry.register(
            "kubeproxy_network_programming_duration_seconds",
            "Trigger time of a change of endpoints to listeners that know it",
            metrics.programming_seconds.clone(),
        );
        registry.register(
            "lifesign_proxy_service_ports",
            "Ports of Services by the endpoints that they use: ready, serving-terminating, none",
            metrics.ports.clone(),
        );
        metrics
    }

    /// A change of endpoints has reached the listeners.
    pub(crate) fn programmed_after(&self, span: Duration) {
        self.programming_seconds.observe(span.as_secs_f64());
    }

    /// A port uses such endpoints from now on, or not any more.
    pub(crate) fn count_port(&self, mode: Mode, change: i64) {
        self.ports.get_or_create(&ModeLabel { mode: mode.name() }).inc_by(change);
    }

    #[cfg(test)]
    pub(crate) fn ports(&self, mode: Mode) -> i64 {
        self.ports.get_or_create(&ModeLabel { mode: mode.name() }).get()
    }
}
