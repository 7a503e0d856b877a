//! How endpoints change state: the churn that KEP-1672 asks to be watched.

use std::collections::BTreeMap;

use api::endpointslice::EndpointConditions;

/// The state of an endpoint, as the metric `endpoint_transitions_total` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointState {
    /// Not listed.
    Absent,
    /// Takes traffic.
    Ready,
    /// Does not take traffic.
    NotReady,
    /// Would not take traffic, but is published as ready.
    PublishedNotReady,
    /// On its way out, still able to serve.
    TerminatingServing,
    /// On its way out, no longer able to serve.
    TerminatingNotServing,
}

impl EndpointState {
    /// Returns the word that metrics use.
    pub const fn name(self) -> &'static str {
        match self {
            EndpointState::Absent => "absent",
            EndpointState::Ready => "ready",
            EndpointState::NotReady => "not_ready",
            EndpointState::PublishedNotReady => "published_not_ready",
            EndpointState::TerminatingServing => "terminating_serving",
            EndpointState::TerminatingNotServing => "terminating_not_serving",
        }
    }

    /// Returns the state of a listed endpoint; one with `ready` alone is judged by that field.
    pub fn of(conditions: &EndpointConditions, publish_not_ready: bool) -> EndpointState {
        if conditions.serving.is_none() && conditions.terminating.is_none() {
            return if conditions.is_ready() { EndpointState::Ready } else { EndpointState::NotReady };
        }
        match (conditions.is_terminating(), conditions.is_serving()) {
            (true, true) => EndpointState::TerminatingServing,
            (true, false) => EndpointState::TerminatingNotServing,
            (false, true) => EndpointState::Ready,
            (false, false) if publish_not_ready => EndpointState::PublishedNotReady,
            (false, false) => EndpointState::NotReady,
        }
    }
}

/// What one sync changes in the endpoints of one family, the metrics of the sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Churn {
    /// Endpoints that are wanted and were not listed.
    pub added: usize,
    /// Endpoints that were listed and are not wanted.
    pub removed: usize,
    /// How many endpoints went from one state to another.
    pub transitions: BTreeMap<(EndpointState, EndpointState), usize>,
}

impl Churn {
    /// Counts one endpoint.
    pub fn count(&mut self, from: EndpointState, to: EndpointState) {
        match (from, to) {
            (EndpointState::Absent, EndpointState::Absent) => {}
            (EndpointState::Absent, _) => self.added += 1,
            (_, EndpointState::Absent) => self.removed += 1,
            _ => {}
        }
        if from != to {
            *self.transitions.entry((from, to)).or_default() += 1;
        }
    }

    /// Adds what another family counted.
    pub fn add(&mut self, other: &Churn) {
        self.added += other.added;
        self.removed += other.removed;
        for (pair, count) in &other.transitions {
            *self.transitions.entry(*pair).or_default() += count;
        }
    }
}
