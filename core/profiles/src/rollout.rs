//! The rollout of a profile on a plane of our own: objects in, writes out.
//!
//! One reconcile reads the world, asks the planner for the next safe steps, folds what it sees into conditions, and says what
//! is to be written: carriers (annotations that the parts of a plane read), the record of what was completed, the status.
//! Nothing is stored here that a restart could not do without: a step that was written and has not taken effect yet shows as
//! a carrier that differs from the value in use.

mod observe;
pub mod own;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::config_node::{ConfigNode, NAME};
use api::note::{Note, NoteType};
use api::{Node, Write, write};
use machine::Time;

pub use observe::{PodDefaults, World, observed};

use crate::hazard::Class;
use crate::message::{messages, related_nodes};
use crate::path::Day;
use crate::plan::{Blocked, Kind, Observed, Plan, Request, Step, plan};
use crate::profile::{DEFAULT_GRACE, Profile, Target};
use crate::status::{Instances, Outcome, PROGRESS_DEADLINE, ProfileStatus, Snapshot, generation, instances};

/// The name of the controller manager and of the API server of a plane in steps, messages and events.
pub const INSTANCE: &str = "lifesign";
/// How often a rollout is looked at while it goes on; also the steps in which a message tells for how long something settles.
const LOOK: Duration = Duration::from_secs(10);
/// The same while a part of the control plane takes up a value: it does so within moments.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// The same when everything is at rest: only the number of pods with old defaults can change.
const LOOK_SELDOM: Duration = Duration::from_secs(60);

/// What an operator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long an owner that has the turn may be without progress.
    pub progress_deadline: Duration,
    /// How many nodes change at a time; 0: no limit.
    pub max_unavailable: usize,
    /// The grace that `Default` means.
    pub default_grace: Duration,
    /// Whether a Node may have a profile of its own; see [`own`].
    pub per_node: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { progress_deadline: PROGRESS_DEADLINE, max_unavailable: 1, default_grace: DEFAULT_GRACE, per_node: false }
    }
}

/// What one look at the world comes to.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// What is to be written, in order.
    pub writes: Vec<Write>,
    /// What is to be said.
    pub notes: Vec<Note>,
    /// Steps that have taken effect since the last look.
    pub applied: Vec<Step>,
    /// Why the wish was given up, if that happened now.
    pub rolled_back: Option<&'static str>,
    /// How things are; `None`: there is no object to say it on yet.
    pub view: Option<View>,
    /// When to look again if nothing happens before.
    pub again_at: Option<Time>,
}

/// How a rollout is, for metrics and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What the user wants.
    pub spec: Target,
    /// The last profile that was completed.
    pub applied: Profile,
    /// The profile being applied.
    pub leg: Profile,
    /// What is enforced, and the conditions of the owners.
    pub outcome: Outcome,
    /// Nodes per hazard class under the grace in use.
    pub classes: BTreeMap<Class, usize>,
    /// Whether the target is reached.
    pub done: bool,
}

/// The rollout.
#[derive(Clone, Debug)]
pub struct Rollout {
    options: Options,
    status: Option<ProfileStatus>,
    /// Since when a carrier is not yet obeyed.
    settling: BTreeMap<(Kind, String), Time>,
    /// Steps that were written and have not been seen to take effect.
    pending: BTreeMap<(Kind, String), Step>,
    /// The nodes that were ready when this generation's rollout began.
    ready_at_start: BTreeSet<String>,
    generation: String,
    /// Whether the target was reached at the last look; `None`: there was none.
    done: Option<bool>,
    blocked: Vec<Blocked>,
}

impl Rollout {
    /// Returns a rollout that has seen nothing.
    pub fn new(options: Options) -> Rollout {
        Rollout {
            options,
            status: None,
            settling: BTreeMap::new(),
            pending: BTreeMap::new(),
            ready_at_start: BTreeSet::new(),
            generation: String::new(),
            done: None,
            blocked: Vec::new(),
        }
    }

    /// Looks at the world. Make the writes come true (or fail) before the next look.
    pub fn look(&mut self, now: Time, world: &World<'_>) -> Turn {
        if !self.options.per_node || !world.nodes.values().any(|node| own::profile(node).is_some()) {
            return self.look_at_fleet(now, world);
        }
        let (fleet, mut writes) = own::set_apart(world.nodes);
        let mut turn = self.look_at_fleet(now, &World { nodes: &fleet, ..*world });
        writes.append(&mut turn.writes);
        Turn { writes, ..turn }
    }

