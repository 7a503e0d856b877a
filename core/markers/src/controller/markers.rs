//! The life of markers: finalizer, status, events, release.

use std::collections::BTreeSet;
use std::time::Duration;

use api::marker::{MARKER_FINALIZER, PodProbeMarker};
use api::write::reference;
use api::{Event, EventType, Verb, Write, WriteError};
use machine::Time;
use serde_json::json;

use super::{COALESCE, Controller, Effect, RETRY, Target, problems};
use crate::cache::MarkerEntry;
use crate::{Key, Reason};

/// How long problems are gathered before they are told, so that the number of pods is right.
const NOTE_AFTER: Duration = Duration::from_secs(1);
/// How long a marker may select nothing before that is told: its pods are often applied after it.
const NOTHING_AFTER: Duration = Duration::from_secs(10);
/// The event of a marker that selects nothing.
const NOTHING_SELECTED: &str = "NoPodSelected";
/// The same request again so soon means that a server accepts but does not keep it.
const REPEAT_AFTER: Duration = Duration::from_secs(30);

/// What the controller remembers of a marker.
#[derive(Default)]
pub(super) struct MarkerWork {
    /// The version that the events below are about.
    about: (String, i64),
    noted: BTreeSet<Reason>,
    note_at: Option<Time>,
    /// When it is told that nothing is selected; `Time::MAX`: it was, or something is.
    nothing_at: Option<Time>,
    since: Option<Time>,
    failures: u32,
    blocked_until: Option<Time>,
    sent: Option<(Write, Time)>,
}

impl Controller {
    pub(super) fn marker_changed(&mut self, now: Time, key: Key) {
        let work = self.marker_work.entry(key.clone()).or_default();
        work.since.get_or_insert(now);
        // A marker that is new must not wait: its finalizer comes before everything else.
        let hurry = self.cache.markers.get(&key).is_some_and(|entry| !entry.contributes && entry.compiled.lives());
        let at = (if hurry { now } else { now + COALESCE }).max(work.blocked_until.unwrap_or(now));
        self.markers.schedule(key, at);
    }

    pub(super) fn run_marker(&mut self, now: Time, key: Key, effects: &mut Vec<Effect>) {
        let Some(entry) = self.cache.markers.get(&key) else {
            self.marker_work.remove(&key);
            return;
        };
        let mut work = self.marker_work.remove(&key).unwrap_or_default();
        let metadata = &entry.compiled.marker.metadata;
        if work.about != (metadata.uid.clone(), metadata.generation) {
            work.about = (metadata.uid.clone(), metadata.generation);
            (work.noted, work.note_at, work.nothing_at) = (BTreeSet::new(), None, None);
        }
        self.record_nothing_selected(now, &key, &mut work, effects);
        self.record_problems(now, &key, &mut work, effects);
        let entry = &self.cache.markers[&key];
        if let Some(write) = self.marker_request(&key, entry) {
            match &work.sent {
                Some((sent, at)) if *sent == write && now < *at => self.markers.schedule(key.clone(), *at),
                _ => {
                    work.sent = Some((write.clone(), now + REPEAT_AFTER));
                    self.markers.start(&key);
                    let since = work.since.take().unwrap_or(now);
                    effects.push(Effect::Write { target: Target::Marker(key.clone()), write, since });
                }
            }
        } else {
            (work.since, work.failures, work.sent) = (None, 0, None);
        }
        self.marker_work.insert(key, work);
    }

