//! The rollout of a Deployment as a plan: from the Deployment and its ReplicaSets to what must be written next.
//!
//! Planning again after a plan was carried out goes one step further, and yields nothing when there is nothing to do.
//! ReplicaSets come before the status: the status is written when they need no change, so `observedGeneration` never
//! promises what was not done. The rules are those of Kubernetes, kept exactly: how far each side is scaled, conditions and
//! their reasons, annotations, events.

mod annotations;
mod draft;
mod recreate;
mod rolling;
mod scaling;
mod status;

use api::workload::{POD_TEMPLATE_HASH, template_labels};
use api::{Deployment, Event, EventType, FeatureGates, Key, ReplicaSet, Verb, Write, write::reference};
use machine::Time;
use serde_json::{Value, json};

use crate::claim::owner_reference;
use crate::hash::{same_template, template_hash};
use draft::{Draft, Size};

pub use annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY};

/// The reason of the event for every scaling of a ReplicaSet; Kubernetes.
pub const SCALING: &str = "ScalingReplicaSet";
/// The reason of the event and condition for a ReplicaSet that could not be made; Kubernetes.
pub const CREATE_ERROR: &str = "ReplicaSetCreateError";

/// What must be written next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Requests for ReplicaSets, which may be sent at the same time.
    pub sets: Vec<ReplicaSetWrite>,
    /// The request for the status; carried out when `sets` is empty.
    pub status: Option<Write>,
    /// When to plan again if nothing happens before.
    pub look_again: Option<Time>,
}

/// A request for a ReplicaSet.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaSetWrite {
    /// The ReplicaSet.
    pub name: String,
    /// The request.
    pub write: Write,
    /// What to say when it was done.
    pub event: Option<Event>,
}

/// What happened since the status was written last and is not seen in the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The ReplicaSet that was made.
    pub created: Option<String>,
    /// Why a ReplicaSet could not be made.
    pub create_error: Option<String>,
}

/// Plans the next step of a Deployment, from all ReplicaSets that it controls.
pub fn plan<'a>(
    now: Time,
    deployment: &'a Deployment,
    sets: impl IntoIterator<Item = &'a ReplicaSet>,
    memory: &Memory,
    gates: &'a FeatureGates,
) -> Plan {
    let mut rollout = Rollout::new(now, deployment, sets, gates);
    let create = rollout.decide();
    rollout.finish(create, memory)
}

/// A Deployment with drafts of its ReplicaSets.
struct Rollout<'a> {
    now: Time,
    deployment: &'a Deployment,
    gates: &'a FeatureGates,
    size: Size,
    /// The one with the template of the Deployment.
    new: Option<Draft<'a>>,
    /// The others, the oldest first.
    old: Vec<Draft<'a>>,
    /// Old ones to delete.
    deleted: Vec<&'a ReplicaSet>,
}

