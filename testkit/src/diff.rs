//! Differences between JSON values, one line each.

use serde_json::Value;

/// Returns `Ok` if the two are equal, else a line for every place where they differ. Numbers compare by value.
pub fn same(expected: &Value, got: &Value) -> Result<(), String> {
    let lines = diff(expected, got);
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}

/// Returns a line `path: expected ..., got ...` for every place where the two differ.
pub fn diff(expected: &Value, got: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk("", Some(expected), Some(got), &mut lines);
    lines
}

fn walk(path: &str, expected: Option<&Value>, got: Option<&Value>, lines: &mut Vec<String>) {
    match (expected, got) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                walk(&format!("{path}/{key}"), a.get(key), b.get(key), lines);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                walk(&format!("{path}/{index}"), a.get(index), b.get(index), lines);
            }
        }
        (Some(Value::Number(a)), Some(Value::Number(b))) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => {
            let show = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            lines.push(format!("{}: expected {}, got {}", if path.is_empty() { "/" } else { path }, show(a), show(b)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_difference_has_a_line() {
        assert_eq!(same(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})), Ok(()));
        let lines = diff(&json!({"a": 1, "b": [1]}), &json!({"a": 2, "b": [1, 2], "c": null}));
        assert_eq!(lines, ["/a: expected 1, got 2", "/b/1: expected nothing, got 2", "/c: expected nothing, got null"]);
    }
}
