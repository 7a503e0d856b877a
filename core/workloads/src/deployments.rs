//! The Deployment controller as a machine: Deployments and ReplicaSets in, ReplicaSets and statuses out.
//!
//! What to do is [`plan`](crate::deployment::plan)ned from the Deployment and its ReplicaSets alone: pods are seen through the
//! statuses of ReplicaSets, so a pod that changes costs nothing here. One sync at a time sends the requests of one plan; the
//! next plan sees their answers.

mod cache;
mod claims;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Deployment, Event, EventType, FeatureGates, Key, ReplicaSet, Selector, Write, WriteError, WriteFailure};
use machine::{Groups, Machine, Time};

use crate::claim::confirm;
use crate::deployment::{CREATE_ERROR, Memory, collided, event, plan};
use crate::hash::same_template;
use crate::index::{LabelIndex, SelectorIndex};
use crate::pending_writes::RETRY;
use crate::syncs::{Purpose, Syncs};
use crate::{Effect, Input, Object, Watched, WriteId};

/// Deployments that are synced at the same time.
const DEPLOYMENTS_AT_ONCE: usize = 16;
/// The wait after a status that could not be written.
const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// What a request is for.
#[derive(Clone, Debug)]
enum What {
    /// Asks whether the Deployment is still there and may adopt.
    Confirm,
    /// Adopts or releases a ReplicaSet.
    Claim,
    /// Asks whether a ReplicaSet is still there.
    Check,
    /// Makes a ReplicaSet.
    Create { name: String, event: Option<Event> },
    /// Scales or deletes a ReplicaSet.
    Change { event: Option<Event> },
    /// Counts a collision of names.
    Collided,
    /// Reports.
    Status,
}

/// A Deployment with what is remembered of it.
#[derive(Clone, Debug)]
struct Entry {
    deployment: Deployment,
    selector: Option<Selector>,
    memory: Memory,
    /// It was seen alive a moment ago, so it may adopt.
    confirmed: bool,
    /// The name of its new ReplicaSet is taken by another one.
    collided: bool,
    /// Its namespace is being deleted: ReplicaSets cannot be made.
    namespace_terminating: bool,
    failures: u32,
    /// Nothing is sent before.
    retry_at: Option<Time>,
    /// No status is sent before.
    report_at: Option<Time>,
}

/// The Deployment controller.
#[derive(Clone, Debug)]
pub struct Deployments {
    gates: FeatureGates,
    deployments: BTreeMap<Key, Entry>,
    by_uid: BTreeMap<String, Key>,
    selectors: SelectorIndex,
    sets: BTreeMap<Key, ReplicaSet>,
    /// ReplicaSets by the uid of their controller.
    owned: Groups<String, Key>,
    /// ReplicaSets that nobody controls.
    orphans: LabelIndex,
    syncs: Syncs<Purpose<What>>,
}

impl Deployments {
    /// The kinds that it must be told of.
    pub const WATCHED: [Watched; 2] = [Watched::Deployments, Watched::ReplicaSets];

    /// Returns a controller that knows nothing yet; fields of switched-off gates do not count in templates.
    pub fn new(gates: FeatureGates) -> Deployments {
        Deployments {
            gates,
            deployments: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            selectors: SelectorIndex::default(),
            sets: BTreeMap::new(),
            owned: Groups::default(),
            orphans: LabelIndex::default(),
            syncs: Syncs::new(&Self::WATCHED, DEPLOYMENTS_AT_ONCE),
        }
    }

    /// Returns whether every kind was listed once, so that it acts.
    pub fn is_synced(&self) -> bool {
        self.syncs.lists.complete()
    }

