//! A ReplicaSet with the numbers that its pods add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::workload::template_labels;
use api::{Key, ReplicaSet, Selector};
use machine::Time;

use crate::claim::selects;
use crate::pending_writes::RETRY;
use crate::pod::PodFacts;

/// What went wrong when pods were made or deleted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReplicaFailure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// A ReplicaSet with what is known of its pods.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) set: ReplicaSet,
    pub(super) selector: Option<Selector>,
    template_labels: BTreeMap<String, String>,
    pub(super) counts: Counts,
    /// Pods that are ready and will be available, and when.
    later: BTreeSet<(Time, Key)>,
    /// Its pods that the selector does not match any more.
    pub(super) mismatched: BTreeSet<Key>,
    /// It was seen alive a moment ago, so it may adopt.
    pub(super) confirmed: bool,
    /// How many pods are made at once next.
    pub(super) batch: usize,
    /// Whether pods are being made or deleted.
    pub(super) managing: bool,
    /// What the requests under way have met so far.
    pub(super) batch_failure: Option<ReplicaFailure>,
    /// What the last attempt to make or delete pods met.
    pub(super) replica_failure: Option<ReplicaFailure>,
    /// Failures in a row.
    failures: u32,
    pub(super) retry_at: Option<Time>,
    /// When a status that could not be written is written again.
    pub(super) report_at: Option<Time>,
    /// Its namespace is being deleted: pods cannot be made.
    pub(super) namespace_terminating: bool,
}

/// Numbers of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) active: i64,
    pub(super) fully_labeled: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) terminating: i64,
}

impl Entry {
    pub(super) fn new(set: ReplicaSet) -> Entry {
        Entry {
            selector: set.spec.selector.compile(),
            template_labels: template_labels(&set.spec.template),
            set,
            counts: Counts::default(),
            later: BTreeSet::new(),
            mismatched: BTreeSet::new(),
            confirmed: false,
            batch: 1,
            managing: false,
            batch_failure: None,
            replica_failure: None,
            failures: 0,
            retry_at: None,
            report_at: None,
            namespace_terminating: false,
        }
    }

    /// Takes a newer version of the same ReplicaSet; returns whether its pods must be counted anew.
    pub(super) fn update(&mut self, set: ReplicaSet) -> bool {
        let changed = set.metadata.generation != self.set.metadata.generation;
        if changed {
            // What was refused may be accepted now.
            (self.failures, self.retry_at, self.report_at) = (0, None, None);
            self.selector = set.spec.selector.compile();
            self.template_labels = template_labels(&set.spec.template);
        }
        let recount = changed
            && (set.spec.min_ready_seconds, &set.spec.template, &set.spec.selector)
                != (self.set.spec.min_ready_seconds, &self.set.spec.template, &self.set.spec.selector);
        self.set = set;
        recount
    }

    /// Forgets all pods, before they are counted anew.
    pub(super) fn clear(&mut self) {
        self.counts = Counts::default();
        self.later.clear();
        self.mismatched.clear();
    }

    fn min_ready(&self) -> Duration {
        Duration::from_secs(self.set.spec.min_ready_seconds.max(0).unsigned_abs())
    }

    /// Counts a pod of it.
    pub(super) fn count(&mut self, pod: &PodFacts) {
        if let Some(at) = self.add(pod, 1) {
            self.later.insert((at, pod.key.clone()));
        }
    }

    /// Undoes [`count`](Entry::count) of the same facts.
    pub(super) fn uncount(&mut self, pod: &PodFacts) {
        if let Some(at) = self.add(pod, -1)
            && !self.later.remove(&(at, pod.key.clone()))
        {
            self.counts.available -= 1;
        }
    }

    /// Adds a pod to the numbers; returns when it is available, if that takes time.
    fn add(&mut self, pod: &PodFacts, sign: i64) -> Option<Time> {
        if !selects(self.selector.as_ref(), &pod.labels) {
            if sign > 0 {
                self.mismatched.insert(pod.key.clone());
            } else {
                self.mismatched.remove(&pod.key);
            }
            return None;
        }
        let min_ready = self.min_ready();
        let counts = &mut self.counts;
        if pod.is_terminating() {
            counts.terminating += sign;
        }
        if !pod.is_active() {
            return None;
        }
        counts.active += sign;
        if self.template_labels.iter().all(|(label, value)| pod.labels.get(label) == Some(value)) {
            counts.fully_labeled += sign;
        }
        if pod.ready {
            counts.ready += sign;
        }
        match pod.available_at(min_ready) {
            Some(_) if min_ready.is_zero() => {
                counts.available += sign;
                None
            }
            at => at,
        }
    }

    /// Lets time pass: counts those that are available now.
    pub(super) fn pass(&mut self, now: Time) {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            self.later.pop_first();
            self.counts.available += 1;
        }
        let ahead = |at: &Time| now < *at;
        (self.retry_at, self.report_at) = (self.retry_at.filter(ahead), self.report_at.filter(ahead));
    }

    /// Returns when the next pod becomes available by itself.
    pub(super) fn next_available(&self) -> Option<Time> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Notes that requests failed, and when they may be tried again.
    pub(super) fn failed(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + RETRY.after(self.failures));
    }

    /// Ends a batch of pods that were made or deleted.
    pub(super) fn end_batch(&mut self, now: Time) {
        if !std::mem::take(&mut self.managing) {
            return;
        }
        match self.batch_failure.take() {
            Some(replica_failure) => {
                self.failed(now);
                self.replica_failure = Some(replica_failure);
                self.batch = 1;
            }
            None => self.batch = self.batch.saturating_mul(2),
        }
    }

    /// Notes that there are as many pods as are wanted.
    pub(super) fn settled(&mut self) {
        self.batch = 1;
        self.replica_failure = None;
        if self.retry_at.is_none() {
            self.failures = 0;
        }
    }
}
