//! Requests to the API that a core wants sent, and how they can end.

use std::sync::Arc;

use serde_json::Value;

use crate::event::ObjectReference;
use crate::meta::Kind;

/// A request that a core wants sent; a shell sends it as it is and tells how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// What the answer names; given by the core that counts its writes, else 0.
    pub id: u64,
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
    /// `status`, `binding`, or empty for the object itself.
    pub subresource: &'static str,
    /// What to do.
    pub verb: Verb,
}

/// What a [`Write`] does.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Makes this object.
    Create(Body),
    /// Replaces the object by this one.
    Update(Body),
    /// Applies a JSON merge patch.
    Merge(Value),
    /// Applies a strategic merge patch; built-in kinds only.
    Strategic(Value),
    /// Deletes the object, if it still is the one with this uid (empty: whichever it is).
    Delete {
        /// The very object.
        uid: String,
        /// How long it may take to end; `None`: as the object says.
        grace_seconds: Option<i64>,
    },
}

impl Verb {
    /// Returns the deletion of the very object with this uid.
    pub fn delete(uid: impl Into<String>) -> Verb {
        Verb::Delete { uid: uid.into(), grace_seconds: None }
    }

    /// Returns the verb of the API.
    pub const fn name(&self) -> &'static str {
        match self {
            Verb::Create(_) => "create",
            Verb::Update(_) => "update",
            Verb::Merge(_) | Verb::Strategic(_) => "patch",
            Verb::Delete { .. } => "delete",
        }
    }
}

/// A whole object in a [`Write`].
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// As JSON.
    Json(Value),
    /// As the text of JSON, which the core keeps.
    Encoded(Arc<Vec<u8>>),
}

impl Body {
    /// Returns the object; `None`: the text is not JSON.
    pub fn to_json(&self) -> Option<Value> {
        match self {
            Body::Json(value) => Some(value.clone()),
            Body::Encoded(text) => serde_json::from_slice(text).ok(),
        }
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Body {
        Body::Json(value)
    }
}

impl Write {
    /// Returns a request for an object of kind `K`.
    pub fn to<K: Kind>(namespace: impl Into<String>, name: impl Into<String>, verb: Verb) -> Write {
        let (namespace, name) = (namespace.into(), name.into());
        Write {
            id: 0,
            group: K::GROUP,
            version: K::VERSION,
            kind: K::KIND,
            plural: K::PLURAL,
            namespace,
            name,
            subresource: "",
            verb,
        }
    }

    /// Returns this request, sent to the status subresource.
    pub fn status(self) -> Write {
        Write { subresource: "status", ..self }
    }

    /// Returns the path of the collection that the object is in.
    pub fn collection(&self) -> String {
        collection_path(self.group, self.version, &self.namespace, self.plural)
    }

    /// Returns the path that the request goes to, unless it creates something.
    pub fn path(&self) -> String {
        let object = format!("{}/{}", self.collection(), self.name);
        if self.subresource.is_empty() { object } else { format!("{object}/{}", self.subresource) }
    }

    /// Returns group and version as objects have them: `v1`, `apps.kruise.io/v1alpha1`.
    pub fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }
}

/// Returns the path of a collection: `/api/v1/namespaces/shop/pods`; without a namespace of all of them.
pub fn collection<K: Kind>(namespace: &str) -> String {
    collection_path(K::GROUP, K::VERSION, namespace, K::PLURAL)
}

/// Returns the path of an object of kind `K`.
pub fn object<K: Kind>(namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection::<K>(namespace))
}

fn collection_path(group: &str, version: &str, namespace: &str, plural: &str) -> String {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    format!("{root}{namespace}/{plural}")
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
    /// The namespace is being deleted: nothing can be made in it.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// We have no right to do it (401, 403).
    #[error("there is no right to do it")]
    Denied,
    /// Anything that may pass: no answer, too many requests, a broken server.
    #[error("the request failed")]
    Failed,
}

impl WriteError {
    /// Returns whether the same request may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(self, WriteError::Failed | WriteError::Denied)
    }

    /// Returns one word for metrics.
    pub const fn word(self) -> &'static str {
        match self {
            WriteError::NotFound => "gone",
            WriteError::AlreadyExists | WriteError::Conflict => "conflict",
            WriteError::Invalid | WriteError::Denied | WriteError::NamespaceTerminating => "refused",
            WriteError::Failed => "failed",
        }
    }
}

/// How a [`Write`] has failed, with what the server says for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteFailure {
    /// What it means.
    pub error: WriteError,
    /// What the server says.
    pub message: String,
}

impl From<WriteFailure> for WriteError {
    fn from(failure: WriteFailure) -> WriteError {
        failure.error
    }
}
