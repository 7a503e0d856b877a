//! The quality-of-service class of a pod: what the node sacrifices first when memory runs out.

use std::collections::BTreeMap;

use api::json;
use api::quantity::Quantity;
use serde_json::Value;

use crate::builtin::resources::quantity;

/// The resources that decide the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// Returns `Guaranteed`, `Burstable` or `BestEffort`; a limit without a request counts as both.
pub(super) fn qos_class(pod: &Value) -> &'static str {
    let mut requests: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut limits: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut all_limited = true;
    for container in containers(pod) {
        for name in COUNTED {
            let limit = amount(container, "limits", name);
            if let Some(request) = amount(container, "requests", name).or(limit) {
                add(&mut requests, name, request);
            }
            match limit {
                Some(limit) => add(&mut limits, name, limit),
                None => all_limited = false,
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if all_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The containers whose resources count; resources of the pod as a whole replace those of its containers.
fn containers(pod: &Value) -> Vec<&Value> {
    let spec = &pod["spec"];
    let whole = |kind| COUNTED.iter().any(|name| amount(spec, kind, name).is_some());
    if whole("requests") || whole("limits") {
        return vec![spec];
    }
    ["initContainers", "containers"].into_iter().flat_map(|list| json::items(spec, &[list])).collect()
}

/// Returns an amount above zero.
fn amount(container: &Value, kind: &str, name: &str) -> Option<Quantity> {
    json::at(container, &["resources", kind, name]).and_then(quantity).filter(|amount| *amount > Quantity::ZERO)
}

fn add<'a>(sums: &mut BTreeMap<&'a str, Quantity>, name: &'a str, amount: Quantity) {
    let sum = sums.entry(name).or_insert(Quantity::ZERO);
    *sum = *sum + amount;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(resources: &[Value]) -> &'static str {
        let containers: Vec<Value> = resources.iter().map(|resources| json!({ "resources": resources })).collect();
        qos_class(&json!({"spec": {"containers": containers}}))
    }

    #[test]
    fn the_class_follows_requests_and_limits() {
        let full = json!({"limits": {"cpu": "100m", "memory": "1Mi"}});
        assert_eq!(class(std::slice::from_ref(&full)), "Guaranteed");
        assert_eq!(class(&[full.clone(), json!({})]), "Burstable");
        assert_eq!(class(&[json!({"requests": {"cpu": "100m"}})]), "Burstable");
        assert_eq!(
            class(&[json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}})]),
            "Guaranteed"
        );
        assert_eq!(
            class(&[json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"}})]),
            "Burstable"
        );
        assert_eq!(class(&[json!({"requests": {"cpu": "0"}}), json!({"limits": {"example.com/gpu": "1"}})]), "BestEffort");
        assert_eq!(class(&[]), "BestEffort");
    }

    #[test]
    fn resources_of_the_whole_pod_come_first() {
        let pod = json!({"spec": {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "containers": [{}]}});
        assert_eq!(qos_class(&pod), "Guaranteed");
    }
}
