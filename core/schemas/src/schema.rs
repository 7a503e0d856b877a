//! A schema of custom resources, compiled once and used for every object.
//!
//! Compilation reads every keyword that means something to us, whatever JSON it is given, and reports what it cannot
//! read. Whether the schema is structural is asked elsewhere (`structural`); everything here works for any schema.
//! Invariant: a compiled schema cannot fail later, its expressions are compiled too.

use std::collections::BTreeMap;

use api::field::{Error, Path};
use regex::Regex;
use serde_json::{Map, Number, Value};

use super::cel;
use super::format;
use super::pattern;
use super::rules::Rule;

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

/// Reads keywords and collects what is wrong with them.
#[derive(Default)]
struct Compiler {
    errors: Vec<Error>,
    not_enforced: Vec<NotEnforced>,
}

impl Compiler {
    fn schema(&mut self, value: &Value, path: &Path) -> Schema {
        let Some(keywords) = value.as_object() else {
            self.errors.push(Error::type_invalid(path, value, "must be a schema"));
            return Schema::default();
        };
        let mut schema = Schema {
            kind: self.kind(keywords, path),
            int_or_string: self.flag(keywords, "x-kubernetes-int-or-string", path),
            preserve_unknown: self.flag(keywords, "x-kubernetes-preserve-unknown-fields", path),
            embedded: self.flag(keywords, "x-kubernetes-embedded-resource", path),
            nullable: self.flag(keywords, "nullable", path),
            properties: self.properties(keywords, path),
            additional: self.additional(keywords, path),
            items: self.child(keywords, "items", path),
            default: keywords.get("default").filter(|default| !default.is_null()).cloned(),
            list_type: self.list_type(keywords, path),
            atomic_map: self.text(keywords, "x-kubernetes-map-type", path) == Some("atomic"),
            limits: self.limits(keywords, path),
            rules: self.rules(keywords, path),
            all_of: self.children(keywords, "allOf", path),
            any_of: self.children(keywords, "anyOf", path),
            one_of: self.children(keywords, "oneOf", path),
            not: self.child(keywords, "not", path),
            has_defaults: false,
            has_rules: false,
            not_enforced: Vec::new(),
        };
        let below = || schema.properties.values().chain(schema.items()).chain(schema.additional_schema());
        let has_defaults = schema.default.is_some() || below().any(|child| child.has_defaults);
        let has_rules = !schema.rules.is_empty() || below().any(|child| child.has_rules);
        schema.has_defaults = has_defaults;
        schema.has_rules = has_rules;
        schema
    }

    fn kind(&mut self, keywords: &Map<String, Value>, path: &Path) -> Option<Type> {
        let name = self.text(keywords, "type", path).filter(|name| !name.is_empty())?;
        let kind = Type::from_name(name);
        if kind.is_none() {
            self.errors.push(Error::not_supported(&path.child("type"), name, &Type::NAMES));
        }
        kind
    }

    fn properties(&mut self, keywords: &Map<String, Value>, path: &Path) -> BTreeMap<String, Schema> {
        let Some(properties) = self.map(keywords, "properties", path) else { return BTreeMap::new() };
        let path = path.child("properties");
        properties.iter().map(|(name, schema)| (name.clone(), self.schema(schema, &path.key(name)))).collect()
    }

