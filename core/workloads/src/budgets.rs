//! The disruption controller as a machine: budgets, pods and their controllers in, statuses of budgets out.
//!
//! A budget keeps numbers of its pods, so a pod that changes costs the same whether it has two siblings or ten thousand. The
//! status is written with the revision that it was computed from: the API server takes evictions off it, and a status that
//! does not know of one must not give it back.

mod entry;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::write::reference;
use api::{Deployment, Event, EventType, Key, Pod, PodDisruptionBudget, ReplicaSet, Verb, Write, WriteFailure};
use machine::{Groups, Machine, Time};
use serde_json::{Value, json};

use crate::budget::{EVICTION_TIMEOUT, budget_status};
use crate::claim::controller;
use crate::index::{LabelIndex, SelectorIndex};
use crate::syncs::Syncs;
use crate::{BudgetFacts, Effect, Input, Object, Watched, WriteId};
use entry::{BudgetPod, Entry};

/// Budgets that are written at the same time.
const BUDGETS_AT_ONCE: usize = 16;
/// The wait after a status that could not be written; a newer version of the budget ends it.
const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// The disruption controller.
#[derive(Clone, Debug)]
pub struct Budgets {
    budgets: BTreeMap<Key, Entry>,
    selectors: SelectorIndex,
    pods: BTreeMap<Key, BudgetPod>,
    labels: LabelIndex,
    /// ReplicaSets: their names with uid, size and Deployment.
    sets: BTreeMap<Key, Scale>,
    deployments: BTreeMap<Key, Scale>,
    set_names: BTreeMap<String, Key>,
    deployment_names: BTreeMap<String, Key>,
    /// ReplicaSets by the uid of their Deployment.
    sets_of: Groups<String, String>,
    /// Budgets by the uid of a ReplicaSet that controls pods of theirs.
    by_owner: Groups<String, Key>,
    syncs: Syncs<String>,
}

/// How many pods a controller wants.
#[derive(Clone, Debug, PartialEq)]
struct Scale {
    uid: String,
    replicas: i64,
    /// The uid of its own controller.
    owner: Option<String>,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            budgets: BTreeMap::new(),
            selectors: SelectorIndex::default(),
            pods: BTreeMap::new(),
            labels: LabelIndex::default(),
            sets: BTreeMap::new(),
            deployments: BTreeMap::new(),
            set_names: BTreeMap::new(),
            deployment_names: BTreeMap::new(),
            sets_of: Groups::default(),
            by_owner: Groups::default(),
            syncs: Syncs::new(&Self::WATCHED, BUDGETS_AT_ONCE),
        }
    }
}

impl Budgets {
    /// The kinds that it must be told of.
    pub const WATCHED: [Watched; 4] = [Watched::Budgets, Watched::Pods, Watched::ReplicaSets, Watched::Deployments];

    /// Returns whether every kind was listed once, so that it acts.
    pub fn is_synced(&self) -> bool {
        self.syncs.lists.complete()
    }

    fn take(&mut self, now: Time, input: Input) {
        match input {
            Input::ListStarted(kind) => self.syncs.lists.started(kind),
            Input::ListEnded(kind) => self.list_ended(now, kind),
            Input::Applied(object) => self.apply(now, object),
            Input::Deleted(Object::Pod(pod)) => {
                let key = Key::of(&pod.metadata);
                if self.pods.get(&key).is_some_and(|known| known.uid == pod.metadata.uid) {
                    self.remove_pod(now, &key);
                }
            }
            Input::Deleted(Object::Budget(budget)) => self.remove_budget(&Key::of(&budget.metadata)),
            Input::Deleted(Object::ReplicaSet(set)) => self.put_set(now, &Key::of(&set.metadata), None),
            Input::Deleted(Object::Deployment(deployment)) => self.put_deployment(now, &Key::of(&deployment.metadata), None),
            Input::Answered(id, result) => self.answered(now, id, result),
        }
    }

