//! The metrics of the agent: the kubelet's names where it has one, ours else. Names and labels are a contract.
//!
//! Series of a pod go with its workers. What is a state and not a count (workers by phase, fields in use) is counted when
//! somebody asks.

mod markers;

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use api::{HandlerKind, ProbeType};
use probe::{Outcome, Report};

use crate::executors::KnockCounters;

pub(crate) use markers::MarkerLabels;
use markers::MarkerMetrics;

/// The `probe_type` of marker probes.
pub(crate) const MARKER: &str = "Marker";

/// A worker, as the kubelet's metrics name it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct WorkerLabels {
    pub(crate) probe_type: &'static str,
    pub(crate) container: String,
    pub(crate) pod: String,
    pub(crate) namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    probe_type: &'static str,
    result: &'static str,
    container: String,
    pod: String,
    namespace: String,
    pod_uid: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptLabels {
    probe_type: &'static str,
    handler: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HandlerLabel {
    handler: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OverrunLabels {
    probe_type: &'static str,
    handler: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Workers that do the same.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct PhaseLabels {
    pub(crate) probe_type: &'static str,
    pub(crate) handler: &'static str,
    pub(crate) phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FieldLabel {
    field: &'static str,
}

/// What is counted when somebody asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentCounts {
    pub(crate) workers: BTreeMap<PhaseLabels, i64>,
    /// Workers that use each millisecond field.
    pub(crate) offsets: BTreeMap<&'static str, i64>,
    pub(crate) pods: i64,
    pub(crate) events_dropped: u64,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn from_a_millisecond() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn from_a_tenth_of_a_millisecond() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 18))
}

/// The metrics of one agent.
pub(crate) struct Metrics {
    /// What `/metrics/probes` serves.
    probes: Registry,
    /// What `/metrics` serves.
    all: Registry,
    results: Family<ResultLabels, Counter>,
    durations: Histograms<WorkerLabels>,
    attempts: Histograms<AttemptLabels>,
    start_lag: Histograms<HandlerLabel>,
    overruns: Family<OverrunLabels, Counter>,
    knocks: Family<ResultLabel, Counter>,
    discarded: Family<ReasonLabel, Counter>,
    workers: Family<PhaseLabels, Gauge>,
    offsets: Family<FieldLabel, Gauge>,
    ready_seconds: Histogram,
    publish_seconds: Histogram,
    pods: Gauge,
    events_dropped: Gauge,
    status_writes: Family<ReasonLabel, Counter>,
    pub(crate) markers: MarkerMetrics,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut probes = Registry::default();
        let results = Family::<ResultLabels, Counter>::default();
        probes.register("prober_probe", "Attempts of probes by result", results.clone());
        let durations: Histograms<WorkerLabels> = Family::new_with_constructor(from_a_millisecond);
        probes.register("prober_probe_duration_seconds", "Time that successful attempts took", durations.clone());

        let mut all = Registry::default();
        let attempts: Histograms<AttemptLabels> = Family::new_with_constructor(from_a_tenth_of_a_millisecond);
        all.register("lifesign_probe_attempt_seconds", "Time that attempts took", attempts.clone());
        let start_lag: Histograms<HandlerLabel> = Family::new_with_constructor(from_a_tenth_of_a_millisecond);
        all.register("lifesign_probe_start_lag_seconds", "Real start of attempts after they were due", start_lag.clone());
        let overruns = Family::<OverrunLabels, Counter>::default();
        all.register("lifesign_probe_overruns", "Attempts that took so long that later ones moved", overruns.clone());
        let knocks = Family::<ResultLabel, Counter>::default();
        all.register("lifesign_probe_knocks", "Connections to targets that do not listen yet, by result", knocks.clone());
        let discarded = Family::<ReasonLabel, Counter>::default();
        all.register("lifesign_probe_discarded", "Attempts that say nothing about their target", discarded.clone());
        let workers = Family::<PhaseLabels, Gauge>::default();
        all.register("lifesign_probe_workers", "Workers by what they do", workers.clone());
        let offsets = Family::<FieldLabel, Gauge>::default();
        all.register("lifesign_probe_offsets", "Workers that use a millisecond field", offsets.clone());
        let ready_seconds = from_a_millisecond();
        all.register("lifesign_container_ready_seconds", "Start of a container to its first ready", ready_seconds.clone());
        let publish_seconds = from_a_tenth_of_a_millisecond();
        all.register(
            "lifesign_probe_publish_seconds",
            "End of an attempt to the answer to its status write",
            publish_seconds.clone(),
        );
        let pods = Gauge::default();
        all.register("lifesign_agent_pods", "Pods on the node", pods.clone());
        let events_dropped = Gauge::default();
        all.register("lifesign_agent_events_dropped", "Events that could not be written", events_dropped.clone());
        let status_writes = Family::<ReasonLabel, Counter>::default();
        all.register("lifesign_agent_status_writes", "Status writes of pods by how they ended", status_writes.clone());
        let markers = MarkerMetrics::register(&mut all);
        Metrics {
            probes,
            all,
            results,
            durations,
            attempts,
            start_lag,
            overruns,
            knocks,
            discarded,
            workers,
            offsets,
            ready_seconds,
            publish_seconds,
            pods,
            events_dropped,
            status_writes,
            markers,
        }
    }

    /// An attempt began.
    pub(crate) fn began(&self, handler: HandlerKind, lag: Duration) {
        self.start_lag.get_or_create(&HandlerLabel { handler: handler.field() }).observe(lag.as_secs_f64());
    }

    /// An attempt of a container's worker ended.
    pub(crate) fn ended(&self, worker: &WorkerLabels, pod_uid: &str, handler: HandlerKind, report: &Report, took: Duration) {
        let result = result_name(report.outcome);
        self.results.get_or_create(&result_labels(worker, pod_uid, result)).inc();
        if result == "successful" {
            self.durations.get_or_create(worker).observe(took.as_secs_f64());
        }
        self.attempted(worker.probe_type, handler, report, took);
    }

    /// An attempt of a marker's worker ended.
    pub(crate) fn marker_ended(&self, worker: &MarkerLabels, handler: HandlerKind, report: &Report, took: Duration) {
        self.markers.ended(worker, result_name(report.outcome));
        self.attempted(MARKER, handler, report, took);
    }

    fn attempted(&self, probe_type: &'static str, handler: HandlerKind, report: &Report, took: Duration) {
        let outcome = outcome_name(report.outcome);
        let labels = AttemptLabels { probe_type, handler: handler.field(), outcome };
        self.attempts.get_or_create(&labels).observe(took.as_secs_f64());
        if let Some(reason) = report.discarded {
            self.discarded.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
        }
    }

    /// A worker has ended: its series go.
    pub(crate) fn forget(&self, worker: &WorkerLabels, pod_uid: &str) {
        for result in ["successful", "failed", "unknown", "error"] {
            self.results.remove(&result_labels(worker, pod_uid, result));
        }
        self.durations.remove(worker);
    }

    pub(crate) fn overran(&self, probe: ProbeType, handler: HandlerKind) {
        self.overruns.get_or_create(&OverrunLabels { probe_type: probe.name(), handler: handler.field() }).inc();
    }

    pub(crate) fn marker_overran(&self, handler: HandlerKind) {
        self.overruns.get_or_create(&OverrunLabels { probe_type: MARKER, handler: handler.field() }).inc();
    }

    pub(crate) fn stale(&self) {
        self.discarded.get_or_create(&ReasonLabel { reason: "stale" }).inc();
    }

    /// Returns where knocks are counted; every result has a series from the start.
    pub(crate) fn knock_counters(&self) -> KnockCounters {
        let counter = |result| self.knocks.get_or_create(&ResultLabel { result }).clone();
        KnockCounters {
            refused: counter("refused"),
            accepted: counter("accepted"),
            unanswered: counter("unanswered"),
            failed: counter("failed"),
        }
    }

    /// A container became ready for the first time.
    pub(crate) fn ready_after(&self, span: Duration) {
        self.ready_seconds.observe(span.as_secs_f64());
    }

    /// What an attempt changed has arrived in the API.
    pub(crate) fn published_after(&self, span: Duration) {
        self.publish_seconds.observe(span.as_secs_f64());
    }

    /// A status write has ended.
    pub(crate) fn wrote(&self, reason: &'static str) {
        self.status_writes.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Returns the text of `/metrics`, or of `/metrics/probes`.
    pub(crate) fn text(&self, counts: Option<&AgentCounts>) -> String {
        let mut text = String::new();
        match counts {
            None => {
                let _ = encode(&mut text, &self.probes);
            }
            Some(counts) => {
                self.workers.clear();
                for (labels, count) in &counts.workers {
                    self.workers.get_or_create(labels).set(*count);
                }
                for field in api::probe_rules::OFFSET_FIELDS {
                    self.offsets.get_or_create(&FieldLabel { field }).set(counts.offsets.get(field).copied().unwrap_or(0));
                }
                self.pods.set(counts.pods);
                self.events_dropped.set(i64::try_from(counts.events_dropped).unwrap_or(i64::MAX));
                // Writing to a text cannot fail.
                let _ = encode(&mut text, &self.all);
            }
        }
        text
    }
}

/// Returns the word for an outcome, as metrics and people read it.
pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "success",
        Outcome::Warning => "warning",
        Outcome::Failure => "failure",
        Outcome::Unknown => "unknown",
        Outcome::Error => "error",
    }
}

