//! Values of CEL. Those that come from the object are borrowed: looking at a member copies nothing.

use std::borrow::Cow;
use std::rc::Rc;

use api::Timestamp;
use serde_json::{Map, Value};

use super::kubernetes::Special;
use crate::format;
use crate::schema::{Schema, Type};
use kinds::base64;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// Microseconds since the epoch.
    Timestamp(i64),
    /// Nanoseconds.
    Duration(i64),
    Type(&'static str),
    /// A list of the object, with its schema if one is known.
    Items(&'a [Value], Option<&'a Schema>),
    /// A map of the object, with its schema if one is known.
    Members(&'a Map<String, Value>, Option<&'a Schema>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    Optional(Option<Rc<Val<'a>>>),
    Special(Special),
}

impl<'a> Val<'a> {
    /// Returns the value that a part of an object stands for; the schema decides between the kinds of numbers and texts.
    pub(super) fn of(value: &'a Value, schema: Option<&'a Schema>) -> Val<'a> {
        match value {
            Value::Null => Val::Null,
            Value::Bool(flag) => Val::Bool(*flag),
            Value::Number(number) => {
                let double = || Val::Double(number.as_f64().unwrap_or(f64::NAN));
                let kind = schema.filter(|schema| !schema.int_or_string).and_then(|schema| schema.kind);
                match (kind, number.as_i64()) {
                    (Some(Type::Number), _) => double(),
                    (_, Some(int)) => Val::Int(int),
                    (Some(Type::Integer), None) => number.as_f64().map_or(Val::Null, |float| {
                        #[expect(clippy::cast_possible_truncation, reason = "validation let only whole numbers pass")]
                        Val::Int(float as i64)
                    }),
                    (_, None) => double(),
                }
            }
            Value::String(text) => Val::of_text(text, schema),
            Value::Array(items) => Val::Items(items, schema),
            Value::Object(members) => Val::Members(members, schema),
        }
    }

    fn of_text(text: &'a str, schema: Option<&'a Schema>) -> Val<'a> {
        let special = match schema.map_or("", |schema| schema.limits.format.as_str()) {
            "date-time" => Timestamp::parse(text).ok().map(|stamp| Val::Timestamp(stamp.0.as_micros())),
            "date" => Timestamp::parse(&format!("{text}T00:00:00Z")).ok().map(|stamp| Val::Timestamp(stamp.0.as_micros())),
            "duration" => format::duration(text).map(Val::Duration),
            "byte" => base64::decode(text).ok().map(|bytes| Val::Bytes(Cow::Owned(bytes))),
            _ => None,
        };
        special.unwrap_or(Val::Str(Cow::Borrowed(text)))
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Str(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Type(_) => "type",
            Val::Items(..) | Val::List(_) => "list",
            Val::Members(..) | Val::Map(_) => "map",
            Val::Optional(_) => "optional_type",
            Val::Special(special) => special.type_name(),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Val::Items(..) | Val::List(_))
    }

    /// Returns how many items or entries it has; none if it is neither list nor map.
    pub(super) fn count(&self) -> usize {
        match self {
            Val::Items(items, _) => items.len(),
            Val::List(items) => items.len(),
            Val::Members(members, _) => members.len(),
            Val::Map(entries) => entries.len(),
            _ => 0,
        }
    }

    /// Returns what it costs to look at the value itself, not at what it holds.
    pub(super) fn surface(&self) -> usize {
        match self {
            Val::Str(text) => 1 + text.len() / 16,
            Val::Bytes(bytes) => 1 + bytes.len() / 16,
            Val::Special(special) => 1 + special.size() / 16,
            _ => 1,
        }
    }

    /// Returns one item of a list.
    pub(super) fn item(&self, position: usize) -> Option<Val<'a>> {
        match self {
            Val::Items(items, schema) => items.get(position).map(|item| Val::of(item, schema.and_then(Schema::items))),
            Val::List(items) => items.get(position).cloned(),
            _ => None,
        }
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Val::Items(items, schema) => {
                let schema = schema.and_then(Schema::items);
                Some(items.iter().map(|item| Val::of(item, schema)).collect())
            }
            Val::List(items) => Some(items.to_vec()),
            _ => None,
        }
    }

    /// Returns the keys of a map.
    pub(super) fn keys(&self) -> Option<Vec<Val<'a>>> {
        match self {
            Val::Members(members, _) => Some(members.keys().map(|key| Val::Str(Cow::Borrowed(key.as_str()))).collect()),
            Val::Map(entries) => Some(entries.iter().map(|(key, _)| key.clone()).collect()),
            _ => None,
        }
    }

    /// Returns a member of a map by a key of any type.
    pub(super) fn entry(&self, key: &Val<'_>) -> Option<Val<'a>> {
        match (self, key) {
            (Val::Members(members, schema), Val::Str(name)) => {
                let schema = *schema;
                members.get(name.as_ref()).map(|value| Val::of(value, schema.and_then(|schema| schema.member(name))))
            }
            (Val::Map(entries), _) => entries.iter().find(|(other, _)| other.equals(key)).map(|(_, value)| value.clone()),
            _ => None,
        }
    }

    pub(super) fn text(text: impl Into<String>) -> Val<'static> {
        Val::Str(Cow::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(Rc::new(items))
    }
}
