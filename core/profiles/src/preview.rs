//! A rollout before it happens: every step, the state after it, and the states that are not visited.

use std::time::Duration;

use crate::hazard::{Class, chances};
use crate::path::{ClusterState, Day, path, states, visited};
use crate::plan::{Blocked, Observed, Request, Step, plan};
use crate::profile::{Profile, Target};

/// More steps than any plan of this many instances has: a bound, so that a mistake cannot loop for ever.
const STEPS_PER_INSTANCE: usize = 80;

/// A rollout before it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The profiles on the way, the last one being the target.
    pub path: Vec<Profile>,
    /// How it begins.
    pub start: Situation,
    /// Every step, in order.
    pub steps: Vec<PreviewStep>,
    /// What is left as it is.
    pub blocked: Vec<Blocked>,
    /// Nodes that are away for long; they are changed when they return.
    pub deferred: Vec<String>,
    /// States between the profiles that are not visited.
    pub avoided: Vec<Avoided>,
    /// How it ends.
    pub end: Observed,
}

/// One step and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewStep {
    /// The profile being applied.
    pub stage: Profile,
    /// What is changed.
    pub step: Step,
    /// How things are then.
    pub after: Situation,
}

/// The values in force, for the node that is worst off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The slowest heartbeat of the counted nodes; none: there are no nodes.
    pub slowest: Option<Duration>,
    /// The smallest grace.
    pub grace: Duration,
    /// The smallest default tolerations: not ready, unreachable.
    pub tolerations: (i64, i64),
    /// How many heartbeats of the slowest node fit into the grace.
    pub chances: Option<u64>,
    /// How likely that node is taken for dead although it lives.
    pub class: Class,
}

impl Situation {
    fn of(observed: &Observed) -> Situation {
        let grace = observed.kcm.iter().map(|kcm| kcm.grace).min().unwrap_or_default();
        let slowest = observed.nodes.iter().filter(|node| !node.deferred()).map(|node| node.heartbeat).max();
        let smallest = |seconds: fn(&crate::plan::ApiServer) -> i64| observed.kas.iter().map(seconds).min().unwrap_or_default();
        Situation {
            slowest,
            grace,
            tolerations: (smallest(|kas| kas.not_ready_seconds), smallest(|kas| kas.unreachable_seconds)),
            chances: slowest.map(|interval| chances(interval, grace)),
            class: slowest.map_or(Class::Safe, |interval| Class::of(interval, grace)),
        }
    }
}

/// A state that is not visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avoided {
    /// Between which profiles.
    pub between: (Profile, Profile),
    /// The values.
    pub state: ClusterState,
}

impl Avoided {
    /// Returns why, in words.
    pub fn why(&self) -> String {
        match self.state.class() {
            Class::Safe => "safe, not needed".to_owned(),
            class => format!("{}: {} chances before a living node is taken for dead", class.name(), self.state.chances()),
        }
    }
}

/// Returns what a rollout will do if every step takes effect; nothing is settling any more.
pub fn preview(request: &Request, mut observed: Observed) -> Preview {
    let (mut request, start) = (request.clone(), Situation::of(&observed));
    observed.kcm.iter_mut().for_each(|kcm| kcm.settling = None);
    observed.kas.iter_mut().for_each(|kas| kas.settling = None);
    observed.nodes.iter_mut().for_each(|node| node.settling = None);
    let limit = STEPS_PER_INSTANCE * (observed.kcm.len() + observed.kas.len() + observed.nodes.len() + 1);
    let (mut steps, mut way, mut avoided) = (Vec::new(), Vec::new(), Vec::new());
    let mut from = request.applied;
    loop {
        let plan = plan(&request, &observed);
        if way.last() != Some(&plan.stage) && (plan.stage != request.applied || !plan.steps.is_empty()) {
            way.push(plan.stage);
            avoided.extend(not_visited(from, plan.stage));
            from = plan.stage;
        }
        match plan.steps.first().filter(|_| steps.len() < limit) {
            Some(step) => {
                observed.apply(step);
                steps.push(PreviewStep { stage: plan.stage, step: step.clone(), after: Situation::of(&observed) });
            }
            None if plan.stage_done && !plan.done && request.applied != plan.stage => request.applied = plan.stage,
            None => {
                return Preview {
                    path: way,
                    start,
                    steps,
                    blocked: plan.blocked,
                    deferred: plan.deferred,
                    avoided,
                    end: observed,
                };
            }
        }
    }
}

