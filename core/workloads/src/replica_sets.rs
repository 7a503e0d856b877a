//! The ReplicaSet controller as a machine: ReplicaSets and pods in, pods and statuses out.
//!
//! What counts of a pod is kept in numbers by its ReplicaSet, so a pod that changes costs the same whether it has two
//! siblings or ten thousand. A sync does one thing and waits for its answers: claim, or create or delete, or report. Events
//! that come meanwhile are counted at once and looked at when the answers are there: a burst of them is one status.

mod cache;
mod claims;
mod entry;
mod manage;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Event, EventType, Key, Pod, ReplicaSet, Write, WriteFailure, write::reference};
use machine::{Groups, Machine, Time};

use crate::claim::confirm;
use crate::index::{LabelIndex, SelectorIndex};
use crate::pod::PodFacts;
use crate::syncs::{Purpose, Syncs};
use crate::{Effect, Input, Object, Watched, WriteId};
use entry::Entry;

/// ReplicaSets that are synced at the same time.
const SETS_AT_ONCE: usize = 16;

/// What a request is for.
#[derive(Clone, Debug)]
enum What {
    /// Asks whether the ReplicaSet is still there and may adopt.
    Confirm,
    /// Adopts or releases a pod.
    Claim,
    /// Asks whether a pod is still there.
    Check,
    /// Makes a pod.
    Create,
    /// Deletes a pod.
    Delete { pod: Key, uid: String },
    /// Reports.
    Status,
}

/// The ReplicaSet controller.
#[derive(Clone, Debug)]
pub struct ReplicaSets {
    sets: BTreeMap<Key, Entry>,
    by_uid: BTreeMap<String, Key>,
    /// ReplicaSets by the uid of their own controller.
    siblings: Groups<String, Key>,
    selectors: SelectorIndex,
    pods: BTreeMap<Key, PodFacts>,
    /// Pods by the uid of their ReplicaSet, known or not.
    owned: Groups<String, Key>,
    /// Pods that nobody controls.
    orphans: LabelIndex,
    syncs: Syncs<Purpose<What>>,
}

impl Default for ReplicaSets {
    fn default() -> ReplicaSets {
        ReplicaSets {
            sets: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            siblings: Groups::default(),
            selectors: SelectorIndex::default(),
            pods: BTreeMap::new(),
            owned: Groups::default(),
            orphans: LabelIndex::default(),
            syncs: Syncs::new(&Self::WATCHED, SETS_AT_ONCE),
        }
    }
}

impl ReplicaSets {
    /// The kinds that it must be told of.
    pub const WATCHED: [Watched; 2] = [Watched::ReplicaSets, Watched::Pods];

    /// Returns whether every kind was listed once, so that it acts.
    pub fn is_synced(&self) -> bool {
        self.syncs.lists.complete()
    }

    fn take(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::ListStarted(kind) => self.syncs.lists.started(kind),
            Input::ListEnded(Watched::Pods) => {
                self.syncs.writes.listed();
                for key in self.syncs.lists.ended(Watched::Pods, self.pods.keys()) {
                    self.remove_pod(now, &key);
                }
            }
            Input::ListEnded(Watched::ReplicaSets) => {
                for key in self.syncs.lists.ended(Watched::ReplicaSets, self.sets.keys()) {
                    self.remove_set(&key);
                }
            }
            Input::Applied(Object::Pod(pod)) => self.apply_pod(now, &pod),
            Input::Applied(Object::ReplicaSet(set)) => self.apply_set(now, Arc::unwrap_or_clone(set)),
            Input::Deleted(Object::Pod(pod)) => self.delete_pod(now, &pod.metadata),
            Input::Deleted(Object::ReplicaSet(set)) => {
                let key = Key::of(&set.metadata);
                // One of that name that was made since is not the one that went.
                if self.sets.get(&key).is_some_and(|entry| entry.set.metadata.uid == set.metadata.uid) {
                    self.remove_set(&key);
                }
            }
            Input::Answered(id, result) => self.answered(now, id, result, effects),
            Input::ListEnded(_) | Input::Applied(_) | Input::Deleted(_) => {}
        }
    }

    fn answered(&mut self, now: Time, id: WriteId, result: Result<Option<Object>, WriteFailure>, effects: &mut Vec<Effect>) {
        let Some((key, purpose, outdated)) = self.syncs.writes.answered(id) else { return };
        match result {
            Ok(object) => {
                self.succeeded(now, &key, &purpose, object.as_ref(), effects);
                self.apply_answer(now, &key, object, outdated, effects);
            }
            Err(failure) => self.failed(now, &key, &purpose, failure, effects),
        }
        if !self.syncs.writes.is_busy(&key) {
            if let Some(entry) = self.sets.get_mut(&key) {
                entry.end_batch(now);
            }
            self.syncs.end(key, now);
        }
    }

    /// Takes an object that a request was answered with.
    fn apply_answer(&mut self, now: Time, key: &Key, object: Option<Object>, outdated: bool, effects: &mut Vec<Effect>) {
        match object {
            Some(Object::Pod(pod)) if !self.syncs.writes.is_gone(key, &pod.metadata.uid) => {
                let known = self.pods.contains_key(&Key::of(&pod.metadata));
                if outdated && !known && self.sets.contains_key(key) {
                    // Made before the list that does not name it, or after: nobody knows but the server.
                    self.send(key, What::Check, confirm::<Pod>(&pod.metadata), effects);
                } else {
                    self.apply_pod(now, &pod);
                }
            }
            // Only a newer version of what is known: an answer must not bring back what was seen deleted.
            Some(Object::ReplicaSet(set)) if self.by_uid.contains_key(&set.metadata.uid) => {
                self.apply_set(now, Arc::unwrap_or_clone(set))
            }
            _ => {}
        }
    }

    /// Looks at a ReplicaSet: does the first thing that is to be done.
    fn sync(&mut self, now: Time, key: &Key, effects: &mut Vec<Effect>) {
        let Some(entry) = self.sets.get_mut(key) else { return };
        entry.pass(now);
        let waits = entry.retry_at.is_some_and(|at| now < at);
        let acted = !waits && !entry.set.metadata.deleting() && (self.claim(key, effects) || self.manage(now, key, effects));
        if !acted {
            self.report(now, key, effects);
        }
        let entry = &self.sets[key];
        if let Some(at) = [entry.next_available(), entry.retry_at, entry.report_at].into_iter().flatten().min() {
            self.syncs.queue.schedule(key.clone(), at);
        }
    }

    /// Sends a request of the sync of a ReplicaSet.
    fn send(&mut self, key: &Key, what: What, write: Write, effects: &mut Vec<Effect>) {
        let uid = self.sets[key].set.metadata.uid.clone();
        self.syncs.send(key, Purpose { uid, what }, write, effects);
    }
}

impl Machine for ReplicaSets {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input, effects);
        }
        while let Some(key) = self.syncs.next(now) {
            self.sync(now, &key, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.syncs.deadline()
    }
}

fn event(set: &ReplicaSet, type_: EventType, reason: &'static str, message: String) -> Effect {
    let metadata = &set.metadata;
    let object = reference::<ReplicaSet>(&metadata.namespace, &metadata.name, &metadata.uid);
    Effect::Event(Event { object, type_, reason, message })
}
