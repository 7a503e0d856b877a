//! What is measured: deltas that a sync reports, and gauges that are read when somebody asks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::content::Kinds;
use crate::transitions::EndpointState;

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncResult {
    /// Everything is written, or nothing was to be.
    Success,
    /// The cache was too old to act on; the sync waits for it.
    Stale,
    /// Something failed; the sync is retried.
    Error,
}

impl SyncResult {
    /// Returns the value of the label `result`.
    pub const fn name(self) -> &'static str {
        match self {
            SyncResult::Success => "success",
            SyncResult::Stale => "stale",
            SyncResult::Error => "error",
        }
    }
}

/// What a successful write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// It made a slice.
    Create,
    /// It changed one.
    Update,
    /// It removed one.
    Delete,
}

impl Operation {
    /// Returns the value of the label `operation`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }
}

/// One measurement, to be added to the metric of its name (prefix `endpoint_slice_controller_`).
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// `syncs`, and `sync_duration_seconds` unless the sync did not begin.
    Sync {
        /// How it ended.
        result: SyncResult,
        /// How long it took; `None`: it did not begin.
        duration: Option<Duration>,
    },
    /// `endpoints_added_per_sync` and `endpoints_removed_per_sync`, for one family.
    Endpoints {
        /// Endpoints that are new.
        added: usize,
        /// Endpoints that go.
        removed: usize,
    },
    /// `endpoint_transitions_total`.
    Transition {
        /// The state before.
        from: EndpointState,
        /// The state after.
        to: EndpointState,
        /// How many endpoints.
        count: usize,
    },
    /// `endpointslices_changed_per_sync`.
    Changed {
        /// Successful writes.
        count: usize,
        /// Label `topology`: `Auto` or `Disabled`.
        topology: &'static str,
        /// Label `traffic_distribution`; empty: none.
        traffic_distribution: &'static str,
    },
    /// `changes`: one successful write.
    Change(Operation),
    /// `programming_latency_seconds`: from the trigger time to the successful write.
    ProgrammingLatency(Duration),
}

/// What is true now, over all Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// `endpoints_desired`.
    pub desired: usize,
    /// `num_endpoint_slices`.
    pub slices: usize,
    /// `desired_endpoint_slices`.
    pub desired_slices: usize,
    /// `endpoints`, by conditions: see [`kind`](crate::content::kind).
    pub published: Kinds,
    /// `services_count_by_traffic_distribution`.
    pub services: BTreeMap<&'static str, usize>,
}

/// What one Service adds to the gauges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contribution {
    pub(crate) desired: usize,
    pub(crate) slices: usize,
    pub(crate) desired_slices: usize,
    pub(crate) published: Kinds,
    pub(crate) traffic_distribution: Option<&'static str>,
}

impl Gauges {
    /// Puts what a Service adds now in the place of what it added before.
    pub(crate) fn replace(&mut self, before: &Contribution, now: &Contribution) {
        let swap = |total: &mut usize, before: usize, now: usize| *total = *total + now - before;
        swap(&mut self.desired, before.desired, now.desired);
        swap(&mut self.slices, before.slices, now.slices);
        swap(&mut self.desired_slices, before.desired_slices, now.desired_slices);
        for (index, total) in self.published.iter_mut().enumerate() {
            swap(total, before.published[index], now.published[index]);
        }
        if before.traffic_distribution != now.traffic_distribution {
            if let Some(distribution) = now.traffic_distribution {
                *self.services.entry(distribution).or_default() += 1;
            }
            if let Some(distribution) = before.traffic_distribution {
                // A series that was there stays, at zero: scrapers see it end.
                *self.services.entry(distribution).or_default() -= 1;
            }
        }
    }
}

/// Returns the value of a label `traffic_distribution`; values that anybody may invent count as one.
pub fn known_distribution(value: &str) -> &'static str {
    match value {
        "PreferClose" => "PreferClose",
        "PreferSameZone" => "PreferSameZone",
        "PreferSameNode" => "PreferSameNode",
        _ => "ImplementationSpecific",
    }
}
