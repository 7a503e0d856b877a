//! Reading members of JSON objects with their type judged.

use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::json;

/// What stands at a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Read<T> {
    /// Nothing, or null.
    Absent,
    /// Something of another JSON type; it is reported already and counts as present.
    Wrong,
    /// A value of the right type.
    Value(T),
}

impl<T> Read<T> {
    /// Returns this, with `value` for an absent member.
    pub(super) fn or(self, value: T) -> Read<T> {
        match self {
            Read::Absent => Read::Value(value),
            other => other,
        }
    }
}

impl<'a> Read<&'a [Value]> {
    /// Returns whether there is nothing; a value of a wrong type is something.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Read::Absent | Read::Value([]))
    }

    /// Returns the items, none if the list could not be read.
    pub(super) fn items(&self) -> &'a [Value] {
        if let Read::Value(items) = self { items } else { &[] }
    }
}

impl Read<&Map<String, Value>> {
    /// Returns whether there is nothing; a member that is null counts as nothing.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Read::Absent => true,
            Read::Wrong => false,
            Read::Value(members) => members.values().all(Value::is_null),
        }
    }
}

fn read<'a, T>(
    value: &'a Value,
    key: &str,
    path: &Path,
    errors: &mut Vec<Error>,
    wanted: &str,
    as_wanted: impl Fn(&'a Value) -> Option<T>,
) -> Read<T> {
    match json::get(value, key) {
        None => Read::Absent,
        Some(member) => match as_wanted(member) {
            Some(wanted) => Read::Value(wanted),
            None => {
                errors.push(Error::type_invalid(&path.child(key), member, format!("must be {wanted}")));
                Read::Wrong
            }
        },
    }
}

/// Reads a member that is an object.
pub(super) fn object<'a>(value: &'a Value, key: &str, path: &Path, errors: &mut Vec<Error>) -> Read<&'a Value> {
    read(value, key, path, errors, "an object", |member| member.is_object().then_some(member))
}

/// Reads a member that is a map.
pub(super) fn map<'a>(value: &'a Value, key: &str, path: &Path, errors: &mut Vec<Error>) -> Read<&'a Map<String, Value>> {
    read(value, key, path, errors, "a map of strings", Value::as_object)
}

/// Reads a member that is a list.
pub(super) fn list<'a>(value: &'a Value, key: &str, path: &Path, errors: &mut Vec<Error>) -> Read<&'a [Value]> {
    read(value, key, path, errors, "a list", |member| member.as_array().map(Vec::as_slice))
}

/// Reads a member that is a text.
pub(super) fn text<'a>(value: &'a Value, key: &str, path: &Path, errors: &mut Vec<Error>) -> Read<&'a str> {
    read(value, key, path, errors, "a string", Value::as_str)
}

/// Reads a member that is a whole number; one that is too large even for 64 bits is a wrong type.
pub(super) fn integer(value: &Value, key: &str, path: &Path, errors: &mut Vec<Error>) -> Read<i64> {
    read(value, key, path, errors, "an integer", Value::as_i64)
}

/// Returns the entries of a map of texts; a value of another type is reported, null is absent.
pub(super) fn texts<'a>(map: Read<&'a Map<String, Value>>, path: &Path, errors: &mut Vec<Error>) -> Vec<(&'a str, &'a str)> {
    let Read::Value(members) = map else { return Vec::new() };
    let mut entries = Vec::with_capacity(members.len());
    for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        match value.as_str() {
            Some(text) => entries.push((key.as_str(), text)),
            None => errors.push(Error::type_invalid(&path.key(key), value, "must be a string; write it in quotes")),
        }
    }
    entries
}
