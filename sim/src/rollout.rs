//! A rollout in the simulation: the planner's steps, one after the other, each taking its time.

use std::time::Duration;

use profiles::plan::{ApiServer, ControllerManager, Observed, Request, Step, WorkerNode, plan};
use profiles::{Class, Profile, Target};

use crate::scenario::Start;

/// The rollout.
#[derive(Clone, Debug)]
pub(crate) struct Rollout {
    request: Request,
    /// The cluster as the planner sees it; nodes in the order of the fleet.
    pub(crate) observed: Observed,
    pub(crate) step_time: Duration,
    under_way: Vec<Step>,
}

impl Rollout {
    pub(crate) fn new(start: &Start, nodes: impl Iterator<Item = String>) -> Option<Rollout> {
        let (from, to, day, step_time, max_unavailable) = start.rollout?;
        let values = from.values();
        let observed = Observed {
            kcm: vec![ControllerManager::new("kcm-0", values.node_monitor_grace_period)],
            kas: vec![ApiServer::new(
                "kas-0",
                values.default_not_ready_toleration_seconds,
                values.default_unreachable_toleration_seconds,
            )],
            nodes: nodes.map(|name| WorkerNode::new(name, values.lease_renew_interval())).collect(),
        };
        let request = Request { day, max_unavailable, ..Request::new(Target::Of(to), from) };
        Some(Rollout { request, observed, step_time, under_way: Vec::new() })
    }

    /// Returns the grace in force.
    pub(crate) fn grace(&self) -> Duration {
        self.observed.kcm[0].grace
    }

    /// Returns the default toleration of not-ready and of unreachable in force.
    pub(crate) fn tolerations(&self) -> (i64, i64) {
        (self.observed.kas[0].not_ready_seconds, self.observed.kas[0].unreachable_seconds)
    }

    /// Ends the steps under way, and returns them; an error names what the planner has promised and not kept.
    pub(crate) fn finish_steps(&mut self) -> Result<Vec<Step>, String> {
        let steps = std::mem::take(&mut self.under_way);
        for step in &steps {
            let before = self.danger();
            self.observed.apply(step);
            let after = self.danger();
            if after > before {
                return Err(format!("step {step} makes nodes unsafe: {before:?} before, {after:?} after"));
            }
        }
        Ok(steps)
    }

    /// Starts the next steps, and returns whether anything is left to be done.
    pub(crate) fn start_steps(&mut self) -> bool {
        loop {
            let plan = plan(&self.request, &self.observed);
            if plan.done {
                return false;
            }
            if !plan.stage_done {
                self.under_way = plan.next;
                return true;
            }
            self.request.applied = plan.stage;
        }
    }

    /// Returns the worst class of a counted node, and how many are not safe.
    fn danger(&self) -> (Class, usize) {
        let classes = || {
            let counted = self.observed.nodes.iter().filter(|node| !node.deferred());
            counted.map(|node| Class::of(node.heartbeat, self.grace()))
        };
        (classes().max().unwrap_or(Class::Safe), classes().filter(|class| *class != Class::Safe).count())
    }
}

/// Returns the name of what is simulated.
pub(crate) fn title(start: &Start, profile: Option<&str>) -> String {
    match (&start.rollout, profile) {
        (Some((from, to, ..)), _) => format!("{from} -> {to}"),
        (None, Some("")) | (None, None) => {
            if start.values == crate::Values::of(Profile::Default) { Profile::Default.name() } else { "Custom" }.to_owned()
        }
        (None, Some(profile)) => profile.to_owned(),
    }
}
