//! Where a pod may run: node selector, affinity, spreading, gates.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::{json, names};
use serde_json::Value;

use crate::builtin::check::{Errors, between, each, required, required_one_of, shaped};
use crate::builtin::meta::validate_labels;
use crate::builtin::selectors::{validate_label_selector, validate_values};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Judges everything that says where a pod may run, except tolerations.
pub(super) fn validate_scheduling(spec: &Value, path: &Path, errors: &mut Errors) {
    validate_labels(spec.get("nodeSelector"), &path.child("nodeSelector"), errors);
    if let Some(affinity) = json::get(spec, "affinity") {
        validate_affinity(affinity, &path.child("affinity"), errors);
    }
    validate_spreading(spec, path, errors);
    validate_gates(spec, path, errors);
}

fn validate_affinity(affinity: &Value, path: &Path, errors: &mut Errors) {
    if let Some(node) = json::get(affinity, "nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(required) = json::get(node, REQUIRED) {
            let path = path.child(REQUIRED);
            if json::items(required, &["nodeSelectorTerms"]).is_empty() {
                let detail = "must have at least one node selector term";
                errors.push(Error::required(&path.child("nodeSelectorTerms"), detail));
            }
            for (term, path) in each(required, "nodeSelectorTerms", &path) {
                validate_node_term(term, &path, errors);
            }
        }
        for (preference, path) in each(node, PREFERRED, &path) {
            validate_weight(preference, &path, errors);
            validate_node_term(&preference["preference"], &path.child("preference"), errors);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = json::get(affinity, kind) else { continue };
        let path = path.child(kind);
        for (term, path) in each(pods, REQUIRED, &path) {
            validate_pod_term(term, &path, errors);
        }
        for (preference, path) in each(pods, PREFERRED, &path) {
            validate_weight(preference, &path, errors);
            validate_pod_term(&preference["podAffinityTerm"], &path.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(preference: &Value, path: &Path, errors: &mut Errors) {
    match json::int(preference, &["weight"]) {
        None => errors.push(Error::required(&path.child("weight"), "must be in the range 1-100")),
        Some(_) => between(preference, "weight", 1, 100, path, errors),
    }
}

fn validate_node_term(term: &Value, path: &Path, errors: &mut Errors) {
    for list in ["matchExpressions", "matchFields"] {
        for (requirement, path) in each(term, list, path) {
            let values = json::items(requirement, &["values"]);
            validate_values(requirement, &path, errors);
            match json::text(requirement, &["operator"]) {
                "Gt" | "Lt" if values.len() != 1 => {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.push(Error::required(&path.child("values"), detail));
                }
                "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
                operator => errors.push(Error::invalid(&path.child("operator"), operator, "not a valid selector operator")),
            }
            if list == "matchExpressions" && required(requirement, "key", &path, errors).is_some() {
                shaped(requirement, "key", names::qualified_name, &path, errors);
            }
        }
    }
}

fn validate_pod_term(term: &Value, path: &Path, errors: &mut Errors) {
    for key in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = json::get(term, key) {
            validate_label_selector(selector, &path.child(key), errors);
        }
    }
    for (namespace, path) in each(term, "namespaces", path) {
        let namespace = namespace.as_str().unwrap_or_default();
        if let Some(broken) = names::dns1123_label(namespace) {
            errors.push(Error::invalid(&path, namespace, broken));
        }
    }
    if required(term, "topologyKey", path, errors).is_some() {
        shaped(term, "topologyKey", names::qualified_name, path, errors);
    }
}

fn validate_spreading(spec: &Value, path: &Path, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (constraint, path) in each(spec, "topologySpreadConstraints", path) {
        let skew = json::int(constraint, &["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            errors.push(Error::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        required(constraint, "topologyKey", &path, errors);
        shaped(constraint, "topologyKey", names::qualified_name, &path, errors);
        required_one_of(constraint, "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"], &path, errors);
        if let Some(selector) = json::get(constraint, "labelSelector") {
            validate_label_selector(selector, &path.child("labelSelector"), errors);
        }
        if json::int(constraint, &["minDomains"]).is_some_and(|domains| domains <= 0) {
            errors.push(Error::invalid(
                &path.child("minDomains"),
                constraint["minDomains"].clone(),
                "must be greater than zero",
            ));
        }
        let pair = (json::text(constraint, &["topologyKey"]), json::text(constraint, &["whenUnsatisfiable"]));
        if !known.insert(pair) {
            let pair = format!("{{{}, {}}}", pair.0, pair.1);
            errors.push(Error::duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), pair));
        }
    }
}

fn validate_gates(spec: &Value, path: &Path, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (gate, path) in each(spec, "schedulingGates", path) {
        let name = json::text(gate, &["name"]);
        if let Some(broken) = names::qualified_name(name) {
            errors.push(Error::invalid(&path.child("name"), name, broken));
        }
        if !known.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    }
    if !known.is_empty() && !json::text(spec, &["nodeName"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(Error::forbidden(&path.child("nodeName"), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(spec: Value) -> Vec<(String, &'static str)> {
        let mut errors = Vec::new();
        validate_scheduling(&spec, &Path::new("spec"), &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn good_constraints_pass() {
        let spec = json!({
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]},
                    PREFERRED: [{"weight": 5, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}],
                },
                "podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]},
            },
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "schedulingGates": [{"name": "a/b"}],
        });
        assert_eq!(errors(spec), []);
    }

    #[test]
    fn bad_constraints_are_reported() {
        let spec = json!({
            "nodeSelector": {"a": "no spaces"},
            "affinity": {
                "nodeAffinity": {REQUIRED: {}, PREFERRED: [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]},
                "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {}}]},
            },
        });
        let expected = [
            ("spec.nodeSelector".to_owned(), "Invalid"),
            (format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"), "Required"),
            (format!("spec.affinity.nodeAffinity.{PREFERRED}[0].weight"), "Invalid"),
            (format!("spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values"), "Required"),
            (format!("spec.affinity.podAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey"), "Required"),
        ];
        assert_eq!(errors(spec), expected);
    }

    #[test]
    fn spreading_and_gates_are_judged() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        let spec = json!({
            "topologySpreadConstraints": [constraint, constraint, {"whenUnsatisfiable": "Sometimes"}],
            "schedulingGates": [{"name": "a"}, {"name": "a"}, {"name": ""}], "nodeName": "n",
        });
        let expected = [
            ("spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}", "Duplicate"),
            ("spec.topologySpreadConstraints[2].maxSkew", "Invalid"),
            ("spec.topologySpreadConstraints[2].topologyKey", "Required"),
            ("spec.topologySpreadConstraints[2].whenUnsatisfiable", "NotSupported"),
            ("spec.schedulingGates[1].name", "Duplicate"),
            ("spec.schedulingGates[2].name", "Invalid"),
            ("spec.nodeName", "Forbidden"),
        ];
        assert_eq!(errors(spec), owned(&expected));
    }
}
