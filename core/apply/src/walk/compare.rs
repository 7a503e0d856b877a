//! How two values of one type differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Mismatch, elements_of, items, member, members, same};
use crate::element::Element;
use crate::schema::{Elements, Form, Members, Schema, form};
use crate::set::Set;

/// The fields in which two values differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Fields that only the second has, and fields that both have with other values.
    pub changed: Set,
    /// Fields that only the first has.
    pub removed: Set,
}

impl Difference {
    /// Leaves out some fields with everything below them.
    pub fn ignore(&mut self, trees: &Set) {
        if !trees.is_empty() {
            self.changed = self.changed.without_trees(trees);
            self.removed = self.removed.without_trees(trees);
        }
    }

    /// Adds what is known of an element and of what lies below it.
    fn put(&mut self, element: Element, own: Own, below: Difference) {
        match own {
            Own::Changed => {
                self.removed.put(element.clone(), false, below.removed);
                self.changed.put(element, true, below.changed);
            }
            Own::Removed => {
                self.changed.put(element.clone(), false, below.changed);
                self.removed.put(element, true, below.removed);
            }
            Own::Same if below.changed.is_empty() && below.removed.is_empty() => {}
            Own::Same => {
                self.changed.put(element.clone(), false, below.changed);
                self.removed.put(element, false, below.removed);
            }
        }
    }
}

/// What became of the path itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Same,
    Changed,
    Removed,
}

/// Returns how `new` differs from `old`.
pub fn compare<'a, S: Schema<'a>>(schema: S, old: &Value, new: &Value) -> Result<Difference, Mismatch> {
    Ok(both(schema, Some(old), Some(new))?.1)
}

fn both<'a, S: Schema<'a>>(schema: S, old: Option<&Value>, new: Option<&Value>) -> Result<(Own, Difference), Mismatch> {
    // What is the very same differs nowhere, whatever its type; most of an object mostly is.
    if let (Some(old), Some(new)) = (old, new)
        && old == new
    {
        return Ok((Own::Same, Difference::default()));
    }
    let (before, after) = (form(schema, old), form(schema, new));
    let as_form = if new.is_none() { before } else { after };
    let (leaf, mut below) = one(schema, as_form, old, new)?;
    let mut own = if leaf { leaf_change(old, new) } else { Own::Same };
    // A value that has become of another form is looked at as both.
    if old.is_some() && new.is_some() && before != after {
        let (other_leaf, other) = one(schema, before, old, new)?;
        below.changed = below.changed.union(&other.changed);
        below.removed = below.removed.union(&other.removed);
        if other_leaf && own == Own::Same {
            own = leaf_change(old, new);
        }
    }
    if !leaf && own == Own::Same {
        own = presence(old, new);
    }
    Ok((own, below))
}

fn presence(old: Option<&Value>, new: Option<&Value>) -> Own {
    match (old, new) {
        (None, _) => Own::Changed,
        (_, None) => Own::Removed,
        _ => Own::Same,
    }
}

fn leaf_change(old: Option<&Value>, new: Option<&Value>) -> Own {
    match (old, new) {
        (Some(old), Some(new)) if !same(old, new) => Own::Changed,
        _ => presence(old, new),
    }
}

/// Compares in one form; says whether that form is a leaf.
fn one<'a, S: Schema<'a>>(
    schema: S,
    form: Form,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Result<(bool, Difference), Mismatch> {
    match form {
        Form::Scalar | Form::List(Elements::Atomic) | Form::Map(Members::Atomic) => Ok((true, Difference::default())),
        Form::List(elements) => {
            let (old, new) = (items(old), items(new));
            // Empty or null on both sides: the difference between the two is one of the value itself.
            if old.is_empty() && new.is_empty() {
                return Ok((true, Difference::default()));
            }
            Ok((false, lists(schema, elements, old, new)?))
        }
        Form::Map(Members::Granular) => {
            let (old, new) = (members(old), members(new));
            if old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty) {
                return Ok((true, Difference::default()));
            }
            Ok((false, maps(schema, old, new)?))
        }
        Form::None => Err(Mismatch::new("the type allows no value")),
    }
}

fn maps<'a, S: Schema<'a>>(
    schema: S,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
) -> Result<Difference, Mismatch> {
    let mut out = Difference::default();
    let mut visit = |name: &str, old: Option<&Value>, new: Option<&Value>| {
        // The very same on both sides needs no look at its type.
        if old == new {
            return Ok(());
        }
        let step = Element::field(name);
        let inner = member(schema, name).ok_or_else(|| Mismatch::new("field not declared in schema").below(&step))?;
        let (own, below) = both(inner, old, new).map_err(|error| error.below(&step))?;
        out.put(step, own, below);
        Ok(())
    };
    for (name, value) in old.into_iter().flatten() {
        visit(name, Some(value), new.and_then(|new| new.get(name)))?;
    }
    for (name, value) in new.into_iter().flatten().filter(|(name, _)| old.is_none_or(|old| !old.contains_key(*name))) {
        visit(name, None, Some(value))?;
    }
    Ok(out)
}

fn lists<'a, S: Schema<'a>>(schema: S, elements: Elements, old: &[Value], new: &[Value]) -> Result<Difference, Mismatch> {
    let (old_steps, new_steps) = (elements_of(schema, elements, old)?, elements_of(schema, elements, new)?);
    let mut steps: BTreeMap<&Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for (step, value) in old_steps.iter().zip(old) {
        steps.entry(step).or_default().0.push(value);
    }
    for (step, value) in new_steps.iter().zip(new) {
        steps.entry(step).or_default().1.push(value);
    }
    let mut out = Difference::default();
    for (step, (before, after)) in steps {
        element(schema, step, &before, &after, &mut out).map_err(|error| error.below(step))?;
    }
    Ok(out)
}

/// Compares what one element of a list was and is. Elements that cannot be told apart are compared as one thing.
fn element<'a, S: Schema<'a>>(
    schema: S,
    step: &Element,
    old: &[&Value],
    new: &[&Value],
    out: &mut Difference,
) -> Result<(), Mismatch> {
    let mut single = |old: Option<&Value>, new: Option<&Value>| {
        let (own, below) = both(schema.item(), old, new)?;
        out.put(step.clone(), own, below);
        Ok(())
    };
    match (old.len() > 1, new.len() > 1) {
        (false, false) => single(old.first().copied(), new.first().copied()),
        (true, true) => {
            if old.len() != new.len() || old.iter().zip(new).any(|(old, new)| !same(old, new)) {
                out.put(step.clone(), Own::Changed, Difference::default());
            }
            Ok(())
        }
        (true, false) => {
            if let Some(new) = new.first() {
                single(None, Some(new))?;
            }
            out.put(step.clone(), Own::Removed, Difference::default());
            Ok(())
        }
        (false, true) => {
            if let Some(old) = old.first() {
                single(Some(old), None)?;
            }
            out.put(step.clone(), Own::Changed, Difference::default());
            Ok(())
        }
    }
}
