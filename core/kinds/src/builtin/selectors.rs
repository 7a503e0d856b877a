//! Label selectors inside specs.

use api::field::{Error, Path};
use api::{LabelSelector, Selector, json, names};
use serde_json::Value;

use super::check::{Errors, each, shaped};
use super::meta::validate_labels;

/// Judges whether a requirement has values where its operator needs them, and none where it does not.
pub(super) fn validate_values(requirement: &Value, path: &Path, errors: &mut Errors) {
    let values = json::items(requirement, &["values"]);
    match json::text(requirement, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&path.child("values"), detail));
        }
        _ => {}
    }
}

/// Judges a label selector.
pub(super) fn validate_label_selector(selector: &Value, path: &Path, errors: &mut Errors) {
    validate_labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    for (expression, path) in each(selector, "matchExpressions", path) {
        validate_values(expression, &path, errors);
        match json::text(expression, &["operator"]) {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            operator => errors.push(Error::invalid(&path.child("operator"), operator, "not a valid selector operator")),
        }
        if json::text(expression, &["key"]).is_empty() {
            errors.push(Error::invalid(&path.child("key"), "", "name part must be non-empty"));
        }
        shaped(expression, "key", names::qualified_name, &path, errors);
        for (value, path) in each(expression, "values", &path) {
            let value = value.as_str().unwrap_or_default();
            if let Some(broken) = names::label_value(value) {
                errors.push(Error::invalid(&path, value, broken));
            }
        }
    }
}

/// Returns a selector ready to match, or `None` if it is malformed.
pub(super) fn compile(selector: &Value) -> Option<Selector> {
    serde_json::from_value::<LabelSelector>(selector.clone()).ok()?.compile()
}

/// Returns whether a selector selects everything.
pub(super) fn is_empty(selector: &Value) -> bool {
    json::object(selector, &["matchLabels"]).is_none_or(serde_json::Map::is_empty)
        && json::items(selector, &["matchExpressions"]).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(selector: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_label_selector(&selector, &Path::new("s"), &mut errors);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn operators_decide_about_values() {
        let good = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "Exists"},
        ]});
        assert!(errors(good.clone()).is_empty() && compile(&good).is_some() && !is_empty(&good));
        let bad = json!({"matchLabels": {"a b": "c"}, "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "", "operator": "Near", "values": ["no spaces"]},
        ]});
        let expected = [
            "s.matchLabels",
            "s.matchExpressions[0].values",
            "s.matchExpressions[1].values",
            "s.matchExpressions[2].operator",
            "s.matchExpressions[2].key",
            "s.matchExpressions[2].values[0]",
        ];
        assert_eq!(errors(bad.clone()), expected);
        assert!(compile(&bad).is_none() && is_empty(&json!({})) && is_empty(&json!({"matchLabels": {}})));
    }
}
