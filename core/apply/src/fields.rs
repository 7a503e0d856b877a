//! The form of a set in `managedFields`: `FieldsV1`, nested objects whose keys are elements.
//!
//! `{"f:data": {".": {}, "f:k": {}}}`: an empty object is a member, `.` says that the parent is one as well.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::element::Element;
use crate::set::Set;

/// Reads a set. Kinds of elements that we do not know are left out.
pub(crate) fn decode(fields: &Map<String, Value>) -> Result<Set, String> {
    let mut set = Set::default();
    for (key, inner) in fields.iter().filter(|(key, _)| *key != ".") {
        let Some(element) = Element::parse(key)? else { continue };
        let inner = inner.as_object().ok_or_else(|| format!("{key:?} is not an object"))?;
        let below = decode(inner)?;
        set.put(element, below.is_empty() || inner.contains_key("."), below);
    }
    Ok(set)
}

/// What takes the text of a set: the parts that differ from object to object come apart from the others.
pub(crate) trait Sink {
    /// Takes a part that many objects have alike.
    fn text(&mut self, text: &str);
    /// Takes a part that belongs to one object.
    fn hole(&mut self, text: &str);
}

impl Sink for String {
    fn text(&mut self, text: &str) {
        self.push_str(text);
    }

    fn hole(&mut self, text: &str) {
        self.push_str(text);
    }
}

/// Keys of list elements whose values are another for every object.
const OWN_KEYS: [&str; 2] = ["ip", "uid"];

/// Writes a set as the text of a JSON object.
pub(crate) fn encode(set: &Set, out: &mut impl Sink) {
    object(set, false, out);
}

fn object(set: &Set, member: bool, out: &mut impl Sink) {
    out.text("{");
    let mut comma = "";
    if member && !set.is_empty() {
        out.text("\".\":{}");
        comma = ",";
    }
    for node in &set.nodes {
        out.text(comma);
        comma = ",";
        element(&node.element, out);
        out.text(":");
        object(&node.below, node.member, out);
    }
    out.text("}");
}

/// Writes an element as a JSON text, quotes included.
fn element(element: &Element, out: &mut impl Sink) {
    match element {
        Element::Field(name) => {
            out.text("\"f:");
            out.text(&escaped(name));
        }
        Element::Value(value) => {
            out.text("\"v:");
            out.text(&escaped(&value.to_string()));
        }
        Element::Index(index) => {
            let mut text = String::new();
            // Writing to a text cannot fail.
            let _ = write!(text, "\"i:{index}");
            out.text(&text);
        }
        Element::Key(keys) => {
            out.text("\"k:{");
            for (index, (name, value)) in keys.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                out.text(&escaped(&format!("{comma}{}:", Value::from(&**name))));
                let text = value.to_string();
                let value = escaped(&text);
                if OWN_KEYS.contains(&&**name) { out.hole(&value) } else { out.text(&value) }
            }
            out.text("}");
        }
    }
    out.text("\"");
}

/// Returns a text as it stands between the quotes of a JSON text.
pub(crate) fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        return text.into();
    }
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_are_read_and_written() {
        for fields in [
            json!({}),
            json!({"f:data": {}}),
            json!({"f:data": {".": {}, "f:k": {}}}),
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a\\nb\"": {}}, "f:labels": {"f:a\"b": {}}}}),
            json!({"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}, "i:2": {}}}),
            json!({"f:podIPs": {"k:{\"ip\":\"10.0.0.1\"}": {".": {}, "f:ip": {}}}}),
        ] {
            let set = decode(fields.as_object().unwrap()).unwrap();
            let mut text = String::new();
            encode(&set, &mut text);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), fields);
        }
    }

    #[test]
    fn what_a_later_version_may_mean_is_left_out_and_nonsense_is_refused() {
        let read = |fields: Value| decode(fields.as_object().unwrap());
        assert!(read(json!({"x:new": {"f:a": {}}})).unwrap().is_empty());
        assert!(read(json!({"data": {}})).is_err());
        assert!(read(json!({"f:data": 1})).is_err());
    }
}
