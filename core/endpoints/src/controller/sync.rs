//! One sync of one Service: it begins, its writes are answered, it ends.

use std::sync::Arc;
use std::time::Duration;

use api::write::Body;
use api::{EndpointSlice, Event, EventType, ObjectReference, Verb, Write, WriteError};
use machine::Time;

use crate::controller::pending_sync::{End, PendingSync, Sent};
use crate::controller::{Answer, Controller, Effect, Resource, ServiceKey, object_key};
use crate::hints::Mode;
use crate::index::entry::{Draft, Outcome};
use crate::metrics::{Metric, Operation, SyncResult, known_distribution};
use crate::retry::RETRY;
use crate::service::ServiceRecord;

/// The reason of the event for writes that failed; Kubernetes.
pub const FAILED_TO_UPDATE: &str = "FailedToUpdateEndpointSlices";
/// The reason of the event for hints that cannot be given; Kubernetes.
pub const HINTS_DISABLED: &str = "TopologyAwareHintsDisabled";

impl Controller {
    /// Begins the sync of a Service.
    pub(super) fn sync(&mut self, now: Time, key: ServiceKey, effects: &mut Vec<Effect>) {
        if let Some(retry) = self.retries.get_mut(&key) {
            if !retry.stale.is_empty() && now < retry.at {
                // Deciding from an old view would only meet the same conflict.
                let at = retry.at;
                effects.push(Effect::Metric(Metric::Sync { result: SyncResult::Stale, duration: None }));
                self.queue.add(key, at);
                return;
            }
            retry.stale.clear();
        }
        let Some(outcome) = self.index.sync(now, &key) else { return };
        for churn in &outcome.churn {
            effects.push(Effect::Metric(Metric::Endpoints { added: churn.added, removed: churn.removed }));
            let transitions = churn.transitions.iter();
            effects.extend(transitions.map(|(&(from, to), &count)| Effect::Metric(Metric::Transition { from, to, count })));
        }
        self.note_mode(&key, effects);
        let Outcome { creates, updates, deletes, trigger, .. } = outcome;
        let service_uid = self.service(&key).expect("it was synced").uid.clone();
        let mut pending = PendingSync {
            service_uid,
            started_at: now,
            trigger,
            waiting: Default::default(),
            updates,
            deletes,
            events: Vec::new(),
            holds: Default::default(),
            held: Vec::new(),
            again: None,
            abandoned: false,
            end: End::default(),
            changes: 0,
        };
        self.send(&key, &mut pending, creates.into_iter().map(Sent::Slice).collect(), effects);
        self.proceed(now, key, pending, effects);
    }

    fn service(&self, key: &ServiceKey) -> Option<&ServiceRecord> {
        self.index.entry(key)?.service.as_ref()
    }

    /// Tells once that a Service asks for hints that are not provided.
    fn note_mode(&mut self, key: &ServiceKey, effects: &mut Vec<Effect>) {
        let service = self.service(key).expect("it was synced");
        if service.spec.mode != Mode::Auto {
            self.auto_noted.remove(key);
        } else if !self.auto_noted.contains(key) {
            let message = "Hints by share of zones (Auto) are not provided: endpoints carry no hints; \
                           use spec.trafficDistribution instead";
            effects.push(event(service, HINTS_DISABLED, message.to_owned()));
            self.auto_noted.insert(key.clone());
        }
    }

    fn send(&mut self, key: &ServiceKey, pending: &mut PendingSync, writes: Vec<Sent>, effects: &mut Vec<Effect>) {
        for sent in writes {
            self.next_write += 1;
            let id = self.next_write;
            let (name, verb) = match &sent {
                // The server makes up the name.
                Sent::Slice(Draft { name: None, content, .. }) => ("", Verb::Create(Body::Encoded(content.encoded()))),
                Sent::Slice(Draft { name: Some(name), content, .. }) => {
                    (&**name, Verb::Update(Body::Encoded(content.encoded())))
                }
                Sent::Delete { name, uid } => (&**name, Verb::delete(uid.as_str())),
            };
            let write = Write { id, ..Write::to::<EndpointSlice>(&*key.namespace, name, verb) };
            effects.push(Effect::Write { service: key.clone(), write });
            self.writes.insert(id, key.clone());
            pending.waiting.insert(id, sent);
        }
    }

