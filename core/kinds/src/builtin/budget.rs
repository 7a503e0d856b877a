//! PodDisruptionBudgets: one of two numbers, a selector, a policy.

use api::field::{Error, Path};
use api::json;
use serde_json::{Value, json};

use super::check::{Errors, one_of};
use super::selectors;
use super::workload::validate_share;

/// Returns the status of a budget that nobody has looked at yet: nothing may go.
pub(super) fn new_status() -> Value {
    json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
}

/// Judges a budget.
pub(super) fn validate(budget: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = &budget["spec"];
    if json::get(spec, "minAvailable").is_some() && json::get(spec, "maxUnavailable").is_some() {
        errors.push(Error::invalid(&path, spec.clone(), "minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        let share = validate_share(spec, key, &path, errors);
        if spec[key].is_string() && share.is_some_and(|percent| percent > 100) {
            errors.push(Error::invalid(&path.child(key), spec[key].clone(), "must not be greater than 100%"));
        }
    }
    if let Some(selector) = json::get(spec, "selector") {
        selectors::validate_label_selector(selector, &path.child("selector"), errors);
    }
    one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], &path, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(spec: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(&json!({ "spec": spec }), &mut errors);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn a_budget_has_one_number_and_it_is_good() {
        assert!(paths(json!({"minAvailable": "50%", "selector": {}})).is_empty());
        assert!(paths(json!({"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"})).is_empty());
        assert_eq!(paths(json!({"minAvailable": 1, "maxUnavailable": 1})), ["spec"]);
        assert_eq!(paths(json!({"minAvailable": "101%"})), ["spec.minAvailable"]);
        assert_eq!(paths(json!({"maxUnavailable": -1})), ["spec.maxUnavailable"]);
        assert_eq!(paths(json!({"maxUnavailable": "few"})), ["spec.maxUnavailable"]);
        assert_eq!(paths(json!({"unhealthyPodEvictionPolicy": "Never"})), ["spec.unhealthyPodEvictionPolicy"]);
        assert_eq!(
            paths(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})),
            ["spec.selector.matchExpressions[0].operator"]
        );
    }
}
