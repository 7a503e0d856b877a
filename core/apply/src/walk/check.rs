//! Whether a value is what its type says.

use serde_json::Value;

use super::{Mismatch, leaves, member};
use crate::element::Element;
use crate::schema::{Elements, Form, Scalar, Schema, form};

/// Returns everything in which a value is not what its type says; elements of a list must be told apart.
pub fn check<'a, S: Schema<'a>>(schema: S, value: &Value) -> Vec<Mismatch> {
    let mut found = Vec::new();
    one(schema, value, &mut found);
    found
}

fn one<'a, S: Schema<'a>>(schema: S, value: &Value, found: &mut Vec<Mismatch>) {
    match (form(schema, Some(value)), value) {
        // Null is a value of every type.
        (_, Value::Null) => {}
        (Form::Scalar, value) => found.extend(scalar(schema.scalar().unwrap_or(Scalar::Any), value)),
        (Form::List(elements), Value::Array(items)) => list(schema, elements, items, found),
        (Form::Map(_), Value::Object(members)) => {
            for (name, value) in members {
                let step = Element::field(name);
                let mut inner = Vec::new();
                match member(schema, name) {
                    Some(schema) => one(schema, value, &mut inner),
                    None => inner.push(Mismatch::new("field not declared in schema")),
                }
                found.extend(inner.into_iter().map(|mismatch| mismatch.below(&step)));
            }
        }
        (Form::List(_), other) => found.push(Mismatch::new(format!("expected list, got {other}"))),
        (Form::Map(_), other) => found.push(Mismatch::new(format!("expected map, got {other}"))),
        (Form::None, _) => found.push(Mismatch::new("the type allows no value")),
    }
}

fn list<'a, S: Schema<'a>>(schema: S, elements: Elements, items: &[Value], found: &mut Vec<Mismatch>) {
    let steps: Vec<Element> = match elements {
        Elements::Atomic => (0..).map(Element::Index).take(items.len()).collect(),
        _ => match super::elements_of(schema, elements, items) {
            Ok(steps) => steps,
            Err(mismatch) => return found.push(mismatch),
        },
    };
    if let Some(twin) = leaves::twin(&steps) {
        found.push(Mismatch::new(format!("duplicate entries for key {twin}")));
    }
    for (step, item) in steps.iter().zip(items) {
        let mut inner = Vec::new();
        one(schema.item(), item, &mut inner);
        found.extend(inner.into_iter().map(|mismatch| mismatch.below(step)));
    }
}

fn scalar(wanted: Scalar, value: &Value) -> Option<Mismatch> {
    let (right, name) = match wanted {
        Scalar::String => (value.is_string(), "string"),
        Scalar::Number => (value.is_number(), "numeric (int or float)"),
        Scalar::Bool => (value.is_boolean(), "boolean"),
        Scalar::Any => (!value.is_object() && !value.is_array(), "any scalar"),
    };
    (!right).then(|| Mismatch::new(format!("expected {name}, got {value}")))
}
