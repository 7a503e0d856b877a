//! What a PodProbeMarker may be.
//!
//! The marker kinds have no typed decoder in front of them, so a value of a wrong JSON type is a field error here: it counts
//! as present and is judged no further. Null is absent. Every error of an object is reported, and the errors of one probe
//! do not depend on those of another, except for repeated names. Offsets whose gate is off are removed before, by
//! `probe_rules::drop_disabled_probe_fields`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{Error, ErrorKind, Path};
use crate::{json, names};

mod handler;
mod node;
mod read;

pub use node::validate_node_pod_probe;

use read::{Read, list, map, object, text, texts};

/// Condition types that belong to Kubernetes or to OpenKruise itself.
pub const RESERVED_CONDITION_TYPES: [&str; 11] = [
    "PodScheduled",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodReadyToStartContainers",
    "DisruptionTarget",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
    "KruisePodReady",
    "InPlaceUpdateReady",
];

/// Annotations that a policy may not name: our bookkeeping and the carriers of the serverless path.
const RESERVED_ANNOTATIONS: [&str; 3] = [crate::marker::MARKED, "kruise.io/podprobe", "kruise.io/podprobemarker-list"];

/// The annotation that orders scale-in; a ReplicaSet reads it as an int32.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns every error of a marker as posted; `old` is the stored object of an update.
pub fn validate_pod_probe_marker(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let (spec, old_spec) = (json::get(new, "spec"), old.and_then(|old| json::get(old, "spec")));
    // Ratchet: an update that leaves the spec alone must pass, or a finalizer of an old object could never go.
    if old.is_some() && unchanged(spec, old_spec) {
        return Vec::new();
    }
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let members = match object(new, "spec", &Path::root(), &mut errors) {
        Read::Wrong => return errors,
        Read::Absent => &Value::Null,
        Read::Value(_) => spec.unwrap_or(&Value::Null),
    };
    validate_selector(members, &path, &mut errors);
    let (selector, before) = (json::get(members, "selector"), old_spec.and_then(|spec| json::get(spec, "selector")));
    if old.is_some() && !unchanged(selector, before) {
        let selector = selector.cloned().unwrap_or_default();
        // What is of a wrong type, or Invalid for another reason, is reported already.
        let known = |error: &Error| error.path == "spec.selector" && error.kind != ErrorKind::Required;
        if !errors.iter().any(known) {
            errors.push(Error::invalid(&path.child("selector"), selector, "field is immutable"));
        }
    }
    match list(members, "probes", &path, &mut errors) {
        Read::Value(probes) if !probes.is_empty() => errors.extend(probe_errors(members).into_iter().flatten()),
        Read::Wrong => {}
        _ => errors.push(Error::required(&path.child("probes"), "at least one probe")),
    }
    errors
}

/// Returns the errors of each item of `spec.probes`, in order.
pub fn probe_errors(spec: &Value) -> Vec<Vec<Error>> {
    let path = Path::new("spec.probes");
    let selected = selector_keys(spec);
    let (mut seen_names, mut seen_types) = (BTreeSet::new(), BTreeSet::new());
    let mut all = Vec::new();
    for (index, probe) in json::items(spec, &["probes"]).iter().enumerate() {
        let path = path.index(index);
        if !probe.is_object() {
            all.push(vec![Error::type_invalid(&path, probe, "must be an object")]);
            continue;
        }
        let mut errors = Vec::new();
        validate_name(probe, &path, &mut seen_names, &mut errors);
        if let Read::Absent | Read::Value("") = text(probe, "containerName", &path, &mut errors) {
            errors.push(Error::required(&path.child("containerName"), ""));
        }
        handler::validate_probe(probe, &path, &mut errors);
        let policies = validate_policies(probe, &path, &selected, &mut errors);
        let condition = validate_condition_type(probe, &path, &mut seen_types, &mut errors);
        if !policies && !condition {
            errors.push(Error::required(&path, "one of podConditionType and markerPolicy must be given"));
        }
        all.push(errors);
    }
    all
}

