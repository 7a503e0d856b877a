//! Adoption of ReplicaSets that nobody controls, release of those that are not meant any more.

use api::{Deployment, Key, ReplicaSet};

use super::{Deployments, What};
use crate::Effect;
use crate::claim::{adopt, confirm, release, selects};

impl Deployments {
    /// Sends what makes the right ReplicaSets its own; returns whether anything was sent.
    pub(super) fn claim(&mut self, key: &Key, effects: &mut Vec<Effect>) -> bool {
        let entry = &self.deployments[key];
        let metadata = &entry.deployment.metadata;
        if metadata.deleting() {
            return false;
        }
        let matches = |set: &ReplicaSet| selects(entry.selector.as_ref(), &set.metadata.labels);
        let named = |set: &ReplicaSet| (set.metadata.name.clone(), set.metadata.uid.clone());
        let orphans = self.orphans.candidates(&key.namespace, &entry.deployment.spec.selector);
        let orphans = orphans.iter().map(|set| &self.sets[set]).filter(|set| matches(set) && !set.metadata.deleting());
        let orphans: Vec<(String, String)> = orphans.map(named).collect();
        let owned = self.owned.get(&metadata.uid).map(|set| &self.sets[set]);
        let released: Vec<(String, String)> = owned.filter(|set| !matches(set)).map(named).collect();
        if orphans.is_empty() && released.is_empty() {
            return false;
        }
        let metadata = metadata.clone();
        let may_adopt = std::mem::take(&mut self.deployments.get_mut(key).expect("looked up above").confirmed);
        if !orphans.is_empty() && !may_adopt {
            self.send(key, What::Confirm, confirm::<Deployment>(&metadata), effects);
        } else {
            for (name, uid) in orphans {
                self.send(key, What::Claim, adopt::<Deployment, ReplicaSet>(&metadata, &name, &uid), effects);
            }
        }
        for (name, uid) in released {
            self.send(key, What::Claim, release::<ReplicaSet>(&metadata, &name, &uid), effects);
        }
        true
    }
}
