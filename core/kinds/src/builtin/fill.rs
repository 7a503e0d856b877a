//! Filling in and tidying members, the way typed servers do without thinking about it.

use serde_json::{Map, Value};

/// Sets a member that is absent, null or the empty text.
pub(super) fn fill(object: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if object.get(key).is_none_or(|old| old.is_null() || old.as_str() == Some("")) {
        object.insert(key.to_owned(), value.into());
    }
}

/// Sets a member that is absent, null or 0.
pub(super) fn fill_number(object: &mut Map<String, Value>, key: &str, value: i64) {
    if object.get(key).is_none_or(|old| old.is_null() || old.as_i64() == Some(0)) {
        object.insert(key.to_owned(), value.into());
    }
}

/// Removes members that say nothing: null, false, 0, the empty text.
///
/// Kubernetes does not store them where the field is not a pointer, and typed clients leave them out when they write an
/// object back. If they were kept, such a write would look like a change.
pub(super) fn drop_zeros(object: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        if object.get(*key).is_some_and(is_zero) {
            object.remove(*key);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Copies a member from one object to another, or removes it where the first has none.
pub(crate) fn copy(from: Option<&Value>, key: &str, to: &mut Map<String, Value>) {
    match from.and_then(|from| from.get(key)).filter(|value| !value.is_null()) {
        Some(value) => {
            to.insert(key.to_owned(), value.clone());
        }
        None => {
            to.remove(key);
        }
    }
}

/// Returns the objects of a list for writing.
pub(super) fn each_mut<'a>(object: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns an object inside another for writing, if it is there.
pub(super) fn inner<'a>(object: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    object.get_mut(key).and_then(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_says_nothing_goes_and_what_is_missing_comes() {
        let mut value = json!({"a": false, "b": 0, "c": "", "d": null, "e": true, "f": [], "g": 0});
        let object = value.as_object_mut().unwrap();
        drop_zeros(object, &["a", "b", "c", "d", "e", "f", "x"]);
        fill(object, "c", "text");
        fill(object, "e", false);
        fill_number(object, "g", 7);
        assert_eq!(value, json!({"c": "text", "e": true, "f": [], "g": 7}));
    }
}
