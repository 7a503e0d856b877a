//! What is measured about the traffic with the API.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    kind: &'static str,
    verb: &'static str,
    result: &'static str,
}

/// The metrics of the traffic with the API; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    writes: Family<WriteLabels, Counter>,
    events: Family<KindLabel, Counter>,
}

impl Metrics {
    /// Makes the metrics known to a registry.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        registry.register(
            "lifesign_informer_events",
            "Objects read from lists and watches, each parsed once",
            metrics.events.clone(),
        );
        registry.register("lifesign_api_writes", "Writes to the API by how they ended", metrics.writes.clone());
        metrics
    }

    /// Counts a write.
    pub(crate) fn wrote(&self, kind: &'static str, verb: &'static str, result: &'static str) {
        self.writes.get_or_create(&WriteLabels { kind, verb, result }).inc();
    }

    /// Counts an object that was parsed.
    pub(crate) fn parsed(&self, kind: &'static str) {
        self.events.get_or_create(&KindLabel { kind }).inc();
    }
}
