//! Patches as YAML.

use serde_json::Value;

/// Writes a patch as YAML.
pub fn yaml(patch: &Value) -> String {
    let mut text = String::new();
    write(&mut text, patch, 0, false);
    text
}

fn write(text: &mut String, value: &Value, indent: usize, in_list: bool) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (place, (key, value)) in members.iter().enumerate() {
                let pad = if place == 0 && in_list { String::new() } else { " ".repeat(indent) };
                text.push_str(&format!("{pad}{}:", scalar(&Value::String(key.clone()))));
                nested(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{}- ", " ".repeat(indent)));
                match item {
                    Value::Object(members) if !members.is_empty() => write(text, item, indent + 2, true),
                    plain => text.push_str(&format!("{}\n", scalar(plain))),
                }
            }
        }
        plain => text.push_str(&format!("{}\n", scalar(plain))),
    }
}

fn nested(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            write(text, value, indent + 2, false);
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            text.push('\n');
            write(text, value, indent, false);
        }
        plain => text.push_str(&format!(" {}\n", scalar(plain))),
    }
}

/// Returns a value in one line; JSON is YAML.
fn scalar(value: &Value) -> String {
    let plain = |text: &str| {
        let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let word = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
        first && word && !reserved
    };
    match value {
        Value::String(text) if plain(text) => text.clone(),
        other => other.to_string(),
    }
}