    fn apply(&mut self, now: Time, object: Object) {
        match object {
            Object::Pod(pod) => self.apply_pod(now, &pod),
            Object::Budget(budget) => self.apply_budget(now, Arc::unwrap_or_clone(budget)),
            Object::ReplicaSet(set) => {
                let ReplicaSet { metadata, spec, .. } = &*set;
                let owner = controller(metadata).filter(|owner| owner.kind == "Deployment").map(|owner| owner.uid.clone());
                let scale = Scale { uid: metadata.uid.clone(), replicas: spec.replicas, owner };
                self.syncs.lists.name(Watched::ReplicaSets, &Key::of(metadata));
                self.put_set(now, &Key::of(metadata), Some(scale));
            }
            Object::Deployment(deployment) => {
                let Deployment { metadata, spec, .. } = &*deployment;
                let scale = Scale { uid: metadata.uid.clone(), replicas: spec.replicas, owner: None };
                self.syncs.lists.name(Watched::Deployments, &Key::of(metadata));
                self.put_deployment(now, &Key::of(metadata), Some(scale));
            }
        }
    }

    fn list_ended(&mut self, now: Time, kind: Watched) {
        match kind {
            Watched::Pods => {
                let gone = self.syncs.lists.ended(kind, self.pods.keys());
                gone.iter().for_each(|key| self.remove_pod(now, key));
            }
            Watched::Budgets => {
                let gone = self.syncs.lists.ended(kind, self.budgets.keys());
                gone.iter().for_each(|key| self.remove_budget(key));
            }
            Watched::ReplicaSets => {
                let gone = self.syncs.lists.ended(kind, self.sets.keys());
                gone.iter().for_each(|key| self.put_set(now, key, None));
            }
            Watched::Deployments => {
                let gone = self.syncs.lists.ended(kind, self.deployments.keys());
                gone.iter().for_each(|key| self.put_deployment(now, key, None));
            }
        }
    }

    fn apply_budget(&mut self, now: Time, budget: PodDisruptionBudget) {
        let key = Key::of(&budget.metadata);
        self.syncs.lists.name(Watched::Budgets, &key);
        match self.budgets.get_mut(&key) {
            Some(known) if known.budget.metadata.uid == budget.metadata.uid && known.budget.spec == budget.spec => {
                if api::key::is_stale(&known.budget.metadata, &budget.metadata) {
                    return;
                }
                (known.budget, known.report_at) = (budget, None);
            }
            known => {
                if known.is_some_and(|known| api::key::is_stale(&known.budget.metadata, &budget.metadata)) {
                    return;
                }
                self.remove_budget(&key);
                if let Some(selector) = &budget.spec.selector {
                    self.selectors.insert(&key, selector);
                }
                let mut entry = Entry::new(budget);
                let selector = entry.budget.spec.selector.as_ref();
                let pods = selector.map(|selector| self.labels.candidates(&key.namespace, selector)).unwrap_or_default();
                for pod in pods.iter().map(|pod| &self.pods[pod]) {
                    if entry.selects(&pod.labels) && entry.count(pod) {
                        pod.set.iter().for_each(|set| self.by_owner.insert(set, &key));
                    }
                }
                self.budgets.insert(key.clone(), entry);
            }
        }
        self.syncs.queue.schedule(key, now);
    }

    fn remove_budget(&mut self, key: &Key) {
        let Some(entry) = self.budgets.remove(key) else { return };
        self.selectors.remove(key);
        entry.owners.keys().for_each(|owner| self.by_owner.remove(owner, key));
    }

