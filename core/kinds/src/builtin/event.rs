//! Events of both groups: `v1`, which takes almost anything, and `events.k8s.io/v1`, which wants to know who did what.

use api::field::{Error, Path};
use api::{json, names};
use serde_json::Value;

use super::check::Errors;
use super::meta::immutable;

const TEXT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// The names of the same fields in the two groups.
struct Names {
    about: &'static str,
    controller: &'static str,
    note: &'static str,
}

const CORE: Names = Names { about: "involvedObject", controller: "reportingComponent", note: "message" };
const EVENTS: Names = Names { about: "regarding", controller: "reportingController", note: "note" };

/// Judges an event of `v1`.
pub(super) fn validate_core(event: &Value, errors: &mut Errors) {
    validate_place(event, &CORE, errors);
    if json::get(event, "eventTime").is_some() {
        validate_reporter(event, &CORE, errors);
    }
}

/// Judges a new event of `events.k8s.io/v1`.
pub(super) fn validate_events(event: &Value, errors: &mut Errors) {
    validate_place(event, &EVENTS, errors);
    if json::get(event, "eventTime").is_none() {
        errors.push(Error::required(&Path::root().child("eventTime"), ""));
    }
    validate_reporter(event, &EVENTS, errors);
    let type_ = json::text(event, &["type"]);
    if !["Normal", "Warning"].contains(&type_) {
        errors.push(Error::not_supported(&Path::root().child("type"), type_, &["Normal", "Warning"]));
    }
    for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource"] {
        // An empty source and a count of 0 are what typed clients send for "none".
        if json::get(event, key).is_some_and(|value| !is_nothing(value)) {
            errors.push(Error::invalid(&Path::root().child(key), event[key].clone(), "needs to be unset"));
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    value.as_i64() == Some(0) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Judges an update of an event of `events.k8s.io/v1`: only the series may go on.
pub(super) fn validate_events_change(new: &Value, old: &Value, errors: &mut Errors) {
    for key in [
        EVENTS.about,
        "related",
        EVENTS.controller,
        "reportingInstance",
        "action",
        "reason",
        EVENTS.note,
        "type",
        "eventTime",
        "deprecatedSource",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedCount",
    ] {
        if !json::same_but_empties(new.get(key), old.get(key)) {
            errors.push(immutable(&Path::root().child(key), new.get(key)));
        }
    }
}

/// An event lives in the namespace of what it is about; one about a cluster-scoped object in `default` or `kube-system`.
fn validate_place(event: &Value, names: &Names, errors: &mut Errors) {
    let (home, about) = (json::text(event, &["metadata", "namespace"]), json::text(event, &[names.about, "namespace"]));
    let good = if about.is_empty() { ["", "default", "kube-system"].contains(&home) } else { about == home };
    if !good {
        let path = Path::root().child(names.about).child("namespace");
        errors.push(Error::invalid(&path, about, "does not match event.namespace"));
    }
}

fn validate_reporter(event: &Value, fields: &Names, errors: &mut Errors) {
    let text = |key| json::text(event, &[key]);
    let path = |key: &str| Path::root().child(key);
    for key in [fields.controller, "reportingInstance", "action", "reason"] {
        if text(key).is_empty() {
            errors.push(Error::required(&path(key), ""));
        }
    }
    if !text(fields.controller).is_empty()
        && let Some(broken) = names::qualified_name(text(fields.controller))
    {
        errors.push(Error::invalid(&path(fields.controller), text(fields.controller), broken));
    }
    for (key, max) in [("reportingInstance", TEXT_MAX), ("action", TEXT_MAX), ("reason", TEXT_MAX), (fields.note, NOTE_MAX)] {
        if text(key).len() > max {
            errors.push(Error::invalid(&path(key), "", format!("can have at most {max} characters")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(check: impl FnOnce(&mut Errors)) -> Vec<(String, &'static str)> {
        let mut errors = Vec::new();
        check(&mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn new_style() -> Value {
        json!({
            "metadata": {"name": "e1", "namespace": "n"}, "eventTime": "2024-05-06T07:08:09.123456Z",
            "reportingController": "example.com/ctl", "reportingInstance": "ctl-1", "action": "Probing", "reason": "ProbeFailed",
            "type": "Warning", "note": "it failed", "regarding": {"kind": "Pod", "namespace": "n", "name": "web"},
        })
    }

    #[test]
    fn an_old_event_needs_only_a_place() {
        let judge = |home: &str, about: Value| {
            let event = json!({"metadata": {"namespace": home}, "involvedObject": about});
            found(|errors| validate_core(&event, errors)).len()
        };
        assert_eq!(judge("n", json!({"namespace": "n"})), 0);
        assert_eq!(judge("default", json!({"kind": "Node"})), 0);
        assert_eq!(judge("n", json!({"kind": "Node"})), 1);
        assert_eq!(judge("n", json!({"namespace": "m"})), 1);
    }

    #[test]
    fn a_new_event_says_who_did_what_when() {
        assert_eq!(found(|errors| validate_events(&new_style(), errors)), []);
        let event = json!({
            "metadata": {"namespace": "n"}, "reason": "R", "type": "Odd", "note": "x".repeat(1025), "deprecatedCount": 2,
            "regarding": {"namespace": "n"}, "deprecatedSource": {},
        });
        let expected = [
            ("eventTime", "Required"),
            ("reportingController", "Required"),
            ("reportingInstance", "Required"),
            ("action", "Required"),
            ("note", "Invalid"),
            ("type", "NotSupported"),
            ("deprecatedCount", "Invalid"),
        ];
        assert_eq!(found(|errors| validate_events(&event, errors)), expected.map(|(path, kind)| (path.to_owned(), kind)));
    }

    #[test]
    fn only_the_series_of_a_new_event_changes() {
        let (old, mut new) = (new_style(), new_style());
        new["series"] = json!({"count": 2});
        assert_eq!(found(|errors| validate_events_change(&new, &old, errors)), []);
        new["note"] = json!("else");
        assert_eq!(found(|errors| validate_events_change(&new, &old, errors)), [("note".to_owned(), "Invalid")]);
    }
}
