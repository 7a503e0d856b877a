//! A small type for tests: one of everything.

use serde_json::Value;

use crate::schema::{Elements, Members, Scalar, Schema};

/// A type of the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum T {
    Text,
    Number,
    /// Shows its type by itself.
    Deduced,
    /// The same, but owned as a whole.
    Untyped,
    Object(&'static [(&'static str, T)]),
    Map(&'static T),
    AtomicMap,
    List(&'static T),
    Set,
    Keyed(&'static [&'static str], &'static T),
}

const PORT: T = T::Object(&[("port", T::Number), ("protocol", T::Text), ("name", T::Text)]);
const ITEM: T = T::Object(&[
    ("name", T::Text),
    ("image", T::Text),
    ("args", T::List(&T::Text)),
    ("ports", T::Keyed(&["port", "protocol"], &PORT)),
]);

/// The kind of the tests.
pub(crate) const KIND: T = T::Object(&[
    ("apiVersion", T::Text),
    ("kind", T::Text),
    (
        "metadata",
        T::Object(&[
            ("name", T::Text),
            ("uid", T::Text),
            ("labels", T::Map(&T::Text)),
            ("annotations", T::Map(&T::Text)),
            ("finalizers", T::Set),
        ]),
    ),
    (
        "spec",
        T::Object(&[
            ("replicas", T::Number),
            ("items", T::Keyed(&["name"], &ITEM)),
            ("selector", T::AtomicMap),
            ("free", T::Deduced),
            ("data", T::Map(&T::Text)),
        ]),
    ),
    ("status", T::Object(&[("phase", T::Text)])),
]);

impl Schema<'static> for T {
    fn scalar(self) -> Option<Scalar> {
        match self {
            T::Text => Some(Scalar::String),
            T::Number => Some(Scalar::Number),
            T::Deduced | T::Untyped => Some(Scalar::Any),
            _ => None,
        }
    }

    fn list(self) -> Option<Elements> {
        match self {
            T::Deduced | T::Untyped | T::List(_) => Some(Elements::Atomic),
            T::Set => Some(Elements::Set),
            T::Keyed(..) => Some(Elements::Keyed),
            _ => None,
        }
    }

    fn map(self) -> Option<Members> {
        match self {
            T::Deduced | T::Object(_) | T::Map(_) => Some(Members::Granular),
            T::Untyped | T::AtomicMap => Some(Members::Atomic),
            _ => None,
        }
    }

    fn item(self) -> T {
        match self {
            T::List(item) | T::Keyed(_, item) => *item,
            T::Set => T::Text,
            _ => T::Untyped,
        }
    }

    fn keys(self) -> impl Iterator<Item = &'static str> {
        let keys: &'static [&'static str] = if let T::Keyed(keys, _) = self { keys } else { &[] };
        keys.iter().copied()
    }

    fn key_default(self, key: &str) -> Option<Value> {
        (key == "protocol").then(|| "TCP".into())
    }

    fn field(self, name: &str) -> Option<T> {
        match self {
            T::Object(fields) => fields.iter().find(|(field, _)| *field == name).map(|(_, inner)| *inner),
            _ => None,
        }
    }

    fn rest(self) -> Option<T> {
        match self {
            T::Map(inner) => Some(*inner),
            T::AtomicMap => Some(T::Text),
            T::Deduced => Some(T::Deduced),
            T::Untyped => Some(T::Untyped),
            _ => None,
        }
    }

    fn is_deduced(self) -> bool {
        matches!(self, T::Deduced)
    }
}
