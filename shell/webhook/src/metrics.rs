//! What is measured about admission.

use std::time::Duration;

use admission::{Judged, ReviewOutcome};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    resource: &'static str,
    outcome: &'static str,
}

/// What is measured; clones are the same.
#[derive(Clone)]
pub struct Metrics {
    reviews: Family<Labels, Counter>,
    duration: Histogram,
}

impl Metrics {
    /// Registers everything. Every series exists from the beginning, so that none that stays 0 is missing.
    pub fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics { reviews: Family::default(), duration: Histogram::new(exponential_buckets(0.000_05, 2.0, 12)) };
        for judged in Judged::ALL {
            for outcome in ReviewOutcome::ALL {
                drop(metrics.counter(judged, outcome));
            }
        }
        let name = "lifesign_admission_reviews";
        registry.register(name, "AdmissionReviews that were answered", metrics.reviews.clone());
        let name = "lifesign_admission_duration_seconds";
        registry.register(name, "From the whole request to its answer", metrics.duration.clone());
        metrics
    }

    fn counter(&self, judged: Judged, outcome: ReviewOutcome) -> impl std::ops::Deref<Target = Counter> + '_ {
        self.reviews.get_or_create(&Labels { resource: judged.name(), outcome: outcome.name() })
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, judged: Judged, outcome: ReviewOutcome, took: Duration) {
        self.counter(judged, outcome).inc();
        self.duration.observe(took.as_secs_f64());
    }
}
