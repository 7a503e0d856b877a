//! Walks over typed values: which fields a value has, how two differ, what they are together, what is left without some.

mod check;
mod compare;
mod leaves;
mod merge;
mod reconcile;
mod remove;

use serde_json::Value;

pub use check::check;
pub use compare::{Difference, compare};
pub use leaves::fields;
pub use merge::merge;
pub use remove::remove;

pub(crate) use reconcile::reconcile;

use crate::element::Element;
use crate::schema::{Elements, Schema};

/// A value that is not what its type says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct Mismatch {
    /// Where, as `.spec.ports[port=80]`.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

impl Mismatch {
    fn new(what: impl Into<String>) -> Mismatch {
        Mismatch { path: String::new(), what: what.into() }
    }

    fn below(mut self, element: &Element) -> Mismatch {
        self.path.insert_str(0, &element.to_string());
        self
    }
}

/// Returns the step to an element of a list.
fn element_of<'a, S: Schema<'a>>(list: S, elements: Elements, item: &Value) -> Result<Element, String> {
    match elements {
        Elements::Keyed => key_of(list, item),
        Elements::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(Element::Value(scalar.clone())),
        },
        Elements::Atomic => Err("invalid indexing of non-associative list".to_owned()),
    }
}

fn key_of<'a, S: Schema<'a>>(list: S, item: &Value) -> Result<Element, String> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let value = |key: &str| members.get(key).cloned().or_else(|| list.key_default(key));
    let keys: Vec<(Box<str>, Value)> = list.keys().filter_map(|key| Some((key.into(), value(key)?))).collect();
    if keys.is_empty() {
        let names: Vec<String> = list.keys().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any \
             key fields)",
            names.join(" ")
        ));
    }
    Ok(Element::key(keys))
}

/// Returns the steps to the elements of a list, in order.
fn elements_of<'a, S: Schema<'a>>(list: S, elements: Elements, items: &[Value]) -> Result<Vec<Element>, Mismatch> {
    let element =
        |(index, item)| element_of(list, elements, item).map_err(|error| Mismatch::new(format!("element {index}: {error}")));
    items.iter().enumerate().map(element).collect()
}

/// Returns the type of a field, declared or not.
fn member<'a, S: Schema<'a>>(map: S, name: &str) -> Option<S> {
    map.field(name).or_else(|| map.rest())
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn members(value: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// Returns whether two values are the same; numbers are compared as numbers.
pub fn same(left: &Value, right: &Value) -> bool {
    crate::element::compare(left, right).is_eq()
}

#[cfg(test)]
mod tests;