/// Returns the states between two neighbours that the planner does not pass through.
fn not_visited(from: Profile, to: Profile) -> Vec<Avoided> {
    if from == to {
        return Vec::new();
    }
    let seen = visited(from, to);
    let all = states(from, to).into_iter().enumerate();
    all.filter(|(index, _)| !seen.contains(index)).map(|(_, state)| Avoided { between: (from, to), state }).collect()
}

/// Returns the states that a rollout passes through between all profiles on the way, and those that it avoids, without the
/// profiles themselves; each once.
pub fn between(from: Profile, to: Profile) -> (Vec<ClusterState>, Vec<ClusterState>) {
    let (mut passed, mut avoided): (Vec<ClusterState>, Vec<ClusterState>) = (Vec::new(), Vec::new());
    let mut start = from;
    for stage in path(from, to, Day::Two) {
        let (all, seen) = (states(start, stage), visited(start, stage));
        for (index, state) in all.into_iter().enumerate() {
            let end = [start, stage].into_iter().any(|profile| state == ClusterState::of(profile));
            let list = if seen.contains(&index) { &mut passed } else { &mut avoided };
            if !end && !list.contains(&state) {
                list.push(state);
            }
        }
        start = stage;
    }
    (passed, avoided)
}

/// Returns a plane of one part each and some nodes, all at a profile: what a preview without a cluster is about.
pub fn example(profile: Profile, nodes: usize, default_grace: Duration) -> Observed {
    let values = profile.values_with(default_grace);
    let name = crate::rollout::INSTANCE;
    Observed {
        kcm: vec![crate::plan::ControllerManager::new(name, values.node_monitor_grace_period)],
        kas: vec![crate::plan::ApiServer::new(
            name,
            values.default_not_ready_toleration_seconds,
            values.default_unreachable_toleration_seconds,
        )],
        nodes: (1..=nodes)
            .map(|index| crate::plan::WorkerNode::new(format!("node-{index}"), values.lease_renew_interval()))
            .collect(),
    }
}

/// Returns the request for a preview from one profile to another.
pub fn request(from: Profile, to: Profile, default_grace: Duration) -> Request {
    Request { default_grace, ..Request::new(Target::Of(to), from) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::DEFAULT_GRACE;

    fn between_profiles(from: Profile, to: Profile, nodes: usize) -> Preview {
        preview(&request(from, to, DEFAULT_GRACE), example(from, nodes, DEFAULT_GRACE))
    }

    #[test]
    fn default_to_low_shows_both_legs_and_every_state_is_safe() {
        let preview = between_profiles(Profile::Default, Profile::Low, 2);
        assert_eq!(preview.path, [Profile::Medium, Profile::Low]);
        let steps: Vec<String> = preview.steps.iter().map(|line| line.step.to_string()).collect();
        assert_eq!(
            steps,
            [
                "kcm lifesign grace=120",
                "node node-1 heartbeat=20",
                "node node-2 heartbeat=20",
                "kas lifesign tolerations=60/60",
                "kcm lifesign grace=300",
                "node node-1 heartbeat=60",
                "node node-2 heartbeat=60",
            ]
        );
        assert!(preview.steps.iter().all(|line| line.after.class == Class::Safe));
        let unsafe_states = preview.avoided.iter().filter(|avoided| avoided.state.class() != Class::Safe).count();
        assert_eq!(unsafe_states, 2 + 1, "20/40 with either toleration, and 60/120");
    }

    #[test]
    fn nothing_to_do_is_an_empty_preview() {
        let preview = between_profiles(Profile::Medium, Profile::Medium, 3);
        assert!(preview.steps.is_empty() && preview.path.is_empty() && preview.avoided.is_empty());
    }

    #[test]
    fn what_cannot_be_changed_is_told() {
        let mut observed = example(Profile::Default, 2, DEFAULT_GRACE);
        observed.kcm[0].aware = false;
        let preview = preview(&request(Profile::Default, Profile::Medium, DEFAULT_GRACE), observed);
        assert!(preview.steps.is_empty());
        assert_eq!(preview.blocked.len(), 4, "{:?}", preview.blocked);
    }

    #[test]
    fn the_states_between_the_extremes_are_told_once() {
        let (passed, avoided) = between(Profile::Default, Profile::Low);
        let text = |state: &ClusterState| {
            format!("{}/{}/{}", state.interval.as_secs(), state.grace.as_secs(), state.toleration_seconds)
        };
        assert_eq!(passed.iter().map(text).collect::<Vec<_>>(), ["10/120/300", "20/120/300", "20/300/60"]);
        assert_eq!(
            avoided.iter().map(text).collect::<Vec<_>>(),
            ["10/40/60", "10/120/60", "20/40/300", "20/40/60", "60/120/60"]
        );
    }
}
