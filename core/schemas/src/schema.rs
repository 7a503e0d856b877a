//! A schema of custom resources, compiled once and used for every object.
//!
//! Compilation reads every keyword that means something to us, whatever JSON it is given, and reports what it cannot
//! read. Whether the schema is structural is asked elsewhere (`structural`); everything here works for any schema.
//! Invariant: a compiled schema cannot fail later, its expressions are compiled too.

mod compile;

use std::collections::BTreeMap;

use api::field::{Error, Path};
use regex::Regex;
use serde_json::{Number, Value};

use super::cel;
use super::format;
use super::rules::Rule;
use compile::Compiler;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `array`
    Array,
    /// `boolean`
    Boolean,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `object`
    Object,
    /// `string`
    String,
}

impl Type {
    /// The names of all types, as messages list them.
    pub const NAMES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

    /// Returns the type of that name.
    pub fn from_name(name: &str) -> Option<Type> {
        [Type::Array, Type::Boolean, Type::Integer, Type::Number, Type::Object, Type::String]
            .into_iter()
            .find(|t| t.name() == name)
    }

    /// Returns the name, for example `object`.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Array => "array",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Object => "object",
            Type::String => "string",
        }
    }
}

/// How a list is owned and merged: `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// As a whole.
    #[default]
    Atomic,
    /// Item by item, each at most once.
    Set,
    /// Item by item, told apart by these members.
    Map(Vec<String>),
}

/// What members of an object that are not in `properties` may be.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Nothing is said: they are unknown.
    #[default]
    Unknown,
    /// Anything may be there (`true`), or nothing (`false`).
    Any(bool),
    /// Each must be this.
    Schema(Box<Schema>),
}

/// An expression of a schema that we cannot evaluate; clients must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotEnforced {
    /// The path of the expression in the schema.
    pub path: String,
    /// Why it cannot be evaluated.
    pub why: cel::NotSupported,
}

/// A text for the `Warning` header.
impl std::fmt::Display for NotEnforced {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: the expression {:?} is not enforced: {}", self.path, self.why.expression, self.why.reason)
    }
}

/// A compiled schema.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(super) kind: Option<Type>,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) nullable: bool,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Schema>>,
    pub(super) default: Option<Value>,
    pub(super) list_type: ListType,
    pub(super) atomic_map: bool,
    pub(super) limits: Limits,
    pub(super) rules: Vec<Rule>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    /// Whether a default is here or below, so that a walk may stop.
    pub(super) has_defaults: bool,
    /// Whether a rule is here or below.
    pub(super) has_rules: bool,
    not_enforced: Vec<NotEnforced>,
}

/// What a value must fulfil besides its type.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub(super) enumeration: Option<Vec<Value>>,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) format: String,
    pub(super) format_check: Option<format::Check>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) exclusive_minimum: bool,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<Number>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) required: Vec<String>,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`; the errors name the keywords that cannot be read, below `openAPIV3Schema`.
    pub fn compile(schema: &Value) -> Result<Schema, Vec<Error>> {
        Schema::compile_at(schema, &Path::new("openAPIV3Schema"))
    }

    /// Compiles a schema that stands at `path`.
    pub fn compile_at(schema: &Value, path: &Path) -> Result<Schema, Vec<Error>> {
        let mut compiler = Compiler::default();
        let mut compiled = compiler.schema(schema, path);
        compiled.not_enforced = compiler.not_enforced;
        if compiler.errors.is_empty() { Ok(compiled) } else { Err(compiler.errors) }
    }

    /// Returns the expressions that are not enforced; kept at the root of the schema only.
    pub fn not_enforced(&self) -> &[NotEnforced] {
        &self.not_enforced
    }

    /// Returns the type, if one is stated.
    pub fn kind(&self) -> Option<Type> {
        self.kind
    }

    /// Returns the schema of a member: of a property, else of every member if it is a map.
    pub fn member(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    /// Returns the schema of a property.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name)
    }

    /// Returns whether no property is stated.
    pub fn has_no_properties(&self) -> bool {
        self.properties.is_empty()
    }

    /// Returns what members that are no property may be.
    pub fn additional(&self) -> &Additional {
        &self.additional
    }

    /// Returns whether it is an object with its own `apiVersion`, `kind` and `metadata`.
    pub fn is_embedded(&self) -> bool {
        self.embedded
    }

    /// Returns the format of a text; may be empty.
    pub fn format(&self) -> &str {
        &self.limits.format
    }

    /// Returns the schema of every member of a map.
    pub fn additional_schema(&self) -> Option<&Schema> {
        match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Unknown | Additional::Any(_) => None,
        }
    }

    /// Returns the schema of the items of a list.
    pub fn items(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// Returns how a list is owned and merged.
    pub fn list_type(&self) -> &ListType {
        &self.list_type
    }

    /// Returns whether an object is owned and merged as a whole (`x-kubernetes-map-type: atomic`).
    pub fn is_atomic_map(&self) -> bool {
        self.atomic_map
    }

    /// Returns whether unknown members are kept.
    pub fn preserves_unknown(&self) -> bool {
        self.preserve_unknown
    }

    /// Returns whether defaulting can change anything; if not, reads may skip it.
    pub fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// Returns the default value of this place, if there is one.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }
}
