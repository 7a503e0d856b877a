//! Pods: what the server sets, what an update keeps. How they are deleted is in `registry::deletion`.

pub(super) mod containers;
pub(super) mod defaults;
pub(super) mod env;
pub(super) mod qos;
pub(super) mod scheduling;
pub(super) mod security;
pub(super) mod spec;
pub(super) mod status;
pub(super) mod tolerations;
pub(super) mod update;
pub(super) mod volumes;

use std::collections::{BTreeMap, VecDeque};

use api::Timestamp;
use api::json;
use serde_json::{Value, json};

use super::Context;
use super::fill::{copy, drop_zeros};

/// Sets what a pod has before anybody has seen it: pending, its class, and why it is held back if it is.
pub(super) fn prepare_create(pod: &mut Value, ctx: &Context<'_>) {
    let mut status = json!({"phase": "Pending", "qosClass": qos::qos_class(pod)});
    if !json::items(pod, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": Timestamp(ctx.now).to_string(),
        }]);
    }
    json::object_mut(pod, &[]).insert("status".to_owned(), status);
}

/// Keeps what a writer of the status may not touch, and what old writers forget.
pub(super) fn prepare_status(new: &mut Value, old: &Value) {
    let status = json::object_mut(new, &["status"]);
    let old_status = old.get("status");
    drop_zeros(status, &["qosClass", "observedGeneration"]);
    for key in ["qosClass", "observedGeneration"] {
        if status.get(key).is_none() {
            copy(old_status, key, status);
        }
    }
    // Conditions of one type are met in their order.
    let mut generations: BTreeMap<&str, VecDeque<Option<&Value>>> = BTreeMap::new();
    for condition in json::items(old, &["status", "conditions"]) {
        generations.entry(json::text(condition, &["type"])).or_default().push_back(condition.get("observedGeneration"));
    }
    for condition in json::items_mut(new, &["status", "conditions"]).into_iter().flatten() {
        let Some(generation) = generations.get_mut(json::text(condition, &["type"])).and_then(VecDeque::pop_front) else {
            continue;
        };
        if let (Some(generation), None | Some(0)) = (generation, json::int(condition, &["observedGeneration"])) {
            json::object_mut(condition, &[]).insert("observedGeneration".to_owned(), generation.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_writer_may_forget_the_class_and_the_generations() {
        let old = json!({"status": {
            "qosClass": "Burstable", "observedGeneration": 3,
            "conditions": [{"type": "Ready", "observedGeneration": 3}, {"type": "x/y"}],
        }});
        let mut new = json!({"status": {"phase": "Running", "conditions": [{"type": "x/y"}, {"type": "Ready"}]}});
        prepare_status(&mut new, &old);
        let expected = json!({
            "phase": "Running", "qosClass": "Burstable", "observedGeneration": 3,
            "conditions": [{"type": "x/y"}, {"type": "Ready", "observedGeneration": 3}],
        });
        assert_eq!(new["status"], expected);
    }
}
