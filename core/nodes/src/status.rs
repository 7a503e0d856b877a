//! Whether the API shows a node as the node itself would.

use api::Node;

/// Returns whether a stored status says what `own`, the status that the node would post, says; timestamps aside.
///
/// What the node does not write (conditions of others) plays no part.
pub fn same_status(own: &Node, stored: &Node) -> bool {
    let (own, stored) = (&own.status, &stored.status);
    let conditions = own.conditions.iter().all(|own| {
        stored.conditions.iter().any(|stored| {
            (&own.type_, &own.status, &own.reason, &own.message)
                == (&stored.type_, &stored.status, &stored.reason, &stored.message)
        })
    });
    conditions
        && own.addresses.iter().all(|address| stored.addresses.contains(address))
        && own.allocatable.iter().all(|(name, amount)| stored.allocatable.get(name) == Some(amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(ready: &str, heartbeat: &str, others: serde_json::Value) -> Node {
        let ready = json!({"type": "Ready", "status": ready, "reason": "KubeletReady", "lastHeartbeatTime": heartbeat});
        let mut conditions = vec![ready];
        conditions.extend(others.as_array().cloned().unwrap_or_default());
        let status = json!({
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "allocatable": {"cpu": "2"},
        });
        serde_json::from_value(json!({"status": status})).unwrap()
    }

    #[test]
    fn only_what_the_node_itself_says_is_compared() {
        let own = node("True", "2026-01-01T00:00:00Z", json!([]));
        assert!(same_status(&own, &own));
        let others = json!([{"type": "NetworkUnavailable", "status": "True"}]);
        assert!(same_status(&own, &node("True", "2026-01-02T00:00:00Z", others)), "timestamps and conditions of others");
        assert!(!same_status(&own, &node("Unknown", "2026-01-01T00:00:00Z", json!([]))));
        assert!(!same_status(&own, &Node::default()), "nothing posted yet");
        let mut less = own.clone();
        less.status.allocatable.clear();
        assert!(!same_status(&own, &less));
        let mut moved = own.clone();
        moved.status.addresses[0].address = "127.0.0.2".to_owned();
        assert!(!same_status(&own, &moved));
    }
}