fn validate_selector(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let selector = match object(spec, "selector", path, errors) {
        Read::Wrong => return,
        Read::Absent => return errors.push(Error::required(&path.child("selector"), "")),
        Read::Value(_) => json::get(spec, "selector").expect("read just above"),
    };
    let path = path.child("selector");
    let labels = map(selector, "matchLabels", &path, errors);
    let expressions = list(selector, "matchExpressions", &path, errors);
    if labels.is_empty() && expressions.is_empty() {
        errors.push(Error::invalid(&path, selector.clone(), "an empty selector selects nothing; name at least one label"));
    }
    for (key, value) in texts(labels, &path.child("matchLabels"), errors) {
        check_label(key, value, &path.child("matchLabels"), errors);
    }
    for (index, expression) in expressions.items().iter().enumerate() {
        validate_expression(expression, &path.child("matchExpressions").index(index), errors);
    }
}

fn validate_expression(expression: &Value, path: &Path, errors: &mut Vec<Error>) {
    if !expression.is_object() {
        return errors.push(Error::type_invalid(path, expression, "must be an object"));
    }
    if let Read::Value(key) = text(expression, "key", path, errors).or("")
        && let Some(rule) = names::qualified_name(key)
    {
        errors.push(Error::invalid(&path.child("key"), key, rule));
    }
    let operator = text(expression, "operator", path, errors).or("");
    let values = list(expression, "values", path, errors);
    let at = path.child("values");
    match operator {
        Read::Value("In" | "NotIn") if values.is_empty() => errors.push(Error::required(&at, "must be given for In and NotIn")),
        Read::Value("Exists" | "DoesNotExist") if !values.items().is_empty() => {
            errors.push(Error::forbidden(&at, "may not be given for Exists and DoesNotExist"));
        }
        Read::Value("In" | "NotIn" | "Exists" | "DoesNotExist") | Read::Wrong | Read::Absent => {}
        Read::Value(other) => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    for (index, value) in values.items().iter().enumerate() {
        match value.as_str().map(names::label_value) {
            None => errors.push(Error::type_invalid(&at.index(index), value, "must be a string")),
            Some(Some(rule)) => errors.push(Error::invalid(&at.index(index), value.clone(), rule)),
            Some(None) => {}
        }
    }
}

/// Returns the label keys that the marker's selector uses.
fn selector_keys(spec: &Value) -> BTreeSet<&str> {
    let labels = json::object(spec, &["selector", "matchLabels"]).into_iter().flat_map(Map::keys).map(String::as_str);
    let expressions = json::items(spec, &["selector", "matchExpressions"]).iter().map(|item| json::text(item, &["key"]));
    labels.chain(expressions).collect()
}

fn validate_name<'a>(probe: &'a Value, path: &Path, seen: &mut BTreeSet<&'a str>, errors: &mut Vec<Error>) {
    let at = path.child("name");
    match text(probe, "name", path, errors) {
        Read::Wrong => {}
        Read::Absent | Read::Value("") => errors.push(Error::required(&at, "")),
        Read::Value(name) => {
            if name.contains('#') {
                errors.push(Error::invalid(&at, name, "must not contain '#', which separates marker and probe"));
            }
            if RESERVED_CONDITION_TYPES.contains(&name) {
                errors.push(Error::invalid(&at, name, "must not be the name of a native condition"));
            }
            if !seen.insert(name) {
                errors.push(Error::duplicate(&at, name));
            }
        }
    }
}

/// Returns whether the probe names a condition type.
fn validate_condition_type<'a>(probe: &'a Value, path: &Path, seen: &mut BTreeSet<&'a str>, errors: &mut Vec<Error>) -> bool {
    let at = path.child("podConditionType");
    match text(probe, "podConditionType", path, errors) {
        Read::Wrong => true,
        Read::Absent | Read::Value("") => false,
        Read::Value(type_) => {
            if RESERVED_CONDITION_TYPES.contains(&type_) {
                errors.push(Error::forbidden(&at, format!("{type_} belongs to Kubernetes; use a name of your own domain")));
            }
            if let Some(rule) = names::qualified_name(type_) {
                errors.push(Error::invalid(&at, type_, rule));
            }
            if !seen.insert(type_) {
                errors.push(Error::duplicate(&at, type_));
            }
            true
        }
    }
}

