//! Strategic merge patch: maps merge, lists merge by key where the table of `rules` says so.
//!
//! Content that the object does not have yet is merged into nothing, so that nulls and directives inside it never reach
//! the object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::PatchError;
use super::directives::{self, DELETE_FROM_PRIMITIVE_LIST, Directive, SET_ELEMENT_ORDER};
use super::order::{self, Identity, Positions};
use super::rules::{ListStrategy, Rule, lookup};
use api::ordered::Ordered;

/// Returns `current`, an object of the type that the model calls `message` (such as `Pod`), changed by a strategic merge
/// patch.
pub fn strategic_merge(current: Value, patch: &Value, message: &str) -> Result<Value, PatchError> {
    let patch =
        patch.as_object().ok_or_else(|| PatchError::BadRequest("a strategic merge patch must be an object".to_owned()))?;
    let current = if let Value::Object(members) = current { members } else { Map::new() };
    merge_map(current, patch, message).map(Value::Object)
}

fn merge_map(
    mut current: Map<String, Value>,
    patch: &Map<String, Value>,
    message: &str,
) -> Result<Map<String, Value>, PatchError> {
    match directives::directive(patch)? {
        Directive::Delete => return Ok(Map::new()),
        Directive::Replace => current = Map::new(),
        Directive::Merge => {}
    }
    directives::retain_keys(&mut current, patch)?;
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            delete_from_list(&mut current, field, directives::list(key, value)?)?;
        }
    }
    for (key, value) in patch {
        if !directives::is_directive(key) {
            merge_member(&mut current, patch, key, value, lookup(message, key))?;
        }
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(SET_ELEMENT_ORDER)
            && !patch.contains_key(field)
        {
            reorder(&mut current, field, directives::list(key, value)?, lookup(message, field));
        }
    }
    Ok(current)
}

fn merge_member(
    current: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    key: &str,
    value: &Value,
    rule: Rule,
) -> Result<(), PatchError> {
    let merged = match (current.remove(key), value) {
        (_, Value::Null) => return Ok(()),
        (Some(Value::Object(old)), Value::Object(new)) => Value::Object(merge_map(old, new, rule.message)?),
        (None, Value::Object(new)) if directives::directive(new)? == Directive::Delete => return Ok(()),
        (_, Value::Object(new)) => Value::Object(merge_map(Map::new(), new, rule.message)?),
        (old, Value::Array(new)) => {
            let old = if let Some(Value::Array(old)) = old { old } else { Vec::new() };
            let order_key = format!("{SET_ELEMENT_ORDER}{key}");
            let order = patch.get(&order_key).map(|order| directives::list(&order_key, order)).transpose()?;
            Value::Array(merge_list(old, new, order, rule)?)
        }
        (_, primitive) => primitive.clone(),
    };
    current.insert(key.to_owned(), merged);
    Ok(())
}

fn merge_list(old: Vec<Value>, new: &[Value], order: Option<&[Value]>, rule: Rule) -> Result<Vec<Value>, PatchError> {
    match rule.list {
        ListStrategy::Replace => fresh_list(new, rule.message),
        ListStrategy::Merge(key) => merge_by_key(old, new, order, key, rule),
        ListStrategy::Set => {
            if let Some(item) = old.iter().chain(new).find(|item| item.is_object() || item.is_array()) {
                return Err(PatchError::BadRequest(format!("{}: must be a list of primitive values, got {item}", rule.field)));
            }
            if let Some(order) = order {
                order::check(&new.iter().collect::<Vec<_>>(), order, Identity::Value)?;
            }
            let mut merged: Vec<Value> = Vec::with_capacity(old.len() + new.len());
            let mut seen = BTreeSet::new();
            merged.extend(old.iter().chain(new).filter(|item| seen.insert(Ordered(item))).cloned());
            Ok(order::arrange(merged, order.unwrap_or(new), &old, Identity::Value))
        }
    }
}

