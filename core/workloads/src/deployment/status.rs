//! What is reported of a Deployment: numbers, availability, progress and its deadline.

use std::time::Duration;

use api::workload::{DeploymentStatus, WorkloadCondition, condition};
use api::{Deployment, Timestamp, Verb, Write};
use machine::Time;
use serde_json::{Map, Value, json};

use super::annotations::REVISION;
use super::draft::Draft;
use super::{CREATE_ERROR, Memory, Rollout};

/// Types of conditions; Kubernetes.
const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// Reasons of the condition Progressing; Kubernetes.
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

impl Rollout<'_> {
    /// Returns whether the rollout is complete by the stored status, as a clean-up wants it.
    pub(super) fn is_complete(&self) -> bool {
        complete(self.deployment, &self.deployment.status)
    }

    /// Returns the request for the status if it is not what is stored, and when to look at the deadline.
    pub(super) fn status(&self, memory: &Memory) -> (Option<Write>, Option<Time>) {
        let deployment = self.deployment;
        let mut status = self.numbers();
        self.judge_availability(&mut status);
        if !deployment.metadata.deleting() {
            self.judge_progress(&mut status, memory);
            if !deployment.spec.paused {
                self.judge_failures(&mut status);
            }
        }
        let look_again = self.deadline(&status);
        let revision = self.new.as_ref().map(Draft::revision).filter(|revision| *revision > 0);
        let revision = revision.filter(|revision| {
            deployment.metadata.annotations.get(REVISION).map(String::as_str) != Some(revision.to_string().as_str())
        });
        let patch = patch(deployment, &status, revision.filter(|_| !deployment.metadata.deleting()));
        let metadata = &deployment.metadata;
        let write = patch.map(|patch| Write::to::<Deployment>(&metadata.namespace, &metadata.name, Verb::Strategic(patch)));
        (write.map(Write::status), look_again)
    }

    fn numbers(&self) -> DeploymentStatus {
        let sum = |number: &dyn Fn(&Draft<'_>) -> i64| self.all().map(number).sum::<i64>();
        let available = sum(&|draft| draft.available());
        DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: sum(&|draft| draft.set.status.replicas),
            updated_replicas: self.new.as_ref().map_or(0, |new| new.set.status.replicas),
            ready_replicas: sum(&|draft| draft.set.status.ready_replicas),
            available_replicas: available,
            unavailable_replicas: (sum(&|draft| draft.replicas) - available).max(0),
            terminating_replicas: Some(sum(&|draft| draft.set.status.terminating_replicas.unwrap_or(0))),
            collision_count: self.deployment.status.collision_count,
            conditions: self.deployment.status.conditions.clone(),
        }
    }

    fn judge_availability(&self, status: &mut DeploymentStatus) {
        let (value, reason, message) = if status.available_replicas >= self.size.min_available() {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        self.set(status, AVAILABLE, value, reason, message.to_owned());
    }

    fn judge_progress(&self, status: &mut DeploymentStatus, memory: &Memory) {
        let deployment = self.deployment;
        if !has_deadline(deployment) {
            status.conditions.retain(|condition| condition.type_ != PROGRESSING);
            return;
        }
        let before = condition(&deployment.status.conditions, PROGRESSING);
        let reason = before.map_or("", |before| before.reason.as_str());
        self.judge_pause(status, reason);
        if deployment.spec.paused {
            return;
        }
        if let Some(error) = &memory.create_error {
            self.set(status, PROGRESSING, "False", CREATE_ERROR, error.clone());
            return;
        }
        let subject = match &self.new {
            Some(new) => {
                let name = &new.set.metadata.name;
                if memory.created.as_ref() == Some(name) {
                    let message = format!("Created new replica set \"{name}\"");
                    self.set(status, PROGRESSING, "True", "NewReplicaSetCreated", message);
                } else if before.is_none() {
                    self.set(status, PROGRESSING, "True", "FoundNewReplicaSet", format!("Found new replica set \"{name}\""));
                }
                format!("ReplicaSet \"{name}\"")
            }
            None => format!("Deployment \"{}\"", deployment.metadata.name),
        };
        let current = condition(&status.conditions, PROGRESSING);
        let done = current.is_some_and(|current| current.reason == NEW_SET_AVAILABLE);
        if status.replicas == status.updated_replicas && done {
            return;
        }
        if complete(deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            self.set(status, PROGRESSING, "True", NEW_SET_AVAILABLE, message);
        } else if progressing(&deployment.status, status) {
            self.progress(status, format!("{subject} is progressing."));
        } else if timed_out(self.now, deployment, status) {
            let message = format!("{subject} has timed out progressing.");
            self.set(status, PROGRESSING, "False", TIMED_OUT, message);
        }
    }

    /// A pause stops the clock of the deadline; the end of it starts the clock anew.
    fn judge_pause(&self, status: &mut DeploymentStatus, reason: &str) {
        let (paused, was_paused) = (self.deployment.spec.paused, reason == PAUSED);
        if reason == TIMED_OUT || paused == was_paused {
            return;
        }
        if paused {
            self.set(status, PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned());
        } else {
            self.set(status, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned());
        }
    }

    /// Notes progress: also with the same reason as before, so that the deadline begins anew.
    fn progress(&self, status: &mut DeploymentStatus, message: String) {
        let before = condition(&status.conditions, PROGRESSING).filter(|before| before.status == "True");
        let transition = before.and_then(|before| before.last_transition_time);
        status.conditions.retain(|condition| condition.type_ != PROGRESSING);
        self.set(status, PROGRESSING, "True", "ReplicaSetUpdated", message);
        if let (Some(transition), Some(last)) = (transition, status.conditions.last_mut()) {
            last.last_transition_time = Some(transition);
        }
    }

    /// Takes over the failure of a ReplicaSet, that of the new one first.
    fn judge_failures(&self, status: &mut DeploymentStatus) {
        let failure = |draft: &Draft<'_>| {
            let found = condition(&draft.set.status.conditions, REPLICA_FAILURE);
            found.filter(|found| found.status == "True").cloned()
        };
        match self.new.iter().chain(&self.old).find_map(failure) {
            Some(failure) => self.set(status, REPLICA_FAILURE, "True", &failure.reason, failure.message),
            None => status.conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        }
    }

    /// Sets a condition; one with the same status and reason stays as it is.
    fn set(&self, status: &mut DeploymentStatus, type_: &str, value: &str, reason: &str, message: String) {
        let before = condition(&status.conditions, type_);
        if before.is_some_and(|before| before.status == value && before.reason == reason) {
            return;
        }
        let now = Some(Timestamp(self.now.floor_second()));
        let kept = before.filter(|before| before.status == value).and_then(|before| before.last_transition_time);
        let new = WorkloadCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            last_update_time: now,
            last_transition_time: kept.or(now),
            reason: reason.to_owned(),
            message,
        };
        status.conditions.retain(|condition| condition.type_ != type_);
        status.conditions.push(new);
    }

    /// Returns when the deadline of a rollout that makes no progress passes.
    fn deadline(&self, status: &DeploymentStatus) -> Option<Time> {
        let deployment = self.deployment;
        let current = condition(&status.conditions, PROGRESSING)?;
        let over = complete(deployment, status) || current.reason == TIMED_OUT || current.reason == NEW_SET_AVAILABLE;
        if over || deployment.spec.paused || !has_deadline(deployment) {
            return None;
        }
        // The condition is due when more than the deadline has passed, and its time is cut to whole seconds.
        Some(current.last_update_time?.0 + deadline_of(deployment) + Duration::from_secs(1))
    }
}

fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds.is_some_and(|seconds| seconds < i64::from(i32::MAX))
}

fn deadline_of(deployment: &Deployment) -> Duration {
    Duration::from_secs(deployment.spec.progress_deadline_seconds.unwrap_or(0).max(0).unsigned_abs())
}

/// Returns whether all pods are of the new template and available.
fn complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = deployment.spec.replicas;
    status.updated_replicas == replicas
        && status.replicas == replicas
        && status.available_replicas == replicas
        && status.observed_generation >= deployment.metadata.generation
}

fn progressing(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

fn timed_out(now: Time, deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let Some(current) = condition(&status.conditions, PROGRESSING) else { return false };
    match current.reason.as_str() {
        NEW_SET_AVAILABLE => false,
        TIMED_OUT => true,
        _ => current.last_update_time.is_some_and(|since| since.0 + deadline_of(deployment) < now),
    }
}

/// Returns what must be written; zeros are left out where Kubernetes leaves them out.
fn patch(deployment: &Deployment, new: &DeploymentStatus, revision: Option<i64>) -> Option<Value> {
    let old = &deployment.status;
    let mut status = Map::new();
    let mut set = |field: &str, new: i64, old: i64| {
        if new != old {
            status.insert(field.to_owned(), if new == 0 { Value::Null } else { new.into() });
        }
    };
    set("observedGeneration", new.observed_generation, old.observed_generation);
    set("replicas", new.replicas, old.replicas);
    set("updatedReplicas", new.updated_replicas, old.updated_replicas);
    set("readyReplicas", new.ready_replicas, old.ready_replicas);
    set("availableReplicas", new.available_replicas, old.available_replicas);
    set("unavailableReplicas", new.unavailable_replicas, old.unavailable_replicas);
    if new.terminating_replicas != old.terminating_replicas {
        status.insert("terminatingReplicas".to_owned(), json!(new.terminating_replicas));
    }
    let changed = new.conditions.iter().filter(|condition| !old.conditions.contains(condition)).map(|changed| json!(changed));
    let gone = old.conditions.iter().filter(|old| condition(&new.conditions, &old.type_).is_none());
    let gone = gone.map(|gone| json!({"$patch": "delete", "type": gone.type_}));
    let conditions: Vec<Value> = changed.chain(gone).collect();
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    if status.is_empty() && revision.is_none() {
        return None;
    }
    let mut patch = json!({"metadata": {"uid": deployment.metadata.uid}});
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({REVISION: revision.to_string()});
    }
    if !status.is_empty() {
        patch["status"] = status.into();
    }
    Some(patch)
}
