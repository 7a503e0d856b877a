//! Amounts of resources: requests and limits of containers, capacity of nodes.

use api::field::{Error, Path};
use api::json;
use api::quantity::Quantity;
use serde_json::Value;

use super::check::{Errors, members};
use api::names;

/// Resources of containers that need no prefix; Kubernetes API.
const STANDARD: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Huge pages are a family of resources: one per size.
const HUGE_PAGES: &str = "hugepages-";

/// Returns an amount, written as text or as a number.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Judges `resources` of a container or of a whole pod.
pub(super) fn validate_resources(owner: &Value, path: &Path, errors: &mut Errors) {
    let Some(resources) = json::get(owner, "resources") else { return };
    let path = path.child("resources");
    validate_amounts(resources, "limits", &path, errors);
    validate_amounts(resources, "requests", &path, errors);
    for (name, value, path) in members(resources, "requests", &path) {
        let limit = json::at(resources, &["limits", name]);
        let (Some(request), Some(limit_amount)) = (quantity(value), limit.and_then(quantity)) else {
            // What cannot be shared must be limited, or two pods would own the same piece.
            if limit.is_none() && !may_be_overcommitted(name) {
                errors.push(Error::required(&path, "Limit must be set for non overcommitable resources"));
            }
            continue;
        };
        if !may_be_overcommitted(name) && request != limit_amount {
            errors.push(Error::invalid(&path, value.clone(), format!("must be equal to {name} limit of {limit_amount}")));
        } else if request > limit_amount {
            let detail = format!("must be less than or equal to {name} limit of {limit_amount}");
            errors.push(Error::invalid(&path, value.clone(), detail));
        }
    }
}

fn may_be_overcommitted(name: &str) -> bool {
    STANDARD.contains(&name)
}

fn validate_amounts(resources: &Value, kind: &str, path: &Path, errors: &mut Errors) {
    for (name, value, path) in members(resources, kind, path) {
        if let Some(broken) = names::qualified_name(name) {
            errors.push(Error::invalid(&path, name, broken));
        } else if !STANDARD.contains(&name) && !name.starts_with(HUGE_PAGES) && !name.contains('/') {
            errors.push(Error::invalid(&path, name, "must be a standard resource type or fully qualified"));
        }
        if let Some(amount) = validate_amount(value, &path, errors)
            && name.contains('/')
            && Quantity::from_whole(amount.whole()) != amount
        {
            errors.push(Error::invalid(&path, value.clone(), "must be an integer"));
        }
    }
}

/// Judges one amount; returns it if it can be read.
pub(super) fn validate_amount(value: &Value, path: &Path, errors: &mut Errors) -> Option<Quantity> {
    let Some(amount) = quantity(value) else {
        let detail = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        errors.push(Error::invalid(path, value.clone(), detail));
        return None;
    };
    if amount.is_negative() {
        errors.push(Error::invalid(path, value.clone(), "must be greater than or equal to 0"));
    }
    Some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(resources: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_resources(&json!({ "resources": resources }), &Path::new("c"), &mut errors);
        errors.iter().map(Error::to_string).collect()
    }

    #[test]
    fn good_amounts_pass() {
        let good = json!({
            "limits": {"cpu": 1, "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        });
        assert_eq!(errors(good), Vec::<String>::new());
    }

    #[test]
    fn a_request_stays_within_its_limit() {
        let found = errors(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}));
        assert_eq!(found, [r#"c.resources.requests[cpu]: Invalid value: "2": must be less than or equal to cpu limit of 1"#]);
    }

    #[test]
    fn bad_amounts_and_names_are_reported() {
        let found = errors(json!({"limits": {"cpu": "-1", "memory": "lots", "gpu": "1", "example.com/gpu": "1500m"}}));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(errors(json!({"requests": {"example.com/gpu": "1"}}))[0].contains("Limit must be set"));
        assert!(errors(json!({"requests": {"a/b": "1"}, "limits": {"a/b": "2"}}))[0].contains("must be equal"));
    }
}
