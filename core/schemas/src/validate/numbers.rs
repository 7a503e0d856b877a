//! Numbers: whole or not, in range, multiples. Whole numbers are compared exactly, not as floats.

use std::cmp::Ordering;

use api::field::Error;
use serde_json::{Number, Value};

use crate::schema::{Schema, Type};
use crate::trail::Trail;

/// The largest float of which every smaller whole number is a float too.
const FLOAT_EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns whether a value counts as an integer: `3` and `3.0` do.
pub(super) fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() <= FLOAT_EXACT_MAX)
        }
        Value::Number(_) => true,
        _ => false,
    }
}

/// Returns whether two values are equal when `1` and `1.0` are.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|((lk, l), (rk, r))| lk == rk && equal(l, r))
        }
        _ => left == right,
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn is_multiple(number: &Number, factor: &Number) -> bool {
    match (whole(number), whole(factor)) {
        (Some(_), Some(factor)) if factor <= 0 => true,
        (Some(number), Some(factor)) => number % factor == 0,
        _ => {
            let (Some(number), Some(factor)) = (number.as_f64(), factor.as_f64()) else { return true };
            let quotient = number / factor;
            // 0.3 / 0.1 is not whole in floats, but 0.3 is a multiple of 0.1.
            factor <= 0.0 || (quotient - quotient.round()).abs() <= 1e-9 * quotient.abs().max(1.0)
        }
    }
}

pub(super) fn check(schema: &Schema, number: &Number, at: &Trail<'_>, errors: &mut Vec<Error>) {
    let limits = &schema.limits;
    let mut invalid = |detail: String| errors.push(Error::invalid(&at.path(), Value::Number(number.clone()), detail));
    if let Some(format) = out_of_format(schema, number) {
        let kind = schema.kind.map_or("number", Type::name);
        invalid(format!("Checked value must be of type {kind} with format {format} in {at}"));
    }
    if let Some(minimum) = &limits.minimum {
        match compare(number, minimum) {
            Some(Ordering::Less) if !limits.exclusive_minimum => {
                invalid(format!("{at} in body should be greater than or equal to {minimum}"));
            }
            Some(Ordering::Less | Ordering::Equal) if limits.exclusive_minimum => {
                invalid(format!("{at} in body should be greater than {minimum}"));
            }
            _ => {}
        }
    }
    if let Some(maximum) = &limits.maximum {
        match compare(number, maximum) {
            Some(Ordering::Greater) if !limits.exclusive_maximum => {
                invalid(format!("{at} in body should be less than or equal to {maximum}"));
            }
            Some(Ordering::Greater | Ordering::Equal) if limits.exclusive_maximum => {
                invalid(format!("{at} in body should be less than {maximum}"));
            }
            _ => {}
        }
    }
    if let Some(factor) = limits.multiple_of.as_ref().filter(|factor| !is_multiple(number, factor)) {
        invalid(format!("{at} in body should be a multiple of {factor}"));
    }
}

/// Returns the format that the number is too large for.
fn out_of_format<'a>(schema: &'a Schema, number: &Number) -> Option<&'a str> {
    let format = schema.limits.format.as_str();
    let float = number.as_f64().unwrap_or(f64::INFINITY);
    let fits = match (schema.kind, format) {
        (Some(Type::Integer), "int32") => float >= f64::from(i32::MIN) && float <= f64::from(i32::MAX),
        (Some(Type::Integer), "int64") => !number.is_u64() || number.is_i64(),
        (Some(Type::Number), "float") => float.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    (!fits).then_some(format)
}
