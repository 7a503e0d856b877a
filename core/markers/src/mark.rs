//! From the states of probes to labels, annotations and conditions of their pod.
//!
//! [`mark`] is a pure function of what is stored; applying its answer and asking again yields nothing. A key or condition
//! type is decided by the first probe, in order of precedence, that claims it; whatever no probe names and no bookkeeping
//! lists is never touched.

mod conditions;
mod keys;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::marker::{MarkerPolicy, PodContainerProbe, ProbeState};
use api::meta::Condition;
use api::{Pod, Timestamp};

use crate::{Compiled, Key, Marked, Reason};
use sources::Sources;

/// How long after our last write to a pod somebody else's change of our marks stands.
pub const DRIFT_AFTER: Duration = Duration::from_secs(10);

/// The state of a probe on the pod at hand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeResult {
    /// `<marker>#<probe>`.
    pub owner: String,
    /// The state.
    pub state: ProbeState,
    /// What the probe said.
    pub message: String,
    /// When it was last reported.
    pub last_probe_time: Option<Timestamp>,
    /// When the state last changed.
    pub last_transition_time: Option<Timestamp>,
    /// Whether it answers the question that the marker asks now; if not, it is held.
    pub fresh: bool,
}

/// What woke the controller; the later one is the more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// The pod changed: a difference is drift.
    Pod,
    /// A marker changed.
    Marker,
    /// A state changed.
    Result,
}

/// What to write to a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marking {
    /// Labels to set, or to remove (`None`).
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove (`None`); the bookkeeping is not among them.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Conditions to add or replace, complete.
    pub conditions: Vec<Condition>,
    /// Types of conditions to remove.
    pub remove_conditions: Vec<String>,
    /// The bookkeeping after the write; without a write it is the one that was given.
    pub marked: Marked,
    /// Probes that lost a key or a condition type, by marker.
    pub conflicts: BTreeSet<(Key, Reason)>,
    /// Nothing is written now, but must be looked at again after this span.
    pub defer: Option<Duration>,
}

impl Marking {
    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.conditions.is_empty() && self.remove_conditions.is_empty()
    }
}

/// A probe of a living marker that matches the pod.
struct Probe<'a> {
    owner: String,
    marker: &'a Compiled,
    spec: &'a PodContainerProbe,
    /// Its state, if that may be used.
    fresh: Option<&'a ProbeResult>,
}

impl Probe<'_> {
    /// Returns the policy of the probe's state, if it has both.
    fn policy(&self) -> Option<&MarkerPolicy> {
        let state = self.fresh?.state;
        self.spec.marker_policy.iter().find(|policy| state != ProbeState::Unknown && policy.state == state.name())
    }
}

/// Decides what must be written to a pod.
///
/// `markers` are those of the pod's namespace (others are ignored), `marked` is the pod's bookkeeping, `last_write_ago` the
/// age of our last write to it.
pub fn mark(
    pod: &Pod,
    markers: &[&Compiled],
    results: &[ProbeResult],
    marked: &Marked,
    trigger: Trigger,
    last_write_ago: Option<Duration>,
) -> Marking {
    let nothing = |conflicts, defer| Marking { marked: marked.clone(), conflicts, defer, ..Marking::default() };
    if pod.metadata.deleting() || pod.terminal() {
        return nothing(BTreeSet::new(), None);
    }
    let probes = probes(pod, markers, results);
    let sources = Sources::new(pod, markers);
    let labels = keys::resolve(
        &keys::Section { current: &pod.metadata.labels, owned: &marked.labels, of: |policy| &policy.labels },
        &probes,
        &sources,
    );
    let annotations = keys::resolve(
        &keys::Section { current: &pod.metadata.annotations, owned: &marked.annotations, of: |policy| &policy.annotations },
        &probes,
        &sources,
    );
    let conditions = conditions::resolve(pod, &marked.conditions, &probes, &sources);
    let conflicts = [labels.conflicts, annotations.conflicts, conditions.conflicts].into_iter().flatten().collect();
    let marking = Marking {
        labels: labels.changes,
        annotations: annotations.changes,
        conditions: conditions.set,
        remove_conditions: conditions.remove,
        marked: Marked { annotations: annotations.owned, conditions: conditions.owned, labels: labels.owned },
        conflicts,
        defer: None,
    };
    // The bookkeeping is written only together with another change.
    if marking.is_empty() {
        return nothing(marking.conflicts, None);
    }
    let lost = labels.lost || annotations.lost || !marking.remove_conditions.is_empty();
    match last_write_ago {
        Some(ago) if trigger == Trigger::Pod && !lost && ago < DRIFT_AFTER => {
            nothing(marking.conflicts, Some(DRIFT_AFTER - ago))
        }
        _ => marking,
    }
}

/// Returns the probes that may claim something on the pod, in order of precedence.
fn probes<'a>(pod: &Pod, markers: &[&'a Compiled], results: &'a [ProbeResult]) -> Vec<Probe<'a>> {
    let selects = |marker: &&&Compiled| {
        marker.key.namespace == pod.metadata.namespace && marker.lives() && marker.matches(&pod.metadata.labels)
    };
    let mut living: Vec<&Compiled> = markers.iter().filter(selects).copied().collect();
    living.sort_by(|a, b| a.precedence(b));
    let mut probes: Vec<Probe<'a>> = Vec::new();
    for marker in living {
        for spec in &marker.marker.spec.probes {
            let owner = crate::entry_name(&marker.key.name, &spec.name);
            // Of two probes with one name the first counts.
            if probes.iter().any(|probe| probe.owner == owner) {
                continue;
            }
            let usable = |result: &&ProbeResult| result.fresh && result.owner == owner && spec.errors.is_empty();
            let fresh = results.iter().find(usable);
            probes.push(Probe { owner, marker, spec, fresh });
        }
    }
    probes
}
