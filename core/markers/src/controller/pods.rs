//! Marks on pods: one request at a time, recomputed before each.
//!
//! Metadata goes before conditions, so that a condition is never without its bookkeeping. Removals of conditions go before
//! both: should the controller stop in between, the bookkeeping still lists what must go.

use std::collections::BTreeSet;
use std::time::Duration;

use api::marker::MARKED;
use api::meta::Condition;
use api::{Pod, Verb, Write, WriteError};
use machine::Time;
use serde_json::{Map, Value, json};

use super::{Controller, Effect, RETRY, Target};
use crate::mark::{DRIFT_AFTER, Marking, Trigger, mark};
use crate::{Key, Marked, Reason};

/// What the controller remembers of a pod.
#[derive(Default)]
pub(super) struct PodWork {
    uid: String,
    /// The most urgent reason to look at it.
    trigger: Option<Trigger>,
    since: Option<Time>,
    written_at: Option<Time>,
    /// The last request; the same one again so soon means that somebody undoes it.
    sent: Option<Write>,
    /// The bookkeeping that completes a removal of conditions.
    unrecorded: Option<Marked>,
    failures: u32,
    conflicts: BTreeSet<(Key, Reason)>,
}

impl Controller {
    pub(super) fn pod_changed(&mut self, now: Time, key: Key, trigger: Trigger) {
        let work = self.pod_work.entry(key.clone()).or_default();
        work.trigger = work.trigger.max(Some(trigger));
        work.since.get_or_insert(now);
        self.pods.schedule(key, now);
    }

    pub(super) fn run_pod(&mut self, now: Time, key: Key, effects: &mut Vec<Effect>) {
        let Some(entry) = self.cache.pods.get(&key) else { return self.forget_pod(&key) };
        let mut work = self.pod_work.remove(&key).unwrap_or_default();
        if work.uid != entry.pod.metadata.uid {
            self.cache.problems.replace(&key, &work.conflicts, &BTreeSet::new());
            work =
                PodWork { uid: entry.pod.metadata.uid.clone(), trigger: work.trigger, since: work.since, ..PodWork::default() };
        }
        let entry = &self.cache.pods[&key];
        let results = self.cache.results(entry);
        // Without a state and without bookkeeping there is nothing to set and nothing to remove.
        let marking = if results.is_empty() && entry.marked.is_empty() {
            Marking::default()
        } else {
            let ago = work.written_at.map(|at| now.since(at));
            let markers = self.cache.markers_in(&key.namespace);
            mark(&entry.pod, &markers, &results, &entry.marked, work.trigger.unwrap_or(Trigger::Pod), ago)
        };
        let request = request(&entry.pod, &entry.marked, &marking, &mut work.unrecorded);
        let fresh_conflicts: Vec<Key> =
            marking.conflicts.difference(&work.conflicts).map(|(marker, _)| marker.clone()).collect();
        self.cache.problems.replace(&key, &work.conflicts, &marking.conflicts);
        work.conflicts = marking.conflicts;
        if let Some(after) = marking.defer {
            self.put_off(now + after, &key, &mut work);
        } else if let Some(write) = request {
            let undone = work.sent.as_ref() == Some(&write) && work.failures == 0;
            match work.written_at.map(|at| at + DRIFT_AFTER).filter(|at| undone && now < *at) {
                Some(at) => self.put_off(at, &key, &mut work),
                None => self.send_to_pod(now, &key, &mut work, write, effects),
            }
        } else {
            self.settled(now, &key, &mut work);
        }
        self.pod_work.insert(key, work);
        fresh_conflicts.into_iter().for_each(|marker| self.marker_changed(now, marker));
    }

    fn put_off(&mut self, until: Time, key: &Key, work: &mut PodWork) {
        self.drift_suppressed += 1;
        (work.trigger, work.since) = (None, None);
        self.pods.schedule(key.clone(), until);
    }

    fn send_to_pod(&mut self, now: Time, key: &Key, work: &mut PodWork, write: Write, effects: &mut Vec<Effect>) {
        work.written_at = Some(now);
        work.sent = Some(write.clone());
        self.pods.start(key);
        effects.push(Effect::Write { target: Target::Pod(key.clone()), write, since: work.since.unwrap_or(now) });
    }

