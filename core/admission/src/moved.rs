//! The probes that were moved away from the kubelet, as the annotation holds them.

use std::collections::BTreeMap;

use api::field::{Error, Path};
use api::json;
use api::probe_rules::{self, HandlerKind, ProbeType};
use kinds::model;
use serde_json::Value;

use crate::{MOVED_PROBES, annotation};

/// What the annotation of a pod says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moved {
    /// Container -> readiness probe: whole, valid, with its defaults.
    pub probes: BTreeMap<String, Value>,
    /// What is wrong with the rest; nothing on a pod that passed admission.
    pub errors: Vec<Error>,
}

/// Reads the text of the annotation; a probe that breaks a rule is left out and reported, the others count. Whether the pod has
/// the containers is not asked.
pub fn read_moved(text: &str) -> Moved {
    let path = annotation::path(MOVED_PROBES);
    let members = match annotation::object(text, &path) {
        Ok(members) => members,
        Err(errors) => return Moved { errors, ..Moved::default() },
    };
    let mut moved = Moved::default();
    for (container, probe) in members {
        match judged(probe, &path.key(&container)) {
            Ok(probe) => drop(moved.probes.insert(container, probe)),
            Err(errors) => moved.errors.extend(errors),
        }
    }
    moved
}

/// Returns a readiness probe with its defaults, if it is one that the agent may carry out; `path` is that of the probe.
pub(crate) fn judged(mut probe: Value, path: &Path) -> Result<Value, Vec<Error>> {
    if !probe.is_object() {
        return Err(vec![Error::type_invalid(path, &probe, "must be an object")]);
    }
    let message = model::message("Probe").expect("the model has Probe");
    let given = probe.clone();
    let checked = model::check(message, &mut probe);
    let mut errors: Vec<Error> = checked.wrong.into_iter().map(|wrong| Error::type_invalid(path, &given, wrong)).collect();
    // A field of a later Kubernetes may change what the probe means; the kubelet knows it, the agent does not.
    let unknown = "unknown field; take it away, or leave this probe with the kubelet";
    errors.extend(checked.unknown.iter().map(|field| Error::forbidden(&path.child(field), unknown)));
    if !errors.is_empty() {
        return Err(errors);
    }
    probe_rules::default_probe(&mut probe);
    errors = probe_rules::validate_probe(&probe, ProbeType::Readiness, path);
    for handler in [HandlerKind::HttpGet, HandlerKind::TcpSocket] {
        if !json::text(&probe, &[handler.field(), "host"]).is_empty() {
            let why = "the agent dials the address of the pod, no other: a probe with a host stays with the kubelet";
            errors.push(Error::forbidden(&path.child(handler.field()).child("host"), why));
        }
    }
    if errors.is_empty() { Ok(probe) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_probe_is_told_and_the_others_count() {
        let moved = read_moved(r#"{"app": {"tcpSocket": {"port": 80}}, "bad": {"periodSeconds": 1}, "none": null}"#);
        assert_eq!(moved.probes.keys().collect::<Vec<_>>(), ["app"]);
        assert_eq!(moved.probes["app"]["failureThreshold"], 3, "defaults are applied");
        let errors: Vec<String> = moved.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            ["metadata.annotations[lifesign.dev/moved-probes][bad]: Required value: must specify a handler type"]
        );
    }
}
