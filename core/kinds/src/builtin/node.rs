//! Nodes: taints, addresses of pods, capacity.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::{json, names};
use serde_json::{Value, json};

use super::check::{Errors, cidr, each, members, required_one_of, required_shaped, shaped};
use super::fill::{copy, drop_zeros};
use super::resources::validate_amount;

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Gives a new node the taint that keeps pods away until its agent reports that it is ready.
pub(super) fn prepare_create(node: &mut Value) {
    let spec = json::object_mut(node, &["spec"]);
    let taints = spec.entry("taints").or_insert(Value::Null);
    if !taints.is_array() {
        *taints = json!([]);
    }
    let taints = taints.as_array_mut().expect("made a list just above");
    let not_ready = |taint: &Value| json::text(taint, &["key"]) == NOT_READY && json::text(taint, &["effect"]) == "NoSchedule";
    if !taints.iter().any(not_ready) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

/// Fills in what was left out: allocatable is the capacity, the old and the new field for pod addresses agree.
pub(super) fn default(node: &mut Value) {
    let capacity = json::at(node, &["status", "capacity"]).cloned();
    if let Some(capacity) = capacity.filter(|_| json::at(node, &["status", "allocatable"]).is_none()) {
        json::object_mut(node, &["status"]).insert("allocatable".to_owned(), capacity);
    }
    let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) else {
        json::object_mut(node, &["spec"]);
        return;
    };
    drop_zeros(spec, &["unschedulable", "podCIDR", "providerID", "externalID"]);
    let single = spec.get("podCIDR").cloned();
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).cloned();
    match (single, first) {
        (Some(single), None) => drop(spec.insert("podCIDRs".to_owned(), json!([single]))),
        (None, Some(first)) => drop(spec.insert("podCIDR".to_owned(), first)),
        _ => {}
    }
}

/// Judges a node.
pub(super) fn validate(node: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = &node["spec"];
    validate_taints(spec, &path, errors);
    let mut families = BTreeSet::new();
    for (network, path) in each(spec, "podCIDRs", &path) {
        let network = network.as_str().unwrap_or_default();
        if let Some(broken) = cidr(network) {
            errors.push(Error::invalid(&path, network, broken));
        } else if !families.insert(network.contains(':')) {
            errors.push(Error::invalid(&path, network, "may specify no more than one CIDR for each IP family"));
        }
    }
    let (single, first) = (json::text(spec, &["podCIDR"]), json::items(spec, &["podCIDRs"]).first());
    if let Some(first) = first
        && first != single
    {
        errors.push(Error::invalid(&path.child("podCIDR"), single, "must match podCIDRs[0]"));
    }
    validate_status(node, errors);
}

/// Judges the status of a node.
pub(super) fn validate_status(node: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = &node["status"];
    let mut known = BTreeSet::new();
    for (address, path) in each(status, "addresses", &path) {
        let pair = (json::text(address, &["type"]), json::text(address, &["address"]));
        if !known.insert(pair) {
            errors.push(Error::duplicate(&path, address.clone()));
        }
    }
    for kind in ["capacity", "allocatable"] {
        for (_, amount, path) in members(status, kind, &path) {
            validate_amount(amount, &path, errors);
        }
    }
}

fn validate_taints(spec: &Value, path: &Path, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (taint, path) in each(spec, "taints", path) {
        required_shaped(taint, "key", names::qualified_name, &path, errors);
        shaped(taint, "value", names::label_value, &path, errors);
        required_one_of(taint, "effect", &EFFECTS, &path, errors);
        let pair = (json::text(taint, &["key"]), json::text(taint, &["effect"]));
        if !known.insert(pair) {
            errors.push(Error::duplicate(&path, taint.clone()));
        }
    }
}

/// Judges what an update may change: labels, taints, whether pods may come; addresses and identity only once.
pub(super) fn validate_change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let mut rest = json::get(new, "spec").cloned().unwrap_or_else(|| json!({}));
    let stored = old.get("spec");
    for (key, list) in [("podCIDR", "podCIDRs"), ("providerID", "providerID")] {
        let (is, was) = (json::at(new, &["spec", key]), json::at(old, &["spec", key]));
        if was.is_some() && (is != was || json::at(new, &["spec", list]) != json::at(old, &["spec", list])) {
            let detail = format!("node updates may not change {key} except from \"\" to valid");
            errors.push(Error::forbidden(&path.child(key), detail));
        }
    }
    if let Some(rest) = rest.as_object_mut() {
        for key in ["taints", "unschedulable", "podCIDR", "podCIDRs", "providerID"] {
            copy(stored, key, rest);
        }
    }
    if !json::same_but_nils(Some(&rest), stored) {
        errors.push(Error::forbidden(&path, "node updates may only change labels, taints, or capacity"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(errors: Errors) -> Vec<(String, &'static str)> {
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}});
        prepare_create(&mut node);
        prepare_create(&mut node);
        default(&mut node);
        assert_eq!(node["spec"]["taints"], json!([{"key": NOT_READY, "effect": "NoSchedule"}]));
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
        let mut node = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
        prepare_create(&mut node);
        assert_eq!(node["spec"]["taints"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn taints_and_networks_are_judged() {
        let node = json!({"spec": {
            "taints": [
                {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"},
                {"key": "", "effect": "Never", "value": "no spaces"}, {"key": "b"},
            ],
            "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.1.0/24", "10.0.2.0/24", "x"],
        }});
        let mut errors = Vec::new();
        validate(&node, &mut errors);
        let expected = [
            ("spec.taints[1]", "Duplicate"),
            ("spec.taints[2].key", "Required"),
            ("spec.taints[2].value", "Invalid"),
            ("spec.taints[2].effect", "NotSupported"),
            ("spec.taints[3].effect", "Required"),
            ("spec.podCIDRs[1]", "Invalid"),
            ("spec.podCIDRs[2]", "Invalid"),
            ("spec.podCIDR", "Invalid"),
        ];
        assert_eq!(paths(errors), owned(&expected));
    }

    #[test]
    fn pod_addresses_are_given_once() {
        let change = |new: Value, old: Value| {
            let mut errors = Vec::new();
            let (mut new, mut old) = (json!({ "spec": new }), json!({ "spec": old }));
            default(&mut new);
            default(&mut old);
            validate_change(&new, &old, &mut errors);
            paths(errors)
        };
        assert_eq!(change(json!({"podCIDR": "10.0.0.0/24", "unschedulable": true}), json!({})), []);
        assert_eq!(
            change(json!({"podCIDR": "10.0.1.0/24"}), json!({"podCIDR": "10.0.0.0/24"})),
            owned(&[("spec.podCIDR", "Forbidden")])
        );
        assert_eq!(change(json!({"configSource": {"x": 1}}), json!({})), owned(&[("spec", "Forbidden")]));
    }

    #[test]
    fn capacity_is_an_amount() {
        let node = json!({"status": {"capacity": {"cpu": "-1"}, "addresses": [{"type": "Hostname", "address": "h"}, {"type": "Hostname", "address": "h"}]}});
        let mut errors = Vec::new();
        validate_status(&node, &mut errors);
        assert_eq!(paths(errors), owned(&[("status.addresses[1]", "Duplicate"), ("status.capacity[cpu]", "Invalid")]));
    }
}
