//! Reads the keywords of a schema and collects what is wrong with them.

use std::collections::BTreeMap;

use api::field::{Error, Path};
use serde_json::{Map, Number, Value};

use super::{Additional, Limits, ListType, NotEnforced, Schema, Type};
use crate::rules::Rule;
use crate::{format, pattern};

/// Reads keywords and collects what is wrong with them.
#[derive(Default)]
pub(super) struct Compiler {
    pub(super) errors: Vec<Error>,
    pub(super) not_enforced: Vec<NotEnforced>,
}

impl Compiler {
    pub(super) fn schema(&mut self, value: &Value, path: &Path) -> Schema {
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
