//! A namespace that goes: what is still in it, and what its conditions say of that.

use std::sync::Arc;

use api::json;
use machine::Time;
use serde_json::{Value, json};

use crate::kind::ServedKind;
use crate::state::{Snapshot, Stored};

/// How many objects a condition names.
const NAMED: usize = 5;

/// An object in a namespace.
pub type Content = (Arc<ServedKind>, Arc<Stored>);

/// Returns what is in a namespace.
pub fn contents(kinds: &[Arc<ServedKind>], snapshot: &Snapshot, name: &str) -> Vec<Content> {
    let stored_once =
        kinds.iter().filter(|kind| kind.resource.namespaced && kind.resource.group == kind.resource.storage_group);
    let mut found: Vec<Content> = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for kind in stored_once {
        let resource = (kind.resource.group.as_str(), kind.resource.plural.as_str());
        if seen.contains(&resource) {
            continue; // another version of the same objects
        }
        seen.push(resource);
        let prefix = kind.resource.prefix(name);
        found.extend(snapshot.range(&prefix, None).map(|(_, stored)| (Arc::clone(kind), Arc::clone(stored))));
    }
    found
}

/// Says in the conditions of a namespace what it still waits for: the usual question about one that will not go. A condition
/// that stays as it was keeps its time.
pub fn report(namespace: &mut Value, left: &[Content], now: Time) {
    let before = json::items(namespace, &["status", "conditions"]).to_vec();
    let kept = |mut new: Value| {
        let same = |old: &&Value| old["type"] == new["type"] && old["status"] == new["status"];
        if let Some(old) = before.iter().find(same) {
            new["lastTransitionTime"] = old["lastTransitionTime"].clone();
        }
        new
    };
    let next: Vec<Value> = conditions(left, now).into_iter().map(kept).collect();
    json::object_mut(namespace, &["status"]).insert("conditions".to_owned(), next.into());
}

/// Types, reasons and order are those of Kubernetes.
fn conditions(left: &[Content], now: Time) -> [Value; 3] {
    let now = api::Timestamp(now).to_string();
    let named = |(kind, stored): &Content| format!("{}/{}", kind.resource.subject("").qualified(), stored.index.name);
    let objects: Vec<String> = left.iter().take(NAMED).map(named).collect();
    let held: Vec<String> = left
        .iter()
        .filter(|(_, stored)| !stored.index.finalizers.is_empty())
        .take(NAMED)
        .map(|entry| format!("{} [{}]", named(entry), entry.1.index.finalizers.join(" ")))
        .collect();
    let more = if left.len() > NAMED { format!(" and {} more", left.len() - NAMED) } else { String::new() };
    let condition = |type_: &str, status: bool, reason: &str, message: String| {
        let status = if status { "True" } else { "False" };
        json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
    };
    let deleted = "All content successfully deleted, may be waiting on finalization".to_owned();
    let remain = format!("{} objects remain: {}{more}", left.len(), objects.join(", "));
    let finalizers = if held.is_empty() { "ContentHasNoFinalizers" } else { "SomeFinalizersRemain" };
    let holding = format!("objects with finalizers: {}", held.join(", "));
    [
        condition("NamespaceDeletionContentFailure", false, "ContentDeleted", deleted),
        condition("NamespaceContentRemaining", true, "SomeResourcesRemain", remain),
        condition("NamespaceFinalizersRemaining", !held.is_empty(), finalizers, holding),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Expect, RegistryState, WindowLimits, Write, key};

    fn world(count: usize, finalizers: &Value) -> (Vec<Arc<ServedKind>>, Snapshot) {
        let kinds = kinds::resource::builtins().into_iter().map(|resource| Arc::new(ServedKind::builtin_kind(resource)));
        let state = RegistryState::restore(0, Vec::new(), 0, Vec::new(), WindowLimits::default());
        let put = |resource: &str, name: String| {
            let object = json!({"metadata": {"name": name, "namespace": "n", "finalizers": finalizers}});
            Write::put(key("", resource, "n", &name), Expect::Absent, object)
        };
        let mut writes: Vec<Write> = (0..count).map(|number| put("configmaps", format!("c{number}"))).collect();
        // Events are served in two groups and stored once.
        writes.push(put("events", "e".to_owned()));
        (kinds.collect(), state.snapshot().stage(Time::from_secs(1), writes).into_parts().0)
    }

    fn text<'a>(namespace: &'a Value, place: usize, field: &str) -> &'a str {
        namespace["status"]["conditions"][place][field].as_str().unwrap()
    }

    #[test]
    fn a_namespace_says_what_it_waits_for() {
        let (kinds, snapshot) = world(6, &json!(["example.com/hold"]));
        let left = contents(&kinds, &snapshot, "n");
        assert_eq!(left.len(), 7, "an event counts once");
        assert!(contents(&kinds, &snapshot, "other").is_empty());
        let mut namespace = json!({});
        report(&mut namespace, &left, Time::from_secs(1));
        assert_eq!(text(&namespace, 1, "reason"), "SomeResourcesRemain");
        assert!(text(&namespace, 1, "message").starts_with("7 objects remain: configmaps/c0, "), "{namespace}");
        assert!(text(&namespace, 1, "message").ends_with(" and 2 more"), "{namespace}");
        assert_eq!((text(&namespace, 2, "status"), text(&namespace, 2, "reason")), ("True", "SomeFinalizersRemain"));
        assert!(text(&namespace, 2, "message").contains("configmaps/c0 [example.com/hold]"), "{namespace}");
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let (kinds, snapshot) = world(1, &json!(["example.com/hold"]));
        let held = contents(&kinds, &snapshot, "n");
        let (kinds, snapshot) = world(1, &json!([]));
        let free = contents(&kinds, &snapshot, "n");
        let mut namespace = json!({});
        report(&mut namespace, &held, Time::from_secs(1));
        report(&mut namespace, &free, Time::from_secs(60));
        let at = |place| text(&namespace, place, "lastTransitionTime");
        assert_eq!((at(1), at(2)), ("1970-01-01T00:00:01Z", "1970-01-01T00:01:00Z"));
        assert_eq!(text(&namespace, 2, "reason"), "ContentHasNoFinalizers");
    }
}
