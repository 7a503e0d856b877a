//! Which fields a value has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Elements, Mismatch, elements_of, items, member, members};
use crate::element::Element;
use crate::schema::{Form, Members, Schema, form};
use crate::set::Set;

/// Returns every leaf that a value mentions, and every element of a list that is told apart.
pub fn fields<'a, S: Schema<'a>>(schema: S, value: &Value) -> Result<Set, Mismatch> {
    Ok(mark(schema, value)?.1)
}

/// Returns whether the value is a leaf, and the fields below it.
fn mark<'a, S: Schema<'a>>(schema: S, value: &Value) -> Result<(bool, Set), Mismatch> {
    match form(schema, Some(value)) {
        Form::Scalar | Form::List(Elements::Atomic) | Form::Map(Members::Atomic) => Ok((true, Set::default())),
        Form::List(elements) => Ok((false, list(schema, elements, items(Some(value)))?)),
        Form::Map(Members::Granular) => Ok((false, map(schema, value)?)),
        Form::None => Err(Mismatch::new("the type allows no value")),
    }
}

fn list<'a, S: Schema<'a>>(schema: S, elements: Elements, items: &[Value]) -> Result<Set, Mismatch> {
    let steps = elements_of(schema, elements, items)?;
    let mut of_step: BTreeMap<&Element, Vec<&Value>> = BTreeMap::new();
    for (step, item) in steps.iter().zip(items) {
        of_step.entry(step).or_default().push(item);
    }
    let mut set = Set::default();
    for (step, items) in of_step {
        let below = match items.as_slice() {
            [item] => mark(schema.item(), item).map_err(|error| error.below(step))?.1,
            // Elements that cannot be told apart are owned together, without what lies below.
            _ => Set::default(),
        };
        set.put(step.clone(), true, below);
    }
    Ok(set)
}

fn map<'a, S: Schema<'a>>(schema: S, value: &Value) -> Result<Set, Mismatch> {
    let mut set = Set::default();
    for (name, value) in members(Some(value)).into_iter().flatten() {
        let step = Element::field(name);
        let inner = member(schema, name).ok_or_else(|| Mismatch::new("field not declared in schema").below(&step))?;
        let (leaf, below) = mark(inner, value).map_err(|error| error.below(&step))?;
        let nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        set.put(step, leaf || nothing || schema.field(name).is_none(), below);
    }
    Ok(set)
}

/// Returns the first of the steps that comes a second time.
pub(super) fn twin(steps: &[Element]) -> Option<&Element> {
    let mut seen = BTreeSet::new();
    steps.iter().find(|step| !seen.insert(*step))
}