    fn apply_pod(&mut self, now: Time, pod: &Pod) {
        let pod = BudgetPod::read(pod);
        self.syncs.lists.name(Watched::Pods, &pod.key);
        if self.pods.get(&pod.key).is_some_and(|known| known.same(&pod)) {
            return;
        }
        self.remove_pod(now, &pod.key.clone());
        self.labels.insert(&pod.key, &pod.labels);
        for key in self.budgets_of(&pod) {
            let entry = self.budgets.get_mut(&key).expect("found among them");
            if entry.count(&pod) {
                pod.set.iter().for_each(|set| self.by_owner.insert(set, &key));
            }
            self.syncs.queue.schedule(key, now);
        }
        self.pods.insert(pod.key.clone(), pod);
    }

    fn remove_pod(&mut self, now: Time, key: &Key) {
        let Some(pod) = self.pods.remove(key) else { return };
        self.labels.remove(key, &pod.labels);
        for key in self.budgets_of(&pod) {
            let entry = self.budgets.get_mut(&key).expect("found among them");
            if entry.uncount(&pod) {
                pod.set.iter().for_each(|set| self.by_owner.remove(set, &key));
            }
            self.syncs.queue.schedule(key, now);
        }
    }

    fn budgets_of(&self, pod: &BudgetPod) -> Vec<Key> {
        let mut found = self.selectors.candidates(&pod.key.namespace, &pod.labels);
        found.retain(|key| self.budgets.get(key).is_some_and(|entry| entry.selects(&pod.labels)));
        found
    }

    fn put_set(&mut self, now: Time, key: &Key, scale: Option<Scale>) {
        let before = self.sets.remove(key);
        if before != scale {
            if let Some(old) = &before {
                self.set_names.remove(&old.uid);
                old.owner.iter().for_each(|owner| self.sets_of.remove(owner, &old.uid));
            }
            if let Some(new) = &scale {
                self.set_names.insert(new.uid.clone(), key.clone());
                new.owner.iter().for_each(|owner| self.sets_of.insert(owner, &new.uid));
            }
            before.iter().chain(&scale).for_each(|set| self.wake(now, &set.uid));
        }
        scale.into_iter().for_each(|scale| drop(self.sets.insert(key.clone(), scale)));
    }

    fn put_deployment(&mut self, now: Time, key: &Key, scale: Option<Scale>) {
        let before = self.deployments.remove(key);
        if before != scale {
            before.iter().for_each(|old| drop(self.deployment_names.remove(&old.uid)));
            scale.iter().for_each(|new| drop(self.deployment_names.insert(new.uid.clone(), key.clone())));
            for deployment in before.iter().chain(&scale) {
                let sets: Vec<String> = self.sets_of.get(&deployment.uid).cloned().collect();
                sets.iter().for_each(|set| self.wake(now, set));
            }
        }
        scale.into_iter().for_each(|scale| drop(self.deployments.insert(key.clone(), scale)));
    }

    /// Asks for a look at the budgets of the pods of a ReplicaSet.
    fn wake(&mut self, now: Time, set: &str) {
        let budgets: Vec<Key> = self.by_owner.get(set).cloned().collect();
        budgets.into_iter().for_each(|key| self.syncs.queue.schedule(key, now));
    }

    /// Returns how many pods the controllers of a budget's pods want together.
    fn wanted(&self, entry: &Entry) -> Result<i64, String> {
        if let Some(pod) = entry.foreign.first() {
            return Err(format!("found no controllers for pod \"{}\"", pod.name));
        }
        let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
        for owner in entry.owners.keys() {
            let set = self.set_names.get(owner).map(|key| &self.sets[key]);
            let Some(set) = set else { return Err(format!("the ReplicaSet with uid {owner} of its pods is not there")) };
            let deployment =
                set.owner.as_ref().and_then(|uid| self.deployment_names.get(uid)).map(|key| &self.deployments[key]);
            let scale = deployment.unwrap_or(set);
            scales.insert(&scale.uid, scale.replicas);
        }
        Ok(scales.values().sum())
    }