/// Returns whether the probe has policies.
fn validate_policies(probe: &Value, path: &Path, selected: &BTreeSet<&str>, errors: &mut Vec<Error>) -> bool {
    let policies = list(probe, "markerPolicy", path, errors);
    let mut seen = BTreeSet::new();
    for (index, policy) in policies.items().iter().enumerate() {
        let path = path.child("markerPolicy").index(index);
        if !policy.is_object() {
            errors.push(Error::type_invalid(&path, policy, "must be an object"));
            continue;
        }
        match text(policy, "state", &path, errors) {
            Read::Wrong => {}
            Read::Absent | Read::Value("") => errors.push(Error::required(&path.child("state"), "")),
            Read::Value(state) => {
                if !matches!(state, "Succeeded" | "Failed") {
                    errors.push(Error::not_supported(&path.child("state"), state, &["Succeeded", "Failed"]));
                }
                if !seen.insert(state) {
                    errors.push(Error::duplicate(&path.child("state"), state));
                }
            }
        }
        validate_marks(policy, &path, selected, errors);
    }
    !policies.is_empty()
}

fn validate_marks(policy: &Value, path: &Path, selected: &BTreeSet<&str>, errors: &mut Vec<Error>) {
    let labels = map(policy, "labels", path, errors);
    let annotations = map(policy, "annotations", path, errors);
    if labels.is_empty() && annotations.is_empty() {
        errors.push(Error::required(path, "one of labels and annotations must be given"));
    }
    let at = path.child("labels");
    for (key, value) in texts(labels, &at, errors) {
        check_label(key, value, &at, errors);
        if selected.contains(key) {
            let why = "the marker's own selector uses this label; writing it would change what the marker selects";
            errors.push(Error::forbidden(&at.key(key), why));
        }
    }
    let at = path.child("annotations");
    for (key, value) in texts(annotations, &at, errors) {
        if let Some(rule) = names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(&at, key, rule));
        }
        if RESERVED_ANNOTATIONS.contains(&key) {
            errors.push(Error::forbidden(&at.key(key), "this annotation is written by the marker controllers"));
        }
        // Only the spelling that int32 prints itself is canonical.
        if key == POD_DELETION_COST && value.parse::<i32>().ok().is_none_or(|cost| cost.to_string() != value) {
            errors.push(Error::invalid(
                &at.key(key),
                value,
                "must be a 32-bit integer such as -10, without plus sign or leading zeros",
            ));
        }
    }
}

fn check_label(key: &str, value: &str, path: &Path, errors: &mut Vec<Error>) {
    if let Some(rule) = names::qualified_name(key) {
        errors.push(Error::invalid(path, key, rule));
    }
    if let Some(rule) = names::label_value(value) {
        errors.push(Error::invalid(path, value, rule));
    }
}

/// Returns whether a spec or selector is the same; null, empty maps, lists and texts count as absent.
///
/// Inside maps of labels and annotations, and in lists, an empty text is a value: `{a: ""}` selects and marks something.
fn unchanged(new: Option<&Value>, old: Option<&Value>) -> bool {
    same(new, old, "", false)
}

/// `key` is where the two stand; `exact`: an empty text is a value there.
fn same(new: Option<&Value>, old: Option<&Value>, key: &str, exact: bool) -> bool {
    let present = |value: &&Value| !value.is_null() && (exact || value.as_str() != Some(""));
    match (new.filter(present), old.filter(present)) {
        (None, None) => true,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.keys().chain(b.keys()).all(|inner| same(a.get(inner), b.get(inner), inner, is_text_map(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b), "", true))
        }
        (None, Some(Value::Array(items))) | (Some(Value::Array(items)), None) => items.is_empty(),
        (None, Some(Value::Object(members))) | (Some(Value::Object(members)), None) => {
            members.iter().all(|(inner, value)| same(Some(value), None, inner, is_text_map(key)))
        }
        (a, b) => a == b,
    }
}

fn is_text_map(key: &str) -> bool {
    matches!(key, "matchLabels" | "labels" | "annotations")
}

#[cfg(test)]
mod tests;
