//! The rollout of a profile on a plane of our own or on a stock cluster: objects in, writes out.
//!
//! One reconcile reads the world, asks the planner for the next safe steps, folds what it sees into conditions, and says what
//! is to be written: carriers (annotations that the parts of a plane read, or [`steps`](crate::steps) for the agents of a stock
//! cluster), the record of what was completed, the status. Nothing is stored here that a restart could not do without: a step that
//! was written and has not taken effect yet shows as a carrier that differs from the value in use, or as a step without an answer.
//! What is in use is never taken from what was written: each owner shows it itself, or counts as one that cannot be changed.

mod events;
mod observe;
pub mod own;
mod restore;
#[cfg(test)]
mod stock_tests;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::config_node::ConfigNode;
use api::event::Event;
use api::{Node, Write};
use machine::Time;

pub use observe::{ControlPlane, NodeLease, PodDefaults, World, observed};
pub use restore::Restored;
use writes::{Changes, HandOut};

use crate::advise::advisories;
use crate::hazard::{Advisory, Class};
use crate::kubeadm::KubeadmChange;
use crate::message::{Remarks, messages, related_nodes};
use crate::path::Day;
use crate::plan::{Blocked, InstanceKind, Observed, Plan, Request, Step, plan};
use crate::profile::{DEFAULT_GRACE, Profile, Target};
use crate::status::{Evaluation, Instances, PROGRESS_DEADLINE, ProfileStatus, Snapshot, generation, instances};
use crate::steps::{Component, NodeSteps};

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
    /// How long an owner that is active may be without progress.
    pub progress_deadline: Duration,
    /// How many nodes change at a time; 0: no limit.
    pub max_unavailable: usize,
    /// The grace that `Default` means.
    pub default_grace: Duration,
    /// Whether a Node may have a profile of its own; see [`own`].
    pub per_node: bool,
    /// How long components of a stock cluster have to prove healthy.
    pub deadlines: Deadlines,
}

/// How long components of a stock cluster have to prove healthy; `None`: as long as each usually has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines([Option<Duration>; 3]);

impl Deadlines {
    /// Returns these with that of one component set.
    pub fn with(mut self, component: Component, deadline: Duration) -> Deadlines {
        self.0[component as usize] = Some(deadline);
        self
    }

    fn of(&self, component: Component) -> Option<Duration> {
        self.0[component as usize]
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            progress_deadline: PROGRESS_DEADLINE,
            max_unavailable: 1,
            default_grace: DEFAULT_GRACE,
            per_node: false,
            deadlines: Deadlines::default(),
        }
    }
}

/// What one look at the world comes to.
#[derive(Clone, Debug, Default)]
pub struct RolloutUpdate {
    /// What is to be written, in order.
    pub writes: Vec<Write>,
    /// What is to be said.
    pub events: Vec<Event>,
    /// Steps that have taken effect since the last look.
    pub applied: Vec<Step>,
    /// Steps that an agent has taken back since the last look.
    pub reverted: Vec<Step>,
    /// Files that were to be as before the first profile: how that ended since the last look.
    pub restores: Vec<Restored>,
    /// What kubeadm is to remember, if it is something else.
    pub kubeadm: Option<KubeadmChange>,
    /// Why the desired profile was given up, if that happened now.
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
    pub stage: Profile,
    /// What is enforced, and the conditions of the owners.
    pub outcome: Evaluation,
    /// Nodes per hazard class under the grace in use.
    pub classes: BTreeMap<Class, usize>,
    /// What to know about the values in use.
    pub advisories: BTreeSet<Advisory>,
    /// Whether the target is reached.
    pub done: bool,
}

/// The rollout.
#[derive(Clone, Debug)]
pub struct Rollout {
    options: Options,
    status: Option<ProfileStatus>,
    /// Since when a carrier is not yet obeyed.
    settling: BTreeMap<(InstanceKind, String), Time>,
    /// Steps that were written and have not been seen to take effect.
    pending: BTreeMap<(InstanceKind, String), Step>,
    /// The steps of agents whose end was reported: their IDs; `None`: nobody has looked yet.
    reported: Option<BTreeSet<String>>,
    /// The nodes that were ready when this generation's rollout began.
    ready_at_start: BTreeSet<String>,
    generation: String,
    /// Whether the target was reached at the last look; `None`: there was none.
    done: Option<bool>,
    blocked: Vec<Blocked>,
    /// What the agents of a stock cluster were told, and what they say.
    node_steps: BTreeMap<String, NodeSteps>,
    /// Why instances cannot be changed.
    obstacles: BTreeMap<(InstanceKind, String), String>,
}

impl Rollout {
    /// Returns a rollout that has seen nothing.
    pub fn new(options: Options) -> Rollout {
        Rollout {
            options,
            status: None,
            settling: BTreeMap::new(),
            pending: BTreeMap::new(),
            reported: None,
            ready_at_start: BTreeSet::new(),
            generation: String::new(),
            done: None,
            blocked: Vec::new(),
            node_steps: BTreeMap::new(),
            obstacles: BTreeMap::new(),
        }
    }

