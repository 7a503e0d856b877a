//! Adoption of pods that nobody controls, release of those that are not meant any more.

use api::{Key, Pod, ReplicaSet};

use super::{ReplicaSets, What};
use crate::Effect;
use crate::claim::{adopt, confirm, release, selects};

impl ReplicaSets {
    /// Sends what makes the right pods its own; returns whether anything was sent.
    pub(super) fn claim(&mut self, key: &Key, effects: &mut Vec<Effect>) -> bool {
        let entry = &self.sets[key];
        let orphans = self.orphans.candidates(&key.namespace, &entry.set.spec.selector);
        let wanted = |pod: &Key| {
            let pod = &self.pods[pod];
            pod.is_active() && selects(entry.selector.as_ref(), &pod.labels)
        };
        let orphans: Vec<Key> = orphans.into_iter().filter(wanted).collect();
        let released: Vec<Key> = entry.mismatched.iter().filter(|pod| self.pods[*pod].is_active()).cloned().collect();
        if orphans.is_empty() && released.is_empty() {
            return false;
        }
        let metadata = entry.set.metadata.clone();
        let may_adopt = std::mem::take(&mut self.sets.get_mut(key).expect("looked up above").confirmed);
        if !orphans.is_empty() && !may_adopt {
            self.send(key, What::Confirm, confirm::<ReplicaSet>(&metadata), effects);
        } else {
            for pod in orphans {
                let write = adopt::<ReplicaSet, Pod>(&metadata, &pod.name, &self.pods[&pod].uid);
                self.send(key, What::Claim, write, effects);
            }
        }
        for pod in released {
            let write = release::<Pod>(&metadata, &pod.name, &self.pods[&pod].uid);
            self.send(key, What::Claim, write, effects);
        }
        true
    }
}