/// Returns the word for an outcome, as the kubelet's metrics have it.
fn result_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success | Outcome::Warning => "successful",
        Outcome::Failure => "failed",
        Outcome::Unknown => "unknown",
        Outcome::Error => "error",
    }
}

fn result_labels(worker: &WorkerLabels, pod_uid: &str, result: &'static str) -> ResultLabels {
    ResultLabels {
        probe_type: worker.probe_type,
        result,
        container: worker.container.clone(),
        pod: worker.pod.clone(),
        namespace: worker.namespace.clone(),
        pod_uid: pod_uid.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_those_of_the_contract() {
        let metrics = Metrics::new();
        let worker = WorkerLabels {
            probe_type: ProbeType::Readiness.name(),
            container: "app".to_owned(),
            pod: "web".to_owned(),
            namespace: "shop".to_owned(),
        };
        metrics.began(HandlerKind::HttpGet, Duration::from_millis(2));
        metrics.ended(&worker, "u1", HandlerKind::HttpGet, &Report::success(), Duration::from_millis(3));
        let late = probe::outcome::timed_out(Duration::from_secs(1), Duration::from_secs(1));
        metrics.ended(&worker, "u1", HandlerKind::HttpGet, &late, Duration::from_secs(1));
        metrics.overran(ProbeType::Readiness, HandlerKind::HttpGet);
        metrics.knock_counters().refused.inc();
        metrics.stale();
        metrics.ready_after(Duration::from_secs(1));
        metrics.published_after(Duration::from_millis(1));
        let probes = metrics.text(None);
        let total = "prober_probe_total{probe_type=\"Readiness\",result=\"successful\",container=\"app\",pod=\"web\",namespace=\"shop\",pod_uid=\"u1\"} 1";
        for line in [
            total,
            "prober_probe_duration_seconds_bucket{le=\"0.001\",probe_type=\"Readiness\",container=\"app\",pod=\"web\",namespace=\"shop\"} 0",
        ] {
            assert!(probes.lines().any(|found| found == line), "{line}\n{probes}");
        }
        let phase = PhaseLabels { probe_type: "Readiness", handler: "httpGet", phase: "slow" };
        let counts =
            AgentCounts { workers: [(phase, 4)].into(), offsets: [("periodMilliseconds", 1)].into(), ..AgentCounts::default() };
        let all = metrics.text(Some(&counts));
        for line in [
            "lifesign_probe_attempt_seconds_count{probe_type=\"Readiness\",handler=\"httpGet\",outcome=\"success\"} 1",
            "lifesign_probe_start_lag_seconds_count{handler=\"httpGet\"} 1",
            "lifesign_probe_overruns_total{probe_type=\"Readiness\",handler=\"httpGet\"} 1",
            "lifesign_probe_knocks_total{result=\"refused\"} 1",
            "lifesign_probe_knocks_total{result=\"accepted\"} 0",
            "lifesign_probe_discarded_total{reason=\"stale\"} 1",
            "lifesign_probe_discarded_total{reason=\"agent_lag\"} 1",
            "lifesign_probe_workers{probe_type=\"Readiness\",handler=\"httpGet\",phase=\"slow\"} 4",
            "lifesign_probe_offsets{field=\"periodMilliseconds\"} 1",
            "lifesign_probe_offsets{field=\"timeoutMilliseconds\"} 0",
            "lifesign_container_ready_seconds_count 1",
            "lifesign_probe_publish_seconds_count 1",
        ] {
            assert!(all.lines().any(|found| found == line), "{line}\n{all}");
        }
        metrics.forget(&worker, "u1");
        assert!(!metrics.text(None).contains("pod=\"web\""), "series go with their worker");
    }
}
