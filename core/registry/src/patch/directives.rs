//! The directives of a strategic merge patch: members of the patch that are orders, not content.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::PatchError;

/// Says what to do with the map or list item that holds it.
pub(super) const PATCH: &str = "$patch";
/// Lists the members that stay; all others go.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// Prefix of a member that states the order of a list.
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
/// Prefix of a member that lists what leaves a list of primitive values.
pub(super) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

/// What `$patch` orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Merge,
    Replace,
    Delete,
}

/// Returns what a map of the patch orders for itself; no directive means merge.
pub(super) fn directive(patch: &Map<String, Value>) -> Result<Directive, PatchError> {
    match patch.get(PATCH) {
        None => Ok(Directive::Merge),
        Some(Value::String(word)) if word == "merge" => Ok(Directive::Merge),
        Some(Value::String(word)) if word == "replace" => Ok(Directive::Replace),
        Some(Value::String(word)) if word == "delete" => Ok(Directive::Delete),
        Some(other) => Err(PatchError::Invalid(format!("unknown patch type: {PATCH}: {other}"))),
    }
}

/// Returns whether a member of the patch is an order rather than content.
pub(super) fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(SET_ELEMENT_ORDER) || key.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}

/// Removes from `current` what the `$retainKeys` of the patch does not name.
pub(super) fn retain_keys(current: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = |why: &str| PatchError::BadRequest(format!("invalid {RETAIN_KEYS} directive: {why}"));
    let retained = retained.as_array().ok_or_else(|| malformed("must be a list"))?;
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let names = |key: &str| retained.contains(key);
    if let Some((key, _)) = patch.iter().find(|(key, value)| !value.is_null() && !is_directive(key) && !names(key)) {
        return Err(malformed(&format!("the patch sets {key:?}, which is not retained")));
    }
    current.retain(|key, _| names(key));
    Ok(())
}

/// Returns the list that a directive must hold.
pub(super) fn list<'a>(key: &str, value: &'a Value) -> Result<&'a [Value], PatchError> {
    let items = value.as_array().ok_or_else(|| PatchError::BadRequest(format!("{key}: must be a list")))?;
    Ok(items)
}
