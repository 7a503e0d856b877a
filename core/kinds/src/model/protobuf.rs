//! Request bodies in the protobuf encoding of Kubernetes, turned into JSON values.
//!
//! Encoders write every field that is not a pointer, also when it is empty. So a field that is not optional and has its
//! zero value (an empty text, 0, false, an empty message, the zero time) comes out absent; optional fields, list elements
//! and map values are kept. Hostile bodies can neither recurse deeply nor grow beyond a budget.

use api::Timestamp;
use machine::Time;
use serde_json::{Map, Value};

use super::{Message, Slot, Type, message_for};
use crate::base64;

/// What every body begins with.
const MAGIC: [u8; 4] = *b"k8s\0";
/// Values that one body may hold; a body of the largest size that is accepted holds fewer in practice.
const MAX_VALUES: usize = 1_000_000;
/// How deep messages may lie in each other; schemas are made of schemas.
const MAX_DEPTH: usize = 60;
/// The second at which Go's zero time lies, 0001-01-01.
pub(super) const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It does not begin with `k8s\0`.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// It ends in the middle of a value.
    #[error("unexpected EOF")]
    Truncated,
    /// Its bytes are not what the type of a field wants.
    #[error("proto: {message}: {why}")]
    Malformed {
        /// The message that was being read.
        message: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// Its messages lie too deep in each other.
    #[error("exceeded max depth")]
    TooDeep,
    /// It is of a kind that is not in the model.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The version that it names.
        api_version: String,
        /// The kind that it names.
        kind: String,
    },
    /// It is encoded in a way that the server does not read.
    #[error("unsupported content encoding or type {0:?}")]
    Encoding(String),
    /// It holds more values than a body may.
    #[error("too many values")]
    TooMany,
}

/// Decodes a body: the envelope, then the object; the value has `apiVersion` and `kind`.
pub fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    decode_as(body, "", "")
}