    /// Looks at the world. Make the writes come true (or fail) before the next look.
    pub fn look(&mut self, now: Time, world: &World<'_>) -> RolloutUpdate {
        if !self.options.per_node || !world.nodes.values().any(|node| own::profile(node).is_some()) {
            return self.look_at_fleet(now, world);
        }
        let (fleet, mut writes) = own::set_apart(world.nodes);
        let mut update = self.look_at_fleet(now, &World { nodes: &fleet, ..*world });
        writes.append(&mut update.writes);
        RolloutUpdate { writes, ..update }
    }

    /// Looks at the nodes that have no profile of their own.
    fn look_at_fleet(&mut self, now: Time, world: &World<'_>) -> RolloutUpdate {
        let Some(cluster) = world.cluster else {
            // The conditions need a place; a missing object means the same as this one.
            return RolloutUpdate {
                writes: vec![writes::create_cluster()],
                again_at: Some(now + LOOK),
                ..RolloutUpdate::default()
            };
        };
        let mut update = RolloutUpdate::default();
        let target = Target::parse(&cluster.spec.worker_latency_profile).unwrap_or_default();
        let desired = DesiredProfile { target, generation: generation(&cluster.metadata), applied: world.applied() };
        let observed = self.observe(now, world);
        self.done = self.done.or_else(|| events::was_done(cluster));
        self.begin(&desired, world);
        let was_rolled_back = self.status(cluster).rollback();
        let mut judged = self.judge(now, cluster, &desired, world, &observed);
        if judged.outcome.rollback && !was_rolled_back {
            update.rolled_back = Some(failure(&judged.outcome));
            update.events.push(events::rolled_back(cluster, &judged.outcome));
            // The plan was made for the desired profile that has just been given up.
            judged = self.judge(now, cluster, &desired, world, &observed);
        }
        self.take_effect(&observed, &mut update);
        let kubeadm = self.kubeadm(world, &judged.plan);
        update.writes = self.writes(now, world, &observed, &judged, &desired, kubeadm.original);
        update.kubeadm = kubeadm.change;
        self.tell(cluster, &judged, &mut update);
        update.again_at = Some(now + pause(world, &judged.plan));
        update.view = Some(View {
            spec: target,
            applied: if judged.plan.stage_done { judged.plan.stage } else { desired.applied },
            stage: judged.plan.stage,
            classes: classes(&observed),
            advisories: judged.advisories,
            done: judged.plan.done,
            outcome: judged.outcome,
        });
        update
    }

    fn status(&mut self, cluster: &ConfigNode) -> &mut ProfileStatus {
        let deadline = self.options.progress_deadline;
        self.status.get_or_insert_with(|| {
            let written = &cluster.status.worker_latency_profile_status.conditions;
            let rolled_back = cluster.metadata.annotations.get(api::config_node::ANNOTATION_ROLLED_BACK_GENERATION);
            ProfileStatus::resume(deadline, written, rolled_back.map(String::as_str))
        })
    }

    /// Remembers who is ready when a new desired profile is first seen.
    fn begin(&mut self, desired: &DesiredProfile, world: &World<'_>) {
        if self.generation != desired.generation || self.done == Some(true) {
            self.generation.clone_from(&desired.generation);
            let ready = world.nodes.iter().filter(|(_, node)| node.ready() == Some("True"));
            self.ready_at_start = ready.map(|(name, _)| name.clone()).collect();
        }
    }

    /// Plans, and folds what is seen into conditions.
    fn judge(
        &mut self,
        now: Time,
        cluster: &ConfigNode,
        desired: &DesiredProfile,
        world: &World<'_>,
        observed: &Observed,
    ) -> Judged {
        let request = Request {
            target: self.status(cluster).enforced(desired.target, &desired.generation),
            applied: desired.applied,
            day: if observed.nodes.iter().all(|node| node.control_plane) { Day::Zero } else { Day::Two },
            max_unavailable: self.options.max_unavailable,
            paused: cluster.paused(),
            default_grace: self.options.default_grace,
        };
        let plan = plan(&request, observed);
        let mut owners = instances(&request, observed, &plan);
        self.count_failed(&desired.generation, &mut owners);
        let lost = |name: &&String| world.nodes.get(*name).is_some_and(|node| node.ready() == Some("Unknown"));
        let snapshot = Snapshot {
            at: now,
            target: desired.target,
            generation: desired.generation.clone(),
            stage: plan.stage,
            paused: request.paused,
            nodes_lost: self.ready_at_start.iter().filter(lost).count(),
            nodes_ready_at_start: self.ready_at_start.len(),
            owners: owners.clone(),
        };
        let outcome = self.status(cluster).fold(&snapshot);
        Judged { request, plan, owners, outcome, advisories: self.advisories(world, observed) }
    }

    /// Counts the components whose change was taken back too often.
    fn count_failed(&self, generation: &str, owners: &mut BTreeMap<crate::Owner, Instances>) {
        for steps in self.node_steps.values() {
            for component in Component::ALL.into_iter().filter(|component| steps.has_failed(*component, generation)) {
                owners.entry(component.kind().owner()).or_default().failed += 1;
            }
        }
    }

