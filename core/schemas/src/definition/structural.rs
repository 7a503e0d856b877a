//! What makes a schema structural: every value has a type, and conditions only narrow what has one.
//!
//! The structure of a schema is `type`, `properties`, `items` and `additionalProperties`, reached without passing through
//! `allOf`, `anyOf`, `oneOf` or `not`. Those may repeat parts of the structure to put conditions on them, but add nothing.

use api::field::{Error, Path};
use api::json;
use serde_json::{Value, json};

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks that a schema is structural.
pub(super) fn check(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    invariants(schema, Level::Root, path, errors);
    complete(schema, Some(schema), path, path, errors);
}

fn flag(schema: &Value, key: &str) -> bool {
    json::boolean(schema, &[key]).unwrap_or(false)
}

fn invariants(schema: &Value, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let kind = json::text(schema, &["type"]);
    match json::get(schema, "items") {
        Some(items) => invariants(items, Level::Item, &path.child("items"), errors),
        None if kind == "array" => errors.push(Error::required(&path.child("items"), "must be specified")),
        None => {}
    }
    for (name, property) in json::object(schema, &["properties"]).into_iter().flatten() {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    if let Some(additional) = json::get(schema, "additionalProperties") {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&path, "must not be used at the root"));
        }
        if flag(schema, "x-kubernetes-embedded-resource") {
            errors.push(Error::forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &path, errors);
        }
    }
    extensions(schema, path, errors);
    junctors(schema, path, is_int_or_string(schema), is_int_or_string(&schema["allOf"][0]), errors);
    type_is_stated(schema, kind, level, path, errors);
    resource_fields(schema, level, path, errors);
}

fn extensions(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    if flag(schema, "x-kubernetes-int-or-string") {
        for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(schema, key) {
                errors.push(Error::invalid(&path.child(key), true, "must be false if x-kubernetes-int-or-string is true"));
            }
        }
    }
    if json::boolean(schema, &["x-kubernetes-preserve-unknown-fields"]) == Some(false) {
        errors.push(Error::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined"));
    }
}

fn type_is_stated(schema: &Value, kind: &str, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let path = path.child("type");
    if flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "object" => {}
            "" => errors.push(Error::required(&path, detail)),
            other => errors.push(Error::invalid(&path, other, detail)),
        }
    } else if kind.is_empty() {
        let open = flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        if !open {
            errors.push(Error::required(&path, detail));
        }
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&path, kind, "must be object at the root"));
    }
}

/// Checks what a schema says about `apiVersion`, `kind` and `metadata`, which every resource has anyway.
fn resource_fields(schema: &Value, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    if level == Level::Root || embedded {
        for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
            if let Some(property) = json::at(schema, &["properties", name]) {
                let kind = json::text(property, &["type"]);
                if kind != expected {
                    let detail = format!("must be {expected}");
                    errors.push(Error::invalid(&properties.key(name).child("type"), kind, detail));
                }
            }
        }
    }
    if level == Level::Root
        && let Some(metadata) = json::object(schema, &["properties", "metadata"])
    {
        let only_names = json::object(schema, &["properties", "metadata", "properties"])
            .is_none_or(|properties| properties.keys().all(|name| name == "name" || name == "generateName"));
        let allowed = ["type", "properties", "default", "description"];
        if !only_names || !metadata.keys().all(|key| allowed.contains(&key.as_str())) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(Error::forbidden(&properties.key("metadata"), detail));
        }
    }
    let empty = json::object(schema, &["properties"]).is_none_or(|properties| properties.is_empty());
    if embedded && empty && !flag(schema, "x-kubernetes-preserve-unknown-fields") {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&properties, detail));
    }
}

/// Returns whether the alternatives are the ones that may state types: an integer or a string.
fn is_int_or_string(schema: &Value) -> bool {
    json::get(schema, "anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

/// Returns the schemas below `allOf`, `anyOf`, `oneOf` and `not`, with their paths.
fn nested<'a>(schema: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    let mut found = Vec::new();
    for key in ["allOf", "anyOf", "oneOf"] {
        let path = path.child(key);
        found.extend(json::items(schema, &[key]).iter().enumerate().map(|(index, part)| (part, path.index(index))));
    }
    found.extend(json::get(schema, "not").map(|not| (not, path.child("not"))));
    found
}

/// Checks the conditions of a schema; the two flags let `anyOf` pass here or in the first of `allOf`.
fn junctors(schema: &Value, path: &Path, skip_any_of: bool, skip_first_all_of: bool, errors: &mut Vec<Error>) {
    let any_of = path.child("anyOf").to_string();
    let first = path.child("allOf").index(0).to_string();
    for (part, path) in nested(schema, path) {
        if !(skip_any_of && path.to_string().starts_with(&any_of)) {
            condition(part, &path, skip_first_all_of && path.to_string() == first, errors);
        }
    }
}

/// Checks a schema below a junctor: it may only narrow.
fn condition(schema: &Value, path: &Path, skip_any_of: bool, errors: &mut Vec<Error>) {
    junctors(schema, path, skip_any_of, false, errors);
    if let Some(items) = json::get(schema, "items") {
        condition(items, &path.child("items"), false, errors);
    }
    for (name, property) in json::object(schema, &["properties"]).into_iter().flatten() {
        let path = path.child("properties").key(name);
        if name == "metadata" {
            errors.push(Error::forbidden(&path, "must not be specified in a nested context"));
        }
        condition(property, &path, false, errors);
    }
    for (key, what) in [
        ("type", "empty"),
        ("title", "empty"),
        ("description", "empty"),
        ("default", "undefined"),
        ("additionalProperties", "undefined"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        let stated = json::get(schema, key).is_some_and(|value| match what {
            "false" => value == &Value::Bool(true),
            "empty" => value.as_str() != Some("") && value.as_array().is_none_or(|items| !items.is_empty()),
            _ => true,
        });
        if stated {
            errors.push(Error::forbidden(&path.child(key), format!("must be {what} to be structural")));
        }
    }
}

/// Checks that everything a condition at the root names is part of the structure.
///
/// Conditions further inside may name more, as in Kubernetes: what they name and nobody has is pruned before they ask.
fn complete(conditions: &Value, structure: Option<&Value>, path: &Path, at: &Path, errors: &mut Vec<Error>) {
    for (part, at) in nested(conditions, at) {
        complete_part(part, structure, path, &at, errors);
    }
}

fn complete_part(part: &Value, structure: Option<&Value>, path: &Path, at: &Path, errors: &mut Vec<Error>) {
    let Some(structure) = structure else {
        errors.push(Error::required(path, format!("because it is defined in {at}")));
        return;
    };
    complete(part, Some(structure), path, at, errors);
    if let Some(items) = json::get(part, "items") {
        complete_part(items, json::get(structure, "items"), &path.child("items"), &at.child("items"), errors);
    }
    for (name, property) in json::object(part, &["properties"]).into_iter().flatten() {
        let found = json::at(structure, &["properties", name]);
        complete_part(property, found, &path.child("properties").key(name), &at.child("properties").key(name), errors);
    }
}
