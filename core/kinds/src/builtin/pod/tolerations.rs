//! Tolerations: their form, which ones admission adds, which changes a running pod allows.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::tolerations::Defaults;
use api::{json, names};
use serde_json::Value;

use crate::builtin::Context;
use crate::builtin::check::{Errors, each, one_of, shaped};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Adds the tolerations that let a pod stay for a while on a node that is not ready, unless it has its own.
///
/// A toleration counts as its own whatever its operator or value: whoever names the taint has thought about it.
pub fn admit_pod_tolerations(pod: &mut Value, ctx: &Context<'_>) {
    let defaults = Defaults {
        not_ready_seconds: ctx.not_ready_toleration_seconds,
        unreachable_seconds: ctx.unreachable_toleration_seconds,
    };
    api::tolerations::admit(pod, &defaults);
}

/// Judges the tolerations of a pod spec.
pub(super) fn validate_tolerations(spec: &Value, path: &Path, errors: &mut Errors) {
    for (toleration, path) in each(spec, "tolerations", path) {
        let text = |key| json::text(toleration, &[key]);
        let (key, operator, effect) = (text("key"), text("operator"), text("effect"));
        shaped(toleration, "key", names::qualified_name, &path, errors);
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid(&path.child("operator"), operator, detail));
        }
        if json::get(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(Error::invalid(&path.child("effect"), effect, detail));
        }
        match operator {
            "Equal" | "" => shaped(toleration, "value", names::label_value, &path, errors),
            "Exists" if !text("value").is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(Error::invalid(&path.child("operator"), toleration.clone(), detail));
            }
            _ => one_of(toleration, "operator", &["Equal", "Exists"], &path, errors),
        }
        one_of(toleration, "effect", &EFFECTS, &path, errors);
    }
}

/// Judges a change: tolerations may be added, and the seconds of those that are there may change.
pub(super) fn validate_added_tolerations(new: &Value, old: &Value, path: &Path, errors: &mut Errors) {
    fn identity(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|key| json::text(toleration, &[key]))
    }
    let there: BTreeSet<[&str; 4]> = json::items(new, &["tolerations"]).iter().map(identity).collect();
    if !json::items(old, &["tolerations"]).iter().all(|was| there.contains(&identity(was))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(&path.child("tolerations"), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::tests::context;
    use api::tolerations::{NOT_READY, UNREACHABLE};
    use serde_json::json;

    fn admitted(tolerations: Value) -> Vec<(String, i64)> {
        let mut pod = json!({"spec": {"tolerations": tolerations}});
        admit_pod_tolerations(&mut pod, &context());
        json::items(&pod, &["spec", "tolerations"])
            .iter()
            .filter_map(|t| Some((json::text(t, &["key"]).to_owned(), json::int(t, &["tolerationSeconds"])?)))
            .collect()
    }

    #[test]
    fn missing_tolerations_are_added_in_order() {
        let both = [(NOT_READY.to_owned(), 300), (UNREACHABLE.to_owned(), 200)];
        assert_eq!(admitted(Value::Null), both);
        assert_eq!(admitted(json!([])), both);
        assert_eq!(admitted(json!([{"key": NOT_READY, "effect": "NoSchedule"}])), both);
        assert_eq!(admitted(json!([{"key": "other", "operator": "Exists"}])), both);
    }

    #[test]
    fn own_tolerations_stay_alone() {
        assert_eq!(admitted(json!([{"operator": "Exists"}])), []);
        assert_eq!(admitted(json!([{"key": NOT_READY, "operator": "Equal", "value": "x"}])), [(UNREACHABLE.to_owned(), 200)]);
        assert_eq!(admitted(json!([{"key": UNREACHABLE, "effect": "NoExecute"}])), [(NOT_READY.to_owned(), 300)]);
    }

    fn errors(toleration: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_tolerations(&json!({"tolerations": [toleration]}), &Path::new("spec"), &mut errors);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn the_form_of_a_toleration_is_judged() {
        assert!(errors(json!({"key": "a/b", "operator": "Equal", "value": "c", "effect": "NoSchedule"})).is_empty());
        assert!(errors(json!({"operator": "Exists"})).is_empty());
        assert_eq!(errors(json!({})), ["spec.tolerations[0].operator"]);
        assert_eq!(errors(json!({"key": "a", "operator": "Exists", "value": "b"})), ["spec.tolerations[0].operator"]);
        assert_eq!(errors(json!({"key": "a", "operator": "Near"})), ["spec.tolerations[0].operator"]);
        assert_eq!(errors(json!({"key": "a", "effect": "Never"})), ["spec.tolerations[0].effect"]);
        assert_eq!(errors(json!({"key": "a", "tolerationSeconds": 3})), ["spec.tolerations[0].effect"]);
    }
}
