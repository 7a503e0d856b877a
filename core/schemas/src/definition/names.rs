//! Which names of a definition are accepted: no two resources of a group share one.

use std::collections::BTreeSet;

use api::json;
use machine::Time;
use serde_json::{Value, json};

use super::{condition_is_true, set_condition, texts};
use kinds::resource::Resource;

/// The names that are taken in a group.
#[derive(Default)]
struct Taken {
    /// Plurals, singulars and short names: one name space.
    resources: BTreeSet<String>,
    /// Kinds and list kinds: another.
    kinds: BTreeSet<String>,
}

/// Returns the status of a definition with its names accepted or refused.
///
/// `others` are all other definitions, `built_in` the resources that are served without one; only those of the same group
/// matter. A definition is established as soon as all its names are accepted, and stays so.
pub fn accept_names<'a>(crd: &Value, others: impl IntoIterator<Item = &'a Value>, built_in: &[&Resource], now: Time) -> Value {
    let group = json::text(crd, &["spec", "group"]);
    let taken = taken(group, json::text(crd, &["metadata", "name"]), others, built_in);
    let mut conflict: Option<(&str, String)> = None;
    let mut accepted = json::at(crd, &["status", "acceptedNames"]).cloned().unwrap_or_else(|| json!({}));
    let names = json::at(crd, &["spec", "names"]).cloned().unwrap_or_else(|| json!({}));

    for (key, used, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        let already = wanted(&accepted, key);
        let clashes: Vec<String> = wanted(&names, key)
            .into_iter()
            .filter(|name| used.contains(name) && !already.contains(name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match clashes.as_slice() {
            [] => copy(&names, &mut accepted, key),
            [one] => conflict = Some((reason, one.clone())),
            many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    copy(&names, &mut accepted, "categories");
    for key in ["plural", "kind"] {
        if accepted[key].is_null() {
            accepted[key] = "".into();
        }
    }

    let mut status = json::at(crd, &["status"]).cloned().unwrap_or_else(|| json!({}));
    status["acceptedNames"] = accepted;
    let good = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    set_condition(&mut status, "NamesAccepted", good, reason, &message, now);
    if good && !condition_is_true(crd, "Established") {
        set_condition(&mut status, "Established", true, "InitialNamesAccepted", "the initial names have been accepted", now);
    } else if !condition_is_true(crd, "Established") {
        set_condition(&mut status, "Established", false, "NotAccepted", "not all names are accepted", now);
    }
    status
}

/// Returns one name, or all of a list of names; empty ones are none.
fn wanted(names: &Value, key: &str) -> Vec<String> {
    match json::get(names, key) {
        Some(Value::String(name)) if !name.is_empty() => vec![name.clone()],
        Some(Value::Array(_)) => texts(names, &[key]),
        _ => Vec::new(),
    }
}

fn copy(from: &Value, to: &mut Value, key: &str) {
    let members = json::object_mut(to, &[]);
    match json::get(from, key) {
        Some(value) => drop(members.insert(key.to_owned(), value.clone())),
        None => drop(members.remove(key)),
    }
}

fn taken<'a>(group: &str, name: &str, others: impl IntoIterator<Item = &'a Value>, built_in: &[&Resource]) -> Taken {
    let mut taken = Taken::default();
    for other in others {
        if json::text(other, &["spec", "group"]) != group || json::text(other, &["metadata", "name"]) == name {
            continue;
        }
        let names = json::at(other, &["status", "acceptedNames"]).unwrap_or(&Value::Null);
        for key in ["plural", "singular", "shortNames"] {
            taken.resources.extend(wanted(names, key));
        }
        for key in ["kind", "listKind"] {
            taken.kinds.extend(wanted(names, key));
        }
    }
    for resource in built_in.iter().filter(|resource| resource.group == group) {
        taken.resources.extend([resource.plural.clone(), resource.singular.clone()]);
        taken.resources.extend(resource.short_names.iter().cloned());
        taken.kinds.extend([resource.kind.clone(), resource.list_kind.clone()]);
    }
    taken
}