    fn advisories(&self, world: &World<'_>, observed: &Observed) -> BTreeSet<Advisory> {
        let kubelets = self.node_steps.iter().filter_map(|(name, steps)| Some((name.clone(), steps.kubelet()?))).collect();
        advisories(observed, world.is_stock(), &kubelets)
    }

    fn writes(
        &mut self,
        now: Time,
        world: &World<'_>,
        observed: &Observed,
        judged: &Judged,
        desired: &DesiredProfile,
        kubeadm_original: Option<String>,
    ) -> Vec<Write> {
        let node_steps = std::mem::take(&mut self.node_steps);
        let (generation, deadlines) = (desired.generation.as_str(), self.options.deadlines);
        let mut changes = Changes::new(world, HandOut { now, generation, deadlines, node_steps: &node_steps });
        // One step for each: the first one.
        let mut steps = BTreeMap::new();
        for step in judged.plan.next.iter().chain(self.repeated(world, observed, judged)) {
            steps.entry((step.kind(), step.name().to_owned())).or_insert_with(|| step.clone());
        }
        steps.retain(|_, step| changes.step(step));
        self.pending.append(&mut steps);
        if !judged.request.paused {
            restore::adopt(generation, &node_steps, &mut changes);
        }
        if judged.plan.done && world.is_stock() {
            restore::restore(&judged.request, generation, &node_steps, &mut changes);
        } else if judged.plan.done {
            changes.rest(judged.request.target, &judged.request.target.profile().values_with(self.options.default_grace));
        }
        if judged.plan.stage_done {
            changes.applied(judged.plan.stage);
        }
        changes.kubeadm_original(kubeadm_original);
        changes.rolled_back(judged.outcome.rollback.then_some(desired.generation.as_str()));
        let values = judged.plan.stage.values_with(self.options.default_grace);
        let old_defaults = world.pods.values().filter(|pod| pod.older_than(&values)).count();
        let remarks = Remarks { old_defaults, obstacles: &self.obstacles, advisories: &judged.advisories };
        let messages = messages(&judged.request, observed, &judged.plan, &judged.owners, &remarks);
        changes.status(judged.outcome.conditions(&messages), related_nodes(&judged.plan));
        let writes = changes.finish();
        self.node_steps = node_steps;
        writes
    }

    /// Returns the steps of nodes that have not taken up another value yet: such a node is under way already, so that telling
    /// it something else takes no room of the others. Without this a node that never obeys would keep a rollout from being
    /// turned round.
    fn repeated<'a>(
        &'a self,
        world: &World<'_>,
        observed: &Observed,
        judged: &'a Judged,
    ) -> impl Iterator<Item = &'a Step> + use<'a> {
        // The grace that is on its way counts as well: it may be in use before the node has heard of it.
        let in_use = observed.kcm.iter().map(|kcm| kcm.grace);
        let annotated = world.annotated_grace().filter(|_| !world.is_stock());
        let (grace, paused) = (in_use.chain(annotated).min().unwrap_or_default(), judged.request.paused);
        judged.plan.steps.iter().filter(move |step| match step {
            Step::Node { name, heartbeat } => {
                !paused
                    && Class::of(*heartbeat, grace) == Class::Safe
                    && self.settling.contains_key(&(InstanceKind::Node, name.clone()))
            }
            Step::Kcm { .. } | Step::Kas { .. } => false,
        })
    }
}

/// What the user wants, and what was completed before.
struct DesiredProfile {
    target: Target,
    generation: String,
    applied: Profile,
}

/// A plan and what the owners have to say about it.
struct Judged {
    request: Request,
    plan: Plan,
    owners: BTreeMap<crate::Owner, Instances>,
    outcome: Evaluation,
    /// What to know about the values in use.
    advisories: BTreeSet<Advisory>,
}

/// Returns the heartbeat interval that a node which joins may begin with: that of the profile that is wanted, if it is in force, so that the
/// control plane waits long enough.
pub fn first_interval(cluster: &ConfigNode) -> Option<Duration> {
    let wanted = Target::parse(&cluster.spec.worker_latency_profile).ok()?;
    let applied = cluster.metadata.annotations.get(api::config_node::ANNOTATION_APPLIED_PROFILE)?;
    let in_force = applied == wanted.profile().name() && !cluster.paused();
    (in_force && wanted != Target::Empty).then(|| wanted.profile().values().lease_renew_interval())
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

fn classes(observed: &Observed) -> BTreeMap<Class, usize> {
    let grace = observed.kcm.iter().map(|kcm| kcm.grace).min().unwrap_or_default();
    let mut classes = BTreeMap::from([(Class::Safe, 0), (Class::Elevated, 0), (Class::Certain, 0)]);
    for node in &observed.nodes {
        *classes.entry(Class::of(node.heartbeat, grace)).or_default() += 1;
    }
    classes
}

/// Returns the reason of the first owner that has failed.
fn failure(outcome: &Evaluation) -> &'static str {
    outcome.owners.values().find(|conditions| conditions.degraded()).map_or("", |conditions| conditions.reason.name())
}
