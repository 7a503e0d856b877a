//! Small questions to JSON values; a value of another type counts as absent.

use serde_json::{Map, Value};

/// Returns the member `key` of an object, unless it is absent or null.
pub fn get<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|member| !member.is_null())
}

/// Returns what lies at the end of a path of members, unless it is absent or null.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| get(value, key))
}

/// Returns the text at the end of a path; absent: empty.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the whole number at the end of a path.
pub fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// Returns the truth value at the end of a path.
pub fn boolean(value: &Value, path: &[&str]) -> Option<bool> {
    at(value, path).and_then(Value::as_bool)
}

/// Returns the items at the end of a path; absent: none.
pub fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the object at the end of a path.
pub fn object<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Map<String, Value>> {
    at(value, path).and_then(Value::as_object)
}

/// Returns the object at the end of a path for writing, made on the way where it is absent or null.
///
/// A value of another type in the way is replaced: callers use this only below members that the decoder has checked.
pub fn object_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut here = value;
    for key in path {
        here = as_object_mut(here).entry(*key).or_insert(Value::Null);
    }
    as_object_mut(here)
}

fn as_object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object just above")
}

/// Returns the items at the end of a path for writing, if a list is there.
pub fn items_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    let mut here = value;
    for key in path {
        here = here.get_mut(key)?;
    }
    here.as_array_mut()
}

/// Returns whether two values are equal when null, empty lists, empty maps and empty texts count as absent.
pub fn same_but_empties(left: Option<&Value>, right: Option<&Value>) -> bool {
    same_but(is_empty, left, right)
}

/// Returns whether two values are equal when null, empty lists and empty maps count as absent: the deep equality of
/// Kubernetes, where a text that is present and empty is not an absent one.
pub fn same_but_nils(left: Option<&Value>, right: Option<&Value>) -> bool {
    same_but(is_nil, left, right)
}

fn same_but(absent: fn(&Value) -> bool, left: Option<&Value>, right: Option<&Value>) -> bool {
    // Mostly they are the very same, which is quickly seen.
    if left == right {
        return true;
    }
    let filled = |value: Option<&Value>| value.is_some_and(|value| !absent(value));
    match (filled(left), filled(right)) {
        (false, false) => true,
        (true, true) => match (left.expect("filled"), right.expect("filled")) {
            (Value::Object(a), Value::Object(b)) => {
                a.iter().all(|(key, value)| same_but(absent, Some(value), b.get(key)))
                    && b.iter().all(|(key, value)| a.contains_key(key) || absent(value))
            }
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_but(absent, Some(a), Some(b)))
            }
            (a, b) => a == b,
        },
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => is_nil(value),
    }
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_nil),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_types_count_as_absent() {
        let value = json!({"a": {"b": [1]}, "n": null, "s": "x"});
        assert_eq!(items(&value, &["a", "b"]).len(), 1);
        assert_eq!(text(&value, &["s"]), "x");
        assert_eq!(text(&value, &["a"]), "");
        assert_eq!(at(&value, &["n"]), None);
        assert_eq!(at(&value, &["s", "deeper"]), None);
    }

    #[test]
    fn empties_are_equal_to_nothing() {
        assert!(same_but_empties(Some(&json!({"a": [], "b": {"c": null}})), None));
        assert!(same_but_empties(Some(&json!({"a": 1, "b": ""})), Some(&json!({"a": 1}))));
        assert!(!same_but_empties(Some(&json!({"a": 0})), None));
        assert!(same_but_nils(Some(&json!({"a": [], "b": {"c": null}})), None));
        assert!(!same_but_nils(Some(&json!({"a": ""})), None));
    }
}