    fn additional(&mut self, keywords: &Map<String, Value>, path: &Path) -> Additional {
        match keywords.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Unknown,
            Some(Value::Bool(allowed)) => Additional::Any(*allowed),
            Some(schema) => Additional::Schema(Box::new(self.schema(schema, &path.child("additionalProperties")))),
        }
    }

    fn child(&mut self, keywords: &Map<String, Value>, key: &str, path: &Path) -> Option<Box<Schema>> {
        let value = keywords.get(key).filter(|value| !value.is_null())?;
        Some(Box::new(self.schema(value, &path.child(key))))
    }

    fn children(&mut self, keywords: &Map<String, Value>, key: &str, path: &Path) -> Vec<Schema> {
        let items = self.list(keywords, key, path);
        items.iter().enumerate().map(|(index, schema)| self.schema(schema, &path.child(key).index(index))).collect()
    }

    fn list_type(&mut self, keywords: &Map<String, Value>, path: &Path) -> ListType {
        match self.text(keywords, "x-kubernetes-list-type", path) {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(self.texts(keywords, "x-kubernetes-list-map-keys", path)),
            _ => ListType::Atomic,
        }
    }

    fn limits(&mut self, keywords: &Map<String, Value>, path: &Path) -> Limits {
        let pattern = self.text(keywords, "pattern", path).filter(|pattern| !pattern.is_empty()).and_then(|text| {
            let compiled = pattern::compile(text)
                .map_err(|why| {
                    let detail = format!("must be a valid regular expression, but isn't: {why}");
                    self.errors.push(Error::invalid(&path.child("pattern"), text, detail));
                })
                .ok()?;
            Some((text.to_owned(), compiled))
        });
        let format = self.text(keywords, "format", path).unwrap_or_default().to_owned();
        Limits {
            enumeration: keywords
                .contains_key("enum")
                .then(|| self.list(keywords, "enum", path).to_vec())
                .filter(|e| !e.is_empty()),
            pattern,
            format_check: format::of_text(&format),
            format,
            min_length: self.count(keywords, "minLength", path),
            max_length: self.count(keywords, "maxLength", path),
            minimum: self.number(keywords, "minimum", path),
            maximum: self.number(keywords, "maximum", path),
            exclusive_minimum: self.flag(keywords, "exclusiveMinimum", path),
            exclusive_maximum: self.flag(keywords, "exclusiveMaximum", path),
            multiple_of: self.number(keywords, "multipleOf", path),
            min_items: self.count(keywords, "minItems", path),
            max_items: self.count(keywords, "maxItems", path),
            min_properties: self.count(keywords, "minProperties", path),
            max_properties: self.count(keywords, "maxProperties", path),
            required: self.texts(keywords, "required", path),
        }
    }

    fn rules(&mut self, keywords: &Map<String, Value>, path: &Path) -> Vec<Rule> {
        let list = path.child("x-kubernetes-validations");
        let mut rules = Vec::new();
        for (index, item) in self.list(keywords, "x-kubernetes-validations", path).iter().enumerate() {
            match Rule::compile(item) {
                Ok((rule, message)) => {
                    rules.push(rule);
                    let path = list.index(index).child("messageExpression").to_string();
                    self.not_enforced.extend(message.map(|why| NotEnforced { path, why }));
                }
                Err(why) => self.not_enforced.push(NotEnforced { path: list.index(index).child("rule").to_string(), why }),
            }
        }
        rules
    }

    fn wrong<T>(&mut self, value: &Value, key: &str, path: &Path, expected: &str) -> Option<T> {
        self.errors.push(Error::type_invalid(&path.child(key), value, format!("must be {expected}")));
        None
    }

    fn text<'a>(&mut self, keywords: &'a Map<String, Value>, key: &str, path: &Path) -> Option<&'a str> {
        match keywords.get(key)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => self.wrong(other, key, path, "a string"),
        }
    }

    fn flag(&mut self, keywords: &Map<String, Value>, key: &str, path: &Path) -> bool {
        match keywords.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => self.wrong(other, key, path, "a boolean").unwrap_or(false),
        }
    }

    fn count(&mut self, keywords: &Map<String, Value>, key: &str, path: &Path) -> Option<u64> {
        match keywords.get(key)? {
            Value::Null => None,
            // A negative lower bound allows everything; a negative upper bound allows nothing, like zero.
            Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.as_u64().unwrap_or(0)),
            other => self.wrong(other, key, path, "an integer"),
        }
    }

    fn number(&mut self, keywords: &Map<String, Value>, key: &str, path: &Path) -> Option<Number> {
        match keywords.get(key)? {
            Value::Null => None,
            Value::Number(number) => Some(number.clone()),
            other => self.wrong(other, key, path, "a number"),
        }
    }

    fn map<'a>(&mut self, keywords: &'a Map<String, Value>, key: &str, path: &Path) -> Option<&'a Map<String, Value>> {
        match keywords.get(key)? {
            Value::Null => None,
            Value::Object(map) => Some(map),
            other => self.wrong(other, key, path, "an object"),
        }
    }

    fn list<'a>(&mut self, keywords: &'a Map<String, Value>, key: &str, path: &Path) -> &'a [Value] {
        match keywords.get(key) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(other) => self.wrong(other, key, path, "an array").unwrap_or_default(),
        }
    }

    fn texts(&mut self, keywords: &Map<String, Value>, key: &str, path: &Path) -> Vec<String> {
        let mut texts = Vec::new();
        for (index, item) in self.list(keywords, key, path).iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                other => self.errors.push(Error::type_invalid(&path.child(key).index(index), other, "must be a string")),
            }
        }
        texts
    }
}
