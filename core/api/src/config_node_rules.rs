//! Validation of the Node of `config.openshift.io/v1`.
//!
//! A write of the object itself does not look at `status`, a write of the status does not look at `spec`: each endpoint
//! stores only its own half. Fields of the shipped API that we do not know are accepted.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config_node::{CONDITION_STATUSES, CONDITION_TYPES, NAME, OWNERS, PROFILES};
use crate::field::{Error, Path};
use crate::json;

/// Returns everything that is wrong with a create or update of the object.
pub fn validate(object: &Value) -> Vec<Error> {
    let mut errors = validate_name(object);
    let path = Path::new("spec");
    match json::get(object, "spec") {
        None => errors.push(Error::required(&path, "")),
        Some(spec) => {
            let profile = json::text(spec, &["workerLatencyProfile"]);
            if !profile.is_empty() && !PROFILES.contains(&profile) {
                errors.push(Error::not_supported(&path.child("workerLatencyProfile"), profile, &PROFILES));
            }
        }
    }
    errors
}

/// Returns everything that is wrong with a write of the status.
pub fn validate_status(object: &Value) -> Vec<Error> {
    let mut errors = validate_name(object);
    let path = Path::new("status.workerLatencyProfileStatus");
    let mut seen = BTreeSet::new();
    for (index, condition) in json::items(object, &["status", "workerLatencyProfileStatus", "conditions"]).iter().enumerate() {
        let path = path.child("conditions").index(index);
        errors.extend(validate_condition(&path, condition));
        // The enhancement merges by type alone, and three owners would overwrite each other; the key is the pair.
        let key = (json::text(condition, &["owner"]), json::text(condition, &["type"]));
        if !key.0.is_empty() && !key.1.is_empty() && !seen.insert(key) {
            errors.push(Error::duplicate(&path, format!("{}/{}", key.0, key.1)));
        }
    }
    for (index, related) in json::items(object, &["status", "workerLatencyProfileStatus", "relatedObjects"]).iter().enumerate()
    {
        errors.extend(validate_related(&path.child("relatedObjects").index(index), related));
    }
    errors
}

fn validate_name(object: &Value) -> Vec<Error> {
    match json::text(object, &["metadata", "name"]) {
        NAME => Vec::new(),
        name => vec![Error::invalid(&Path::new("metadata.name"), name, format!("must be {NAME:?}: there is only one"))],
    }
}

fn validate_condition(path: &Path, condition: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    for (field, supported) in [("owner", &OWNERS), ("type", &CONDITION_TYPES), ("status", &CONDITION_STATUSES)] {
        match json::text(condition, &[field]) {
            "" => errors.push(Error::required(&path.child(field), "")),
            known if supported.contains(&known) => {}
            other => errors.push(Error::not_supported(&path.child(field), other, supported)),
        }
    }
    if json::text(condition, &["lastTransitionTime"]).is_empty() {
        errors.push(Error::required(&path.child("lastTransitionTime"), ""));
    }
    errors
}

fn validate_related(path: &Path, related: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    // The core group has an empty name, so only its absence is an error.
    if json::get(related, "group").and_then(Value::as_str).is_none() {
        errors.push(Error::required(&path.child("group"), ""));
    }
    for field in ["resource", "name"] {
        if json::text(related, &[field]).is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn causes(errors: &[Error]) -> Vec<(String, &'static str)> {
        errors.iter().map(|error| (error.path.clone(), error.kind.name())).collect()
    }

    #[test]
    fn each_endpoint_looks_at_its_own_half() {
        let bad_status = json!({"metadata": {"name": "cluster"}, "spec": {},
            "status": {"workerLatencyProfileStatus": {"conditions": [{}]}}});
        assert_eq!(causes(&validate(&bad_status)), []);
        let bad_spec = json!({"metadata": {"name": "cluster"}, "spec": {"workerLatencyProfile": "default"}, "status": {}});
        assert_eq!(causes(&validate_status(&bad_spec)), []);
        assert_eq!(causes(&validate(&bad_spec)), [("spec.workerLatencyProfile".to_owned(), "NotSupported")]);
    }

    #[test]
    fn every_missing_member_of_a_condition_is_named() {
        let object = json!({"metadata": {"name": "cluster"}, "status": {"workerLatencyProfileStatus": {
            "conditions": [{"owner": ""}], "relatedObjects": [{"group": "", "resource": ""}]}}});
        let at = |field: &str| (format!("status.workerLatencyProfileStatus.{field}"), "Required");
        assert_eq!(
            causes(&validate_status(&object)),
            [
                at("conditions[0].owner"),
                at("conditions[0].type"),
                at("conditions[0].status"),
                at("conditions[0].lastTransitionTime"),
                at("relatedObjects[0].resource"),
                at("relatedObjects[0].name"),
            ]
        );
    }

    #[test]
    fn only_the_later_twin_is_a_duplicate_even_of_an_unknown_owner() {
        let twin = json!({"owner": "Etcd", "type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let object = json!({"metadata": {"name": "cluster"},
            "status": {"workerLatencyProfileStatus": {"conditions": [twin.clone(), twin]}}});
        let duplicates: Vec<_> =
            causes(&validate_status(&object)).into_iter().filter(|(_, kind)| *kind == "Duplicate").collect();
        assert_eq!(duplicates, [("status.workerLatencyProfileStatus.conditions[1]".to_owned(), "Duplicate")]);
    }
}