    /// Looks at the nodes that have no profile of their own.
    fn look_at_fleet(&mut self, now: Time, world: &World<'_>) -> Turn {
        let Some(cluster) = world.cluster else {
            // The conditions need a place; a missing object means the same as this one.
            return Turn { writes: vec![writes::create_cluster()], again_at: Some(now + LOOK), ..Turn::default() };
        };
        let mut turn = Turn::default();
        let target = Target::parse(&cluster.spec.worker_latency_profile).unwrap_or_default();
        let wish = Wish { target, generation: generation(&cluster.metadata), applied: world.applied() };
        let observed = self.observe(now, world);
        self.begin(&wish, world);
        let was_rolled_back = self.status(cluster).rollback();
        let mut judged = self.judge(now, cluster, &wish, world, &observed);
        if judged.outcome.rollback && !was_rolled_back {
            turn.rolled_back = Some(failure(&judged.outcome));
            turn.notes.push(rolled_back_note(cluster, &judged.outcome));
            // The plan was made for the wish that has just been given up.
            judged = self.judge(now, cluster, &wish, world, &observed);
        }
        turn.applied = self.take_effect(&observed);
        turn.writes = self.writes(world, &observed, &judged, &wish);
        self.tell(cluster, &judged, &mut turn);
        turn.again_at = Some(now + pause(world, &judged.plan));
        turn.view = Some(View {
            spec: target,
            applied: if judged.plan.leg_done { judged.plan.leg } else { wish.applied },
            leg: judged.plan.leg,
            classes: classes(&observed),
            done: judged.plan.done,
            outcome: judged.outcome,
        });
        turn
    }

    fn status(&mut self, cluster: &ConfigNode) -> &mut ProfileStatus {
        let deadline = self.options.progress_deadline;
        self.status.get_or_insert_with(|| {
            let written = &cluster.status.worker_latency_profile_status.conditions;
            let rolled_back = cluster.metadata.annotations.get(api::config_node::ANNOTATION_ROLLED_BACK_GENERATION);
            ProfileStatus::resume(deadline, written, rolled_back.map(String::as_str))
        })
    }

    /// Remembers who is ready when a new wish is first seen.
    fn begin(&mut self, wish: &Wish, world: &World<'_>) {
        if self.generation != wish.generation || self.done == Some(true) {
            self.generation.clone_from(&wish.generation);
            let ready = world.nodes.iter().filter(|(_, node)| node.ready() == Some("True"));
            self.ready_at_start = ready.map(|(name, _)| name.clone()).collect();
        }
    }

    /// Plans, and folds what is seen into conditions.
    fn judge(&mut self, now: Time, cluster: &ConfigNode, wish: &Wish, world: &World<'_>, observed: &Observed) -> Judged {
        let request = Request {
            target: self.status(cluster).enforced(wish.target, &wish.generation),
            applied: wish.applied,
            day: if observed.nodes.iter().all(|node| node.control_plane) { Day::Zero } else { Day::Two },
            max_unavailable: self.options.max_unavailable,
            paused: cluster.paused(),
            default_grace: self.options.default_grace,
        };
        let plan = plan(&request, observed);
        let owners = instances(&request, observed, &plan);
        let lost = |name: &&String| world.nodes.get(*name).is_some_and(|node| node.ready() == Some("Unknown"));
        let snapshot = Snapshot {
            at: now,
            target: wish.target,
            generation: wish.generation.clone(),
            leg: plan.leg,
            paused: request.paused,
            nodes_lost: self.ready_at_start.iter().filter(lost).count(),
            nodes_ready_at_start: self.ready_at_start.len(),
            owners: owners.clone(),
        };
        let outcome = self.status(cluster).fold(&snapshot);
        Judged { request, plan, owners, outcome }
    }

    /// Returns the steps that have taken effect since the last look.
    fn take_effect(&mut self, observed: &Observed) -> Vec<Step> {
        let settling = &self.settling;
        let mut applied = Vec::new();
        self.pending.retain(|key, step| {
            let over = !settling.contains_key(key);
            if over && came_true(step, observed) {
                applied.push(step.clone());
            }
            !over
        });
        applied
    }

    fn writes(&mut self, world: &World<'_>, observed: &Observed, judged: &Judged, wish: &Wish) -> Vec<Write> {
        let mut changes = writes::Changes::new(world);
        // One step for each: the first one.
        let mut steps = BTreeMap::new();
        for step in judged.plan.next.iter().chain(self.told_again(world, judged)) {
            steps.entry((step.kind(), step.name().to_owned())).or_insert_with(|| step.clone());
        }
        steps.retain(|_, step| changes.step(step));
        self.pending.append(&mut steps);
        if judged.plan.done {
            changes.rest(judged.request.target, &judged.request.target.profile().values_with(self.options.default_grace));
        }
        if judged.plan.leg_done {
            changes.applied(judged.plan.leg);
        }
        changes.rolled_back(judged.outcome.rollback.then_some(wish.generation.as_str()));
        let values = judged.plan.leg.values_with(self.options.default_grace);
        let old_defaults = world.pods.values().filter(|pod| pod.older_than(&values)).count();
        let messages = messages(&judged.request, observed, &judged.plan, &judged.owners, old_defaults);
        changes.status(judged.outcome.conditions(&messages), related_nodes(&judged.plan));
        changes.finish()
    }

