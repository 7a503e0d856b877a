//! A budget with the numbers that its pods add up to.

use std::collections::{BTreeMap, BTreeSet};

use api::{Key, Pod, PodDisruptionBudget, Selector};
use machine::Time;

use crate::claim::controller;

/// What a budget needs to know of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BudgetPod {
    pub(super) key: Key,
    pub(super) uid: String,
    revision: Option<u128>,
    pub(super) labels: BTreeMap<String, String>,
    /// The uid of the ReplicaSet that controls it.
    pub(super) set: Option<String>,
    /// Whether something controls it that cannot be asked how many pods it wants.
    foreign: bool,
    pub(super) deleting: bool,
    ready: bool,
}

impl BudgetPod {
    pub(super) fn read(pod: &Pod) -> BudgetPod {
        let owner = controller(&pod.metadata);
        let set = owner.filter(|owner| owner.kind == "ReplicaSet").map(|owner| owner.uid.clone());
        BudgetPod {
            key: Key::of(&pod.metadata),
            uid: pod.metadata.uid.clone(),
            revision: api::key::revision(&pod.metadata),
            labels: pod.metadata.labels.clone(),
            foreign: owner.is_some() && set.is_none(),
            set,
            deleting: pod.metadata.deleting(),
            ready: pod.condition_true("Ready"),
        }
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.ready && !self.deleting
    }

    /// Returns whether another version of it tells nothing new.
    pub(super) fn same(&self, new: &BudgetPod) -> bool {
        let stale = self.uid == new.uid && matches!((self.revision, new.revision), (Some(old), Some(new)) if new < old);
        stale || *self == BudgetPod { revision: self.revision, ..new.clone() }
    }
}

/// A budget with what is known of its pods.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) budget: PodDisruptionBudget,
    selector: Option<Selector>,
    pub(super) pods: i64,
    pub(super) healthy: i64,
    /// How many of its pods each ReplicaSet controls, by uid.
    pub(super) owners: BTreeMap<String, usize>,
    /// Pods of which nobody can say how many are wanted.
    pub(super) foreign: BTreeSet<Key>,
    pub(super) report_at: Option<Time>,
}

impl Entry {
    pub(super) fn new(budget: PodDisruptionBudget) -> Entry {
        let selector = budget.spec.selector.as_ref().and_then(api::LabelSelector::compile);
        let (owners, foreign) = (BTreeMap::new(), BTreeSet::new());
        Entry { budget, selector, pods: 0, healthy: 0, owners, foreign, report_at: None }
    }

    /// Returns whether it is about pods with these labels; an empty selector is about all of them.
    pub(super) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Counts a pod; returns whether it is the first of its ReplicaSet.
    pub(super) fn count(&mut self, pod: &BudgetPod) -> bool {
        self.pods += 1;
        self.healthy += i64::from(pod.is_healthy());
        if pod.foreign {
            self.foreign.insert(pod.key.clone());
        }
        let Some(set) = &pod.set else { return false };
        let count = self.owners.entry(set.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// Undoes [`count`](Entry::count) of the same pod; returns whether it was the last of its ReplicaSet.
    pub(super) fn uncount(&mut self, pod: &BudgetPod) -> bool {
        self.pods -= 1;
        self.healthy -= i64::from(pod.is_healthy());
        self.foreign.remove(&pod.key);
        let Some(set) = &pod.set else { return false };
        let Some(count) = self.owners.get_mut(set) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.owners.remove(set);
        true
    }
}
