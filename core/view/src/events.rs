//! Events: the newest, whoever wrote them.

use api::meta::{Kind, Scope, null_default};
use api::{ObjectMeta, ObjectReference, Timestamp};
use serde::{Deserialize, Serialize};

use crate::pods::cut;

/// The Event of the core group, as far as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EventObject {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What it is about.
    pub involved_object: ObjectReference,
    /// `Normal` or `Warning`.
    #[serde(rename = "type", deserialize_with = "null_default")]
    pub type_: String,
    /// One word.
    #[serde(deserialize_with = "null_default")]
    pub reason: String,
    /// For people.
    #[serde(deserialize_with = "null_default")]
    pub message: String,
    /// How often it was seen.
    #[serde(deserialize_with = "null_default")]
    pub count: i64,
    /// Of newer writers.
    pub event_time: Option<Timestamp>,
    /// When it was seen first.
    pub first_timestamp: Option<Timestamp>,
    /// When it was seen last.
    pub last_timestamp: Option<Timestamp>,
    /// How it went on.
    pub series: Option<Series>,
}

/// An event that was seen again and again.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Series {
    /// How often.
    pub count: i64,
    /// When it was seen last.
    pub last_observed_time: Option<Timestamp>,
}

impl Kind for EventObject {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Event";
    const PLURAL: &'static str = "events";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// Namespace and name.
    pub key: String,
    /// When it was last seen, in milliseconds; 0: nobody says.
    pub at: i64,
    /// Whether it is a warning.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How often it was seen.
    pub count: i64,
    /// The kind of what it is about.
    pub kind: String,
    /// Namespace and name of what it is about.
    pub object: String,
    /// The very object.
    pub uid: String,
}

impl EventRow {
    pub(crate) fn of(event: &EventObject) -> EventRow {
        let series = event.series.clone().unwrap_or_default();
        let times = [series.last_observed_time, event.last_timestamp, event.event_time, event.first_timestamp];
        let object = &event.involved_object;
        let named = match object.namespace.as_str() {
            "" => object.name.clone(),
            namespace => format!("{namespace}/{}", object.name),
        };
        EventRow {
            key: event.metadata.key(),
            at: times.into_iter().flatten().max().map_or(0, |at| at.0.as_millis()),
            warning: event.type_ == "Warning",
            reason: cut(&event.reason),
            message: cut(&event.message),
            count: series.count.max(event.count).max(1),
            kind: object.kind.clone(),
            object: named,
            uid: object.uid.clone(),
        }
    }
}
