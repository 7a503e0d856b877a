//! Decoding of a JSON value as a kind: drops what the type does not have, refuses what has the wrong JSON type.
//!
//! After [`check`] without `wrong`, a value is what Kubernetes would have decoded and printed again: no unknown fields, no
//! nulls, timestamps and quantities in their canonical form. Field names are case sensitive.

use std::fmt;

use api::{Quantity, Timestamp};
use serde_json::{Map, Value};

use super::json::MAX_FINDINGS;
use super::protobuf::ZERO_TIME_SECONDS;
use super::{Message, Type, object_meta};
use crate::base64;

/// What decoding found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Full paths of fields that the type does not have, for example `spec.containers[0].x`. They are gone from the value.
    pub unknown: Vec<String>,
    /// Errors of type: each is a reason to refuse the body with a 400.
    pub wrong: Vec<String>,
    /// Those of them that are a value of the wrong JSON type, taken apart.
    pub misfits: Vec<Misfit>,
}

/// A value of the wrong JSON type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its full path.
    pub path: String,
    /// The type that Kubernetes has there, as Go names it: `int32`, `string`, `[]string`, `v1.Probe`.
    pub wanted: String,
}

impl Checked {
    /// Returns the message of the 400 that refuses the body, if a value has the wrong type.
    pub fn refusal(&self, api_version: &str, kind: &str) -> Option<String> {
        let wrong = self.wrong.first()?;
        let version = api_version.rsplit('/').next().unwrap_or(api_version);
        Some(format!("{kind} in version {version:?} cannot be handled as a {kind}: {wrong}"))
    }
}

/// Returns the warnings about unknown fields and fields written twice: `unknown field "x"`, `duplicate field "y"`.
///
/// Duplicates below an unknown field say nothing that the unknown field does not say.
pub fn strict_findings(unknown: &[String], duplicates: &[String]) -> Vec<String> {
    let below = |path: &String| {
        unknown.iter().any(|known| path.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with(['.', '['])))
    };
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    // What was found by its line says so itself.
    let duplicate = |path: &String| match path.strip_prefix(BY_LINE) {
        Some(found) => format!("yaml: unmarshal errors:\n  line {found}"),
        None => format!("duplicate field {path:?}"),
    };
    let duplicates = duplicates.iter().filter(|path| !below(path)).map(duplicate);
    unknown.chain(duplicates).take(MAX_FINDINGS).collect()
}

/// What a duplicate begins with that is known by its line and not by its path, as those of YAML are.
pub const BY_LINE: &str = "line ";

/// Returns the message of the 400 of strict validation, if there is something to refuse.
pub fn strict_error(unknown: &[String], duplicates: &[String]) -> Option<String> {
    let findings = strict_findings(unknown, duplicates);
    (!findings.is_empty()).then(|| format!("strict decoding error: {}", findings.join(", ")))
}

/// Decodes `value` in place as `message`.
pub fn check(message: &'static Message, value: &mut Value) -> Checked {
    let mut walk = Walk { root: message.short_name(), found: Checked::default() };
    match value {
        Value::Object(members) => walk.object(message, members, &Path::Root, message.is_kind()),
        other => walk.found.wrong.push(format!(
            "json: cannot unmarshal {} into Go value of type v1.{}",
            json_type(other),
            message.short_name()
        )),
    }
    walk.found
}

/// Decodes the `metadata` of an object whose other fields a schema describes; paths begin with `metadata`.
pub fn check_metadata(object: &mut Value) -> Checked {
    let mut walk = Walk { root: "ObjectMeta", found: Checked::default() };
    if let Value::Object(members) = object
        && let Some(metadata) = members.get_mut("metadata")
    {
        let path = Path::Key(&Path::Root, "metadata");
        match metadata {
            Value::Null => drop(members.remove("metadata")),
            Value::Object(metadata) => walk.object(object_meta(), metadata, &path, false),
            other => walk.mismatch(other, "v1.ObjectMeta", &path),
        }
    }
    walk.found
}

/// Where the walk is; put into words only when there is something to say.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => out.write_str(key),
            Path::Key(parent, key) => write!(out, "{parent}.{key}"),
            Path::Index(parent, index) => write!(out, "{parent}[{index}]"),
        }
    }
}

struct Walk {
    root: &'static str,
    found: Checked,
}

impl Walk {
    fn object(&mut self, message: &'static Message, members: &mut Map<String, Value>, path: &Path<'_>, top: bool) {
        members.retain(|key, value| {
            let path = Path::Key(path, key);
            let Some(field) = message.field(key) else {
                if top && matches!(key.as_str(), "apiVersion" | "kind") {
                    self.value(&Type::String, value, &path);
                    return !value.is_null();
                }
                self.unknown(&path);
                return false;
            };
            // Null is no value at all: pointers become nil, everything else stays what it was.
            if !value.is_null() {
                self.value(&field.kind, value, &path);
            }
            !value.is_null()
        });
    }

