//! ReplicaSet and Deployment, as far as their controllers and disruption budgets read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::{Kind, ObjectMeta, Scope, null_default};
use crate::{IntOrString, LabelSelector, Timestamp};

/// The label that tells the pods of one template from those of another.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ReplicaSetSpec,
    /// What is seen.
    pub status: ReplicaSetStatus,
}

impl Kind for ReplicaSet {
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicaSet";
    const PLURAL: &'static str = "replicasets";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What a ReplicaSet is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// How many pods; the server fills in 1.
    #[serde(deserialize_with = "null_default")]
    pub replicas: i64,
    /// How long a pod must be ready to be available.
    #[serde(deserialize_with = "null_default")]
    pub min_ready_seconds: i64,
    /// Which pods are its own.
    #[serde(deserialize_with = "null_default")]
    pub selector: LabelSelector,
    /// What its pods are made from; whole, because every field of it goes into a pod.
    pub template: Value,
}

/// What is seen of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Pods that have not ended and are not being deleted.
    #[serde(deserialize_with = "null_default")]
    pub replicas: i64,
    /// Those of them that have all labels of the template.
    #[serde(deserialize_with = "null_default")]
    pub fully_labeled_replicas: i64,
    /// Those that are ready.
    #[serde(deserialize_with = "null_default")]
    pub ready_replicas: i64,
    /// Those that have been ready long enough.
    #[serde(deserialize_with = "null_default")]
    pub available_replicas: i64,
    /// Pods that are being deleted.
    pub terminating_replicas: Option<i64>,
    /// The generation that this is about.
    #[serde(deserialize_with = "null_default")]
    pub observed_generation: i64,
    /// Conditions.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<WorkloadCondition>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: DeploymentSpec,
    /// What is seen.
    pub status: DeploymentStatus,
}

impl Kind for Deployment {
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Deployment";
    const PLURAL: &'static str = "deployments";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What a Deployment is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// How many pods; the server fills in 1.
    #[serde(deserialize_with = "null_default")]
    pub replicas: i64,
    /// How long a pod must be ready to be available.
    #[serde(deserialize_with = "null_default")]
    pub min_ready_seconds: i64,
    /// Which ReplicaSets are its own.
    #[serde(deserialize_with = "null_default")]
    pub selector: LabelSelector,
    /// What the pods are made from.
    pub template: Value,
    /// How an old template is replaced.
    #[serde(deserialize_with = "null_default")]
    pub strategy: DeploymentStrategy,
    /// Whether nothing is rolled out for now.
    #[serde(deserialize_with = "null_default")]
    pub paused: bool,
    /// How many old ReplicaSets are kept; absent: all.
    pub revision_history_limit: Option<i64>,
    /// Seconds without progress after which a rollout counts as failed; absent: never.
    pub progress_deadline_seconds: Option<i64>,
}

/// How an old template is replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStrategy {
    /// `RollingUpdate` or `Recreate`.
    #[serde(rename = "type", deserialize_with = "null_default")]
    pub type_: String,
    /// For `RollingUpdate`.
    #[serde(deserialize_with = "null_default")]
    pub rolling_update: RollingUpdate,
}

/// The bounds of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Pods above the wanted number, or a share of it.
    #[serde(deserialize_with = "null_default")]
    pub max_surge: IntOrString,
    /// Pods below the wanted number that need not be available, or a share of it.
    #[serde(deserialize_with = "null_default")]
    pub max_unavailable: IntOrString,
}

/// What is seen of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation that this is about.
    #[serde(deserialize_with = "null_default")]
    pub observed_generation: i64,
    /// Pods of all its ReplicaSets.
    #[serde(deserialize_with = "null_default")]
    pub replicas: i64,
    /// Pods of the newest template.
    #[serde(deserialize_with = "null_default")]
    pub updated_replicas: i64,
    /// Pods that are ready.
    #[serde(deserialize_with = "null_default")]
    pub ready_replicas: i64,
    /// Pods that have been ready long enough.
    #[serde(deserialize_with = "null_default")]
    pub available_replicas: i64,
    /// Pods that are still missing to what is wanted.
    #[serde(deserialize_with = "null_default")]
    pub unavailable_replicas: i64,
    /// Pods that are being deleted.
    pub terminating_replicas: Option<i64>,
    /// How often the name of a new ReplicaSet was taken.
    pub collision_count: Option<i64>,
    /// Conditions.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<WorkloadCondition>,
}

/// A condition of a ReplicaSet or Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCondition {
    /// What it is about, for example `Progressing`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When anything of it last changed; Deployments only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// Why, as one word.
    #[serde(deserialize_with = "null_default")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_default")]
    pub message: String,
}

/// Returns the condition of a type.
pub fn condition<'a>(conditions: &'a [WorkloadCondition], type_: &str) -> Option<&'a WorkloadCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns the labels that a template gives to its pods.
pub fn template_labels(template: &Value) -> BTreeMap<String, String> {
    let labels = crate::json::object(template, &["metadata", "labels"]).into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}