/// Returns a list of the patch as content: without nulls in maps, without directives.
fn fresh_list(new: &[Value], message: &str) -> Result<Vec<Value>, PatchError> {
    let mut items = Vec::with_capacity(new.len());
    for item in new {
        items.push(match item {
            Value::Object(members) if members.contains_key(directives::PATCH) => {
                // The list is replaced anyway: an item that only says so, or removes another, has nothing to add.
                if directives::directive(members)? == Directive::Delete || members.len() == 1 {
                    continue;
                }
                Value::Object(merge_map(Map::new(), members, message)?)
            }
            Value::Object(members) => Value::Object(merge_map(Map::new(), members, message)?),
            Value::Array(inner) => Value::Array(fresh_list(inner, message)?),
            primitive => primitive.clone(),
        });
    }
    Ok(items)
}

fn merge_by_key(
    mut old: Vec<Value>,
    new: &[Value],
    order: Option<&[Value]>,
    key: &'static str,
    rule: Rule,
) -> Result<Vec<Value>, PatchError> {
    let identity = Identity::Key(key);
    let mut content = Vec::with_capacity(new.len());
    let mut gone = BTreeSet::new();
    let mut replace = false;
    for item in new {
        let members = as_map(item, rule)?;
        match directives::directive(members)? {
            Directive::Merge => content.push(item),
            Directive::Replace => replace = true,
            Directive::Delete => {
                gone.insert(Ordered(key_of(members, key, rule)?));
            }
        }
    }
    if replace {
        old.clear();
    } else if !gone.is_empty() {
        old.retain(|item| item.get(key).is_none_or(|value| !gone.contains(&Ordered(value))));
    }
    if let Some(order) = order {
        order::check(&content, order, identity)?;
    }
    let mut merged = old.clone();
    let mut positions = Positions::of(&old, identity);
    for item in &content {
        let members = as_map(item, rule)?;
        key_of(members, key, rule)?;
        match positions.get(item) {
            Some(position) => {
                let Value::Object(before) = merged[position].take() else {
                    unreachable!("an item that has a key member is a map")
                };
                merged[position] = Value::Object(merge_map(before, members, rule.message)?);
            }
            None => {
                positions.add(item, merged.len());
                merged.push(Value::Object(merge_map(Map::new(), members, rule.message)?));
            }
        }
    }
    let by_patch: Vec<Value>;
    let order = match order {
        Some(order) => order,
        None => {
            by_patch = content.into_iter().cloned().collect();
            &by_patch
        }
    };
    Ok(order::arrange(merged, order, &old, identity))
}

fn as_map(item: &Value, rule: Rule) -> Result<&Map<String, Value>, PatchError> {
    item.as_object().ok_or_else(|| PatchError::BadRequest(format!("{}: must be a list of maps, got {item}", rule.field)))
}

fn key_of<'a>(item: &'a Map<String, Value>, key: &str, rule: Rule) -> Result<&'a Value, PatchError> {
    item.get(key)
        .filter(|value| !value.is_null())
        .ok_or_else(|| PatchError::BadRequest(format!("{}: map does not contain declared merge key: {key}", rule.field)))
}

/// Puts a list in the order that the patch states without touching its content.
fn reorder(current: &mut Map<String, Value>, field: &str, order: &[Value], rule: Rule) {
    let Some(Value::Array(items)) = current.get_mut(field) else { return };
    let identity = match rule.list {
        ListStrategy::Merge(key) => Identity::Key(key),
        ListStrategy::Set | ListStrategy::Replace => Identity::Value,
    };
    let server = items.clone();
    *items = order::arrange(std::mem::take(items), order, &server, identity);
}

/// Removes primitive values from a list; values that are not there need no removal.
fn delete_from_list(current: &mut Map<String, Value>, field: &str, gone: &[Value]) -> Result<(), PatchError> {
    if let Some(item) = gone.iter().find(|item| item.is_object() || item.is_array()) {
        return Err(PatchError::BadRequest(format!(
            "{DELETE_FROM_PRIMITIVE_LIST}{field}: must be a list of primitive values, got {item}"
        )));
    }
    if let Some(Value::Array(items)) = current.get_mut(field) {
        let gone: BTreeSet<Ordered<'_>> = gone.iter().map(Ordered).collect();
        items.retain(|item| !gone.contains(&Ordered(item)));
    }
    Ok(())
}
