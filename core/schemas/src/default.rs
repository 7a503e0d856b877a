//! Defaulting: what the schema fills in.
//!
//! A default is filled in where a member is absent, or null without being nullable; then its own members are defaulted.
//! Other nulls that are not nullable are dropped. Defaulting twice is defaulting once.

use serde_json::Value;

use super::schema::Schema;

/// Fills in the defaults of the schema, in nested values too, and drops nulls that are not nullable.
pub fn default(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && members.get(name).is_none_or(|value| refuses(property, value))
                {
                    members.insert(name.clone(), default.clone());
                }
            }
            members.retain(|name, value| {
                let Some(schema) = schema.member(name) else { return true };
                if refuses(schema, value) {
                    let Some(default) = &schema.default else { return false };
                    *value = default.clone();
                }
                default_below(schema, value);
                true
            });
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                if refuses(schema, item)
                    && let Some(default) = &schema.default
                {
                    *item = default.clone();
                }
                default_below(schema, item);
            }
        }
        _ => {}
    }
}

fn default_below(schema: &Schema, value: &mut Value) {
    if value.is_object() || value.is_array() {
        default(schema, value);
    }
}

/// Returns whether a value is a null that the schema does not allow.
fn refuses(schema: &Schema, value: &Value) -> bool {
    value.is_null() && !schema.nullable
}
