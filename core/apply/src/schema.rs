//! What server-side apply needs to know of a type.

use serde_json::Value;

/// What a scalar must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    String,
    /// A number.
    Number,
    /// A truth value.
    Bool,
    /// Any of them.
    Any,
}

/// How the elements of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Not at all: the list is owned as a whole.
    Atomic,
    /// By their values.
    Set,
    /// By the fields that [`Schema::keys`] names.
    Keyed,
}

/// How the members of a map or object are owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Each by itself.
    Granular,
    /// As a whole.
    Atomic,
}

/// A type, as server-side apply sees it. A value may be allowed to be a scalar, a list, a map, or several of them.
pub trait Schema<'a>: Copy {
    /// Returns which scalars are allowed.
    fn scalar(self) -> Option<Scalar>;
    /// Returns how lists are made, if they are allowed.
    fn list(self) -> Option<Elements>;
    /// Returns how maps and objects are made, if they are allowed.
    fn map(self) -> Option<Members>;
    /// Returns the type of the elements of a list.
    fn item(self) -> Self;
    /// Returns the fields by which the elements of a list are told apart.
    fn keys(self) -> impl Iterator<Item = &'a str>;
    /// Returns what a key counts as in an element that leaves it out.
    fn key_default(self, key: &str) -> Option<Value>;
    /// Returns the type of a declared field.
    fn field(self, name: &str) -> Option<Self>;
    /// Returns the type of fields that are not declared; `None`: there may be none.
    fn rest(self) -> Option<Self>;
    /// Returns whether it is a map of which nothing is declared and whose contents show their type by themselves.
    fn is_deduced(self) -> bool;
}

/// What a value is treated as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Scalar,
    List(Elements),
    Map(Members),
    /// The type allows nothing.
    None,
}

/// Returns what a value is treated as: what it is, if the type allows that, else the first that the type allows.
pub(crate) fn form<'a, S: Schema<'a>>(schema: S, value: Option<&Value>) -> Form {
    let (scalar, list, map) = (schema.scalar(), schema.list(), schema.map());
    match (value, list, map) {
        (Some(Value::Bool(_) | Value::Number(_) | Value::String(_)), ..) if scalar.is_some() => Form::Scalar,
        (Some(Value::Array(_)), Some(elements), _) => Form::List(elements),
        (_, _, Some(members)) => Form::Map(members),
        (_, Some(elements), _) if scalar.is_none() => Form::List(elements),
        _ if scalar.is_some() => Form::Scalar,
        _ => Form::None,
    }
}