    fn sync(&mut self, now: Time, key: &Key, effects: &mut Vec<Effect>) {
        let Some(entry) = self.budgets.get_mut(key) else { return };
        entry.report_at = entry.report_at.filter(|at| now < *at);
        if let Some(at) = entry.report_at {
            return self.syncs.queue.schedule(key.clone(), at);
        }
        let entry = &self.budgets[key];
        let (mut disrupted, mut healthy) = (BTreeMap::new(), entry.healthy);
        for (name, at) in &entry.budget.status.disrupted_pods {
            let over = at.0 + EVICTION_TIMEOUT;
            let pod = self.pods.get(&Key::new(&key.namespace, name)).filter(|pod| !pod.deleting);
            if let Some(pod) = pod.filter(|_| now < over) {
                disrupted.insert(name.clone(), *at);
                healthy -= i64::from(pod.is_healthy() && entry.selects(&pod.labels));
                self.syncs.queue.schedule(key.clone(), over);
            }
        }
        let facts = BudgetFacts { pods: entry.pods, healthy, wanted: self.wanted(entry), disrupted };
        let status = budget_status(now, &entry.budget, &facts);
        let first = entry.budget.status.observed_generation != entry.budget.metadata.generation;
        effects.extend(first.then(|| remark(&entry.budget, &facts)).flatten());
        if status == entry.budget.status {
            return;
        }
        let write = Write::to::<PodDisruptionBudget>(&key.namespace, &key.name, Verb::Merge(patch(&entry.budget, &status)));
        self.syncs.send(key, entry.budget.metadata.uid.clone(), write.status(), effects);
    }

    fn answered(&mut self, now: Time, id: WriteId, result: Result<Option<Object>, WriteFailure>) {
        let Some((key, uid, _)) = self.syncs.writes.answered(id) else { return };
        match result {
            Ok(Some(Object::Budget(budget))) if self.budgets.get(&key).is_some_and(|e| e.budget.metadata.uid == uid) => {
                self.apply_budget(now, Arc::unwrap_or_clone(budget));
            }
            Ok(_) => {}
            Err(_) => {
                if let Some(entry) = self.budgets.get_mut(&key) {
                    entry.report_at = Some(now + REPORT_AGAIN);
                }
            }
        }
        self.syncs.end(key, now);
    }
}

/// Returns what to say of a budget that is looked at for the first time.
fn remark(budget: &PodDisruptionBudget, facts: &BudgetFacts) -> Option<Effect> {
    let (type_, reason, message) = match &facts.wanted {
        _ if facts.pods == 0 => (EventType::Normal, "NoPods", "No matching pods found".to_owned()),
        Err(why) if !matches!(budget.spec.min_available, Some(api::IntOrString::Int(_))) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            (EventType::Warning, "CalculateExpectedPodCountFailed", message)
        }
        _ => return None,
    };
    let metadata = &budget.metadata;
    let object = reference::<PodDisruptionBudget>(&metadata.namespace, &metadata.name, &metadata.uid);
    Some(Effect::Event(Event { object, type_, reason, message }))
}

/// Returns the whole status, for the very version that it was computed from.
fn patch(budget: &PodDisruptionBudget, status: &api::budget::BudgetStatus) -> Value {
    let mut value = json!(status);
    let mut disrupted: serde_json::Map<String, Value> =
        budget.status.disrupted_pods.keys().map(|name| (name.clone(), Value::Null)).collect();
    disrupted.extend(status.disrupted_pods.iter().map(|(name, at)| (name.clone(), json!(at))));
    value["disruptedPods"] = if status.disrupted_pods.is_empty() { Value::Null } else { disrupted.into() };
    for condition in value["conditions"].as_array_mut().into_iter().flatten() {
        condition["message"] = condition.get("message").cloned().unwrap_or_else(|| json!(""));
    }
    let metadata = &budget.metadata;
    json!({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": value})
}

impl Machine for Budgets {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input);
        }
        while let Some(key) = self.syncs.next(now) {
            self.sync(now, &key, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.syncs.deadline()
    }
}