    /// Nothing is left to do on a pod; a marker that waits for that may go.
    fn settled(&mut self, now: Time, key: &Key, work: &mut PodWork) {
        (work.trigger, work.since, work.sent, work.failures) = (None, None, None, 0);
        let owners: BTreeSet<Key> = self.cache.pods[key].marked.markers().map(|name| Key::new(&key.namespace, name)).collect();
        for marker in owners {
            if self.cache.markers.get(&marker).is_some_and(|entry| !entry.compiled.lives()) {
                self.marker_changed(now, marker);
            }
        }
    }

    fn forget_pod(&mut self, key: &Key) {
        if let Some(work) = self.pod_work.remove(key) {
            self.cache.problems.replace(key, &work.conflicts, &BTreeSet::new());
        }
    }

    pub(super) fn pod_written(&mut self, now: Time, key: &Key, error: Option<WriteError>) {
        self.pods.finish(key);
        let Some(work) = self.pod_work.get_mut(key) else { return };
        let wait = match error {
            None => {
                // The other half of the write follows at once.
                work.failures = 0;
                work.trigger = Some(Trigger::Result);
                Duration::ZERO
            }
            Some(WriteError::Failed | WriteError::Denied) => {
                work.failures = work.failures.saturating_add(1);
                work.trigger = work.trigger.max(Some(Trigger::Marker));
                RETRY.after(work.failures)
            }
            // The pod is gone or another one, or does not accept it: the next change of the pod will be looked at.
            Some(_) => {
                (work.trigger, work.since, work.sent, work.unrecorded) = (None, None, None, None);
                return;
            }
        };
        self.pods.schedule(key.clone(), now + wait);
    }

    /// Returns whether nothing is to be removed any more from the pods that a deleted marker has marked.
    pub(super) fn is_released(&self, marker: &Key) -> bool {
        let settled = |key: &Key| {
            let entry = &self.cache.pods[key];
            let markers = self.cache.markers_in(&key.namespace);
            let marking = mark(&entry.pod, &markers, &self.cache.results(entry), &entry.marked, Trigger::Marker, None);
            let unrecorded = self.pod_work.get(key).is_some_and(|work| work.unrecorded.is_some());
            marking.is_empty() && !unrecorded && !self.pods.is_busy(key)
        };
        self.cache.marked_by.get(marker).all(settled)
    }
}

/// Returns the next request for a pod. `unrecorded`: the bookkeeping that is still owed after a removal of conditions.
fn request(pod: &Pod, marked: &Marked, marking: &Marking, unrecorded: &mut Option<Marked>) -> Option<Write> {
    let to = |verb| Write::to::<Pod>(&pod.metadata.namespace, &pod.metadata.name, verb);
    if !marking.remove_conditions.is_empty() {
        *unrecorded = Some(marking.marked.clone());
        let removals = marking.remove_conditions.iter().map(|type_| json!({"$patch": "delete", "type": type_}));
        return Some(to(conditions_patch(pod, removals.collect())).status());
    }
    let owed = unrecorded.take();
    let booked = if marking.is_empty() { owed.unwrap_or_else(|| marked.clone()) } else { marking.marked.clone() };
    if !marking.labels.is_empty() || !marking.annotations.is_empty() || booked != *marked {
        return Some(to(metadata_patch(pod, marking, marked, &booked)));
    }
    let conditions: Vec<Value> = marking.conditions.iter().map(shown).collect();
    (!conditions.is_empty()).then(|| to(conditions_patch(pod, conditions)).status())
}

fn metadata_patch(pod: &Pod, marking: &Marking, marked: &Marked, booked: &Marked) -> Verb {
    let mut annotations: Map<String, Value> =
        marking.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    if booked != marked {
        annotations.insert(MARKED.to_owned(), json!(booked.annotation()));
    }
    let mut metadata = json!({"uid": pod.metadata.uid});
    if !marking.labels.is_empty() {
        metadata["labels"] = json!(marking.labels);
    }
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    Verb::Merge(json!({"metadata": metadata}))
}

fn conditions_patch(pod: &Pod, conditions: Vec<Value>) -> Verb {
    Verb::Strategic(json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": conditions}}))
}

/// Returns a condition as it is written: an empty message too, or an old one would survive the merge.
fn shown(condition: &Condition) -> Value {
    let mut value = json!(condition);
    value["message"] = condition.message.as_str().into();
    value
}
