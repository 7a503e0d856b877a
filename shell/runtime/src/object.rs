//! Objects as they come from a Kubernetes API: a lean view to decide from, and the text for those who need more.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object of a kind that we have a view of; clones share it.
///
/// The view is what decisions read, and it is never written back, so fields that we do not know survive.
pub struct Obj<T> {
    /// What decisions read.
    pub view: Arc<T>,
    /// The object as it came, where the informer keeps it.
    pub text: Option<Arc<str>>,
}

impl<T> Clone for Obj<T> {
    fn clone(&self) -> Obj<T> {
        Obj { view: Arc::clone(&self.view), text: self.text.clone() }
    }
}

impl<T> Deref for Obj<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.view
    }
}

impl<T> fmt::Debug for Obj<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Obj({})", std::any::type_name::<T>())
    }
}

impl<T> Obj<T> {
    /// Returns the object as JSON; null where the informer does not keep its text.
    pub fn json(&self) -> Value {
        self.text.as_ref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

impl<T: DeserializeOwned> Obj<T> {
    /// Returns an object made from JSON; `None` if the view cannot be read from it.
    pub fn from_json(json: &Value) -> Option<Obj<T>> {
        let text = json.to_string();
        Some(Obj { view: Arc::new(serde_json::from_str(&text).ok()?), text: Some(text.into()) })
    }
}
