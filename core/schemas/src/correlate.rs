//! Which part of the old object is the same part of the new one.
//!
//! Members correspond by name and items of a list-map by key. Items of other lists, and members of an atomic map, do not
//! correspond to anything: they are new whenever their container changed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::schema::{ListType, Schema};

/// Returns the old value of a member.
pub(super) fn member<'a>(schema: &Schema, old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    if schema.atomic_map { None } else { old?.get(name) }
}

/// The old items of a list, found by key.
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    by_key: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn new(schema: &'a Schema, old: Option<&'a Value>) -> OldItems<'a> {
        let (ListType::Map(keys), Some(Value::Array(items))) = (&schema.list_type, old) else {
            return OldItems { keys: &[], by_key: BTreeMap::new() };
        };
        OldItems { keys, by_key: items.iter().map(|item| (key(item, keys), item)).collect() }
    }

    /// Returns the old item with the key of a new one.
    pub(super) fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() { None } else { self.by_key.get(&key(item, self.keys)).copied() }
    }
}

/// Returns the key of an item as text, for comparison only.
pub(super) fn key(item: &Value, keys: &[String]) -> String {
    // Printed JSON separates members without ambiguity; an absent member differs from null.
    keys.iter().map(|name| item.get(name).map_or_else(|| "-,".to_owned(), |value| format!("{value},"))).collect()
}
