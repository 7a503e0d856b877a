//! JSON bodies: values, and the fields that were written twice.
//!
//! The last of two fields with the same name wins, as Kubernetes has it; strict validation wants to know about the first.
//! A value takes far more memory than its text (`{"":1}` a hundred times as much), so what it takes is counted while it is
//! read, and a body that would take too much is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// As many strict errors as Kubernetes reports for one body.
pub(super) const MAX_FINDINGS: usize = 100;

/// The longest path that is told of a field that was written twice.
const PATH_MAX: usize = 1 << 10;
/// The most memory that the value of a body may take, about.
pub const MEMORY_MAX: usize = 32 << 20;
/// What an object with members takes, and what each member and each item adds: nodes of a tree, slots that grow by doubling.
const OBJECT_BYTES: usize = 600;
const MEMBER_BYTES: usize = 64;
const ITEM_BYTES: usize = 64;
/// What the error of a body that takes too much memory says; errors of the reader are texts.
const TOO_LARGE: &str = "the value takes too much memory";

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not JSON, or too deep (400).
    #[error("{0}")]
    Malformed(String),
    /// It has too many members and items (413).
    #[error("the body has too many fields and items: its value may take at most {MEMORY_MAX} bytes of memory")]
    TooLarge,
}

/// A body that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The value; of fields with the same name the last.
    pub value: Value,
    /// Full paths of fields that were written more than once, for example `spec.containers[0].image`.
    pub duplicates: Vec<String>,
    /// How much memory the value takes, about.
    pub memory: usize,
}

/// Reads a body; those deeper than 128 levels are refused.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let (mut duplicates, mut memory) = (Vec::new(), 0);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Node { duplicates: &mut duplicates, memory: &mut memory }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(value) => Ok(Parsed { value, duplicates, memory }),
        Err(error) if error.to_string().starts_with(TOO_LARGE) => Err(ParseError::TooLarge),
        Err(error) => Err(ParseError::Malformed(explain(bytes, &error))),
    }
}

/// Says what is wrong in the words that Go has for it.
fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "unexpected end of JSON input".to_owned(),
        _ if error.to_string().starts_with("recursion limit") => "exceeded max depth".to_owned(),
        _ => {
            let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            let place = format!("line {} column {}: {what}", error.line(), error.column());
            match line.get(error.column().saturating_sub(1)) {
                Some(byte) => format!("invalid character {:?} at {place}", char::from(*byte)),
                None => format!("invalid JSON at {place}"),
            }
        }
    }
}

/// Reads one value. Paths are put together on the way back up, so that a body without duplicates pays nothing for them.
struct Node<'a> {
    duplicates: &'a mut Vec<String>,
    memory: &'a mut usize,
}

