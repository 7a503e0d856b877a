//! The rules of single keywords of a schema, and of the values and expressions in it.

use std::collections::BTreeSet;

use api::field::{Error, ErrorKind, Path};
use api::json;
use serde_json::Value;

use super::super::prune::prune_part;
use super::super::schema::{Schema, Type};
use super::structural;

/// Keywords that a schema may not have.
const NOT_SUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks the schema of a version.
pub(super) fn check_root(schema: &Value, has_status: bool, path: &Path, errors: &mut Vec<Error>) {
    if json::boolean(schema, &["nullable"]) == Some(true) {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    if has_status
        && let Some(key) = ["allOf", "anyOf", "oneOf", "not", "default"].iter().find(|key| json::get(schema, key).is_some())
    {
        let detail = format!("{key} is not allowed at the root of the schema if the status subresource is enabled");
        errors.push(Error::new(path, ErrorKind::Invalid, detail));
    }
    let before = errors.len();
    structural::check(schema, path, errors);
    each(schema, Place { root: true, ..Place::default() }, path, errors);
    if errors.len() > before {
        return;
    }
    // Values can be judged only by a schema that is good itself.
    match Schema::compile_at(schema, path) {
        Err(more) => errors.extend(more),
        Ok(compiled) => defaults(&compiled, schema, path, errors),
    }
}

/// What matters about where a schema stands.
#[derive(Clone, Copy, Default)]
struct Place {
    root: bool,
    /// Inside `apiVersion`, `kind` or `metadata` at the root: defaults are not for them.
    in_root_meta: bool,
}

fn each(schema: &Value, place: Place, path: &Path, errors: &mut Vec<Error>) {
    let kind = json::text(schema, &["type"]);
    if !kind.is_empty() && Type::from_name(kind).is_none() {
        if kind == "null" {
            errors.push(Error::forbidden(&path.child("type"), "type cannot be set to null, use nullable as an alternative"));
        } else {
            errors.push(Error::not_supported(&path.child("type"), kind, &Type::NAMES));
        }
    }
    for key in NOT_SUPPORTED.iter().filter(|key| json::get(schema, key).is_some()) {
        errors.push(Error::forbidden(&path.child(key), format!("{key} is not supported")));
    }
    if json::get(schema, "items").is_some_and(Value::is_array) {
        errors.push(Error::forbidden(&path.child("items"), "items must be a schema object and not an array"));
    }
    if json::boolean(schema, &["uniqueItems"]) == Some(true) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), detail));
    }
    if place.in_root_meta && json::get(schema, "default").is_some() {
        errors.push(Error::forbidden(&path.child("default"), "must not be set in top-level metadata"));
    }
    let has_properties = json::object(schema, &["properties"]).is_some_and(|properties| !properties.is_empty());
    if has_properties && json::get(schema, "additionalProperties").is_some_and(|additional| additional != &Value::Bool(true)) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(Error::forbidden(&path.child("additionalProperties"), detail));
    }
    list_type(schema, kind, path, errors);
    map_type(schema, kind, path, errors);
    expressions(schema, path, errors);
    below(schema, place, path, errors);
}

fn below(schema: &Value, place: Place, path: &Path, errors: &mut Vec<Error>) {
    let inner = Place { root: false, ..place };
    for (name, property) in json::object(schema, &["properties"]).into_iter().flatten() {
        let meta = place.root && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
        let place = Place { in_root_meta: inner.in_root_meta || meta, ..inner };
        each(property, place, &path.child("properties").key(name), errors);
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(child) = json::get(schema, key).filter(|child| child.is_object()) {
            each(child, inner, &path.child(key), errors);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, child) in json::items(schema, &[key]).iter().enumerate() {
            each(child, inner, &path.child(key).index(index), errors);
        }
    }
}

fn must_be(kind: &str, expected: &str, keyword: &str, path: &Path, errors: &mut Vec<Error>) {
    let detail = format!("must be {expected} if {keyword} is specified");
    match kind {
        _ if kind == expected => {}
        "" => errors.push(Error::required(&path.child("type"), detail)),
        other => errors.push(Error::invalid(&path.child("type"), other, detail)),
    }
}

fn map_type(schema: &Value, kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let Some(map_type) = json::get(schema, "x-kubernetes-map-type") else { return };
    must_be(kind, "object", "x-kubernetes-map-type", path, errors);
    if !matches!(map_type.as_str(), Some("atomic" | "granular")) {
        errors.push(Error::not_supported(&path.child("x-kubernetes-map-type"), map_type.clone(), &["atomic", "granular"]));
    }
}

