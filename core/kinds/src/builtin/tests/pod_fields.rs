//! No field of a pod is silently ignored: the type model against the table of what becomes of fields.

use api::process_rules::{FIELDS, Treatment, When, table};

use super::*;
use crate::model::{self, Field, Type};

/// Returns the fields of an object type by their paths, down to the entries of the table; `initContainers` are containers.
fn walk(message: &model::Message, at: &str, missing: &mut Vec<String>, used: &mut Vec<&'static str>) {
    for field in message.fields() {
        let name = if field.name == "initContainers" { "containers" } else { field.name };
        let path = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        let exact = FIELDS.iter().find(|(entry, _)| *entry == path);
        let deeper =
            FIELDS.iter().any(|(entry, _)| entry.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.')));
        match (exact, deeper, message_of(&field.kind)) {
            (Some((entry, _)), false, _) => used.push(*entry),
            (None, true, Some(inner)) => walk(inner, &path, missing, used),
            _ => missing.push(path),
        }
    }
}

/// Returns the message that a field holds, also one by one.
fn message_of(kind: &Type) -> Option<&'static model::Message> {
    match kind {
        Type::List(item) => item.message(),
        kind => kind.message(),
    }
}

#[test]
fn every_field_of_a_pod_has_an_entry_and_every_entry_a_field() {
    let spec = model::message("PodSpec").unwrap();
    let (mut missing, mut used) = (Vec::new(), Vec::new());
    walk(spec, "", &mut missing, &mut used);
    assert_eq!(missing, Vec::<String>::new(), "fields of which nobody says what becomes of them");
    used.sort_unstable();
    used.dedup();
    let entries: Vec<&str> = FIELDS.iter().map(|(entry, _)| *entry).collect();
    assert_eq!(used, entries, "sorted, each once, and each a field");
}

/// Returns a value of a type in which something is set everywhere.
fn sample(kind: &Type, depth: usize) -> Value {
    match kind {
        Type::Bool => true.into(),
        Type::Int32 | Type::Int64 | Type::Double | Type::IntOrString => 7.into(),
        Type::Quantity => "1".into(),
        Type::List(item) => json!([sample(item, depth)]),
        Type::Map(value) => json!({"key": sample(value, depth)}),
        Type::Message(_) if depth == 0 => json!({"name": "x"}),
        Type::Message(id) => {
            let fields = id.get().fields().iter();
            fields
                .map(|field| (field.name.to_owned(), sample(&field.kind, depth - 1)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        _ => "x".into(),
    }
}

/// Returns a pod spec in which one field is set.
fn with(path: &str, when: When) -> Value {
    fn set(message: &model::Message, path: &str, when: When) -> Value {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let field: &Field = message.field(name).unwrap();
        let value = match rest {
            None if when == When::False => false.into(),
            None => sample(&field.kind, 2),
            Some(rest) => {
                let inner = set(message_of(&field.kind).unwrap(), rest, when);
                if matches!(field.kind, Type::List(_)) { json!([inner]) } else { inner }
            }
        };
        json!({ name: value })
    }
    set(model::message("PodSpec").unwrap(), path, when)
}

#[test]
fn every_field_that_is_not_honoured_is_told_in_the_answer() {
    for (path, treatment) in FIELDS {
        let (when, warned) = match treatment {
            Treatment::Honoured(_) | Treatment::Needs(_) => (When::Set, false),
            Treatment::Warned(when, _) | Treatment::Refused(when, _) | Treatment::Confines(when) => (*when, true),
            Treatment::Unsupported(_) | Treatment::Mounted => (When::Set, true),
        };
        let pod = json!({"metadata": {"name": "p"}, "spec": with(path, when)});
        let warnings = warnings(Builtin::Pod, &pod, None, &context());
        // Indices aside, and a container says what does not confine it in one line.
        let plain = |text: &str| text.replace("[0]", "");
        let last = path.rsplit("securityContext.").next().unwrap_or(path);
        let confinement =
            |text: &str| text.contains("not confined by") && last.starts_with(text.rsplit("confined by ").next().unwrap());
        let names = |text: &String| plain(text).starts_with(&format!("spec.{path}: ")) || confinement(text);
        let needs_container = matches!(treatment, Treatment::Confines(_)) && !path.starts_with("containers");
        if !needs_container {
            assert_eq!(warnings.iter().any(names), warned, "{path}: {warnings:?}");
        }
    }
}

#[test]
fn the_document_has_the_table() {
    let document = include_str!("../../../../../docs/pods.md");
    assert!(document.contains(&table()), "put this table into docs/pods.md:\n{}", table());
}
