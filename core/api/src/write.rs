//! Requests to the API that a core wants sent, and how they can end.

use serde_json::Value;

use crate::meta::Kind;
use crate::note::ObjectReference;

/// A request that a core wants sent; a shell sends it as it is and tells how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural name in URLs.
    pub plural: &'static str,
    /// Namespace of the object; empty at cluster scope.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `status`, or empty for the object itself.
    pub subresource: &'static str,
    /// What to do.
    pub verb: Verb,
}

/// What a [`Write`] does.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Makes this object.
    Create(Value),
    /// Applies a JSON merge patch.
    Merge(Value),
    /// Applies a strategic merge patch; built-in kinds only.
    Strategic(Value),
    /// Deletes the object, if it still is the one with this uid (empty: whichever it is).
    Delete {
        /// The very object.
        uid: String,
    },
}

impl Write {
    /// Returns a request for an object of kind `K`.
    pub fn to<K: Kind>(namespace: impl Into<String>, name: impl Into<String>, verb: Verb) -> Write {
        let (namespace, name) = (namespace.into(), name.into());
        Write { group: K::GROUP, version: K::VERSION, kind: K::KIND, plural: K::PLURAL, namespace, name, subresource: "", verb }
    }

    /// Returns this request, sent to the status subresource.
    pub fn status(self) -> Write {
        Write { subresource: "status", ..self }
    }

    /// Returns group and version as objects have them: `v1`, `apps.kruise.io/v1alpha1`.
    pub fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }
}

/// Returns a reference to an object of kind `K`, for events.
pub fn reference<K: Kind>(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: api_version(K::GROUP, K::VERSION),
        kind: K::KIND.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        field_path: String::new(),
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// How a [`Write`] can fail, as far as cores care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object is not there (404).
    #[error("the object is not there")]
    NotFound,
    /// Another object of that name is there (409 AlreadyExists).
    #[error("an object of that name is there already")]
    AlreadyExists,
    /// The object is another one or has changed (409 Conflict).
    #[error("the object is another one or has changed")]
    Conflict,
    /// The server refuses the content (400, 422).
    #[error("the server refuses the content")]
    Invalid,
    /// Anything that may pass: no answer, too many requests, no right, a broken server.
    #[error("the request failed")]
    Failed,
}

impl WriteError {
    /// Returns whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, WriteError::Failed)
    }

    /// Returns one word for metrics.
    pub const fn word(self) -> &'static str {
        match self {
            WriteError::NotFound => "gone",
            WriteError::AlreadyExists | WriteError::Conflict => "conflict",
            WriteError::Invalid => "refused",
            WriteError::Failed => "failed",
        }
    }
}
