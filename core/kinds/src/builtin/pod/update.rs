//! What an update may change of a pod: images, a shorter deadline, more tolerations, fewer gates. Nothing else.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::json;
use serde_json::Value;

use super::tolerations::validate_added_tolerations;
use crate::builtin::check::Errors;
use crate::builtin::fill::copy;
use api::ordered::Ordered;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set \
    to 1 if it was previously negative)";
/// The most differences that a message names.
const SHOWN_MAX: usize = 10;

/// Judges the change of a pod's spec.
pub(in crate::builtin) fn validate_pod_change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let (new, old) = (&new["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if json::items(new, &[list]).len() != json::items(old, &[list]).len() {
            errors.push(Error::forbidden(&path.child(list), "pod updates may not add or remove containers"));
            return;
        }
    }
    let before = errors.len();
    validate_deadline(new, old, &path, errors);
    validate_added_tolerations(new, old, &path, errors);
    validate_removed_gates(new, old, &path, errors);
    if errors.len() == before {
        validate_rest(new, old, &path, errors);
    }
}

fn validate_deadline(new: &Value, old: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("activeDeadlineSeconds");
    let deadline = |spec| json::int(spec, &["activeDeadlineSeconds"]);
    match (deadline(new), deadline(old)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.push(Error::invalid(&path, new, format!("must be between 0 and {}, inclusive", i32::MAX)));
        }
        (Some(new), Some(old)) if new > old => {
            errors.push(Error::invalid(&path, new, "must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            errors.push(Error::invalid(&path, Value::Null, "must not update from a positive integer to nil value"));
        }
        _ => {}
    }
}

fn validate_removed_gates(new: &Value, old: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("schedulingGates");
    let known: BTreeSet<Ordered<'_>> = json::items(old, &["schedulingGates"]).iter().map(Ordered).collect();
    for (index, gate) in json::items(new, &["schedulingGates"]).iter().enumerate() {
        if !known.contains(&Ordered(gate)) {
            let detail = "only deletion is allowed, but found new scheduling gate";
            errors.push(Error::forbidden(&path.index(index), detail));
        }
    }
}

/// Everything else must be as it was: what may differ is put back, then the two are compared.
fn validate_rest(new: &Value, old: &Value, path: &Path, errors: &mut Errors) {
    let mut rest = new.clone();
    for list in ["containers", "initContainers"] {
        let stored = json::items(old, &[list]);
        for (container, stored) in json::items_mut(&mut rest, &[list]).into_iter().flatten().zip(stored) {
            if let Some(container) = container.as_object_mut() {
                copy(Some(stored), "image", container);
            }
        }
    }
    let grace = |spec| json::int(spec, &["terminationGracePeriodSeconds"]);
    let repaired = grace(old).is_some_and(|grace| grace < 0) && grace(new) == Some(1);
    if let Some(rest) = rest.as_object_mut() {
        for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            copy(Some(old), key, rest);
        }
        if repaired {
            copy(Some(old), "terminationGracePeriodSeconds", rest);
        }
    }
    let mut changed = Vec::new();
    differences(&rest, old, &mut path.to_string(), &mut changed);
    if !changed.is_empty() {
        let more = if changed.len() > SHOWN_MAX { ", ..." } else { "" };
        changed.truncate(SHOWN_MAX);
        let detail = format!("pod updates may not change fields other than {UPDATABLE}\nchanged: {}{more}", changed.join(", "));
        errors.push(Error::forbidden(path, detail));
    }
}

/// Appends the paths below which two values differ; empty lists, empty maps and null count as absent.
fn differences(left: &Value, right: &Value, path: &mut String, found: &mut Vec<String>) {
    if json::same_but_nils(Some(left), Some(right)) {
        return;
    }
    let length = path.len();
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                path.push('.');
                path.push_str(key);
                differences(&left[key.as_str()], &right[key.as_str()], path, found);
                path.truncate(length);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (left, right)) in a.iter().zip(b).enumerate() {
                path.push_str(&format!("[{index}]"));
                differences(left, right, path, found);
                path.truncate(length);
            }
        }
        _ => found.push(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored() -> Value {
        json!({
            "schedulerName": "none", "terminationGracePeriodSeconds": 30, "tolerations": [{"key": "a", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "i:1", "readinessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 10}}],
        })
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<Error> {
        let old = json!({ "spec": stored() });
        let mut new = old.clone();
        change(&mut new["spec"]);
        let mut errors = Vec::new();
        validate_pod_change(&new, &old, &mut errors);
        errors
    }

    fn paths(errors: &[Error]) -> Vec<(&str, &'static str)> {
        errors.iter().map(|error| (error.path.as_str(), error.kind.name())).collect()
    }

    #[test]
    fn images_deadlines_and_tolerations_may_change() {
        let found = errors(|spec| {
            spec["containers"][0]["image"] = json!("i:2");
            spec["activeDeadlineSeconds"] = json!(5);
            spec["tolerations"] =
                json!([{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists", "tolerationSeconds": 5}]);
            spec["volumes"] = json!([]);
        });
        assert_eq!(found, []);
    }

    #[test]
    fn any_other_change_is_forbidden_and_named() {
        let found = errors(|spec| {
            spec["containers"][0]["readinessProbe"]["periodSeconds"] = json!(1);
            spec["nodeName"] = json!("x");
        });
        assert_eq!(paths(&found), [("spec", "Forbidden")]);
        let message = found[0].message();
        assert!(message.contains("pod updates may not change fields other than"), "{message}");
        assert!(message.contains("spec.containers[0].readinessProbe.periodSeconds, spec.nodeName"), "{message}");
    }

    #[test]
    fn containers_and_tolerations_do_not_disappear() {
        let found = errors(|spec| spec["containers"] = json!([]));
        assert_eq!(paths(&found), [("spec.containers", "Forbidden")]);
        let found = errors(|spec| spec["tolerations"] = json!([]));
        assert_eq!(paths(&found), [("spec.tolerations", "Forbidden")]);
    }

    #[test]
    fn gates_only_go_away() {
        let change = |new: Value, old: Value| {
            let mut errors = Vec::new();
            let spec = |gates| json!({"spec": {"schedulingGates": gates}});
            validate_pod_change(&spec(new), &spec(old), &mut errors);
            errors.len()
        };
        assert_eq!(change(json!([]), json!([{"name": "a"}])), 0);
        assert_eq!(change(json!([{"name": "b"}]), json!([{"name": "a"}])), 1);
    }

    #[test]
    fn a_deadline_only_gets_shorter_and_a_negative_grace_may_become_one() {
        let change = |key: &str, new: Value, old: Value| {
            let mut errors = Vec::new();
            validate_pod_change(&json!({"spec": {key: new}}), &json!({"spec": {key: old}}), &mut errors);
            errors.len()
        };
        assert_eq!(change("activeDeadlineSeconds", json!(4), json!(5)), 0);
        assert_eq!(change("activeDeadlineSeconds", json!(6), json!(5)), 1);
        assert_eq!(change("activeDeadlineSeconds", json!(null), json!(5)), 1);
        assert_eq!(change("terminationGracePeriodSeconds", json!(1), json!(-3)), 0);
        assert_eq!(change("terminationGracePeriodSeconds", json!(2), json!(-3)), 1);
        assert_eq!(change("terminationGracePeriodSeconds", json!(1), json!(30)), 1);
    }
}
