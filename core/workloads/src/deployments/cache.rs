//! Deployments and ReplicaSets with the indices that make one change cheap.

use api::{Deployment, Key, ObjectMeta, ReplicaSet};
use machine::Time;

use super::{Deployments, Entry};
use crate::Watched;
use crate::claim::{controller, selects};
use crate::deployment::Memory;

impl Deployments {
    pub(super) fn apply_deployment(&mut self, now: Time, deployment: Deployment) {
        let key = Key::of(&deployment.metadata);
        self.syncs.lists.name(Watched::Deployments, &key);
        match self.deployments.get_mut(&key) {
            Some(known) if known.deployment.metadata.uid == deployment.metadata.uid => {
                if api::key::is_stale(&known.deployment.metadata, &deployment.metadata) {
                    return;
                }
                if known.deployment.metadata.generation != deployment.metadata.generation {
                    // What was refused may be accepted now.
                    (known.failures, known.retry_at, known.report_at, known.collided) = (0, None, None, false);
                }
                known.deployment = deployment;
            }
            _ => {
                self.remove_deployment(&key);
                self.by_uid.insert(deployment.metadata.uid.clone(), key.clone());
                self.selectors.insert(&key, &deployment.spec.selector);
                let entry = Entry {
                    selector: deployment.spec.selector.compile(),
                    deployment,
                    memory: Memory::default(),
                    confirmed: false,
                    collided: false,
                    namespace_terminating: false,
                    failures: 0,
                    retry_at: None,
                    report_at: None,
                };
                self.deployments.insert(key.clone(), entry);
            }
        }
        self.syncs.queue.schedule(key, now);
    }

    pub(super) fn remove_deployment(&mut self, key: &Key) {
        if let Some(entry) = self.deployments.remove(key) {
            self.by_uid.remove(&entry.deployment.metadata.uid);
            self.selectors.remove(key);
        }
    }

    pub(super) fn apply_set(&mut self, now: Time, set: ReplicaSet) {
        let key = Key::of(&set.metadata);
        self.syncs.lists.name(Watched::ReplicaSets, &key);
        if self.sets.get(&key).is_some_and(|known| api::key::is_stale(&known.metadata, &set.metadata)) {
            return;
        }
        self.remove_set(now, &key);
        match controller(&set.metadata) {
            Some(owner) => {
                self.owned.insert(&owner.uid, &key);
                if let Some(deployment) = self.by_uid.get(&owner.uid) {
                    self.syncs.queue.schedule(deployment.clone(), now);
                }
            }
            None => {
                self.orphans.insert(&key, &set.metadata.labels);
                for candidate in self.selectors.candidates(&key.namespace, &set.metadata.labels) {
                    let entry = self.deployments.get(&candidate);
                    if entry.is_some_and(|entry| selects(entry.selector.as_ref(), &set.metadata.labels)) {
                        self.syncs.queue.schedule(candidate, now);
                    }
                }
            }
        }
        self.sets.insert(key, set);
    }

    pub(super) fn delete_set(&mut self, now: Time, metadata: &ObjectMeta) {
        if let Some(deployment) = controller(metadata).and_then(|owner| self.by_uid.get(&owner.uid)).cloned() {
            self.syncs.writes.seen_deleted(&deployment, &metadata.uid);
        }
        let key = Key::of(metadata);
        if self.sets.get(&key).is_some_and(|set| set.metadata.uid == metadata.uid) {
            self.remove_set(now, &key);
        }
    }

    pub(super) fn remove_set(&mut self, now: Time, key: &Key) {
        let Some(set) = self.sets.remove(key) else { return };
        match controller(&set.metadata) {
            Some(owner) => {
                self.owned.remove(&owner.uid, key);
                if let Some(deployment) = self.by_uid.get(&owner.uid) {
                    self.syncs.queue.schedule(deployment.clone(), now);
                }
            }
            None => self.orphans.remove(key, &set.metadata.labels),
        }
    }
}
