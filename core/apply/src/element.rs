//! One step of a path into an object: a field, an element of a list by its keys or by its value, or an index.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// One step of a path.
///
/// Numbers are compared as numbers: a key of `1` and one of `1.0` are the same.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of an object, or a key of a map.
    Field(Arc<str>),
    /// An element of a list that is told apart by some of its fields, sorted by name.
    Key(Arc<[(Box<str>, Value)]>),
    /// An element of a set.
    Value(Value),
    /// An element of any other list.
    Index(i64),
}

impl Element {
    /// Returns the step to a field.
    pub fn field(name: &str) -> Element {
        Element::Field(name.into())
    }

    /// Returns the step to the element with these keys.
    pub fn key(mut keys: Vec<(Box<str>, Value)>) -> Element {
        keys.sort_by(|left, right| left.0.cmp(&right.0));
        Element::Key(keys.into())
    }

    /// Reads the form that `managedFields` have: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    ///
    /// `Ok(None)` is a kind of step that we do not know; a later version may have written it.
    pub(crate) fn parse(text: &str) -> Result<Option<Element>, String> {
        let Some((kind, rest)) = text.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
            return Err(format!("{text:?} is not a path element: a letter and a colon are missing"));
        };
        let bad = |error: &dyn fmt::Display| format!("{text:?} is not a path element: {error}");
        Ok(Some(match kind {
            "f" => Element::field(rest),
            "v" => Element::Value(serde_json::from_str(rest).map_err(|error| bad(&error))?),
            "i" => Element::Index(rest.parse().map_err(|error| bad(&error))?),
            "k" => {
                let keys: serde_json::Map<String, Value> = serde_json::from_str(rest).map_err(|error| bad(&error))?;
                Element::key(keys.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            _ => return Ok(None),
        }))
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(left), Element::Field(right)) => left.cmp(right),
            (Element::Key(left), Element::Key(right)) => compare_keys(left, right),
            (Element::Value(left), Element::Value(right)) => compare(left, right),
            (Element::Index(left), Element::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

fn compare_keys(left: &[(Box<str>, Value)], right: &[(Box<str>, Value)]) -> Ordering {
    let pairs = left.iter().zip(right);
    let first = pairs.map(|(left, right)| left.0.cmp(&right.0).then_with(|| compare(&left.1, &right.1)));
    first.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Orders any two values: numbers before texts, truth values, lists, maps, null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.as_f64().unwrap_or(0.0).total_cmp(&right.as_f64().unwrap_or(0.0)),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let mut pairs = left.iter().zip(right).map(|(left, right)| compare(left, right));
            pairs.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let order = |left: (&String, &Value), right: (&String, &Value)| left.0.cmp(right.0).then(compare(left.1, right.1));
            let mut pairs = left.iter().zip(right).map(|(left, right)| order(left, right));
            pairs.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(out, ".{name}"),
            Element::Key(keys) => {
                out.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(out, "{comma}{name}={value}")?;
                }
                out.write_str("]")
            }
            Element::Value(value) => write!(out, "[={value}]"),
            Element::Index(index) => write!(out, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_are_read_and_shown() {
        let shown = |text: &str| Element::parse(text).unwrap().unwrap().to_string();
        assert_eq!(shown("f:app.kubernetes.io/name"), ".app.kubernetes.io/name");
        assert_eq!(shown(r#"k:{"protocol":"TCP","containerPort":80}"#), r#"[containerPort=80,protocol="TCP"]"#);
        assert_eq!(shown(r#"v:"x""#), r#"[="x"]"#);
        assert_eq!(shown("i:3"), "[3]");
        assert_eq!(Element::parse("x:new").unwrap(), None, "a later version may know more");
        for bad in ["", "f", "name", "k:[1]", "v:", "i:x"] {
            assert!(Element::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_numbers_however_they_are_written() {
        assert_eq!(Element::Value(json!(1)), Element::Value(json!(1.0)));
        assert!(Element::Value(json!(2)) < Element::Value(json!(10)));
        assert!(Element::field("z") < Element::Value(json!(1)));
    }
}
