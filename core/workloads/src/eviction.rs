//! Whether a pod may be evicted now, and what that takes off the budget it belongs to.

use api::{Pod, PodDisruptionBudget, Timestamp};
use machine::Time;
use serde_json::{Value, json};

/// Evictions that may wait for the disruption controller; Kubernetes. More means that it does not run.
const UNCONFIRMED_MAX: usize = 2000;

/// Whether an eviction may happen.
#[derive(Clone, Debug, PartialEq)]
pub enum Eviction {
    /// It may, and no budget is the smaller for it.
    Free,
    /// It may, once the budget has this status: the members that change.
    Takes(Value),
    /// Not now: why, for people.
    NotNow(String),
    /// It is not right that it may: why, for people.
    Forbidden(String),
}

/// Returns whether a pod counts for its budget at all: one that has ended, has not begun or is on its way out does not.
pub fn needs_budget(pod: &Pod) -> bool {
    !pod.terminal() && pod.status.phase != "Pending" && !pod.metadata.deleting()
}

/// Decides about the eviction of a pod to which this budget applies.
pub fn evict(now: Time, pod: &Pod, budget: &PodDisruptionBudget) -> Eviction {
    let (name, status) = (&budget.metadata.name, &budget.status);
    if !pod.condition_true("Ready") {
        let enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" || enough {
            return Eviction::Free;
        }
    }
    if status.observed_generation < budget.metadata.generation {
        return Eviction::NotNow(format!("The disruption budget {name} is still being processed by the server."));
    }
    if status.disruptions_allowed < 0 {
        return Eviction::Forbidden("pdb disruptions allowed is negative".to_owned());
    }
    if status.disrupted_pods.len() > UNCONFIRMED_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Eviction::Forbidden(why.to_owned());
    }
    if status.disruptions_allowed == 0 {
        let (needs, has) = (status.desired_healthy, status.current_healthy);
        return Eviction::NotNow(format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently"));
    }
    let at = Timestamp(now).to_string();
    let taken = json!({
        "disruptionsAllowed": status.disruptions_allowed - 1, "disruptedPods": {pod.metadata.name.as_str(): at},
    });
    Eviction::Takes(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(ready: &str, phase: &str) -> Pod {
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    fn budget(policy: &str, allowed: i64, healthy: i64) -> PodDisruptionBudget {
        let status =
            json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 2, "observedGeneration": 1});
        let spec = json!({"unhealthyPodEvictionPolicy": policy});
        serde_json::from_value(json!({"metadata": {"name": "b", "generation": 1}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn a_budget_is_taken_from_until_it_is_used_up() {
        let ready = pod("True", "Running");
        let Eviction::Takes(taken) = evict(Time::ZERO, &ready, &budget("", 1, 3)) else { panic!("it may go") };
        assert_eq!(taken, json!({"disruptionsAllowed": 0, "disruptedPods": {"p": "1970-01-01T00:00:00Z"}}));
        let why = "The disruption budget b needs 2 healthy pods and has 2 currently".to_owned();
        assert_eq!(evict(Time::ZERO, &ready, &budget("", 0, 2)), Eviction::NotNow(why));
        let mut changed = budget("", 1, 3);
        changed.metadata.generation = 2;
        assert!(matches!(evict(Time::ZERO, &ready, &changed), Eviction::NotNow(why) if why.contains("still being processed")));
    }

    #[test]
    fn a_pod_that_is_not_ready_goes_by_the_policy() {
        let sick = pod("False", "Running");
        assert_eq!(evict(Time::ZERO, &sick, &budget("AlwaysAllow", 0, 0)), Eviction::Free);
        assert_eq!(evict(Time::ZERO, &sick, &budget("", 0, 2)), Eviction::Free, "enough others are healthy");
        assert!(matches!(evict(Time::ZERO, &sick, &budget("IfHealthyBudget", 0, 1)), Eviction::NotNow(_)));
    }

    #[test]
    fn pods_that_do_not_run_need_no_budget() {
        assert!(needs_budget(&pod("True", "Running")));
        for phase in ["Pending", "Succeeded", "Failed"] {
            assert!(!needs_budget(&pod("False", phase)));
        }
    }
}
