//! The types of the API: which fields a kind has, of which type, and how they lie on the wire.
//!
//! The model is data: `data/protobuf-fields.yaml` (the fields of Kubernetes with their protobuf numbers),
//! `data/more-fields.yaml` (what exists in JSON only, and how lists merge), `data/further-fields.yaml` (both of further
//! kinds, made by `testbed/fields`) and `data/descriptions.yaml` (what `kubectl explain` says). They are read once, at
//! first use. Everything
//! that must know types works from this one model: the protobuf decoder, strict decoding ([`check`]), OpenAPI.

mod check;
mod empty;
pub mod json;
mod load;
pub mod protobuf;

use std::sync::LazyLock;

pub use check::{BY_LINE, Checked, Misfit, check, check_metadata, strict_error, strict_findings};
pub use empty::drop_empty;

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A text.
    String,
    /// A truth value.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Double,
    /// Bytes, base64 in JSON.
    Bytes,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339 with six digits.
    MicroTime,
    /// An amount such as `500m` or `1Gi`.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// Any JSON value.
    Any,
    /// An object with known fields.
    Message(MessageId),
    /// A list.
    List(Box<Type>),
    /// An object with free keys.
    Map(Box<Type>),
    /// A JSON object reads as the first, anything else as the second.
    Either(Box<Type>, Box<Type>),
}

impl Type {
    /// Returns the message that an object of this type is.
    pub fn message(&self) -> Option<&'static Message> {
        match self {
            Type::Message(id) => Some(id.get()),
            _ => None,
        }
    }

    /// Returns the name that Go has for this type, for the texts of errors.
    fn go_name(&self) -> String {
        match self {
            Type::String => "string".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int32 => "int32".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::Double => "float64".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Time => "v1.Time".to_owned(),
            Type::MicroTime => "v1.MicroTime".to_owned(),
            Type::Quantity => "resource.Quantity".to_owned(),
            Type::IntOrString => "intstr.IntOrString".to_owned(),
            Type::Any => "interface {}".to_owned(),
            Type::Message(id) => format!("v1.{}", id.get().short_name()),
            Type::List(item) => format!("[]{}", item.go_name()),
            Type::Map(value) => format!("map[string]{}", value.go_name()),
            Type::Either(first, second) => format!("{} or {}", first.go_name(), second.go_name()),
        }
    }
}

/// Names a message of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(usize);

impl MessageId {
    /// Returns the message.
    pub fn get(self) -> &'static Message {
        &MODEL.messages[self.0]
    }
}

/// A field of a message.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// Whether it is a pointer: a zero value counts as set.
    pub optional: bool,
    /// How it merges.
    pub merge: Merge,
    /// What it means; may be empty.
    pub description: &'static str,
    /// Whether documents name it as required. Validation has the last word.
    pub required: bool,
}

/// How a list or map merges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// The key by which a strategic merge patch merges elements.
    pub key: Option<&'static str>,
    /// Whether a strategic merge patch may name the keys to keep.
    pub retain_keys: bool,
    /// What server-side apply does.
    pub apply: Apply,
}

/// How server-side apply sees a list or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// The model says nothing: lists are atomic, maps and objects granular.
    #[default]
    Unsaid,
    /// Elements are told apart by these fields.
    Map(Vec<&'static str>),
    /// Elements are values.
    Set,
    /// Replaced whole.
    Atomic,
}

/// An object type: its fields in JSON and on the wire.
#[derive(Debug)]
pub struct Message {
    name: &'static str,
    description: &'static str,
    /// In JSON, inlined messages included, sorted by name.
    fields: Vec<Field>,
    /// On the wire, sorted by number.
    wire: Vec<(u32, Slot)>,
    /// Whether it is a kind, so that `apiVersion` and `kind` belong to it.
    top: bool,
    /// Whether server-side apply replaces it whole.
    atomic: bool,
}

/// What a field number stands for.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// A field, by its place in `fields`.
    Field(usize),
    /// A message whose fields belong to this one in JSON.
    Inline(MessageId),
}