    /// Returns the next request for a marker.
    fn marker_request(&self, key: &Key, entry: &MarkerEntry) -> Option<Write> {
        let marker = &entry.compiled.marker;
        let to = |verb| Write::to::<PodProbeMarker>(&key.namespace, &key.name, verb);
        match (entry.compiled.lives(), entry.compiled.has_finalizer()) {
            (true, false) => Some(to(finalizers_patch(marker, true))),
            (true, true) => {
                let observed = entry.nodes.keys().all(|node| self.node_work.get(node).is_some_and(|work| work.clean));
                let status = &marker.status;
                let generation = if observed { marker.metadata.generation } else { status.observed_generation };
                let matched = i64::try_from(entry.pods.len()).unwrap_or(i64::MAX);
                let same = (status.observed_generation, status.matched_pods) == (generation, matched);
                let body = json!({"status": {"observedGeneration": generation, "matchedPods": matched}});
                (!same).then(|| to(Verb::Merge(body)).status())
            }
            (false, true) => {
                let carried = self.cache.carriers.get(key).next().is_some();
                let released = !marker.removes_marks() || self.is_released(key);
                (!carried && released).then(|| to(finalizers_patch(marker, false)))
            }
            (false, false) => None,
        }
    }

    pub(super) fn marker_written(&mut self, now: Time, key: &Key, error: Option<WriteError>) {
        self.markers.finish(key);
        let Some(work) = self.marker_work.get_mut(key) else { return };
        work.blocked_until = error.map(|_| now + RETRY.after(work.failures + 1));
        if error.is_some() {
            work.failures = work.failures.saturating_add(1);
            work.sent = None;
        }
        self.markers.schedule(key.clone(), work.blocked_until.unwrap_or(now));
    }

    /// Tells once for each generation of a marker that it selects nothing.
    fn record_nothing_selected(&mut self, now: Time, key: &Key, work: &mut MarkerWork, effects: &mut Vec<Effect>) {
        let Some(entry) = self.cache.markers.get(key).filter(|entry| entry.compiled.lives()) else { return };
        if !entry.pods.is_empty() {
            work.nothing_at = Some(Time::MAX);
            return;
        }
        let at = *work.nothing_at.get_or_insert(now + NOTHING_AFTER);
        if now < at {
            if at != Time::MAX {
                self.markers.schedule(key.clone(), at);
            }
            return;
        }
        work.nothing_at = Some(Time::MAX);
        let marker = &entry.compiled.marker;
        let object = reference::<PodProbeMarker>(&key.namespace, &key.name, &marker.metadata.uid);
        let message = problems::nothing_selected(marker);
        effects.push(Effect::Event(Event { object, type_: EventType::Normal, reason: NOTHING_SELECTED, message }));
    }

    /// Tells each kind of problem once for each generation of a marker.
    fn record_problems(&mut self, now: Time, key: &Key, work: &mut MarkerWork, effects: &mut Vec<Effect>) {
        let all = [Reason::InvalidProbe, Reason::ProbeTargetMissing, Reason::ConditionTypeConflict, Reason::MarkConflict];
        let pending = |reason: &Reason| {
            let pods = self.cache.problems.count(&(key.clone(), *reason));
            (pods > 0 && !work.noted.contains(reason)).then_some(*reason)
        };
        let pending: Vec<Reason> = all.iter().filter_map(pending).collect();
        if pending.is_empty() {
            work.note_at = None;
            return;
        }
        let at = *work.note_at.get_or_insert(now + NOTE_AFTER);
        if now < at {
            return self.markers.schedule(key.clone(), at);
        }
        let marker = &self.cache.markers[key].compiled.marker;
        for reason in pending {
            let object = reference::<PodProbeMarker>(&key.namespace, &key.name, &marker.metadata.uid);
            let message = problems::message(&self.cache, key, reason);
            effects.push(Effect::Event(Event { object, type_: EventType::Warning, reason: reason.name(), message }));
            work.noted.insert(reason);
        }
        work.note_at = None;
    }
}

/// Adds our finalizer or takes it away. The list is written whole, hence with the version it was read at.
fn finalizers_patch(marker: &PodProbeMarker, add: bool) -> Verb {
    let others = marker.metadata.finalizers.iter().map(String::as_str).filter(|finalizer| *finalizer != MARKER_FINALIZER);
    let finalizers: Vec<&str> = others.chain(add.then_some(MARKER_FINALIZER)).collect();
    Verb::Merge(json!({"metadata": {"resourceVersion": marker.metadata.resource_version, "finalizers": finalizers}}))
}
