//! Events for people: what a core wants said about an object.

use serde::{Deserialize, Serialize};

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Somebody may want to look.
    Warning,
}

impl EventType {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// An object that something else speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Group and version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace, if it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The very object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The part of it, for example `spec.containers{app}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

/// A Kubernetes event that a core wants to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub object: ObjectReference,
    /// Good or bad news.
    pub type_: EventType,
    /// One CamelCase word, a constant of the core.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}
