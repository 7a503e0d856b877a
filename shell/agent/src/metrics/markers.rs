//! The metrics of marker probes. No label names a pod: a marker may select thousands.

use std::collections::HashMap;
use std::sync::Mutex;

use api::WriteError;
use api::marker::ProbeState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// A probe of a marker.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct MarkerLabels {
    namespace: String,
    marker: String,
    probe: String,
}

impl MarkerLabels {
    /// Returns the labels of an entry `<marker>#<probe>`.
    pub(crate) fn new(namespace: &str, entry: &str) -> MarkerLabels {
        let (marker, probe) = entry.split_once('#').unwrap_or((entry, ""));
        MarkerLabels { namespace: namespace.to_owned(), marker: marker.to_owned(), probe: probe.to_owned() }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    namespace: String,
    marker: String,
    probe: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    namespace: String,
    marker: String,
    probe: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    resource: &'static str,
    result: &'static str,
}

/// The results of attempts, as `lifesign_marker_probe_total` names them.
const RESULTS: [&str; 4] = ["successful", "failed", "unknown", "error"];

/// The metrics of marker probes on one node.
pub(crate) struct MarkerMetrics {
    results: Family<ResultLabels, Counter>,
    transitions: Family<StateLabels, Counter>,
    suppressed: Family<CauseLabel, Counter>,
    writes: Family<WriteLabels, Counter>,
    /// Workers of each probe: the series go with the last one.
    workers: Mutex<HashMap<MarkerLabels, usize>>,
}

impl MarkerMetrics {
    pub(crate) fn register(registry: &mut Registry) -> MarkerMetrics {
        let results = Family::<ResultLabels, Counter>::default();
        registry.register("lifesign_marker_probe", "Attempts of marker probes by result", results.clone());
        let transitions = Family::<StateLabels, Counter>::default();
        registry.register("lifesign_marker_transitions", "Changes of marker probes by their new state", transitions.clone());
        let suppressed = Family::<CauseLabel, Counter>::default();
        registry.register("lifesign_marker_suppressed", "What was held back, by cause", suppressed.clone());
        let writes = Family::<WriteLabels, Counter>::default();
        registry.register("lifesign_marker_writes", "Writes for markers by how they ended", writes.clone());
        MarkerMetrics { results, transitions, suppressed, writes, workers: Mutex::default() }
    }

    /// An attempt ended.
    pub(super) fn ended(&self, labels: &MarkerLabels, result: &'static str) {
        self.results.get_or_create(&result_labels(labels, result)).inc();
    }

    /// Another state than before was reported.
    pub(crate) fn changed(&self, labels: &MarkerLabels, state: ProbeState) {
        self.transitions.get_or_create(&state_labels(labels, state)).inc();
    }

    /// Texts were held back.
    pub(crate) fn suppressed(&self, count: u64) {
        if count > 0 {
            self.suppressed.get_or_create(&CauseLabel { cause: "message_rate" }).inc_by(count);
        }
    }

    /// A write of the node's object has ended.
    pub(crate) fn wrote(&self, result: Result<(), WriteError>) {
        let result = result.err().map_or("ok", WriteError::word);
        self.writes.get_or_create(&WriteLabels { resource: "nodepodprobes/status", result }).inc();
    }

    pub(crate) fn worker_began(&self, labels: &MarkerLabels) {
        *self.workers.lock().expect("nothing panics while it is held").entry(labels.clone()).or_default() += 1;
    }

    pub(crate) fn worker_ended(&self, labels: &MarkerLabels) {
        let mut workers = self.workers.lock().expect("nothing panics while it is held");
        let Some(count) = workers.get_mut(labels) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        workers.remove(labels);
        for result in RESULTS {
            self.results.remove(&result_labels(labels, result));
        }
        for state in [ProbeState::Succeeded, ProbeState::Failed, ProbeState::Unknown] {
            self.transitions.remove(&state_labels(labels, state));
        }
    }
}

fn result_labels(labels: &MarkerLabels, result: &'static str) -> ResultLabels {
    let MarkerLabels { namespace, marker, probe } = labels.clone();
    ResultLabels { namespace, marker, probe, result }
}

fn state_labels(labels: &MarkerLabels, state: ProbeState) -> StateLabels {
    let MarkerLabels { namespace, marker, probe } = labels.clone();
    StateLabels { namespace, marker, probe, state: state.name() }
}
