//! What a NodePodProbe may be: entries as a controller derives them from markers.
//!
//! Who may write the object of a node makes its agent send requests and run commands, so the probes are judged as those of a
//! marker are.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read::{Read, list, object, text};
use super::{handler, unchanged};
use crate::field::{Error, Path};
use crate::json;

/// Returns every error of a NodePodProbe as posted; `old` is the stored object of an update.
pub fn validate_node_pod_probe(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let spec = json::get(new, "spec");
    // Ratchet: what is stored already may stay, or the object could not even lose a label.
    if old.is_some_and(|old| unchanged(spec, json::get(old, "spec"))) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if let Read::Value(spec) = object(new, "spec", &Path::root(), &mut errors) {
        let path = Path::new("spec");
        let mut seen = BTreeSet::new();
        for (index, item) in list(spec, "podProbes", &path, &mut errors).items().iter().enumerate() {
            validate_item(item, &path.child("podProbes").index(index), &mut seen, &mut errors);
        }
    }
    errors
}

/// Judges what is probed in one pod.
fn validate_item<'a>(item: &'a Value, path: &Path, seen: &mut BTreeSet<&'a str>, errors: &mut Vec<Error>) {
    if !item.is_object() {
        return errors.push(Error::type_invalid(path, item, "must be an object"));
    }
    for field in ["name", "namespace"] {
        required(item, field, path, errors);
    }
    if let Some(uid) = required(item, "uid", path, errors)
        && !seen.insert(uid)
    {
        errors.push(Error::duplicate(&path.child("uid"), uid));
    }
    let ip = match text(item, "IP", path, errors) {
        Read::Value(ip) => ip,
        _ => "",
    };
    let mut names = BTreeSet::new();
    for (index, entry) in list(item, "probes", path, errors).items().iter().enumerate() {
        let path = path.child("probes").index(index);
        if !entry.is_object() {
            errors.push(Error::type_invalid(&path, entry, "must be an object"));
            continue;
        }
        if let Some(name) = required(entry, "name", &path, errors) {
            validate_name(name, &path.child("name"), &mut names, errors);
        }
        required(entry, "containerName", &path, errors);
        let mut found = Vec::new();
        handler::validate_probe(entry, &path, &mut found);
        // Some controllers write the address of the pod as the host: that is where the probe goes anyway.
        found.retain(|error| !(error.path.ends_with(".host") && names_own_address(entry, ip)));
        errors.extend(found);
    }
}

fn names_own_address(entry: &Value, ip: &str) -> bool {
    let host = |handler: &str| json::text(entry, &["probe", handler, "host"]);
    !ip.is_empty() && ["httpGet", "tcpSocket"].into_iter().map(host).all(|host| host.is_empty() || host == ip)
}

fn validate_name<'a>(name: &'a str, path: &Path, seen: &mut BTreeSet<&'a str>, errors: &mut Vec<Error>) {
    let (marker, probe) = name.split_once('#').unwrap_or_default();
    if marker.is_empty() || probe.is_empty() {
        errors.push(Error::invalid(path, name, "must be <marker>#<probe>"));
    }
    if !seen.insert(name) {
        errors.push(Error::duplicate(path, name));
    }
}

/// Reads a text that may not be empty.
fn required<'a>(value: &'a Value, key: &str, path: &Path, errors: &mut Vec<Error>) -> Option<&'a str> {
    match text(value, key, path, errors) {
        Read::Value(text) if !text.is_empty() => Some(text),
        Read::Wrong => None,
        _ => {
            errors.push(Error::required(&path.child(key), ""));
            None
        }
    }
}
