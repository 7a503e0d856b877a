//! Validation of a pod's status.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::{json, names};
use serde_json::Value;

use crate::builtin::check::{Errors, each, ip, shaped};
use crate::builtin::meta::immutable;

/// Judges an update through `/status`.
pub(in crate::builtin) fn validate_pod_status(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let Some(status) = json::get(new, "status") else { return };
    shaped(status, "nominatedNodeName", names::dns1123_subdomain, &path, errors);
    for (condition, path) in each(status, "conditions", &path) {
        let type_ = json::text(condition, &["type"]);
        if let Some(broken) = names::qualified_name(type_) {
            errors.push(Error::invalid(&path.child("type"), type_, broken));
        }
    }
    for list in ["podIPs", "hostIPs"] {
        for (address, path) in each(status, list, &path) {
            let address = json::text(address, &["ip"]);
            if let Some(broken) = ip(address) {
                errors.push(Error::invalid(&path.child("ip"), address, broken));
            }
        }
    }
    let class = |pod| json::at(pod, &["status", "qosClass"]);
    if class(old).is_some() && class(new) != class(old) {
        errors.push(immutable(&path.child("qosClass"), class(new)));
    }
    validate_no_resurrection(new, old, &path, errors);
}

/// A container that never restarts does not come back from the dead: such a status is from a confused writer.
fn validate_no_resurrection(new: &Value, old: &Value, path: &Path, errors: &mut Errors) {
    if json::text(old, &["spec", "restartPolicy"]) != "Never" {
        return;
    }
    fn name(value: &Value) -> &str {
        json::text(value, &["name"])
    }
    let own_policy: BTreeSet<&str> = json::items(old, &["spec", "containers"])
        .iter()
        .filter(|container| json::get(container, "restartPolicy").is_some())
        .map(name)
        .collect();
    let dead = |status: &Value| json::at(status, &["state", "terminated"]).is_some();
    let final_: BTreeSet<&str> = json::items(old, &["status", "containerStatuses"])
        .iter()
        .filter(|was| dead(was) && !own_policy.contains(name(was)))
        .map(name)
        .collect();
    for (is, path) in each(&new["status"], "containerStatuses", path) {
        if final_.contains(name(is)) && !dead(is) {
            errors.push(Error::forbidden(&path.child("state"), "may not be transitioned to non-terminated state"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(new: Value, old: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_pod_status(&new, &old, &mut errors);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn conditions_addresses_and_the_class_are_judged() {
        let old = json!({"status": {"qosClass": "Burstable"}});
        let good = json!({"status": {
            "qosClass": "Burstable", "podIPs": [{"ip": "127.88.0.2"}], "conditions": [{"type": "Ready"}, {"type": "game.io/idle"}],
        }});
        assert!(errors(good, old.clone()).is_empty());
        let bad = json!({"status": {"qosClass": "Guaranteed", "podIPs": [{"ip": "x"}], "conditions": [{"type": "a b"}]}});
        assert_eq!(errors(bad, old), ["status.conditions[0].type", "status.podIPs[0].ip", "status.qosClass"]);
    }

    #[test]
    fn the_dead_stay_dead_where_nothing_restarts() {
        let pod = |policy: &str, state: Value| json!({"spec": {"restartPolicy": policy}, "status": {"containerStatuses": [{"name": "c", "state": state}]}});
        let (dead, alive) = (json!({"terminated": {"exitCode": 0}}), json!({"running": {}}));
        assert_eq!(errors(pod("Never", alive.clone()), pod("Never", dead.clone())), ["status.containerStatuses[0].state"]);
        assert!(errors(pod("OnFailure", alive.clone()), pod("OnFailure", dead.clone())).is_empty());
        assert!(errors(pod("Never", dead), pod("Never", alive)).is_empty());
    }
}