    /// Sends what comes next when everything sent so far is answered; ends the sync when nothing is left.
    fn proceed(&mut self, now: Time, key: ServiceKey, mut pending: PendingSync, effects: &mut Vec<Effect>) {
        while pending.waiting.is_empty() {
            let stopped = pending.abandoned || pending.end.over;
            let updates = std::mem::take(&mut pending.updates);
            if !stopped && !updates.is_empty() {
                self.send(&key, &mut pending, updates.into_iter().map(Sent::Slice).collect(), effects);
                continue;
            }
            let deletes = std::mem::take(&mut pending.deletes);
            // The endpoints of a slice to delete may have their new place in one whose write failed.
            if !stopped && pending.end.good() && !deletes.is_empty() {
                let tracked = deletes.iter().map(|(_, uid)| uid.clone()).collect::<Vec<_>>();
                self.index.change(&key, |entry| tracked.iter().for_each(|uid| entry.tracker.deleting(uid)));
                let deletes = deletes.into_iter().map(|(name, uid)| Sent::Delete { name, uid });
                self.send(&key, &mut pending, deletes.collect(), effects);
                continue;
            }
            return self.end(now, key, pending, effects);
        }
        self.pending_syncs.insert(key, pending);
    }

    /// Takes the answer to a write.
    pub(super) fn answered(&mut self, now: Time, id: u64, answer: Answer, effects: &mut Vec<Effect>) {
        let Some(key) = self.writes.remove(&id) else { return };
        let mut pending = self.pending_syncs.remove(&key).expect("a write that waits for its answer is under way");
        let sent = pending.waiting.remove(&id).expect("a write that waits for its answer is under way");
        match sent {
            Sent::Slice(draft) => self.slice_answered(now, &key, &mut pending, draft, answer, effects),
            Sent::Delete { name, uid } => self.delete_answered(&key, &mut pending, &name, &uid, answer, effects),
        }
        self.proceed(now, key, pending, effects);
    }

    fn slice_answered(
        &mut self,
        now: Time,
        key: &ServiceKey,
        pending: &mut PendingSync,
        draft: Draft,
        answer: Answer,
        effects: &mut Vec<Effect>,
    ) {
        let failure = match answer {
            Answer::Written(meta) => {
                let operation = if draft.name.is_none() { Operation::Create } else { Operation::Update };
                self.count(pending, operation, effects);
                let latency = pending.trigger.map(|trigger| Metric::ProgrammingLatency(now.since(trigger)));
                effects.extend(latency.map(Effect::Metric));
                if !pending.abandoned {
                    self.name(Resource::Slices, &key.namespace, &meta.name);
                    self.index.adopt(key, *meta, draft);
                }
                return;
            }
            Answer::Deleted => panic!("only a delete is answered as one"),
            Answer::Failed(failure) => failure,
        };
        match (failure.error, draft.name) {
            (WriteError::Conflict, Some(name)) => {
                let seen = self.index.entry(key).and_then(|entry| entry.slices.get(&name));
                let revision = seen.map(|slice| slice.meta.resource_version.clone()).unwrap_or_default();
                pending.end.stale.insert(name.to_string(), revision);
            }
            (WriteError::NotFound, Some(name)) => {
                self.index.change(key, |entry| entry.expect_gone(&name));
                pending.end.again = true;
            }
            (WriteError::NamespaceTerminating, _) => pending.end.over = true,
            (_, name) => {
                let what = name.map_or_else(|| "create a slice".to_owned(), |name| format!("update slice {name}"));
                pending.end.error.get_or_insert(format!("failed to {what}: {}", failure.message));
            }
        }
    }