    fn take(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::ListStarted(kind) => self.syncs.lists.started(kind),
            Input::ListEnded(Watched::Deployments) => {
                for key in self.syncs.lists.ended(Watched::Deployments, self.deployments.keys()) {
                    self.remove_deployment(&key);
                }
            }
            Input::ListEnded(Watched::ReplicaSets) => {
                self.syncs.writes.listed();
                for key in self.syncs.lists.ended(Watched::ReplicaSets, self.sets.keys()) {
                    self.remove_set(now, &key);
                }
            }
            Input::Applied(Object::Deployment(deployment)) => self.apply_deployment(now, Arc::unwrap_or_clone(deployment)),
            Input::Applied(Object::ReplicaSet(set)) => self.apply_set(now, Arc::unwrap_or_clone(set)),
            Input::Deleted(Object::Deployment(deployment)) => {
                let key = Key::of(&deployment.metadata);
                // One of that name that was made since is not the one that went.
                let known = self.deployments.get(&key);
                if known.is_some_and(|entry| entry.deployment.metadata.uid == deployment.metadata.uid) {
                    self.remove_deployment(&key);
                }
            }
            Input::Deleted(Object::ReplicaSet(set)) => self.delete_set(now, &set.metadata),
            Input::Answered(id, result) => self.answered(now, id, result, effects),
            Input::ListEnded(_) | Input::Applied(_) | Input::Deleted(_) => {}
        }
    }

    fn answered(&mut self, now: Time, id: WriteId, result: Result<Option<Object>, WriteFailure>, effects: &mut Vec<Effect>) {
        let Some((key, purpose, outdated)) = self.syncs.writes.answered(id) else { return };
        match result {
            Ok(object) => {
                self.succeeded(&key, purpose, effects);
                self.apply_answer(now, &key, object, outdated, effects);
            }
            Err(failure) => self.failed(now, &key, &purpose, failure, effects),
        }
        if !self.syncs.writes.is_busy(&key) {
            self.syncs.end(key, now);
        }
    }

    fn succeeded(&mut self, key: &Key, purpose: Purpose<What>, effects: &mut Vec<Effect>) {
        let Purpose { uid, what } = purpose;
        if let Some(entry) = self.deployments.get_mut(key).filter(|entry| entry.deployment.metadata.uid == uid) {
            entry.failures = 0;
            match what {
                What::Confirm => entry.confirmed = true,
                What::Create { name, event } => {
                    entry.memory = Memory { created: Some(name), create_error: None };
                    effects.extend(event.map(Effect::Event));
                }
                What::Change { event } => effects.extend(event.map(Effect::Event)),
                What::Collided => entry.collided = false,
                What::Status => entry.memory = Memory::default(),
                What::Claim | What::Check => {}
            }
        }
    }

    /// Takes an object that a request was answered with.
    fn apply_answer(&mut self, now: Time, key: &Key, object: Option<Object>, outdated: bool, effects: &mut Vec<Effect>) {
        match object {
            Some(Object::ReplicaSet(set)) if !self.syncs.writes.is_gone(key, &set.metadata.uid) => {
                let known = self.sets.contains_key(&Key::of(&set.metadata));
                if outdated && !known && self.deployments.contains_key(key) {
                    // Made before the list that does not name it, or after: nobody knows but the server.
                    self.send(key, What::Check, confirm::<ReplicaSet>(&set.metadata), effects);
                } else {
                    self.apply_set(now, Arc::unwrap_or_clone(set));
                }
            }
            Some(Object::Deployment(deployment)) if self.by_uid.contains_key(&deployment.metadata.uid) => {
                self.apply_deployment(now, Arc::unwrap_or_clone(deployment));
            }
            _ => {}
        }
    }

    fn failed(&mut self, now: Time, key: &Key, purpose: &Purpose<What>, failure: WriteFailure, effects: &mut Vec<Effect>) {
        let uid = &purpose.uid;
        let Some(entry) = self.deployments.get_mut(key).filter(|entry| entry.deployment.metadata.uid == *uid) else { return };
        match &purpose.what {
            // It is not there, or the watch will show it.
            What::Check => return,
            What::Status => {
                entry.report_at = Some(now + REPORT_AGAIN);
                return;
            }
            What::Create { .. } if failure.error == WriteError::NamespaceTerminating => {
                entry.namespace_terminating = true;
                return;
            }
            What::Create { name, .. } if failure.error == WriteError::AlreadyExists => {
                let other = self.sets.get(&Key::new(&key.namespace, name));
                let own = |set: &ReplicaSet| {
                    crate::claim::controller(&set.metadata).is_some_and(|owner| owner.uid == *uid)
                        && same_template(&set.spec.template, &entry.deployment.spec.template, &self.gates)
                };
                match other {
                    Some(set) if !own(set) => {
                        entry.collided = true;
                        return;
                    }
                    // The watch will show it.
                    _ => {}
                }
            }
            What::Create { name, .. } => {
                let message = format!("Failed to create new replica set \"{name}\": {}", failure.message);
                effects.push(Effect::Event(event(&entry.deployment, EventType::Warning, CREATE_ERROR, message.clone())));
                entry.memory.create_error = Some(message);
            }
            What::Confirm | What::Claim | What::Change { .. } | What::Collided => {}
        }
        if entry.retry_at.is_none() {
            entry.failures = entry.failures.saturating_add(1);
            entry.retry_at = Some(now + RETRY.after(entry.failures));
        }
    }

    /// Looks at a Deployment: sends the requests of one plan.
    fn sync(&mut self, now: Time, key: &Key, effects: &mut Vec<Effect>) {
        let Some(entry) = self.deployments.get_mut(key) else { return };
        let ahead = |at: &Time| now < *at;
        (entry.retry_at, entry.report_at) = (entry.retry_at.filter(ahead), entry.report_at.filter(ahead));
        let waits = entry.retry_at.is_some();
        if let Some(at) = [entry.retry_at, entry.report_at].into_iter().flatten().min() {
            self.syncs.queue.schedule(key.clone(), at);
        }
        if !waits && self.claim(key, effects) {
            return;
        }
        let entry = &self.deployments[key];
        if !waits && entry.collided {
            let write = collided(&entry.deployment);
            return self.send(key, What::Collided, write, effects);
        }
        let sets = self.owned.get(&entry.deployment.metadata.uid).map(|set| &self.sets[set]);
        let plan = plan(now, &entry.deployment, sets, &entry.memory, &self.gates);
        if let Some(at) = plan.look_again {
            self.syncs.queue.schedule(key.clone(), at.max(now + REPORT_AGAIN));
        }
        let (hopeless, quiet) = (entry.namespace_terminating, entry.report_at.is_some());
        let mut sent = false;
        for step in plan.sets {
            let what = match step.write.verb {
                api::Verb::Create(_) if hopeless => continue,
                api::Verb::Create(_) => What::Create { name: step.name, event: step.event },
                _ => What::Change { event: step.event },
            };
            if waits {
                continue;
            }
            self.send(key, what, step.write, effects);
            sent = true;
        }
        if let Some(write) = plan.status.filter(|_| !sent && !quiet) {
            self.send(key, What::Status, write, effects);
        }
    }

    /// Sends a request of the sync of a Deployment.
    fn send(&mut self, key: &Key, what: What, write: Write, effects: &mut Vec<Effect>) {
        let uid = self.deployments[key].deployment.metadata.uid.clone();
        self.syncs.send(key, Purpose { uid, what }, write, effects);
    }
}

impl Machine for Deployments {
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
