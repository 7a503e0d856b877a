//! Tolerations: which taints one tolerates, and what admission adds to a pod that names no health taint.

use serde_json::Value;

use crate::json;
use crate::node::Taint;
use crate::pod::Toleration;

/// The taint of a node that says that it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node that says nothing.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The seconds that a pod tolerates a health taint unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `--default-not-ready-toleration-seconds`; may be negative, which counts as 0 when it is used.
    pub not_ready_seconds: i64,
    /// `--default-unreachable-toleration-seconds`; may be negative.
    pub unreachable_seconds: i64,
}

impl Defaults {
    /// Returns the tolerations that admission adds: not ready, unreachable.
    pub fn tolerations(&self) -> [Toleration; 2] {
        [(NOT_READY, self.not_ready_seconds), (UNREACHABLE, self.unreachable_seconds)].map(|(key, seconds)| Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            value: String::new(),
            effect: "NoExecute".to_owned(),
            toleration_seconds: Some(seconds),
        })
    }
}

/// Returns what admission appends to the tolerations of a pod.
///
/// Operator and value of what is there do not matter, as in Kubernetes: whoever names the taint has thought about it.
pub fn missing(tolerations: &[Toleration], defaults: &Defaults) -> Vec<Toleration> {
    let covers = |own: &Toleration, default: &Toleration| {
        (own.key.is_empty() || own.key == default.key) && (own.effect.is_empty() || own.effect == default.effect)
    };
    let absent = |default: &Toleration| !tolerations.iter().any(|own| covers(own, default));
    defaults.tolerations().into_iter().filter(absent).collect()
}

/// Appends to a pod, whatever its JSON looks like, what admission adds.
pub fn admit(pod: &mut Value, defaults: &Defaults) {
    let read = |item: &Value| Toleration {
        key: json::text(item, &["key"]).to_owned(),
        effect: json::text(item, &["effect"]).to_owned(),
        ..Toleration::default()
    };
    let present: Vec<Toleration> = json::items(pod, &["spec", "tolerations"]).iter().map(read).collect();
    let added = missing(&present, defaults);
    if added.is_empty() {
        return;
    }
    let list = json::object_mut(pod, &["spec"]).entry("tolerations").or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let list = list.as_array_mut().expect("made a list just above");
    list.extend(added.into_iter().map(|toleration| serde_json::to_value(toleration).expect("plain data has a JSON form")));
}

/// Returns whether a toleration tolerates a taint. Without a key it means every taint if its operator is `Exists`, else none.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => !toleration.key.is_empty() && toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tolerated(toleration: Value, taint: Value) -> bool {
        tolerates(&serde_json::from_value(toleration).unwrap(), &serde_json::from_value(taint).unwrap())
    }

    #[test]
    fn without_a_key_exists_means_all_and_equal_none() {
        let taint = || json!({"key": "a", "value": "", "effect": "NoExecute"});
        assert!(tolerated(json!({"operator": "Exists"}), taint()));
        assert!(!tolerated(json!({"operator": "Equal"}), taint()));
        assert!(!tolerated(json!({}), taint()));
        assert!(!tolerated(json!({"operator": "Exists", "effect": "NoSchedule"}), taint()));
    }

    #[test]
    fn a_key_and_its_value_must_match() {
        let taint = || json!({"key": "a", "value": "b", "effect": "NoSchedule"});
        assert!(tolerated(json!({"key": "a", "value": "b"}), taint()));
        assert!(!tolerated(json!({"key": "a", "value": "c"}), taint()));
        assert!(tolerated(json!({"key": "a", "operator": "Exists"}), taint()));
        assert!(!tolerated(json!({"key": "a", "operator": "Near", "value": "b"}), taint()));
    }
}