    fn delete_answered(
        &mut self,
        key: &ServiceKey,
        pending: &mut PendingSync,
        name: &Arc<str>,
        uid: &str,
        answer: Answer,
        effects: &mut Vec<Effect>,
    ) {
        // A conflict means that another slice has the name: the one that was meant is gone.
        match answer {
            Answer::Failed(failure) if !matches!(failure.error, WriteError::NotFound | WriteError::Conflict) => {
                self.index.change(key, |entry| entry.tracker.delete_failed(uid));
                pending.end.error.get_or_insert(format!("failed to delete slice {name}: {}", failure.message));
            }
            Answer::Deleted | Answer::Written(_) | Answer::Failed(_) => {
                self.count(pending, Operation::Delete, effects);
                self.index.change(key, |entry| entry.slices.remove(name));
            }
        }
    }

    fn count(&self, pending: &mut PendingSync, operation: Operation, effects: &mut Vec<Effect>) {
        pending.changes += 1;
        effects.push(Effect::Metric(Metric::Change(operation)));
    }

    fn end(&mut self, now: Time, key: ServiceKey, mut pending: PendingSync, effects: &mut Vec<Effect>) {
        let again = pending.again.take();
        let (events, held) = (std::mem::take(&mut pending.events), std::mem::take(&mut pending.held));
        if !pending.abandoned {
            self.judge(now, &key, pending, effects);
        }
        for event in &events {
            self.waiting.remove(&object_key(event));
        }
        for event in events {
            self.slice_event(now, event);
        }
        if let Some(at) = again {
            self.enqueue(key, at);
        }
        self.enqueue_all(held, now);
    }

    /// Says how a sync ended, and when it is tried again.
    fn judge(&mut self, now: Time, key: &ServiceKey, pending: PendingSync, effects: &mut Vec<Effect>) {
        let end = pending.end;
        if !end.good() {
            // What the sync was for is still to be written.
            let carried = pending.trigger;
            self.index.change(key, |entry| {
                entry.memory.settled = false;
                entry.memory.carried = entry.memory.carried.into_iter().chain(carried).min();
            });
        }
        let entry = self.index.entry(key).expect("an abandoned sync is not judged");
        let service = entry.service.as_ref().expect("an abandoned sync is not judged");
        let skipped = entry.memory.skipped.first().map(|pod| {
            let node = self.index.node_of(key, pod).unwrap_or_default();
            format!("skipping Pod {pod}: Node {node} not found")
        });
        let error = end.error.or(skipped.filter(|_| !end.over));
        let result = match &error {
            Some(_) => SyncResult::Error,
            None if !end.stale.is_empty() || end.again => SyncResult::Stale,
            None => SyncResult::Success,
        };
        let topology = if service.spec.mode == Mode::Auto { "Auto" } else { "Disabled" };
        let traffic_distribution = service.traffic_distribution.as_deref().map_or("", known_distribution);
        effects.push(Effect::Metric(Metric::Changed { count: pending.changes, topology, traffic_distribution }));
        effects.push(Effect::Metric(Metric::Sync { result, duration: Some(now.since(pending.started_at)) }));
        if let Some(error) = error {
            let message = format!("Error updating Endpoint Slices for Service {}/{}: {error}", key.namespace, key.name);
            effects.push(event(service, FAILED_TO_UPDATE, message));
        }
        if result == SyncResult::Success {
            self.retries.remove(key);
            return;
        }
        let retry = self.retries.entry(key.clone()).or_default();
        retry.failures = retry.failures.saturating_add(1);
        // What is known to have changed needs no wait, the first time.
        let at_once = end.again && end.stale.is_empty() && result == SyncResult::Stale && retry.failures == 1;
        let wait = if at_once { Duration::ZERO } else { RETRY.after(retry.failures).max(self.bucket.take(now)) };
        retry.stale = end.stale;
        retry.at = now + wait;
        let at = retry.at;
        self.queue.add(key.clone(), at);
    }
}

fn event(service: &ServiceRecord, reason: &'static str, message: String) -> Effect {
    let object = ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        namespace: service.namespace.to_string(),
        name: service.name.to_string(),
        uid: service.uid.clone(),
        ..ObjectReference::default()
    };
    Effect::Event(Event { object, type_: EventType::Warning, reason, message })
}
