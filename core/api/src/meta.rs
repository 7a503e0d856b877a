//! What every object has.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Timestamp;
use crate::key::revision;

/// A kind of object: where it lives in the API.
pub trait Kind {
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version.
    const VERSION: &'static str;
    /// The kind, for example `Pod`.
    const KIND: &'static str;
    /// The plural name in URLs, for example `pods`.
    const PLURAL: &'static str;
    /// Whether objects live in a namespace.
    const SCOPE: Scope;

    /// Returns the metadata of an object.
    fn metadata(&self) -> &ObjectMeta;
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster as a whole.
    Cluster,
    /// In a namespace.
    Namespaced,
}

/// Reads null as the default value, as Kubernetes does.
pub fn null_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// The metadata that we read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Unique among the objects of a kind and namespace.
    pub name: String,
    /// What the server made the name from, if the creator left that to it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Empty for objects of cluster scope.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Unique for ever.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision of the last change; opaque to clients.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Counts the changes of what is wanted.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// When the object was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// When it is due to be gone; its presence means that it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace that the deletion was asked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// For selection.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For everything else.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Who must agree before the object goes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Whom the object belongs to.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl ObjectMeta {
    /// Returns whether the object is being deleted.
    pub fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns whether this is another object, or a later state of the same: a watch may tell what an answer has overtaken.
    /// Versions that are no numbers say nothing, so what came last counts.
    pub fn is_newer_than(&self, known: &ObjectMeta) -> bool {
        let versions = (revision(self), revision(known));
        !matches!(versions, (Some(own), Some(known_version)) if self.uid == known.uid && own <= known_version)
    }

    /// Returns whether this is an earlier state of the same object.
    pub fn is_older_than(&self, known: &ObjectMeta) -> bool {
        let versions = (revision(self), revision(known));
        matches!(versions, (Some(own), Some(known_version)) if self.uid == known.uid && own < known_version)
    }

    /// Returns `namespace/name`, or the name alone at cluster scope.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// Whom an object belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// The owner is this very object, not another of the same name.
    pub uid: String,
    /// Whether the owner is the one that controls the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// A condition, as pods and nodes have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about, for example `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The generation that it was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// When a node last reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
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
