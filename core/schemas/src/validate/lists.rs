//! Lists: how many items, each item, and none twice where the list is a set or a map.

use std::collections::BTreeMap;

use api::field::Error;
use serde_json::{Map, Value};

use crate::correlate::{OldItems, key};
use crate::schema::{ListType, Schema};
use crate::trail::Trail;

pub(super) fn check(schema: &Schema, items: &[Value], old: Option<&Value>, at: &Trail<'_>, errors: &mut Vec<Error>) {
    let count = items.len() as u64;
    if let Some(min) = schema.limits.min_items
        && count < min
    {
        let detail = format!("{at} in body should have at least {min} items");
        errors.push(Error::invalid(&at.path(), count, detail));
    }
    if let Some(max) = schema.limits.max_items
        && count > max
    {
        errors.push(Error::too_many(&at.path(), items.len(), usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if let Some(schema_of_items) = &schema.items {
        let old = OldItems::new(schema, old);
        for (index, item) in items.iter().enumerate() {
            super::value(schema_of_items, item, old.get(item), &at.index(index), errors);
        }
    }
    match &schema.list_type {
        ListType::Atomic => {}
        ListType::Set => duplicates(items, at, errors, Value::to_string, Value::clone),
        ListType::Map(keys) => {
            if let Some((index, item)) = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
                let detail = "must be an object for an array of list-type map";
                errors.push(Error::invalid(&at.index(index).path(), item.clone(), detail));
                return;
            }
            let shown = |item: &Value| {
                let members = keys.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone())));
                Value::Object(members.collect::<Map<_, _>>())
            };
            duplicates(items, at, errors, |item| key(item, keys), shown);
        }
    }
}

/// Reports the second appearance of an item; further ones say nothing new.
fn duplicates(
    items: &[Value],
    at: &Trail<'_>,
    errors: &mut Vec<Error>,
    identity: impl Fn(&Value) -> String,
    shown: impl Fn(&Value) -> Value,
) {
    if items.len() < 2 {
        return;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(identity(item)).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(Error::duplicate(&at.index(index).path(), shown(item)));
        }
    }
}
