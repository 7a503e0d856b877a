//! What is left of a value without some fields.

use serde_json::{Map, Value};

use super::{element_of, member};
use crate::element::Element;
use crate::schema::{Elements, Form, Members, Schema, form};
use crate::set::Set;

/// Returns a value without the members of a set; null if nothing is left of it.
pub fn remove<'a, S: Schema<'a>>(schema: S, value: &Value, gone: &Set) -> Value {
    match (form(schema, Some(value)), value) {
        (Form::Scalar | Form::None, _) => value.clone(),
        (Form::List(elements @ (Elements::Keyed | Elements::Set)), Value::Array(items)) => list(schema, elements, items, gone),
        (Form::Map(Members::Granular), Value::Object(members)) => map(schema, members, gone),
        // An atomic value goes as a whole when it is looked into at all.
        _ => Value::Null,
    }
}

fn list<'a, S: Schema<'a>>(schema: S, elements: Elements, items: &[Value], gone: &Set) -> Value {
    let kept = items.iter().filter_map(|item| {
        let node = element_of(schema, elements, item).ok().and_then(|step| gone.get(&step));
        match node {
            Some(node) if node.member => None,
            Some(node) => Some(remove(schema.item(), item, &node.below)),
            None => Some(item.clone()),
        }
    });
    let kept: Vec<Value> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}

fn map<'a, S: Schema<'a>>(schema: S, members: &Map<String, Value>, gone: &Set) -> Value {
    let kept = members.iter().filter_map(|(name, value)| {
        let left = match gone.get(&Element::field(name)) {
            Some(node) if node.member => return None,
            Some(node) => match member(schema, name) {
                Some(inner) => remove(inner, value, &node.below),
                None => value.clone(),
            },
            None => value.clone(),
        };
        Some((name.clone(), left))
    });
    let kept: Map<String, Value> = kept.collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}
