//! PodDisruptionBudget: how many pods of an application may be taken away on purpose at the same time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::meta::{Condition, Kind, ObjectMeta, Scope, null_default};
use crate::{IntOrString, LabelSelector, Timestamp};

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: BudgetSpec,
    /// What is seen.
    pub status: BudgetStatus,
}

impl Kind for PodDisruptionBudget {
    const GROUP: &'static str = "policy";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PodDisruptionBudget";
    const PLURAL: &'static str = "poddisruptionbudgets";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What a PodDisruptionBudget wants: one of the two numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// Pods that must stay healthy, or a share of those that are expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// Pods that need not be healthy, or a share of those that are expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Which pods; absent: none, empty: all of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// `IfHealthyBudget` (also when empty) or `AlwaysAllow`: when a pod that is not ready may be evicted.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub unhealthy_pod_eviction_policy: String,
}

/// What is seen of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// The generation that this is about.
    #[serde(deserialize_with = "null_default")]
    pub observed_generation: i64,
    /// Pods whose eviction was allowed, and when; they count as gone although they may still be seen.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// How many more evictions are allowed now.
    #[serde(deserialize_with = "null_default")]
    pub disruptions_allowed: i64,
    /// Pods that are ready.
    #[serde(deserialize_with = "null_default")]
    pub current_healthy: i64,
    /// Pods that must stay ready.
    #[serde(deserialize_with = "null_default")]
    pub desired_healthy: i64,
    /// Pods that are counted at all.
    #[serde(deserialize_with = "null_default")]
    pub expected_pods: i64,
    /// Conditions.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
