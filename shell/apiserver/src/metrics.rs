//! The metrics of the server, by the names of kube-apiserver where it has one.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What a request was.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: String,
    pub(crate) code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: String,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 16))
}

/// The metrics of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<DurationLabels, Histogram, fn() -> Histogram>,
    watchers: Family<ResourceLabel, Gauge>,
    longrunning: Gauge,
    watch_events: Family<ResourceLabel, Counter>,
    response_bytes: Counter,
    commit_seconds: Histogram,
    batch_size: Histogram,
    revision: Gauge<i64, AtomicI64>,
    fallbacks: Counter,
    store_bytes: Gauge<i64, AtomicI64>,
    watch_overflows: Counter,
    collected: Counter,
    objects: Family<ResourceLabel, Gauge>,
    delivery_seconds: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::default();
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("apiserver_request", "Requests answered", requests.clone());
        // So that the name is there before the first answer.
        let _ = requests.get_or_create(&RequestLabels { verb: "get".into(), code: "200".into(), ..RequestLabels::default() });
        let request_seconds: Family<DurationLabels, Histogram, fn() -> Histogram> = Family::new_with_constructor(durations);
        registry.register("apiserver_request_duration_seconds", "Time to answer, watches left out", request_seconds.clone());
        let longrunning = Gauge::default();
        registry.register("apiserver_longrunning_requests", "Watches and logs being streamed", longrunning.clone());
        let watch_events = Family::<ResourceLabel, Counter>::default();
        registry.register("apiserver_watch_events", "Events sent to watchers", watch_events.clone());
        let response_bytes = Counter::<u64, AtomicU64>::default();
        registry.register("apiserver_response_sizes", "Bytes of answers", response_bytes.clone());
        let objects = Family::<ResourceLabel, Gauge>::default();
        registry.register("apiserver_resource_objects", "Objects stored", objects.clone());
        let commit_seconds = durations();
        registry.register("lifesign_store_commit_duration_seconds", "Time to commit a batch", commit_seconds.clone());
        let batch_size = Histogram::new(exponential_buckets(1.0, 2.0, 9));
        registry.register("lifesign_store_batch_size", "Writes per batch", batch_size.clone());
        let revision = Gauge::default();
        registry.register("lifesign_store_revision", "The revision of the store", revision.clone());
        let fallbacks = Counter::default();
        let text = "Starts at which the last commit of the store did not hold and was left out";
        registry.register("lifesign_store_fallbacks", text, fallbacks.clone());
        let store_bytes = Gauge::default();
        registry.register("lifesign_store_bytes", "Size of the store on disk", store_bytes.clone());
        let delivery_seconds = durations();
        registry.register("lifesign_watch_delivery_seconds", "Commit to delivery of an event", delivery_seconds.clone());
        let watchers = Family::<ResourceLabel, Gauge>::default();
        registry.register("lifesign_watchers", "Open watches", watchers.clone());
        let watch_overflows = Counter::default();
        registry.register("lifesign_watch_overflows", "Watches that were too slow and cut off", watch_overflows.clone());
        let collected = Counter::default();
        registry.register("lifesign_gc_deletes", "Objects deleted because their owners are gone", collected.clone());
        Metrics {
            registry,
            requests,
            request_seconds,
            watchers,
            longrunning,
            watch_events,
            response_bytes,
            commit_seconds,
            batch_size,
            revision,
            fallbacks,
            store_bytes,
            watch_overflows,
            collected,
            objects,
            delivery_seconds,
        }
    }

    pub(crate) fn request(&self, labels: RequestLabels, took: Duration, bytes: u64) {
        if labels.verb != "watch" {
            let duration = DurationLabels { verb: labels.verb.clone(), resource: labels.resource.clone() };
            self.request_seconds.get_or_create(&duration).observe(took.as_secs_f64());
        }
        self.response_bytes.inc_by(bytes);
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn committed(&self, writes: usize, took: Duration, bytes: u64) {
        self.commit_seconds.observe(took.as_secs_f64());
        self.batch_size.observe(writes as f64);
        self.store_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn revision(&self, revision: u64) {
        self.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
    }

    pub(crate) fn fallbacks(&self, count: u64) {
        self.fallbacks.inc_by(count);
    }

    pub(crate) fn watch_overflow(&self) {
        self.watch_overflows.inc();
    }

    /// Counts a watch; returns what counts its events, found once and not for each of them.
    pub(crate) fn watch_opened(&self, resource: &str) -> Counter {
        self.longrunning.inc();
        let label = ResourceLabel { resource: resource.to_owned() };
        self.watchers.get_or_create(&label).inc();
        self.watch_events.get_or_create(&label).clone()
    }

    pub(crate) fn watch_closed(&self, resource: &str) {
        self.longrunning.dec();
        self.watchers.get_or_create(&ResourceLabel { resource: resource.to_owned() }).dec();
    }

    pub(crate) fn watch_event(&self, sent: &Counter, since_commit: Duration) {
        sent.inc();
        self.delivery_seconds.observe(since_commit.as_secs_f64());
    }

    pub(crate) fn collected(&self) {
        self.collected.inc();
    }

    /// Returns the text of `/metrics`; `objects` are the stored objects per resource, `further` those of other parts.
    pub(crate) fn text(&self, objects: impl IntoIterator<Item = (String, usize)>, further: Option<&Registry>) -> String {
        self.objects.clear();
        for (resource, count) in objects {
            self.objects.get_or_create(&ResourceLabel { resource }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(further) = further {
            let _ = prometheus_client::encoding::text::encode_registry(&mut text, further);
        }
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
