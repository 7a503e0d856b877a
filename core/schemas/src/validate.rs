//! Validation of a custom resource against its schema.
//!
//! Messages and kinds are those of kube-apiserver. On update, a part that did not change is not checked again
//! (ratcheting): an object that was valid under an older schema can still be changed elsewhere.

mod composite;
mod lists;
mod numbers;

use api::field::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use super::correlate;
use super::rules;
use super::schema::{Schema, Type};
use super::trail::Trail;
use kinds::model::check_metadata;
/// Returns everything that is wrong with `new`; `old` is the stored object when this is an update.
pub fn validate(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    value(schema, new, old, &Trail::ROOT, &mut errors);
    if schema.has_rules {
        // An expression may rely on what the schema promises: without it, its failure would only confuse.
        let blocking = |error: &Error| {
            use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
            matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        if errors.iter().any(blocking) {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            errors.push(Error::invalid(&Trail::ROOT.path(), "null", detail));
        } else {
            rules::check(schema, new, old, &mut errors);
        }
    }
    errors
}

/// Checks one value and everything below it.
fn value(schema: &Schema, new: &Value, old: Option<&Value>, at: &Trail<'_>, errors: &mut Vec<Error>) {
    if old == Some(new) {
        return;
    }
    if !typed(schema, new, at, errors) {
        return;
    }
    composite::check(schema, new, at, errors);
    match new {
        Value::String(text) => string(schema, text, at, errors),
        Value::Number(number) => numbers::check(schema, number, at, errors),
        Value::Array(items) => lists::check(schema, items, old, at, errors),
        Value::Object(members) => object(schema, members, old, at, errors),
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(allowed) = &schema.limits.enumeration
        && !allowed.iter().any(|allowed| numbers::equal(allowed, new))
    {
        let names: Vec<String> =
            allowed.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        errors.push(Error::not_supported(&at.path(), new.clone(), &names));
    }
}

/// Returns the name of the JSON type of a value, as messages call it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn typed(schema: &Schema, value: &Value, at: &Trail<'_>, errors: &mut Vec<Error>) -> bool {
    let fits = |kind: Type| match kind {
        Type::Array => value.is_array(),
        Type::Boolean => value.is_boolean(),
        Type::Integer => numbers::is_integer(value),
        Type::Number => value.is_number(),
        Type::Object => value.is_object(),
        Type::String => value.is_string(),
    };
    let (good, expected) = match (schema.int_or_string, schema.kind) {
        (true, _) => (fits(Type::Integer) || fits(Type::String), "integer,string"),
        (false, Some(kind)) => (fits(kind), kind.name()),
        (false, None) => return true,
    };
    let good = good || (value.is_null() && schema.nullable);
    if !good {
        let found = type_name(value);
        let detail = format!("{at} in body must be of type {expected}: {found:?}");
        errors.push(Error::type_invalid(&at.path(), &Value::from(found), detail));
    }
    good
}

fn string(schema: &Schema, text: &str, at: &Trail<'_>, errors: &mut Vec<Error>) {
    let limits = &schema.limits;
    // Bytes are at least as many as characters: most texts need not be counted.
    if let Some(max) = limits.max_length
        && text.len() as u64 > max
        && text.chars().count() as u64 > max
    {
        errors.push(Error::too_long(&at.path(), usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if let Some(min) = limits.min_length
        && (text.chars().count() as u64) < min
    {
        errors.push(Error::invalid(&at.path(), text, format!("{at} in body should be at least {min} chars long")));
    }
    if let Some((pattern, regex)) = &limits.pattern
        && !regex.is_match(text)
    {
        errors.push(Error::invalid(&at.path(), text, format!("{at} in body should match '{pattern}'")));
    }
    if let Some(check) = limits.format_check
        && matches!(schema.kind, None | Some(Type::String))
        && !check(text)
    {
        let detail = format!("{at} in body must be of type {}: {text:?}", limits.format);
        errors.push(Error::type_invalid(&at.path(), &Value::from(text), detail));
    }
}

fn object(schema: &Schema, members: &Map<String, Value>, old: Option<&Value>, at: &Trail<'_>, errors: &mut Vec<Error>) {
    let limits = &schema.limits;
    let count = members.len() as u64;
    if let Some(min) = limits.min_properties
        && count < min
    {
        let detail = format!("{at} in body should have at least {min} properties");
        errors.push(Error::invalid(&at.path(), count, detail));
    }
    if let Some(max) = limits.max_properties
        && count > max
    {
        errors.push(Error::too_many(&at.path(), members.len(), usize::try_from(max).unwrap_or(usize::MAX)));
    }
    if schema.embedded {
        embedded(members, at, errors);
    }
    for (name, member) in members {
        if let Some(property) = schema.member(name) {
            value(property, member, correlate::member(schema, old, name), &at.member(name), errors);
        }
    }
    for name in limits.required.iter().filter(|name| !members.contains_key(*name)) {
        errors.push(Error::required(&at.member(name).path(), ""));
    }
}

fn embedded(members: &Map<String, Value>, at: &Trail<'_>, errors: &mut Vec<Error>) {
    for name in ["apiVersion", "kind"] {
        let at = at.member(name);
        match members.get(name) {
            Some(Value::String(text)) if !text.is_empty() => {}
            None | Some(Value::Null | Value::String(_)) => errors.push(Error::required(&at.path(), "must not be empty")),
            Some(other) => errors.push(Error::type_invalid(&at.path(), other, "must be a string")),
        }
    }
    let mut metadata = members.get("metadata").map_or_else(|| json!({}), |metadata| json!({"metadata": metadata}));
    for wrong in check_metadata(&mut metadata).wrong {
        let shown = members.get("metadata").unwrap_or(&Value::Null);
        errors.push(Error::type_invalid(&at.member("metadata").path(), shown, wrong));
    }
}