impl<'a> Rollout<'a> {
    fn new(
        now: Time,
        deployment: &'a Deployment,
        sets: impl IntoIterator<Item = &'a ReplicaSet>,
        gates: &'a FeatureGates,
    ) -> Rollout<'a> {
        let mut old: Vec<Draft<'a>> = sets.into_iter().map(Draft::new).collect();
        old.sort_by(|a, b| a.age().cmp(&b.age()));
        // Of several with the same template the oldest counts, so that two never fight.
        let is_new = |draft: &Draft<'_>| same_template(&draft.set.spec.template, &deployment.spec.template, gates);
        let new = old.iter().position(is_new).map(|at| old.remove(at));
        Rollout { now, deployment, gates, size: Size::of(deployment), new, old, deleted: Vec::new() }
    }

    /// Changes the drafts; returns whether the new ReplicaSet must be made.
    fn decide(&mut self) -> bool {
        if self.deployment.metadata.deleting() {
            return false;
        }
        self.sync_new();
        if self.deployment.spec.paused {
            self.scale();
            self.clean_up();
            return false;
        }
        if self.is_scaling() {
            self.scale();
            return false;
        }
        if self.deployment.spec.strategy.type_ == "Recreate" { self.recreate() } else { self.roll() }
    }

    /// Brings annotations and `minReadySeconds` of the new ReplicaSet up to date.
    fn sync_new(&mut self) {
        let revision = self.next_revision();
        let min_ready = self.deployment.spec.min_ready_seconds;
        if let Some(new) = &mut self.new {
            annotations::carry_over(&self.deployment.metadata.annotations, &mut new.annotations);
            annotations::set_revision(&mut new.annotations, revision);
            new.min_ready_seconds = min_ready;
        }
    }

    fn next_revision(&self) -> i64 {
        self.old.iter().map(Draft::revision).max().unwrap_or(0) + 1
    }

    /// Returns whether the Deployment was scaled since its ReplicaSets were.
    fn is_scaling(&self) -> bool {
        let scaled = |draft: &Draft<'_>| draft.desired().is_some_and(|desired| desired != self.size.replicas);
        self.all().filter(|draft| draft.replicas > 0).any(scaled)
    }

    fn all(&self) -> impl Iterator<Item = &Draft<'a>> {
        self.old.iter().chain(&self.new)
    }

    /// Deletes old ReplicaSets without pods beyond the limit of the history, the oldest revisions first.
    fn clean_up(&mut self) {
        let Some(limit) = self.deployment.spec.revision_history_limit.filter(|limit| *limit < i64::from(i32::MAX)) else {
            return;
        };
        let mut kept: Vec<&Draft<'a>> = self.old.iter().filter(|draft| !draft.set.metadata.deleting()).collect();
        kept.sort_by_key(|draft| (draft.revision(), draft.age()));
        let surplus = kept.len().saturating_sub(usize::try_from(limit.max(0)).unwrap_or(usize::MAX));
        let empty = |draft: &&&Draft<'a>| {
            let set = draft.set;
            set.status.replicas == 0
                && set.spec.replicas == 0
                && draft.replicas == 0
                && set.metadata.generation <= set.status.observed_generation
        };
        self.deleted = kept.iter().take(surplus).filter(empty).map(|draft| draft.set).collect();
    }

    /// Turns the drafts into requests.
    fn finish(self, create: bool, memory: &Memory) -> Plan {
        let mut plan = Plan::default();
        if create {
            // One that cannot be made is said so before it is tried again.
            plan.sets.push(self.creation());
        }
        let deleted = |draft: &&Draft<'_>| self.deleted.iter().any(|set| set.metadata.uid == draft.set.metadata.uid);
        plan.sets.extend(self.all().filter(|draft| !deleted(draft)).filter_map(|draft| draft.request(self.deployment)));
        for set in &self.deleted {
            let verb = Verb::delete(set.metadata.uid.clone());
            let write = Write::to::<ReplicaSet>(&set.metadata.namespace, &set.metadata.name, verb);
            plan.sets.push(ReplicaSetWrite { name: set.metadata.name.clone(), write, event: None });
        }
        (plan.status, plan.look_again) = self.status(memory);
        plan
    }

    /// Returns the request that makes the new ReplicaSet.
    fn creation(&self) -> ReplicaSetWrite {
        let deployment = self.deployment;
        let (metadata, spec) = (&deployment.metadata, &deployment.spec);
        let hash = template_hash(&spec.template, deployment.status.collision_count, self.gates);
        let name = set_name(&metadata.name, &hash);
        let mut template = spec.template.clone();
        api::json::object_mut(&mut template, &["metadata", "labels"]).insert(POD_TEMPLATE_HASH.to_owned(), json!(hash));
        let mut selector = json!(spec.selector);
        api::json::object_mut(&mut selector, &["matchLabels"]).insert(POD_TEMPLATE_HASH.to_owned(), json!(hash));
        let mut annotations = std::collections::BTreeMap::new();
        annotations::carry_over(&metadata.annotations, &mut annotations);
        annotations::set_revision(&mut annotations, self.next_revision());
        annotations::set_sizes(&mut annotations, &self.size);
        let replicas = self.new_replicas(0);
        let mut body = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": name, "namespace": metadata.namespace, "labels": template_labels(&template), "annotations": annotations,
                "ownerReferences": [owner_reference::<Deployment>(metadata)],
            },
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        });
        if spec.min_ready_seconds != 0 {
            body["spec"]["minReadySeconds"] = spec.min_ready_seconds.into();
        }
        let event = (replicas > 0).then(|| scaled(deployment, &name, 0, replicas));
        ReplicaSetWrite { write: Write::to::<ReplicaSet>(&metadata.namespace, &name, Verb::Create(body.into())), name, event }
    }
}

/// Returns the name of the ReplicaSet of a template: as long as a name may be.
fn set_name(deployment: &str, hash: &str) -> String {
    const MAX: usize = 253;
    let mut end = deployment.len().min(MAX - 1 - hash.len());
    while !deployment.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &deployment[..end])
}

/// Returns the event for a ReplicaSet that was scaled.
fn scaled(deployment: &Deployment, set: &str, from: i64, to: i64) -> Event {
    let way = if from < to { "up" } else { "down" };
    let message = format!("Scaled {way} replica set {set} from {from} to {to}");
    event(deployment, EventType::Normal, SCALING, message)
}

/// Returns an event about a Deployment.
pub(crate) fn event(deployment: &Deployment, type_: EventType, reason: &'static str, message: String) -> Event {
    let metadata = &deployment.metadata;
    Event { object: reference::<Deployment>(&metadata.namespace, &metadata.name, &metadata.uid), type_, reason, message }
}

/// Returns the request that counts one more collision of names.
pub(crate) fn collided(deployment: &Deployment) -> Write {
    let metadata = &deployment.metadata;
    let count = deployment.status.collision_count.unwrap_or(0) + 1;
    let patch: Value = json!({"metadata": {"uid": metadata.uid}, "status": {"collisionCount": count}});
    let key = Key::of(metadata);
    Write::to::<Deployment>(key.namespace, key.name, Verb::Merge(patch)).status()
}
