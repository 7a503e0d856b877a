//! The objects of the cluster with the indices that make one change cheap.

use api::{Key, ObjectMeta, Pod, ReplicaSet};
use machine::Time;

use super::ReplicaSets;
use super::entry::Entry;
use crate::Watched;
use crate::claim::{controller, selects};
use crate::pod::PodFacts;

impl ReplicaSets {
    pub(super) fn apply_set(&mut self, now: Time, set: ReplicaSet) {
        let key = Key::of(&set.metadata);
        self.syncs.lists.name(Watched::ReplicaSets, &key);
        match self.sets.get_mut(&key) {
            Some(known) if known.set.metadata.uid == set.metadata.uid => {
                if api::key::is_stale(&known.set.metadata, &set.metadata) {
                    return;
                }
                let (before, after) = (owner(&known.set.metadata), owner(&set.metadata));
                if before != after {
                    before.iter().for_each(|owner| self.siblings.remove(owner, &key));
                    after.iter().for_each(|owner| self.siblings.insert(owner, &key));
                }
                if known.update(set) {
                    let selector = known.set.spec.selector.clone();
                    self.selectors.insert(&key, &selector);
                    self.recount(&key);
                }
            }
            _ => {
                self.remove_set(&key);
                owner(&set.metadata).iter().for_each(|owner| self.siblings.insert(owner, &key));
                self.by_uid.insert(set.metadata.uid.clone(), key.clone());
                self.selectors.insert(&key, &set.spec.selector);
                self.sets.insert(key.clone(), Entry::new(set));
                self.recount(&key);
            }
        }
        self.syncs.queue.schedule(key, now);
    }

    pub(super) fn remove_set(&mut self, key: &Key) {
        let Some(entry) = self.sets.remove(key) else { return };
        self.by_uid.remove(&entry.set.metadata.uid);
        self.selectors.remove(key);
        owner(&entry.set.metadata).iter().for_each(|owner| self.siblings.remove(owner, key));
    }

    fn recount(&mut self, key: &Key) {
        let Some(entry) = self.sets.get_mut(key) else { return };
        entry.clear();
        for pod in self.owned.get(&entry.set.metadata.uid) {
            entry.count(&self.pods[pod]);
        }
    }

    pub(super) fn apply_pod(&mut self, now: Time, pod: &Pod) {
        self.put_pod(now, PodFacts::read(pod));
    }

    fn put_pod(&mut self, now: Time, mut pod: PodFacts) {
        self.syncs.lists.name(Watched::Pods, &pod.key);
        let before = self.pods.get(&pod.key);
        if let Some(known) = before.filter(|known| known.uid == pod.uid) {
            if matches!((known.revision, pod.revision), (Some(known), Some(new)) if new < known) {
                return;
            }
            // A deletion is never taken back; a watch may be behind the answer to it.
            pod.deleting |= known.deleting;
            if *known == pod {
                return;
            }
        }
        let key = pod.key.clone();
        self.remove_pod(now, &key);
        match &pod.owner {
            Some(uid) => {
                self.owned.insert(uid, &key);
                self.with_owner(now, uid.clone(), |entry| entry.count(&pod));
            }
            None if !pod.controlled => {
                self.orphans.insert(&key, &pod.labels);
                self.wake_adopters(now, &pod);
            }
            // Somebody else's.
            None => return,
        }
        self.pods.insert(key, pod);
    }

    /// Asks for a look at the ReplicaSets that may adopt a pod.
    fn wake_adopters(&mut self, now: Time, pod: &PodFacts) {
        if !pod.is_active() {
            return;
        }
        for key in self.selectors.candidates(&pod.key.namespace, &pod.labels) {
            if self.sets.get(&key).is_some_and(|entry| selects(entry.selector.as_ref(), &pod.labels)) {
                self.syncs.queue.schedule(key, now);
            }
        }
    }

    /// Notes that a pod is being deleted, before the watch shows it.
    pub(super) fn note_deleting(&mut self, now: Time, key: &Key, uid: &str) {
        if let Some(pod) = self.pods.get(key).filter(|pod| pod.uid == uid && !pod.deleting) {
            self.put_pod(now, PodFacts { deleting: true, ..pod.clone() });
        }
    }

    pub(super) fn delete_pod(&mut self, now: Time, metadata: &ObjectMeta) {
        if let Some(set) = controller(metadata).and_then(|owner| self.by_uid.get(&owner.uid)) {
            self.syncs.writes.seen_deleted(&set.clone(), &metadata.uid);
        }
        let key = Key::of(metadata);
        if self.pods.get(&key).is_some_and(|pod| pod.uid == metadata.uid) {
            self.remove_pod(now, &key);
        }
    }

    pub(super) fn remove_pod(&mut self, now: Time, key: &Key) {
        let Some(pod) = self.pods.remove(key) else { return };
        match &pod.owner {
            Some(uid) => {
                self.owned.remove(uid, key);
                self.with_owner(now, uid.clone(), |entry| entry.uncount(&pod));
            }
            None => self.orphans.remove(key, &pod.labels),
        }
    }

    fn with_owner(&mut self, now: Time, uid: String, change: impl FnOnce(&mut Entry)) {
        if let Some(key) = self.by_uid.get(&uid)
            && let Some(entry) = self.sets.get_mut(key)
        {
            change(entry);
            self.syncs.queue.schedule(key.clone(), now);
        }
    }
}

/// Returns the uid of what controls a ReplicaSet.
fn owner(metadata: &ObjectMeta) -> Option<String> {
    controller(metadata).map(|owner| owner.uid.clone())
}
