//! Objects as they come from a Kubernetes API: a lean view to decide from, and everything else to keep.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicResourceScope, Resource};
use kube::{Api, Client};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An object of a kind that we have a view of.
///
/// The view is what decisions read. The whole object is kept beside it, so that fields that we do not know survive, and so
/// that what needs more than the view (the environment of a container) can have it. A view is never written back.
#[derive(Clone)]
pub struct Obj<T> {
    /// The metadata, for kube.
    pub metadata: ObjectMeta,
    /// What decisions read.
    pub view: T,
    /// The object as it came.
    pub raw: Value,
}

impl<T> fmt::Debug for Obj<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        write!(out, "Obj({}/{name})", self.metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Obj<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Obj<T>, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let metadata = ObjectMeta::deserialize(raw.get("metadata").unwrap_or(&Value::Null)).unwrap_or_default();
        let view = T::deserialize(&raw).map_err(D::Error::custom)?;
        Ok(Obj { metadata, view, raw })
    }
}

impl<T> Serialize for Obj<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<T: api::Kind> Resource for Obj<T> {
    type DynamicType = ();
    type Scope = DynamicResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        T::KIND.into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        T::GROUP.into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        T::VERSION.into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Returns the objects of a kind in one namespace, or in all of them and at cluster scope (empty).
pub fn objects<T: api::Kind>(client: &Client, namespace: &str) -> Api<Obj<T>> {
    if namespace.is_empty() { Api::all_with(client.clone(), &()) } else { Api::namespaced_with(client.clone(), namespace, &()) }
}

impl<T: DeserializeOwned> Obj<T> {
    /// Returns an object made from JSON, for creating it; `None` if the view cannot be read from it.
    pub fn from_json(raw: Value) -> Option<Obj<T>> {
        serde_json::from_value(raw).ok()
    }
}
