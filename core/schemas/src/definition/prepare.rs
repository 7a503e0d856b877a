//! What is filled into a definition before it is validated, and how its conditions change.

use api::{Timestamp, json};
use machine::Time;
use serde_json::{Map, Value, json};

use super::CLEANUP_FINALIZER;

/// Fills in names, the conversion strategy and the stored versions.
///
/// Stored versions only grow: a version that objects may still be stored in stays until someone has migrated them.
pub fn default_definition(crd: &mut Value) {
    let kind = json::text(crd, &["spec", "names", "kind"]).to_owned();
    if !kind.is_empty() {
        let names = json::object_mut(crd, &["spec", "names"]);
        fill(names, "singular", kind.to_lowercase());
        fill(names, "listKind", format!("{kind}List"));
    }
    if json::text(crd, &["spec", "conversion", "strategy"]).is_empty() {
        json::object_mut(crd, &["spec", "conversion"]).insert("strategy".to_owned(), "None".into());
    }
    let storage: Vec<String> = json::items(crd, &["spec", "versions"])
        .iter()
        .filter(|version| json::boolean(version, &["storage"]) == Some(true))
        .map(|version| json::text(version, &["name"]).to_owned())
        .collect();
    let status = json::object_mut(crd, &["status"]);
    status.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
    status.entry("conditions").or_insert_with(|| json!([]));
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Value::Array(stored) = stored {
        for version in storage {
            if !stored.iter().any(|known| known.as_str() == Some(&version)) {
                stored.push(version.into());
            }
        }
    }
}

fn fill(members: &mut Map<String, Value>, name: &str, value: String) {
    if members.get(name).is_none_or(|old| old.is_null() || old.as_str() == Some("")) {
        members.insert(name.to_owned(), value.into());
    }
}

/// Makes a definition that is being deleted wait for its objects, and says so.
pub fn begin_deletion(crd: &mut Value, now: Time) {
    let finalizers = json::object_mut(crd, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|known| known.as_str() == Some(CLEANUP_FINALIZER))
    {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    json::object_mut(crd, &["status"]);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut crd["status"], "Terminating", true, "InstanceDeletionPending", message, now);
}

/// Sets a condition in a status; the time of transition changes only with the condition's status.
pub fn set_condition(status: &mut Value, kind: &str, truth: bool, reason: &str, message: &str, now: Time) {
    let truth = if truth { "True" } else { "False" };
    let mut condition = json!({
        "type": kind, "status": truth, "reason": reason, "message": message,
        "lastTransitionTime": Timestamp(now).to_string(),
    });
    let conditions = json::object_mut(status, &[]).entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    match conditions.iter_mut().find(|other| json::text(other, &["type"]) == kind) {
        Some(old) => {
            if json::text(old, &["status"]) == truth
                && let Some(since) = json::get(old, "lastTransitionTime")
            {
                condition["lastTransitionTime"] = since.clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}