impl Message {
    /// Returns its name in the model, for example `PodSpec` or `events.Event`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the group that its name begins with: `events` for `events.Event`, empty for most.
    pub fn group(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(group, _)| group)
    }

    /// Returns whether it has a layout on the wire.
    pub fn has_wire(&self) -> bool {
        !self.wire.is_empty()
    }

    /// Returns its name without the group that tells it apart: `Event` for `events.Event`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Returns what it is; may be empty.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// Returns its fields in JSON, sorted by name; `apiVersion` and `kind` are not among them.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the field with this name in JSON.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|place| &self.fields[place])
    }

    /// Returns whether it is a kind, so that `apiVersion` and `kind` belong to it.
    pub fn is_kind(&self) -> bool {
        self.top
    }

    /// Returns whether server-side apply replaces it whole.
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    fn slot(&self, number: u32) -> Option<Slot> {
        self.wire.binary_search_by_key(&number, |(number, _)| *number).ok().map(|place| self.wire[place].1)
    }
}

#[derive(Debug)]
struct Model {
    messages: Vec<Message>,
    /// Sorted by name.
    names: Vec<(&'static str, MessageId)>,
    /// Sorted by `apiVersion`, then `kind`.
    kinds: Vec<(&'static str, &'static str, MessageId)>,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    load::load(&[
        include_str!("../data/protobuf-fields.yaml"),
        include_str!("../data/more-fields.yaml"),
        include_str!("../data/further-fields.yaml"),
        include_str!("../data/descriptions.yaml"),
    ])
    .expect("the model's own data is well formed; a test reads it")
});

/// Returns the message of a kind; `DeleteOptions` belongs to every group.
pub fn message_for(api_version: &str, kind: &str) -> Option<&'static Message> {
    let wanted = if kind == "DeleteOptions" { ("v1", kind) } else { (api_version, kind) };
    let place = MODEL.kinds.binary_search_by(|(version, kind, _)| (*version, *kind).cmp(&wanted)).ok()?;
    Some(MODEL.kinds[place].2.get())
}

/// Returns the message with this name in the model, for example `PodSpec`.
pub fn message(name: &str) -> Option<&'static Message> {
    let place = MODEL.names.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    Some(MODEL.names[place].1.get())
}

/// Returns the type of `metadata`, which custom resources have too.
pub fn object_meta() -> &'static Message {
    message("ObjectMeta").expect("the model has ObjectMeta")
}

/// Returns every kind as (`apiVersion`, `kind`, message).
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static Message)> {
    MODEL.kinds.iter().map(|(version, kind, id)| (*version, *kind, id.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_version_and_kind() {
        assert_eq!(message_for("apps/v1", "Deployment").unwrap().name(), "Deployment");
        assert_eq!(message_for("events.k8s.io/v1", "Event").unwrap().name(), "events.Event");
        assert_eq!(message_for("v1", "Event").unwrap().name(), "Event");
        assert_eq!(message_for("apps/v1", "DeleteOptions").unwrap().name(), "DeleteOptions");
        assert!(message_for("apps/v1", "Pod").is_none());
        assert!(message_for("v1", "PodSpec").is_none());
        assert!(message_for("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap().is_kind());
    }

    #[test]
    fn every_message_of_the_table_is_there() {
        let listed = include_str!("../data/protobuf-fields.yaml").split("\nmessages:").nth(1).unwrap();
        let names: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
            .filter(|n| !n.starts_with(' '))
            .collect();
        assert_eq!(names.len(), 221);
        assert!(names.iter().all(|name| message(name).is_some()));
    }

    #[test]
    fn inlined_fields_are_fields_of_the_parent() {
        let probe = message("Probe").unwrap();
        assert!(probe.field("httpGet").is_some());
        assert!(probe.field("+").is_none());
        assert_eq!(probe.field("periodMilliseconds").unwrap().kind, Type::Int32);
        assert!(message("Volume").unwrap().field("emptyDir").is_some());
        assert!(message("EphemeralContainer").unwrap().field("image").is_some());
    }

    #[test]
    fn merge_keys_come_with_the_fields() {
        let ports = &message("Container").unwrap().field("ports").unwrap().merge;
        assert_eq!(ports.key, Some("containerPort"));
        assert_eq!(ports.apply, Apply::Map(vec!["containerPort", "protocol"]));
        let volumes = &message("PodSpec").unwrap().field("volumes").unwrap().merge;
        assert!(volumes.retain_keys);
        assert_eq!(volumes.apply, Apply::Map(vec!["name"]));
        assert_eq!(message("EphemeralContainer").unwrap().field("env").unwrap().merge.key, Some("name"));
        assert_eq!(message("ObjectMeta").unwrap().field("finalizers").unwrap().merge.apply, Apply::Set);
        assert_eq!(message("PodSpec").unwrap().field("tolerations").unwrap().merge.apply, Apply::Atomic);
        assert_eq!(message("PodSpec").unwrap().field("nodeName").unwrap().merge, Merge::default());
    }
}
