//! Patches: what an object becomes when a client sends a change instead of the whole.
//!
//! Three kinds, each a pure function of the current object and the patch: [`json_patch`] (RFC 6902), [`merge_patch`]
//! (RFC 7386) and [`strategic_merge`] (Kubernetes' own, which knows the keys of lists). Server-side apply is not here: it
//! needs to know who owns which field. Invariant: a patch either yields the whole new object or an error, never a part.

mod directives;
mod json;
mod order;
mod rules;
mod strategic;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub use json::json_patch;
pub use strategic::strategic_merge;

/// The most operations a JSON patch may have, as in kube-apiserver.
pub const OPERATIONS_MAX: usize = 10_000;

/// Why a patch cannot be applied; each variant has an HTTP code of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The JSON patch is too long (413).
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// The JSON patch makes the server look at too much (413).
    #[error("the operations of the JSON patch move or shift too many values of the object; send fewer at once")]
    TooMuchWork,
    /// The patch is malformed (400).
    #[error("{0}")]
    BadRequest(String),
    /// The patch is well-formed but does not fit the object: a failed test, a missing path, an unknown directive (422).
    #[error("{0}")]
    Invalid(String),
}

/// Returns `current` changed by a JSON merge patch: maps merge, null removes, everything else is replaced whole.
pub fn merge_patch(mut current: Value, patch: &Value) -> Value {
    json_patch::merge(&mut current, patch);
    current
}