impl Node<'_> {
    /// Returns the node of something inside of this one.
    fn inner(&mut self) -> Node<'_> {
        Node { duplicates: self.duplicates, memory: self.memory }
    }

    fn charge<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        *self.memory += bytes;
        if *self.memory > MEMORY_MAX { Err(E::custom(TOO_LARGE)) } else { Ok(()) }
    }

    /// Puts `segment` in front of the paths that were found since there were `before`.
    fn within(&mut self, before: usize, segment: impl Fn() -> String) {
        for path in self.duplicates[before..].iter_mut().filter(|path| path.len() < PATH_MAX) {
            let joint = if path.starts_with('[') { "" } else { "." };
            let segment = segment();
            let shown = &segment[..segment.floor_char_boundary(PATH_MAX)];
            *path = format!("{shown}{joint}{path}");
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<Value, E> {
        self.charge(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(mut self, value: String) -> Result<Value, E> {
        self.charge(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let before = self.duplicates.len();
            let Some(item) = access.next_element_seed(self.inner())? else { break };
            self.charge(ITEM_BYTES)?;
            self.within(before, || format!("[{}]", items.len()));
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let before = self.duplicates.len();
            self.charge(MEMBER_BYTES + key.len() + if members.is_empty() { OBJECT_BYTES } else { 0 })?;
            let value = access.next_value_seed(self.inner())?;
            self.within(before, || key.clone());
            match members.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(mut place) => {
                    let shown = &place.key()[..place.key().floor_char_boundary(PATH_MAX)];
                    if self.duplicates.len() < MAX_FINDINGS && !self.duplicates.iter().any(|known| known == shown) {
                        self.duplicates.push(shown.to_owned());
                    }
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_last_of_two_fields_wins_and_is_reported_with_its_path() {
        let body =
            br#"{"data": {"k": "1", "k": "2"}, "spec": {"containers": [{"a": 1}, {"image": "x", "image": "y"}]}, "data": {}}"#;
        let parsed = parse(body).unwrap();
        assert_eq!(parsed.value, json!({"data": {}, "spec": {"containers": [{"a": 1}, {"image": "y"}]}}));
        assert_eq!(parsed.duplicates, ["data.k", "spec.containers[1].image", "data"]);
    }

    #[test]
    fn a_field_written_three_times_is_reported_once() {
        assert_eq!(parse(br#"{"a": 1, "a": 2, "a": 3, "l": [[{"b": 1, "b": 2}]]}"#).unwrap().duplicates, ["a", "l[0][0].b"]);
    }

    #[test]
    fn values_keep_their_kinds() {
        let parsed = parse(br#"[null, true, -1, 18446744073709551615, 1.5, "\u00e4\n", {}]"#).unwrap();
        assert_eq!(parsed.value, json!([null, true, -1, 18446744073709551615u64, 1.5, "\u{e4}\n", {}]));
        assert_eq!(parsed.duplicates, Vec::<String>::new());
    }

    #[test]
    fn malformed_bodies_are_explained() {
        for (body, why) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("{\"a\": x}", "invalid character 'x' at line 1 column 7"),
            ("{} {}", "invalid character '{' at line 1 column 4"),
        ] {
            let error = parse(body.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(why), "{body}: {error}");
        }
        assert_eq!(parse("[".repeat(100_000).as_bytes()), Err(ParseError::Malformed("exceeded max depth".to_owned())));
    }

    #[test]
    fn findings_are_bounded() {
        let body: Vec<String> = (0..500).map(|n| format!(r#"{{"k{n}": 1, "k{n}": 2}}"#)).collect();
        assert_eq!(parse(format!("[{}]", body.join(",")).as_bytes()).unwrap().duplicates.len(), MAX_FINDINGS);
    }

    #[test]
    fn a_body_that_takes_too_much_memory_is_refused() {
        let list = |item: &str, bytes: usize| format!("[{}1]", format!("{item},").repeat(bytes / (item.len() + 1)));
        assert_eq!(parse(list(r#"{"":1}"#, 3 << 20).as_bytes()), Err(ParseError::TooLarge));
        assert_eq!(parse(list("1", 3 << 20).as_bytes()), Err(ParseError::TooLarge));
        let texts = parse(list(&format!("{:?}", "x".repeat(1_000)), 3 << 20).as_bytes()).unwrap();
        assert!(texts.memory > 3 << 20 && texts.memory < 4 << 20, "{}", texts.memory);
        assert!(parse(list(r#"{"name":"a","value":"b"}"#, 1 << 19).as_bytes()).is_ok(), "what real objects look like");
    }

    #[test]
    fn paths_of_duplicates_are_bounded() {
        let twice: Vec<String> = (0..100).map(|n| format!(r#""a{n}":1,"a{n}":2"#)).collect();
        let parsed = parse(format!(r#"{{{:?}: {{{}}}}}"#, "k".repeat(1 << 20), twice.join(",")).as_bytes()).unwrap();
        assert_eq!(parsed.duplicates.len(), 100);
        assert!(parsed.duplicates.iter().all(|path| path.len() <= 2 * PATH_MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes: Vec<u8>, text in "[\\[\\]{}\",:0-9ntf ]{0,40}") {
            let _ = parse(&bytes);
            let ours = parse(text.as_bytes()).ok().map(|parsed| parsed.value);
            prop_assert_eq!(ours, serde_json::from_str::<Value>(&text).ok());
        }
    }
}