    fn value(&mut self, kind: &Type, value: &mut Value, path: &Path<'_>) {
        match (kind, &mut *value) {
            (Type::Any, _)
            | (Type::String, Value::String(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::Double, Value::Number(_)) => {}
            (Type::Int64, Value::Number(number)) if number.is_i64() => {}
            (Type::Int32, Value::Number(number)) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {}
            (Type::IntOrString, Value::String(_)) => {}
            (Type::IntOrString, Value::Number(_)) => self.value(&Type::Int32, value, path),
            (Type::Int32 | Type::Int64, Value::Number(number)) => {
                let shown = format!("number {number}");
                self.wrong(&shown, &kind.go_name(), path);
            }
            (Type::Bytes, Value::String(text)) => match base64::decode(text) {
                Ok(bytes) => *text = base64::encode(&bytes),
                Err(error) => self.found.wrong.push(error.to_string()),
            },
            (Type::Time | Type::MicroTime, Value::String(text)) => match timestamp(text) {
                Some(stamp) if stamp.0.as_secs() == ZERO_TIME_SECONDS => *value = Value::Null,
                Some(stamp) => *text = if *kind == Type::Time { stamp.to_string() } else { stamp.micro() },
                None => {
                    let layout = "2006-01-02T15:04:05Z07:00";
                    self.found
                        .wrong
                        .push(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as an RFC 3339 time"));
                }
            },
            (Type::Quantity, Value::String(_) | Value::Number(_)) => self.quantity(value),
            (Type::Message(id), Value::Object(members)) => self.object(id.get(), members, path, false),
            (Type::List(item), Value::Array(items)) => {
                for (index, element) in items.iter_mut().enumerate() {
                    self.element(item, element, &Path::Index(path, index));
                }
            }
            (Type::Map(item), Value::Object(members)) => {
                for (key, element) in members.iter_mut() {
                    self.element(item, element, &Path::Key(path, key));
                }
            }
            (Type::Either(first, _), Value::Object(_)) => self.value(first, value, path),
            (Type::Either(_, second), _) => self.value(second, value, path),
            (kind, other) => self.mismatch(other, &kind.go_name(), path),
        }
    }

    /// Checks an element of a list or map; null is the zero value there, since the element exists.
    fn element(&mut self, kind: &Type, value: &mut Value, path: &Path<'_>) {
        if value.is_null() {
            *value = match kind {
                Type::Any | Type::Time | Type::MicroTime | Type::Either(..) => return,
                Type::String | Type::Bytes => "".into(),
                Type::Quantity => "0".into(),
                Type::Bool => false.into(),
                Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => 0.into(),
                Type::Message(_) | Type::Map(_) => Value::Object(Map::new()),
                Type::List(_) => Value::Array(Vec::new()),
            };
            return;
        }
        self.value(kind, value, path);
    }

    fn quantity(&mut self, value: &mut Value) {
        let parsed = match &*value {
            Value::String(text) => Quantity::parse(text.trim()),
            other => Quantity::parse(&other.to_string()),
        };
        match parsed {
            Ok(quantity) => *value = quantity.to_string().into(),
            Err(error) => self.found.wrong.push(error.to_string()),
        }
    }

    fn unknown(&mut self, path: &Path<'_>) {
        if self.found.unknown.len() < MAX_FINDINGS {
            self.found.unknown.push(path.to_string());
        }
    }

    fn mismatch(&mut self, value: &Value, wanted: &str, path: &Path<'_>) {
        self.wrong(json_type(value), wanted, path);
    }

    fn wrong(&mut self, got: &str, wanted: &str, path: &Path<'_>) {
        if self.found.wrong.len() < MAX_FINDINGS {
            let root = self.root;
            self.found.misfits.push(Misfit { path: path.to_string(), wanted: wanted.to_owned() });
            self.found.wrong.push(format!("json: cannot unmarshal {got} into Go struct field {root}.{path} of type {wanted}"));
        }
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reads RFC 3339 and nothing else: `2006-01-02T15:04:05[.fraction](Z|+hh:mm|-hh:mm)`.
fn timestamp(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(19)?;
    let shaped = date.bytes().zip(*b"0000-00-00T00:00:00").all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        shape => byte == shape,
    });
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned(),
        None => rest.to_owned(),
    };
    let zone = rest == "Z"
        || rest.bytes().zip(*b"+00:00").all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'+' => matches!(byte, b'+' | b'-'),
            shape => byte == shape,
        }) && rest.len() == 6;
    // A leap second exists in RFC 3339 but not in the API.
    if !shaped || !zone || &date[17..] == "60" {
        return None;
    }
    Timestamp::parse(text).ok()
}

#[cfg(test)]
mod tests;
