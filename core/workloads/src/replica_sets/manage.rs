//! Making pods in growing batches, deleting those that go first, and what their answers mean.

use std::time::Duration;

use api::{EventType, Key, Pod, Verb, Write, WriteError, WriteFailure};
use machine::Time;
use serde_json::{Value, json};

use super::entry::ReplicaFailure;
use super::{Purpose, ReplicaSets, What, event};
use crate::claim::owner_reference;
use crate::order::deletion_order;
use crate::pod::PodFacts;
use crate::{Effect, Object};

/// Pods that are made or deleted at once; Kubernetes.
const BURST: usize = 500;
/// The wait after a status that could not be written.
const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// Reasons of events and of the condition ReplicaFailure; Kubernetes.
pub(super) const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
pub(super) const FAILED_CREATE: &str = "FailedCreate";
pub(super) const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
pub(super) const FAILED_DELETE: &str = "FailedDelete";

impl ReplicaSets {
    /// Sends what brings the number of pods nearer to what is wanted; returns whether anything was sent.
    pub(super) fn manage(&mut self, now: Time, key: &Key, effects: &mut Vec<Effect>) -> bool {
        let entry = self.sets.get_mut(key).expect("only known ReplicaSets are synced");
        let missing = entry.set.spec.replicas.saturating_sub(entry.counts.active);
        if missing > 0 && entry.namespace_terminating {
            return false;
        }
        let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX).min(BURST);
        if missing > 0 {
            entry.managing = true;
            let body = pod_of(&entry.set.spec.template, &entry.set.metadata);
            for _ in 0..count(missing).min(entry.batch) {
                let write = Write::to::<Pod>(&key.namespace, "", Verb::Create(body.clone().into()));
                self.send(key, What::Create, write, effects);
            }
            return true;
        }
        entry.settled();
        if missing == 0 {
            return false;
        }
        entry.managing = true;
        for (pod, uid) in self.surplus(now, key, count(-missing)) {
            let write = Write::to::<Pod>(&key.namespace, &pod.name, Verb::delete(uid.clone()));
            self.send(key, What::Delete { pod, uid }, write, effects);
        }
        true
    }

    /// Returns the pods that go first.
    fn surplus(&self, now: Time, key: &Key, count: usize) -> Vec<(Key, String)> {
        let entry = &self.sets[key];
        let own = self.pods_of(&entry.set.metadata.uid).filter(|pod| pod.is_active() && !entry.mismatched.contains(&pod.key));
        let owner = crate::claim::controller(&entry.set.metadata).map(|owner| owner.uid.as_str());
        let siblings: Vec<&str> = match owner {
            Some(owner) => self.siblings.get(owner).map(|key| self.sets[key].set.metadata.uid.as_str()).collect(),
            None => vec![&entry.set.metadata.uid],
        };
        let related = siblings.into_iter().flat_map(|uid| self.pods_of(uid));
        let order = deletion_order(now, own, related);
        order.into_iter().take(count).map(|pod| (pod.key.clone(), pod.uid.clone())).collect()
    }

    fn pods_of<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a PodFacts> + use<'a> {
        self.owned.get(uid).map(|key| &self.pods[key])
    }

    pub(super) fn succeeded(
        &mut self,
        now: Time,
        key: &Key,
        purpose: &Purpose<What>,
        object: Option<&Object>,
        effects: &mut Vec<Effect>,
    ) {
        let entry = self.sets.get_mut(key).filter(|entry| entry.set.metadata.uid == purpose.uid);
        match (&purpose.what, entry) {
            (What::Confirm, Some(entry)) => entry.confirmed = true,
            (What::Create, Some(entry)) => {
                if let Some(Object::Pod(pod)) = object {
                    let message = format!("Created pod: {}", pod.metadata.name);
                    effects.push(event(&entry.set, EventType::Normal, SUCCESSFUL_CREATE, message));
                }
            }
            (What::Delete { pod, uid }, entry) => {
                if let Some(entry) = entry {
                    let message = format!("Deleted pod: {}", pod.name);
                    effects.push(event(&entry.set, EventType::Normal, SUCCESSFUL_DELETE, message));
                }
                self.note_deleting(now, pod, uid);
            }
            _ => {}
        }
    }

    pub(super) fn failed(
        &mut self,
        now: Time,
        key: &Key,
        purpose: &Purpose<What>,
        failure: WriteFailure,
        effects: &mut Vec<Effect>,
    ) {
        if let What::Delete { pod, uid } = &purpose.what
            && matches!(failure.error, WriteError::NotFound | WriteError::Conflict)
        {
            // It is gone, and another of that name is not the one that was meant.
            return self.note_deleting(now, pod, uid);
        }
        let Some(entry) = self.sets.get_mut(key).filter(|entry| entry.set.metadata.uid == purpose.uid) else { return };
        let (reason, doing) = match &purpose.what {
            // It is not there, or the watch will show it.
            What::Check => return,
            What::Create if failure.error == WriteError::NamespaceTerminating => {
                entry.namespace_terminating = true;
                return;
            }
            What::Create => (FAILED_CREATE, "creating"),
            What::Delete { .. } => (FAILED_DELETE, "deleting"),
            What::Confirm | What::Claim => {
                if entry.retry_at.is_none() {
                    entry.failed(now);
                }
                return;
            }
            What::Status => {
                entry.report_at = Some(now + REPORT_AGAIN);
                return;
            }
        };
        let message = format!("Error {doing}: {}", failure.message);
        effects.push(event(&entry.set, EventType::Warning, reason, message));
        entry.batch_failure.get_or_insert(ReplicaFailure { reason, message: failure.message });
    }
}

/// Returns the pod that a template makes for a ReplicaSet.
fn pod_of(template: &Value, owner: &api::ObjectMeta) -> Value {
    let mut metadata = json!({"generateName": format!("{}-", owner.name), "namespace": owner.namespace});
    for member in ["labels", "annotations", "finalizers"] {
        if let Some(value) = api::json::at(template, &["metadata", member]) {
            metadata[member] = value.clone();
        }
    }
    metadata["ownerReferences"] = json!([owner_reference::<api::ReplicaSet>(owner)]);
    let spec = template.get("spec").cloned().unwrap_or(Value::Null);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