/// Decodes a body whose envelope may leave out `apiVersion` and `kind`, as the URL says them.
pub fn decode_as(body: &[u8], api_version: &str, kind: &str) -> Result<Value, DecodeError> {
    let body = body.strip_prefix(&MAGIC).ok_or(DecodeError::Magic)?;
    let envelope = Envelope::read(body)?;
    let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
    let (api_version, kind) = (or(&envelope.api_version, api_version), or(&envelope.kind, kind));
    let Some(message) = message_for(&api_version, &kind).filter(|message| message.has_wire()) else {
        return Err(DecodeError::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    let mut budget = Budget { values: MAX_VALUES, depth: MAX_DEPTH };
    read_message(envelope.raw, message, &mut object, &mut budget)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, DecodeError> {
        const NAME: &str = "Unknown";
        let mut envelope = Envelope::default();
        let mut reader = Reader { rest: bytes, message: NAME };
        while let Some((number, wire)) = reader.field()? {
            match (number, wire) {
                (1, Wire::Bytes(bytes)) => {
                    let mut reader = Reader { rest: bytes, message: "TypeMeta" };
                    while let Some((number, wire)) = reader.field()? {
                        match number {
                            1 => envelope.api_version = reader.text(wire)?,
                            2 => envelope.kind = reader.text(wire)?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(bytes)) => envelope.raw = bytes,
                (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                    return Err(DecodeError::Encoding(String::from_utf8_lossy(encoding).into_owned()));
                }
                (4, Wire::Bytes(kind)) if !kind.is_empty() && kind != b"application/vnd.kubernetes.protobuf" => {
                    return Err(DecodeError::Encoding(String::from_utf8_lossy(kind).into_owned()));
                }
                (1 | 2, _) => return Err(reader.malformed("wrong wire type")),
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// The payload of a field.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Eight bytes: a number with a fraction.
    Fixed(u64),
    /// Of another width, or a group; no field of the model is one.
    Other,
}

struct Reader<'a> {
    rest: &'a [u8],
    message: &'static str,
}

impl<'a> Reader<'a> {
    fn malformed(&self, why: &'static str) -> DecodeError {
        DecodeError::Malformed { message: self.message, why }
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (place, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[place + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { DecodeError::Truncated } else { self.malformed("integer overflow") })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)
    }

    fn tag(&mut self) -> Result<(u32, u8), DecodeError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        Ok((number.ok_or_else(|| self.malformed("illegal tag"))?, (tag & 7) as u8))
    }

    /// Returns the next field with its payload; `None` at the end.
    fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let payload = match wire {
            0 => Wire::Varint(self.varint()?),
            2 => {
                let length = self.length()?;
                Wire::Bytes(self.take(length)?)
            }
            3 => {
                self.skip_group()?;
                Wire::Other
            }
            1 => Wire::Fixed(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes were taken"))),
            5 => {
                self.take(4)?;
                Wire::Other
            }
            _ => return Err(self.malformed("illegal wire type")),
        };
        Ok(Some((number, payload)))
    }

    /// Passes over a group and the groups inside it.
    fn skip_group(&mut self) -> Result<(), DecodeError> {
        let mut open = 1usize;
        while open > 0 {
            match self.tag()?.1 {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => {
                    let length = self.length()?;
                    self.take(length)?;
                }
                3 => open += 1,
                4 => open -= 1,
                5 => drop(self.take(4)?),
                _ => return Err(self.malformed("illegal wire type")),
            }
        }
        Ok(())
    }

    fn bytes(&self, wire: Wire<'a>) -> Result<&'a [u8], DecodeError> {
        match wire {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(self.malformed("wrong wire type")),
        }
    }

    fn number(&self, wire: Wire<'_>) -> Result<i64, DecodeError> {
        match wire {
            Wire::Varint(value) => Ok(value as i64),
            _ => Err(self.malformed("wrong wire type")),
        }
    }

    fn text(&self, wire: Wire<'a>) -> Result<String, DecodeError> {
        let text = std::str::from_utf8(self.bytes(wire)?).map_err(|_| self.malformed("invalid UTF-8"))?;
        Ok(text.to_owned())
    }
}

/// What a body may still grow by.
struct Budget {
    values: usize,
    depth: usize,
}

impl Budget {
    fn spend(&mut self) -> Result<(), DecodeError> {
        self.values = self.values.checked_sub(1).ok_or(DecodeError::TooMany)?;
        Ok(())
    }

    /// Goes one message deeper; `depth` rises again when it is read.
    fn enter(&mut self) -> Result<(), DecodeError> {
        self.depth = self.depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        Ok(())
    }
}

fn read_message(
    bytes: &[u8],
    message: &'static Message,
    into: &mut Map<String, Value>,
    budget: &mut Budget,
) -> Result<(), DecodeError> {
    budget.enter()?;
    let mut reader = Reader { rest: bytes, message: message.name() };
    while let Some((number, wire)) = reader.field()? {
        budget.spend()?;
        let field = match message.slot(number) {
            None => continue,
            Some(Slot::Inline(inner)) => {
                read_message(reader.bytes(wire)?, inner.get(), into, budget)?;
                continue;
            }
            Some(Slot::Field(place)) => &message.fields()[place],
        };
        // What was read before of the same field: lists and maps grow, messages merge, anything else is replaced.
        let before = into.remove(field.name);
        let value = read_value(&reader, wire, &field.kind, before, budget)?;
        let absent = value.is_null() || (!field.optional && is_zero(&field.kind, &value));
        if !absent {
            into.insert(field.name.to_owned(), value);
        }
    }
    budget.depth += 1;
    Ok(())
}

/// Returns whether a field that is not optional counts as absent.
fn is_zero(kind: &Type, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty() && matches!(kind, Type::Message(_)),
        Value::Bool(true) | Value::Array(_) => false,
    }
}

fn read_value(
    reader: &Reader<'_>,
    wire: Wire<'_>,
    kind: &Type,
    before: Option<Value>,
    budget: &mut Budget,
) -> Result<Value, DecodeError> {
    Ok(match kind {
        Type::List(item) => {
            let mut items = match before {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            read_items(reader, wire, item, &mut items, budget)?;
            Value::Array(items)
        }
        Type::Map(value) => {
            let mut members = before.map_or_else(Map::new, into_members);
            read_entry(reader.bytes(wire)?, value, &mut members, budget)?;
            Value::Object(members)
        }
        Type::Message(id) => {
            let mut members = before.map_or_else(Map::new, into_members);
            read_message(reader.bytes(wire)?, id.get(), &mut members, budget)?;
            Value::Object(members)
        }
        Type::Either(first, second) => read_either(reader.bytes(wire)?, first, second, budget)?,
        scalar => read_scalar(reader, wire, scalar)?,
    })
}

/// Reads a message that holds one of two: an object, or else a truth value or a list. The truth value comes first and is
/// always there; the list comes second.
fn read_either(bytes: &[u8], first: &Type, second: &Type, budget: &mut Budget) -> Result<Value, DecodeError> {
    let (first_number, second_number) = if matches!(second, Type::Bool) { (2, 1) } else { (1, 2) };
    let mut reader = Reader { rest: bytes, message: "either" };
    let (mut object, mut other) = (None, None);
    while let Some((number, wire)) = reader.field()? {
        budget.spend()?;
        if number == first_number {
            object = Some(read_value(&reader, wire, first, object.take(), budget)?);
        } else if number == second_number {
            other = Some(read_value(&reader, wire, second, other.take(), budget)?);
        }
    }
    Ok(object.or(other).unwrap_or(Value::Null))
}

fn into_members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn read_items(
    reader: &Reader<'_>,
    wire: Wire<'_>,
    item: &Type,
    items: &mut Vec<Value>,
    budget: &mut Budget,
) -> Result<(), DecodeError> {
    // Numbers may come packed: many in one field.
    if let (Type::Int32 | Type::Int64, Wire::Bytes(packed)) = (item, wire) {
        let mut inner = Reader { rest: packed, message: reader.message };
        while !inner.rest.is_empty() {
            budget.spend()?;
            let number = Wire::Varint(inner.varint()?);
            items.push(read_scalar(reader, number, item)?);
        }
        return Ok(());
    }
    items.push(read_value(reader, wire, item, None, budget)?);
    Ok(())
}

/// Reads one entry of a map: 1 the key, 2 the value; either may be left out.
fn read_entry(bytes: &[u8], kind: &Type, members: &mut Map<String, Value>, budget: &mut Budget) -> Result<(), DecodeError> {
    let mut reader = Reader { rest: bytes, message: "map entry" };
    let (mut key, mut value) = (String::new(), None);
    while let Some((number, wire)) = reader.field()? {
        budget.spend()?;
        match (number, kind) {
            (1, _) => key = reader.text(wire)?,
            // A list as a map's value is a message with the items as its first field.
            (2, Type::List(item)) => {
                let mut inner = Reader { rest: reader.bytes(wire)?, message: "items" };
                let mut items = Vec::new();
                while let Some((number, wire)) = inner.field()? {
                    budget.spend()?;
                    if number == 1 {
                        read_items(&inner, wire, item, &mut items, budget)?;
                    }
                }
                value = Some(Value::Array(items));
            }
            (2, kind) => value = Some(read_value(&reader, wire, kind, value.take(), budget)?),
            _ => {}
        }
    }
    let absent = || match kind {
        Type::Message(_) | Type::Map(_) => Value::Object(Map::new()),
        Type::List(_) => Value::Array(Vec::new()),
        Type::Quantity => "0".into(),
        Type::Int32 | Type::Int64 | Type::IntOrString => 0.into(),
        Type::Bool => false.into(),
        _ => "".into(),
    };
    members.insert(key, value.filter(|value| !value.is_null()).unwrap_or_else(absent));
    Ok(())
}

/// Reads a value that is neither a list, a map nor an object of known fields; null: absent.
fn read_scalar(reader: &Reader<'_>, wire: Wire<'_>, kind: &Type) -> Result<Value, DecodeError> {
    Ok(match kind {
        Type::String => reader.text(wire)?.into(),
        Type::Bool => (reader.number(wire)? != 0).into(),
        // As Go does it, a number of 32 bits is the low half.
        Type::Int32 => (reader.number(wire)? as i32).into(),
        Type::Int64 => reader.number(wire)?.into(),
        Type::Bytes => base64::encode(reader.bytes(wire)?).into(),
        Type::Time => timestamp(reader, wire)?.map_or(Value::Null, |stamp| stamp.to_string().into()),
        Type::MicroTime => timestamp(reader, wire)?.map_or(Value::Null, |stamp| stamp.micro().into()),
        Type::Quantity => {
            let mut inner = Reader { rest: reader.bytes(wire)?, message: "Quantity" };
            let mut text = String::new();
            while let Some((number, wire)) = inner.field()? {
                if number == 1 {
                    text = inner.text(wire)?;
                }
            }
            if text.is_empty() { Value::Null } else { text.into() }
        }
        Type::IntOrString => int_or_string(reader, wire)?,
        Type::Any => {
            let mut inner = Reader { rest: reader.bytes(wire)?, message: "RawExtension" };
            let mut raw: &[u8] = &[];
            while let Some((number, wire)) = inner.field()? {
                if number == 1 {
                    raw = inner.bytes(wire)?;
                }
            }
            match raw {
                [] => Value::Null,
                raw => serde_json::from_slice(raw).map_err(|_| reader.malformed("raw JSON does not parse"))?,
            }
        }
        Type::Double => match wire {
            Wire::Fixed(bits) => number(f64::from_bits(bits)),
            _ => return Err(reader.malformed("wrong wire type")),
        },
        Type::Either(..) | Type::Message(_) | Type::List(_) | Type::Map(_) => {
            return Err(reader.malformed("not a scalar"));
        }
    })
}

/// Returns a number as JSON writes it: without a fraction if it has none.
fn number(value: f64) -> Value {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX { (value as i64).into() } else { value.into() }
}

/// Reads a time; an empty message and Go's zero time are no time.
fn timestamp(reader: &Reader<'_>, wire: Wire<'_>) -> Result<Option<Timestamp>, DecodeError> {
    let bytes = reader.bytes(wire)?;
    let mut inner = Reader { rest: bytes, message: "Time" };
    let (mut seconds, mut nanos) = (0i64, 0i64);
    while let Some((number, wire)) = inner.field()? {
        match number {
            1 => seconds = inner.number(wire)?,
            2 => nanos = inner.number(wire)?,
            _ => {}
        }
    }
    if bytes.is_empty() || seconds == ZERO_TIME_SECONDS {
        return Ok(None);
    }
    if !(ZERO_TIME_SECONDS..253_402_207_200).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(inner.malformed("time out of range"));
    }
    Ok(Some(Timestamp(Time::from_micros(seconds * 1_000_000 + nanos / 1_000))))
}

fn int_or_string(reader: &Reader<'_>, wire: Wire<'_>) -> Result<Value, DecodeError> {
    let mut inner = Reader { rest: reader.bytes(wire)?, message: "IntOrString" };
    let (mut kind, mut int, mut text) = (0, 0, String::new());
    while let Some((number, wire)) = inner.field()? {
        match number {
            1 => kind = inner.number(wire)?,
            2 => int = inner.number(wire)? as i32,
            3 => text = inner.text(wire)?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(int.into()),
        1 => Ok(text.into()),
        _ => Err(inner.malformed("impossible type")),
    }
}

#[cfg(test)]
mod tests;
