//! The Node of `config.openshift.io/v1`: the one object `cluster` that chooses the worker latency profile.
//!
//! Not to be confused with the core [`Node`](crate::Node); the two share nothing but their kind.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::meta::{Kind, ObjectMeta, Scope, null_default};

/// The only name that the object may have.
pub const NAME: &str = "cluster";

/// The profiles that `spec.workerLatencyProfile` may name; empty means `Default`.
pub const PROFILES: [&str; 3] = ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"];

/// Who may own a condition, sorted.
pub const OWNERS: [&str; 3] = ["KubeAPIServerOperator", "KubeControllerManagerOperator", "MachineConfigOperator"];

/// The types of conditions, sorted.
pub const CONDITION_TYPES: [&str; 3] = ["Complete", "Degraded", "Progressing"];

/// The values of a condition's `status`.
pub const CONDITION_STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// Annotation of the user: `"true"` starts no further step.
pub const ANNOTATION_PAUSED: &str = "lifesign.dev/paused";
/// Annotation of the user: a new value counts as a new generation.
pub const ANNOTATION_RETRY: &str = "lifesign.dev/retry";
/// Annotation that we write: the last profile that was completed in the whole cluster.
pub const ANNOTATION_APPLIED_PROFILE: &str = "lifesign.dev/applied-profile";
/// Annotation that we write: the generation that was given up in favour of `Default`.
pub const ANNOTATION_ROLLED_BACK_GENERATION: &str = "lifesign.dev/rolled-back-generation";
/// Annotation that we write (cluster): kubeadm's ClusterConfiguration before the first change, as text.
pub const ANNOTATION_KUBEADM_ORIGINAL: &str = "lifesign.dev/kubeadm-original";
/// Carrier of a step (standalone): the grace that the node lifecycle controller uses.
pub const ANNOTATION_GRACE_PERIOD: &str = "lifesign.dev/node-monitor-grace-period";
/// Carrier of a step (standalone): the default toleration of not-ready that admission adds.
pub const ANNOTATION_NOT_READY_SECONDS: &str = "lifesign.dev/default-not-ready-toleration-seconds";
/// Carrier of a step (standalone): the default toleration of unreachable that admission adds.
pub const ANNOTATION_UNREACHABLE_SECONDS: &str = "lifesign.dev/default-unreachable-toleration-seconds";
/// Carrier of a step on a *core* Node (standalone): the heartbeat interval of its agent.
pub const ANNOTATION_UPDATE_FREQUENCY: &str = "lifesign.dev/node-status-update-frequency";
/// On a core Node, where a plane allows it: the profile whose heartbeat and grace this node has, whatever the others have.
pub const ANNOTATION_NODE_PROFILE: &str = "lifesign.dev/worker-latency-profile";

/// Carrier of a step on a *core* Node (cluster): what its profiles agent is to change, as JSON; written by the controllers.
pub const ANNOTATION_APPLY_STEP: &str = "lifesign.dev/apply-step";
/// On a core Node (cluster): what its profiles agent can change, sees in use, and has done last, as JSON; written by the agent.
pub const ANNOTATION_APPLIED_STEP: &str = "lifesign.dev/applied-step";

/// Returns the heartbeat interval that a core Node asks its agent for; `None`: none. The error is a text that is no interval.
pub fn annotated_interval(node: &crate::Node) -> Result<Option<Duration>, &str> {
    let Some(text) = node.metadata.annotations.get(ANNOTATION_UPDATE_FREQUENCY) else { return Ok(None) };
    match crate::duration::parse(text) {
        Ok(interval) if !interval.is_zero() => Ok(Some(interval)),
        _ => Err(text),
    }
}

/// The configuration of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigNode {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "null_default")]
    pub spec: ConfigNodeSpec,
    /// What is seen.
    #[serde(deserialize_with = "null_default")]
    pub status: ConfigNodeStatus,
}

impl Kind for ConfigNode {
    const GROUP: &'static str = "config.openshift.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const SCOPE: Scope = Scope::Cluster;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ConfigNode {
    /// Returns whether the user has paused the rollout.
    pub fn paused(&self) -> bool {
        self.metadata.annotations.get(ANNOTATION_PAUSED).is_some_and(|value| value == "true")
    }

    /// Returns the grace that the node lifecycle controller is asked to use. None at all is no grace that one could use: it
    /// counts as not asked for, like a text that is no duration.
    pub fn annotated_grace(&self) -> Option<Duration> {
        let text = self.metadata.annotations.get(ANNOTATION_GRACE_PERIOD)?;
        crate::duration::parse(text).ok().filter(|grace| !grace.is_zero())
    }
}

/// What all nodes are to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigNodeSpec {
    /// One of [`PROFILES`], or empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub worker_latency_profile: String,
}

/// What is seen of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigNodeStatus {
    /// How far the latency profile is.
    #[serde(deserialize_with = "null_default")]
    pub worker_latency_profile_status: WorkerLatencyProfileStatus,
}

/// How far the rollout of a latency profile is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerLatencyProfileStatus {
    /// One per owner and type, sorted by owner, then type.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<OwnedCondition>,
    /// Objects worth looking at.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<RelatedObject>,
}

/// A condition with an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnedCondition {
    /// One of [`OWNERS`].
    pub owner: String,
    /// One of [`CONDITION_TYPES`].
    #[serde(rename = "type")]
    pub type_: String,
    /// One of [`CONDITION_STATUSES`].
    pub status: String,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// Why, as one word.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An object worth looking at.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedObject {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "null_default")]
    pub group: String,
    /// Plural name of the kind.
    #[serde(deserialize_with = "null_default")]
    pub resource: String,
    /// Namespace, if it has one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_grace_at_all_is_not_asked_for() {
        let asks = |text: &str| {
            let metadata = json!({"annotations": {ANNOTATION_GRACE_PERIOD: text}});
            serde_json::from_value::<ConfigNode>(json!({"metadata": metadata})).unwrap().annotated_grace()
        };
        assert_eq!(asks("2m"), Some(Duration::from_secs(120)));
        assert_eq!((asks("0s"), asks("soon"), ConfigNode::default().annotated_grace()), (None, None, None));
    }

    #[test]
    fn fields_that_we_do_not_know_are_ignored() {
        let node: ConfigNode = serde_json::from_value(json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Node",
            "metadata": {"name": "cluster", "annotations": {"lifesign.dev/paused": "true"}},
            "spec": {"cgroupMode": "v2", "workerLatencyProfile": "LowUpdateSlowReaction"}, "status": null,
        }))
        .unwrap();
        assert!(node.paused());
        assert_eq!(node.spec.worker_latency_profile, "LowUpdateSlowReaction");
        assert_eq!(node.status, ConfigNodeStatus::default());
    }

    #[test]
    fn a_related_object_of_the_core_group_says_so() {
        let object = RelatedObject { resource: "nodes".into(), name: "n1".into(), ..RelatedObject::default() };
        assert_eq!(serde_json::to_value(object).unwrap(), json!({"group": "", "resource": "nodes", "name": "n1"}));
    }
}
