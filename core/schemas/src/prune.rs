//! Pruning: what the schema does not know is taken away, and named.

use serde_json::{Map, Value};

use super::schema::{Additional, Schema};
use super::trail::Trail;
use kinds::model::check_metadata;

/// Removes from a custom resource what its schema does not know and returns the paths of what was removed.
///
/// `apiVersion`, `kind` and `metadata` stay at the root and in embedded resources, whatever the schema says.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    resource(schema, value, &Trail::ROOT, &mut unknown);
    unknown
}

/// Removes what the schema does not know from a value that is no resource, such as a default.
pub(super) fn prune_part(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    part(Some(schema), value, &Trail::ROOT, &mut unknown);
    unknown
}

fn resource(schema: &Schema, value: &mut Value, at: &Trail<'_>, unknown: &mut Vec<String>) {
    let Value::Object(members) = value else { return part(Some(schema), value, at, unknown) };
    let kept: Vec<(String, Value)> =
        ["apiVersion", "kind", "metadata"].iter().filter_map(|key| members.remove_entry(*key)).collect();
    object(schema, members, at, unknown);
    members.extend(kept);
    for path in check_metadata(value).unknown {
        unknown.push(at.member(&path).to_string());
    }
}

fn part(schema: Option<&Schema>, value: &mut Value, at: &Trail<'_>, unknown: &mut Vec<String>) {
    match (schema, value) {
        (Some(schema), value @ Value::Object(_)) if schema.embedded => resource(schema, value, at, unknown),
        (Some(schema), Value::Object(members)) => object(schema, members, at, unknown),
        (Some(schema), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                match &schema.items {
                    Some(schema) => part(Some(schema), item, &at.index(index), unknown),
                    None if schema.preserve_unknown => {}
                    None => part(None, item, &at.index(index), unknown),
                }
            }
        }
        (None, Value::Object(members)) => nothing(members, at, unknown),
        (None, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                part(None, item, &at.index(index), unknown);
            }
        }
        _ => {}
    }
}

fn object(schema: &Schema, members: &mut Map<String, Value>, at: &Trail<'_>, unknown: &mut Vec<String>) {
    members.retain(|key, value| {
        let at = at.member(key);
        match (schema.properties.get(key), &schema.additional) {
            (Some(property), _) => part(Some(property), value, &at, unknown),
            (None, Additional::Schema(schema)) => part(Some(schema), value, &at, unknown),
            _ if schema.preserve_unknown => {}
            (None, Additional::Any(true)) => part(None, value, &at, unknown),
            (None, _) => {
                unknown.push(at.to_string());
                return false;
            }
        }
        true
    });
}

fn nothing(members: &mut Map<String, Value>, at: &Trail<'_>, unknown: &mut Vec<String>) {
    unknown.extend(members.keys().map(|key| at.member(key).to_string()));
    members.clear();
}