    /// Returns the steps of nodes that have not taken up another value yet: such a node is under way already, so that telling
    /// it something else takes no room of the others. Without this a node that never obeys would keep a rollout from being
    /// turned round.
    fn told_again<'a>(&'a self, world: &World<'_>, judged: &'a Judged) -> impl Iterator<Item = &'a Step> {
        // The grace that is on its way counts as well: it may be in use before the node has heard of it.
        let (grace, paused) = (world.grace.min(world.told_grace().unwrap_or(world.grace)), judged.request.paused);
        judged.plan.steps.iter().filter(move |step| match step {
            Step::Node { name, heartbeat } => {
                !paused
                    && Class::of(*heartbeat, grace) == Class::Safe
                    && self.settling.contains_key(&(Kind::Node, name.clone()))
            }
            Step::Kcm { .. } | Step::Kas { .. } => false,
        })
    }

    /// Says what has happened.
    fn tell(&mut self, cluster: &ConfigNode, judged: &Judged, turn: &mut Turn) {
        let wanted = judged.request.target.profile();
        let done = judged.plan.done;
        if !done && self.done != Some(false) {
            let message = format!("rolling out {wanted}, now {}", judged.plan.leg);
            turn.notes.push(note(cluster, NoteType::Normal, "LatencyProfileStarted", message));
        }
        for step in &turn.applied {
            turn.notes.push(note(cluster, NoteType::Normal, "LatencyProfileStepApplied", step.to_string()));
        }
        for blocked in judged.plan.blocked.iter().filter(|blocked| !self.blocked.contains(blocked)) {
            turn.notes.push(note(cluster, NoteType::Warning, "LatencyProfileBlocked", blocked.to_string()));
        }
        if done && self.done == Some(false) {
            turn.notes.push(note(cluster, NoteType::Normal, "LatencyProfileCompleted", format!("{wanted} is in force")));
        }
        self.done = Some(done);
        self.blocked.clone_from(&judged.plan.blocked);
    }
}

/// What the user wants, and what was completed before.
struct Wish {
    target: Target,
    generation: String,
    applied: Profile,
}

/// A plan and what the owners have to say about it.
struct Judged {
    request: Request,
    plan: Plan,
    owners: BTreeMap<crate::Owner, Instances>,
    outcome: Outcome,
}

fn pause(world: &World<'_>, plan: &Plan) -> Duration {
    if plan.wait.iter().any(|name| name == INSTANCE) {
        LOOK_SOON
    } else if !plan.done || world.nodes.values().any(|node: &Node| node.ready() != Some("True")) {
        LOOK
    } else {
        LOOK_SELDOM
    }
}

fn came_true(step: &Step, observed: &Observed) -> bool {
    let mut after = observed.clone();
    after.apply(step);
    after == *observed
}

fn classes(observed: &Observed) -> BTreeMap<Class, usize> {
    let grace = observed.kcm.iter().map(|kcm| kcm.grace).min().unwrap_or_default();
    let mut classes = BTreeMap::from([(Class::Safe, 0), (Class::Elevated, 0), (Class::Certain, 0)]);
    for node in &observed.nodes {
        *classes.entry(Class::of(node.heartbeat, grace)).or_default() += 1;
    }
    classes
}

/// Returns the reason of the first owner that has failed.
fn failure(outcome: &Outcome) -> &'static str {
    outcome.owners.values().find(|conditions| conditions.degraded()).map_or("", |conditions| conditions.reason.name())
}

fn rolled_back_note(cluster: &ConfigNode, outcome: &Outcome) -> Note {
    let failed = outcome.owners.iter().find(|(_, conditions)| conditions.degraded());
    let why = failed.map_or_else(String::new, |(owner, conditions)| format!("{owner}: {}", conditions.reason.name()));
    note(cluster, NoteType::Warning, "LatencyProfileRolledBack", format!("going back to Default; {why}"))
}

fn note(cluster: &ConfigNode, type_: NoteType, reason: &'static str, message: String) -> Note {
    Note { object: write::reference::<ConfigNode>("", NAME, &cluster.metadata.uid), type_, reason, message }
}