fn list_type(schema: &Value, kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let type_path = path.child("x-kubernetes-list-type");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let keys = json::items(schema, &["x-kubernetes-list-map-keys"]);
    let list_type = json::get(schema, "x-kubernetes-list-type").map(|list_type| list_type.as_str().unwrap_or_default());
    let Some(list_type) = list_type else {
        if !keys.is_empty() {
            errors.push(Error::required(&type_path, "must be map if x-kubernetes-list-map-keys is non-empty"));
        }
        return;
    };
    must_be(kind, "array", "x-kubernetes-list-type", path, errors);
    let items = json::get(schema, "items").unwrap_or(&Value::Null);
    let items_path = path.child("items");
    if matches!(list_type, "set" | "map") && json::boolean(items, &["nullable"]) == Some(true) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&items_path.child("nullable"), detail));
    }
    if list_type != "map" && !keys.is_empty() {
        errors.push(Error::invalid(&type_path, list_type, "must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    match list_type {
        "atomic" => {}
        "set" => set_items(items, &items_path, errors),
        "map" if keys.is_empty() => {
            errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
        }
        "map" => map_items(items, keys, &items_path, &keys_path, errors),
        other => errors.push(Error::not_supported(&type_path, other, &["atomic", "set", "map"])),
    }
}

/// Items of a set are compared whole, so they must be owned whole.
fn set_items(items: &Value, path: &Path, errors: &mut Vec<Error>) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (key, owned_whole) = match json::text(items, &["type"]) {
        "array" => ("x-kubernetes-list-type", matches!(json::text(items, &["x-kubernetes-list-type"]), "" | "atomic")),
        "object" => ("x-kubernetes-map-type", json::text(items, &["x-kubernetes-map-type"]) == "atomic"),
        _ => return,
    };
    if !owned_whole {
        errors.push(Error::invalid(&path.child(key), json::text(items, &[key]), detail));
    }
}

fn map_items(items: &Value, keys: &[Value], path: &Path, keys_path: &Path, errors: &mut Vec<Error>) {
    let kind = json::text(items, &["type"]);
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&path.child("type"), kind, detail));
        return;
    }
    let mut seen = BTreeSet::new();
    for key in keys.iter().map(|key| key.as_str().unwrap_or_default()) {
        if !seen.insert(key) {
            errors.push(Error::invalid(keys_path, keys, "must not contain duplicate entries"));
        }
        let Some(property) = json::at(items, &["properties", key]) else {
            errors.push(Error::invalid(keys_path, keys, "entries must all be names of item properties"));
            continue;
        };
        let path = path.child("properties").key(key);
        let kind = json::text(property, &["type"]);
        if matches!(kind, "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(Error::invalid(&path.child("type"), kind, detail));
        }
        let required = json::items(items, &["required"]).iter().any(|name| name.as_str() == Some(key));
        if !required && json::get(property, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&path.child("default"), detail));
        }
        if json::boolean(property, &["nullable"]) == Some(true) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&path.child("nullable"), detail));
        }
    }
}

fn expressions(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    for (index, item) in json::items(schema, &["x-kubernetes-validations"]).iter().enumerate() {
        let path = path.child("x-kubernetes-validations").index(index);
        let (rule, message) = (json::text(item, &["rule"]).trim(), json::text(item, &["message"]));
        if rule.is_empty() {
            errors.push(Error::required(&path.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(Error::invalid(&path.child("message"), message, "must be non-empty if specified"));
        } else if has_lines(message.trim()) {
            errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
        } else if has_lines(rule) && message.is_empty() {
            errors.push(Error::required(&path.child("message"), "message must be specified if rule contains line breaks"));
        }
        let reason = json::text(item, &["reason"]);
        if !reason.is_empty() && !REASONS.contains(&reason) {
            errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
        }
        let field = json::text(item, &["fieldPath"]);
        if has_lines(field) || (!field.is_empty() && !field.starts_with(['.', '['])) {
            errors.push(Error::invalid(&path.child("fieldPath"), field, "must be a valid path"));
        }
    }
}

/// Checks that every default is what the schema itself would accept.
fn defaults(compiled: &Schema, raw: &Value, path: &Path, errors: &mut Vec<Error>) {
    if !compiled.has_defaults() {
        return;
    }
    if let Some(default) = compiled.default_value() {
        let path = path.child("default");
        let mut value = default.clone();
        let unknown = prune_part(compiled, &mut value);
        if !unknown.is_empty() {
            let detail = format!("must not have unknown fields: {}", unknown.join(", "));
            errors.push(Error::invalid(&path, default.clone(), detail));
        }
        crate::default(compiled, &mut value);
        for error in crate::validate(compiled, &value, None) {
            let place = if error.path == "<nil>" { String::new() } else { format!("{}: ", error.path) };
            errors.push(Error::invalid(&path, default.clone(), format!("{place}{}", error.message())));
        }
    }
    for name in json::object(raw, &["properties"]).into_iter().flat_map(|properties| properties.keys()) {
        if let Some(child) = compiled.member(name) {
            defaults(child, &raw["properties"][name], &path.child("properties").key(name), errors);
        }
    }
    if let (Some(child), Some(raw)) = (compiled.items(), json::get(raw, "items")) {
        defaults(child, raw, &path.child("items"), errors);
    }
    if let (Some(child), Some(raw)) = (compiled.additional_schema(), json::get(raw, "additionalProperties")) {
        defaults(child, raw, &path.child("additionalProperties"), errors);
    }
}
