//! How many pods a PodDisruptionBudget lets go, from what is known of its pods.

use std::time::Duration;

use api::budget::{BudgetSpec, BudgetStatus};
use api::int_or_string::Rounding;
use api::meta::Condition;
use api::{IntOrString, PodDisruptionBudget, Timestamp};
use machine::Time;

/// How long a pod whose eviction was allowed counts as gone although it is still seen; Kubernetes.
pub(crate) const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);
/// The condition; Kubernetes.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// What is known of the pods of a budget.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetFacts {
    /// How many pods it selects.
    pub pods: i64,
    /// Those that are ready, not being deleted, and not about to be evicted.
    pub healthy: i64,
    /// How many pods the controllers of these pods want together; or why that is not known.
    pub wanted: Result<i64, String>,
    /// Pods whose eviction was allowed and that are not seen to be on their way yet.
    pub disrupted: std::collections::BTreeMap<String, Timestamp>,
}

impl Default for BudgetFacts {
    fn default() -> BudgetFacts {
        BudgetFacts { pods: 0, healthy: 0, wanted: Ok(0), disrupted: std::collections::BTreeMap::new() }
    }
}

/// Returns the status of a budget.
pub fn budget_status(now: Time, budget: &PodDisruptionBudget, facts: &BudgetFacts) -> BudgetStatus {
    let generation = budget.metadata.generation;
    let stored = &budget.status;
    let (expected, desired) = match expectation(&budget.spec, facts) {
        Ok(numbers) => numbers,
        Err(why) => {
            // Nothing is known, so nothing may go.
            let mut failed = BudgetStatus { disruptions_allowed: 0, observed_generation: generation, ..stored.clone() };
            set_condition(&mut failed, now, generation, "False", "SyncFailed", &why);
            return failed;
        }
    };
    let allowed = if expected <= 0 { 0 } else { (facts.healthy - desired).max(0) };
    let mut status = BudgetStatus {
        observed_generation: generation,
        disrupted_pods: facts.disrupted.clone(),
        disruptions_allowed: allowed,
        current_healthy: facts.healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: stored.conditions.clone(),
    };
    let (value, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut status, now, generation, value, reason, "");
    status
}

/// Returns how many pods are expected, and how many must stay healthy.
fn expectation(spec: &BudgetSpec, facts: &BudgetFacts) -> Result<(i64, i64), String> {
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let wanted = facts.wanted.clone()?;
            Ok((wanted, (wanted - unavailable.of(wanted, Rounding::Up)).max(0)))
        }
        (None, Some(IntOrString::Int(available))) => Ok((facts.pods, *available)),
        (None, Some(share)) => {
            let wanted = facts.wanted.clone()?;
            Ok((wanted, share.of(wanted, Rounding::Up)))
        }
        (None, None) => Ok((facts.pods, 0)),
    }
}

fn set_condition(status: &mut BudgetStatus, now: Time, generation: i64, value: &str, reason: &str, message: &str) {
    let before = status.conditions.iter().find(|condition| condition.type_ == DISRUPTION_ALLOWED);
    let kept = before.filter(|before| before.status == value).and_then(|before| before.last_transition_time);
    let new = Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: value.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: kept.or(Some(Timestamp(now.floor_second()))),
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    };
    match status.conditions.iter_mut().find(|condition| condition.type_ == DISRUPTION_ALLOWED) {
        Some(condition) => *condition = new,
        None => status.conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(spec: BudgetSpec, pods: i64, healthy: i64, wanted: Result<i64, String>) -> (i64, i64, i64) {
        let mut budget = PodDisruptionBudget { spec, ..PodDisruptionBudget::default() };
        budget.metadata.generation = 2;
        let facts = BudgetFacts { pods, healthy, wanted, ..BudgetFacts::default() };
        let status = budget_status(Time::from_secs(5), &budget, &facts);
        assert_eq!((status.observed_generation, status.current_healthy), (2, healthy));
        (status.expected_pods, status.desired_healthy, status.disruptions_allowed)
    }

    fn min(text: &str) -> BudgetSpec {
        let share = text.parse().map_or(IntOrString::String(text.into()), IntOrString::Int);
        BudgetSpec { min_available: Some(share), ..BudgetSpec::default() }
    }

    fn max(text: &str) -> BudgetSpec {
        let BudgetSpec { min_available, .. } = min(text);
        BudgetSpec { max_unavailable: min_available, ..BudgetSpec::default() }
    }

    #[test]
    fn a_budget_counts_as_in_kubernetes() {
        assert_eq!(status(min("2"), 3, 3, Err(String::new())), (3, 2, 1));
        assert_eq!(status(min("5"), 3, 3, Err(String::new())), (3, 5, 0));
        assert_eq!(status(min("50%"), 7, 7, Ok(7)), (7, 4, 3));
        assert_eq!(status(max("1"), 3, 3, Ok(3)), (3, 2, 1));
        assert_eq!(status(max("30%"), 10, 8, Ok(10)), (10, 7, 1));
        assert_eq!(status(max("10"), 3, 2, Ok(3)), (3, 0, 2));
        assert_eq!(status(min("0"), 0, 0, Ok(0)), (0, 0, 0));
    }

    #[test]
    fn what_cannot_be_counted_lets_nothing_go() {
        let mut budget = PodDisruptionBudget { spec: max("1"), ..PodDisruptionBudget::default() };
        budget.status.disruptions_allowed = 3;
        let facts = BudgetFacts { pods: 3, healthy: 3, wanted: Err("why".into()), ..BudgetFacts::default() };
        let status = budget_status(Time::ZERO, &budget, &facts);
        assert_eq!(status.disruptions_allowed, 0);
        assert_eq!((status.conditions[0].reason.as_str(), status.conditions[0].message.as_str()), ("SyncFailed", "why"));
    }
}
