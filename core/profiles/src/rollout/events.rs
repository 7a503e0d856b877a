//! What has happened since the last look, and the events that say so.

use std::collections::BTreeMap;

use api::config_node::{ConfigNode, NAME};
use api::event::{Event, EventType};
use api::write;

use super::{Judged, Restored, Rollout, RolloutUpdate};
use crate::plan::{Observed, Step};
use crate::status::{Evaluation, Reason};
use crate::steps::{AppliedStep, ApplyStep, StepResult};

/// Returns whether earlier controllers have left a rollout that is over, as far as they have said; `None`: nobody has looked yet.
pub(super) fn was_done(cluster: &ConfigNode) -> Option<bool> {
    let conditions = &cluster.status.worker_latency_profile_status.conditions;
    let under_way = |condition: &api::config_node::OwnedCondition| {
        condition.type_ == "Progressing" && condition.status == "True" || condition.reason == Reason::RolloutPaused.name()
    };
    (!conditions.is_empty()).then(|| !conditions.iter().any(under_way))
}

impl Rollout {
    /// Finds the steps that have taken effect or were taken back since the last look.
    pub(super) fn take_effect(&mut self, observed: &Observed, update: &mut RolloutUpdate) {
        let settling = &self.settling;
        self.pending.retain(|key, step| {
            let over = !settling.contains_key(key);
            // What agents answer is reported by them.
            if over && !self.node_steps.contains_key(step.name()) && came_true(step, observed) {
                update.applied.push(step.clone());
            }
            !over
        });
        let before = self.reported.take();
        let ended = self.ended();
        // Also those that earlier controllers have handed out, which end with an API server that does not come back: they have not reported the last
        // one, and have reported the others.
        let last = ended.keys().next_back().copied().filter(|_| self.done == Some(false));
        for (at, (node, handed, answer)) in &ended {
            let is_reported = match &before {
                Some(reported) => reported.contains(&handed.id),
                None => last != Some(*at),
            };
            if is_reported {
                continue;
            }
            let Some(result) = answer.result else { continue };
            match (handed.values, result) {
                (Some(values), StepResult::Applied) => update.applied.push(values.step(node)),
                (Some(values), StepResult::Reverted) => update.reverted.push(values.step(node)),
                // Why it cannot be changed is reported as what blocks it.
                (Some(_), _) => {}
                (None, result) => update.restores.push(Restored {
                    kind: handed.component.kind(),
                    name: (*node).clone(),
                    result,
                    message: answer.message.clone(),
                }),
            }
        }
        self.reported = Some(ended.into_values().map(|(_, handed, _)| handed.id.clone()).collect());
    }

    /// Returns the steps of this generation that agents have ended, in the order in which they were handed out.
    fn ended(&self) -> BTreeMap<(i64, usize), (&String, &ApplyStep, &AppliedStep)> {
        let ended = self.node_steps.iter().enumerate().filter_map(|(index, (node, steps))| {
            let (handed, answer) = (steps.handed.as_ref()?, steps.answer.as_ref()?);
            let over = steps.result().is_some_and(|result| result != StepResult::Running);
            (over && handed.generation == self.generation).then_some(((handed.handed_at(), index), (node, handed, answer)))
        });
        ended.collect()
    }

    /// Says what has happened.
    pub(super) fn tell(&mut self, cluster: &ConfigNode, judged: &Judged, update: &mut RolloutUpdate) {
        let wanted = judged.request.target.profile();
        let done = judged.plan.done;
        if !done && self.done != Some(false) {
            let message = format!("rolling out {wanted}, now {}", judged.plan.stage);
            update.events.push(event(cluster, EventType::Normal, "LatencyProfileStarted", message));
        }
        for step in &update.applied {
            update.events.push(event(cluster, EventType::Normal, "LatencyProfileStepApplied", step.to_string()));
        }
        for step in &update.reverted {
            let why = self.node_steps.get(step.name()).and_then(|steps| steps.answer.as_ref());
            let message = format!("{step}: {}", why.map_or("", |answer| &answer.message));
            update.events.push(event(cluster, EventType::Warning, "LatencyProfileStepReverted", message));
        }
        for restored in &update.restores {
            let what = format!("{} {} as before the first profile", restored.kind.name(), restored.name);
            let why = format!("{what}: {}", restored.message);
            update.events.push(match restored.result {
                StepResult::Applied => event(cluster, EventType::Normal, "LatencyProfileStepApplied", what),
                StepResult::Reverted => event(cluster, EventType::Warning, "LatencyProfileStepReverted", why),
                _ => event(cluster, EventType::Warning, "LatencyProfileBlocked", why),
            });
        }
        for blocked in judged.plan.blocked.iter().filter(|blocked| !self.blocked.contains(blocked)) {
            let why = self.obstacles.get(&(blocked.kind, blocked.name.clone())).map(|why| format!(": {why}"));
            let message = format!("{blocked}{}", why.unwrap_or_default());
            update.events.push(event(cluster, EventType::Warning, "LatencyProfileBlocked", message));
        }
        if done && self.done == Some(false) {
            update.events.push(event(cluster, EventType::Normal, "LatencyProfileCompleted", format!("{wanted} is in force")));
            for advisory in &judged.advisories {
                let message = format!("{}: {}", advisory.name(), advisory.text());
                update.events.push(event(cluster, EventType::Warning, "LatencyProfileAdvisory", message));
            }
        }
        self.done = Some(done);
        self.blocked.clone_from(&judged.plan.blocked);
    }
}

fn came_true(step: &Step, observed: &Observed) -> bool {
    let mut after = observed.clone();
    after.apply(step);
    after == *observed
}

pub(super) fn rolled_back(cluster: &ConfigNode, outcome: &Evaluation) -> Event {
    let failed = outcome.owners.iter().find(|(_, conditions)| conditions.degraded());
    let why = failed.map_or_else(String::new, |(owner, conditions)| format!("{owner}: {}", conditions.reason.name()));
    event(cluster, EventType::Warning, "LatencyProfileRolledBack", format!("going back to Default; {why}"))
}

fn event(cluster: &ConfigNode, type_: EventType, reason: &'static str, message: String) -> Event {
    Event { object: write::reference::<ConfigNode>("", NAME, &cluster.metadata.uid), type_, reason, message }
}
