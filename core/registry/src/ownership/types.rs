//! The types of kinds as server-side apply sees them: from the model for what is built in, from the schema of a definition
//! for custom resources.

use apply::{Elements, Members, Scalar, Schema as Typed};
use serde_json::{Map, Value, json};

use crate::kind::ServedKind;
use kinds::model::{self, Apply, Merge, Message, Type};
use schemas::{Additional, ListType, Schema, Type as CustomType};

/// The type of a field.
#[derive(Clone, Copy)]
pub enum FieldType<'a> {
    /// A built-in kind.
    Kind(&'static Message),
    /// A field of a built-in kind, and how it merges.
    Field(&'static Type, &'static Merge),
    /// A custom resource as a whole, or one embedded in another.
    Resource(&'a Schema, bool),
    /// A field of a custom resource, and whether something above it keeps unknown fields.
    Custom(&'a Schema, bool),
    /// Metadata.
    Metadata,
    /// A text.
    Text,
    /// Whatever it is, it is owned as a whole.
    Untyped,
    /// What a value is shows its type: maps are owned member by member, lists as a whole.
    Deduced,
}

/// What a field that the model says nothing about does.
static PLAIN: Merge = Merge { key: None, retain_keys: false, apply: Apply::Unsaid };

impl ServedKind {
    /// Returns the type of this kind in a version; `None`: there is no such version.
    pub(super) fn field_type(&self, api_version: &str) -> Option<FieldType<'_>> {
        if let Some(custom) = self.custom() {
            let version = api_version.strip_prefix(self.resource.group.as_str())?.strip_prefix('/')?;
            return Some(FieldType::Resource(custom.schema_of(version)?, false));
        }
        let message = self.message()?;
        (api_version == self.resource.api_version()).then_some(FieldType::Kind(message))
    }
}

/// Returns an object of a type that nobody has written anything into: what Kubernetes shows even when it is empty.
///
/// Who writes into such a field does not own the field itself.
pub(super) fn empty(message: &'static Message) -> Map<String, Value> {
    let shown = message.fields().iter().filter_map(|field| match &field.kind {
        Type::Message(id) if !field.optional => Some((field.name.to_owned(), Value::Object(empty(id.get())))),
        Type::List(_) if field.required => Some((field.name.to_owned(), Value::Null)),
        _ => None,
    });
    shown.collect()
}

/// What a schema allows.
fn primitive(schema: &Schema) -> Option<Scalar> {
    match schema.kind() {
        None => Some(Scalar::Any),
        Some(CustomType::Boolean) => Some(Scalar::Bool),
        Some(CustomType::Integer | CustomType::Number) => Some(Scalar::Number),
        Some(CustomType::String) if matches!(schema.format(), "" | "byte") => Some(Scalar::String),
        Some(CustomType::String) => Some(Scalar::Any),
        Some(CustomType::Array | CustomType::Object) => None,
    }
}

impl<'a> Typed<'a> for FieldType<'a> {
    fn scalar(self) -> Option<Scalar> {
        match self {
            FieldType::Text => Some(Scalar::String),
            FieldType::Untyped | FieldType::Deduced => Some(Scalar::Any),
            FieldType::Kind(_) | FieldType::Metadata | FieldType::Resource(..) => None,
            FieldType::Custom(schema, _) => primitive(schema),
            FieldType::Field(kind, _) => match kind {
                Type::String | Type::Bytes => Some(Scalar::String),
                Type::Bool => Some(Scalar::Bool),
                Type::Int32 | Type::Int64 | Type::Double => Some(Scalar::Number),
                Type::Message(_) | Type::List(_) | Type::Map(_) => None,
                Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString | Type::Any | Type::Either(..) => {
                    Some(Scalar::Any)
                }
            },
        }
    }

    fn list(self) -> Option<Elements> {
        match self {
            FieldType::Untyped | FieldType::Deduced | FieldType::Field(Type::Any | Type::Either(..), _) => {
                Some(Elements::Atomic)
            }
            FieldType::Field(Type::List(_), merge) => Some(match merge.apply {
                Apply::Map(_) => Elements::Keyed,
                Apply::Set => Elements::Set,
                Apply::Atomic | Apply::Unsaid => Elements::Atomic,
            }),
            FieldType::Custom(schema, _) if matches!(schema.kind(), None | Some(CustomType::Array)) => {
                Some(match schema.list_type() {
                    ListType::Atomic => Elements::Atomic,
                    ListType::Set => Elements::Set,
                    ListType::Map(_) => Elements::Keyed,
                })
            }
            _ => None,
        }
    }

    fn map(self) -> Option<Members> {
        let owned = |atomic| if atomic { Members::Atomic } else { Members::Granular };
        match self {
            FieldType::Kind(_) | FieldType::Metadata | FieldType::Deduced => Some(Members::Granular),
            FieldType::Untyped | FieldType::Field(Type::Any | Type::Either(..), _) => Some(Members::Atomic),
            FieldType::Field(Type::Message(id), merge) => Some(owned(id.get().is_atomic() || merge.apply == Apply::Atomic)),
            FieldType::Field(Type::Map(_), merge) => Some(owned(merge.apply == Apply::Atomic)),
            FieldType::Resource(schema, _) => Some(owned(schema.is_atomic_map())),
            FieldType::Custom(schema, _) if matches!(schema.kind(), None | Some(CustomType::Object)) => {
                Some(owned(schema.is_atomic_map()))
            }
            FieldType::Text | FieldType::Field(..) | FieldType::Custom(..) => None,
        }
    }

    fn item(self) -> FieldType<'a> {
        match self {
            FieldType::Field(Type::List(item), _) => FieldType::Field(item, &PLAIN),
            FieldType::Custom(schema, keeps) => {
                schema.items().map_or(FieldType::Untyped, |items| custom(items, keeps || schema.preserves_unknown()))
            }
            _ => FieldType::Untyped,
        }
    }

    fn keys(self) -> impl Iterator<Item = &'a str> {
        let (model, schema): (&'static [&'static str], &'a [String]) = match self {
            FieldType::Field(_, Merge { apply: Apply::Map(keys), .. }) => (keys, &[]),
            FieldType::Custom(schema, _) => match schema.list_type() {
                ListType::Map(keys) => (&[], keys),
                ListType::Atomic | ListType::Set => (&[], &[]),
            },
            _ => (&[], &[]),
        };
        model.iter().copied().chain(schema.iter().map(String::as_str))
    }

    fn key_default(self, key: &str) -> Option<Value> {
        match self {
            FieldType::Field(Type::List(item), _) => {
                let port = item.message().is_some_and(|message| matches!(message.name(), "ContainerPort" | "ServicePort"));
                (port && key == "protocol").then(|| json!("TCP"))
            }
            FieldType::Custom(schema, _) => schema.items()?.property(key)?.default_value().cloned(),
            _ => None,
        }
    }

    fn field(self, name: &str) -> Option<FieldType<'a>> {
        let of = |message: &'static Message| message.field(name).map(|field| FieldType::Field(&field.kind, &field.merge));
        match self {
            FieldType::Kind(_) | FieldType::Resource(..) if matches!(name, "apiVersion" | "kind") => Some(FieldType::Text),
            FieldType::Resource(..) if name == "metadata" => Some(FieldType::Metadata),
            FieldType::Kind(message) => of(message),
            FieldType::Metadata => of(model::object_meta()),
            FieldType::Field(kind, _) => of(kind.message()?),
            FieldType::Resource(schema, keeps) | FieldType::Custom(schema, keeps) => {
                schema.property(name).map(|inner| custom(inner, keeps || schema.preserves_unknown()))
            }
            _ => None,
        }
    }

    fn rest(self) -> Option<FieldType<'a>> {
        match self {
            FieldType::Field(Type::Map(value), _) => Some(FieldType::Field(value, &PLAIN)),
            FieldType::Untyped | FieldType::Field(Type::Any | Type::Either(..), _) => Some(FieldType::Untyped),
            FieldType::Deduced => Some(FieldType::Deduced),
            FieldType::Resource(schema, keeps) | FieldType::Custom(schema, keeps) => {
                let keeps = keeps || schema.preserves_unknown();
                let bare = matches!(self, FieldType::Custom(..)) && schema.has_no_properties();
                match schema.additional() {
                    Additional::Schema(inner) => Some(custom(inner, keeps)),
                    Additional::Any(true) => Some(FieldType::Deduced),
                    Additional::Any(false) => None,
                    Additional::Unknown => (keeps || bare).then_some(FieldType::Deduced),
                }
            }
            _ => None,
        }
    }

    fn is_deduced(self) -> bool {
        match self {
            FieldType::Deduced => true,
            FieldType::Custom(schema, _) => schema.has_no_properties() && matches!(self.rest(), Some(FieldType::Deduced)),
            _ => false,
        }
    }
}

/// Returns the type of a schema inside another.
fn custom(schema: &Schema, keeps: bool) -> FieldType<'_> {
    if schema.is_embedded() { FieldType::Resource(schema, keeps) } else { FieldType::Custom(schema, keeps) }
}
