//! How far a rollout is, per owner: conditions, the progress deadline, the rollback to `Default`.
//!
//! Folds snapshots in time order. Folding the same snapshot again yields the same outcome. The rollback is sticky: only a
//! new generation ends it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use api::Timestamp;
use api::config_node::{ANNOTATION_RETRY, OwnedCondition};
use api::meta::ObjectMeta;
use machine::Time;

use crate::plan::{BlockReason, Observed, Plan, Request, Stage};
use crate::profile::{Owner, Profile, Target};

/// How long an owner that is active may be without progress, unless an option says otherwise.
pub const PROGRESS_DEADLINE: Duration = Duration::from_secs(600);
/// The shortest deadline that the option may set.
pub const PROGRESS_DEADLINE_MIN: Duration = Duration::from_secs(60);

/// What is seen of a rollout at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When.
    pub at: Time,
    /// What the user wants.
    pub target: Target,
    /// The generation of the desired profile; see [`generation`].
    pub generation: String,
    /// The profile being applied now.
    pub stage: Profile,
    /// Whether the user has paused the rollout.
    pub paused: bool,
    /// Nodes that were Ready when the rollout began and have since become Unknown.
    pub nodes_lost: usize,
    /// Nodes that were Ready when the rollout began.
    pub nodes_ready_at_start: usize,
    /// The instances of each owner.
    pub owners: BTreeMap<Owner, Instances>,
}

/// The instances of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    /// How many there are.
    pub total: usize,
    /// How many are at the values of the stage and healthy.
    pub updated: usize,
    /// Whether the planner has a step for the owner, or blocks it only because instances cannot be changed.
    pub active: bool,
    /// How many cannot be changed.
    pub unaware: usize,
    /// How many had their change reverted three times.
    pub failed: usize,
}

impl Instances {
    fn missing(&self) -> usize {
        self.total.saturating_sub(self.updated)
    }

    fn only_unaware_missing(&self) -> bool {
        self.missing() > 0 && self.missing() <= self.unaware
    }
}

/// Returns the name of a generation: a new value of the annotation `retry` makes a new one.
pub fn generation(metadata: &ObjectMeta) -> String {
    match metadata.annotations.get(ANNOTATION_RETRY) {
        Some(retry) => format!("{}/{retry}", metadata.generation),
        None => metadata.generation.to_string(),
    }
}

/// Returns the instances of each owner, counted against the stage of a plan; `failed` is the applier's to say.
pub fn instances(request: &Request, observed: &Observed, plan: &Plan) -> BTreeMap<Owner, Instances> {
    let stage = Stage::new(plan.stage, request);
    let count = |owner, all: Vec<(bool, bool, bool)>| {
        let instances = Instances {
            total: all.len(),
            updated: all.iter().filter(|(done, settling, _)| *done && !settling).count(),
            active: plan.active(owner),
            unaware: all.iter().filter(|(done, _, aware)| !done && !aware).count(),
            failed: 0,
        };
        (owner, instances)
    };
    let kas = observed.kas.iter().map(|kas| (stage.kas_done(kas), kas.settling.is_some(), kas.aware));
    let kcm = observed.kcm.iter().map(|kcm| (stage.kcm_done(kcm), kcm.settling.is_some(), kcm.aware));
    let workers = observed.nodes.iter().filter(|node| !node.control_plane && !node.deferred());
    let nodes = workers.map(|node| (stage.node_done(node), node.settling.is_some(), node.aware));
    [
        count(Owner::KubeApiServer, kas.collect()),
        count(Owner::KubeControllerManager, kcm.collect()),
        count(Owner::MachineConfig, nodes.collect()),
    ]
    .into()
}

/// Why the conditions of an owner are what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// At the target; nothing is wanted.
    ProfileEmpty,
    /// At the target.
    ProfileUpdated,
    /// Its instances are being changed.
    ProfileUpdateTriggered,
    /// Nothing but instances that cannot be changed is missing.
    ComponentNotAware,
    /// Others go first.
    WaitingForOtherOwners,
    /// At the values of a stage that is not the last.
    IntermediateProfileReached,
    /// The user has paused the rollout.
    RolloutPaused,
    /// Failed: no progress in time.
    ProgressDeadlineExceeded,
    /// Failed: a change was reverted three times.
    ApplyFailed,
    /// Failed: too many nodes have gone.
    NodesLostDuringRollout,
    /// Another owner has failed.
    RollingBackToDefault,
    /// Another owner has failed, and `Default` is restored.
    RolledBackToDefault,
}

impl Reason {
    /// The reasons that an owner can fail for.
    const FAILURES: [Reason; 4] =
        [Reason::ApplyFailed, Reason::NodesLostDuringRollout, Reason::ComponentNotAware, Reason::ProgressDeadlineExceeded];

    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::ProfileEmpty => "ProfileEmpty",
            Reason::ProfileUpdated => "ProfileUpdated",
            Reason::ProfileUpdateTriggered => "ProfileUpdateTriggered",
            Reason::ComponentNotAware => BlockReason::ComponentNotAware.name(),
            Reason::WaitingForOtherOwners => BlockReason::WaitingForOtherOwners.name(),
            Reason::IntermediateProfileReached => "IntermediateProfileReached",
            Reason::RolloutPaused => "RolloutPaused",
            Reason::ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
            Reason::ApplyFailed => "ApplyFailed",
            Reason::NodesLostDuringRollout => "NodesLostDuringRollout",
            Reason::RollingBackToDefault => "RollingBackToDefault",
            Reason::RolledBackToDefault => "RolledBackToDefault",
        }
    }
}

/// The three conditions of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Progressing, Complete, Degraded.
    pub status: [bool; 3],
    /// Since when each has its status.
    pub since: [Time; 3],
    /// Why; the same on all three.
    pub reason: Reason,
}

impl Conditions {
    /// The types, in the order of the members.
    pub const TYPES: [&'static str; 3] = ["Progressing", "Complete", "Degraded"];

    /// Returns whether instances are being changed.
    pub const fn progressing(&self) -> bool {
        self.status[0]
    }

    /// Returns whether the owner is at the target.
    pub const fn complete(&self) -> bool {
        self.status[1]
    }

    /// Returns whether the owner has failed.
    pub const fn degraded(&self) -> bool {
        self.status[2]
    }
}

/// What a snapshot comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The profile that is enforced.
    pub effective: Profile,
    /// Whether the desired profile was given up in favour of `Default`.
    pub rollback: bool,
    /// Conditions per owner.
    pub owners: BTreeMap<Owner, Conditions>,
}

impl Evaluation {
    /// Returns the conditions as the API has them, sorted by owner and type.
    pub fn conditions(&self, messages: &BTreeMap<Owner, String>) -> Vec<OwnedCondition> {
        let mut all: Vec<OwnedCondition> = Vec::with_capacity(9);
        for (owner, conditions) in &self.owners {
            for (index, type_) in Conditions::TYPES.into_iter().enumerate() {
                all.push(OwnedCondition {
                    owner: owner.name().to_owned(),
                    type_: type_.to_owned(),
                    status: if conditions.status[index] { "True" } else { "False" }.to_owned(),
                    last_transition_time: Some(Timestamp(conditions.since[index])),
                    reason: conditions.reason.name().to_owned(),
                    message: messages.get(owner).cloned().unwrap_or_default(),
                });
            }
        }
        all.sort_by(|a, b| (&a.owner, &a.type_).cmp(&(&b.owner, &b.type_)));
        all
    }
}

/// The reducer.
#[derive(Clone, Debug)]
pub struct ProfileStatus {
    deadline: Duration,
    rollback: bool,
    /// The generation that `rollback` and the failures belong to.
    generation: Option<String>,
    owners: BTreeMap<Owner, Memory>,
    previous: Option<Snapshot>,
}

#[derive(Clone, Debug, Default)]
struct Memory {
    /// The time without progress while it was active.
    idle: Duration,
    failure: Option<Reason>,
    /// Status and since when, of each condition.
    conditions: [Option<(bool, Time)>; 3],
}

impl ProfileStatus {
    /// Returns a reducer that has seen nothing.
    pub fn new(deadline: Duration) -> ProfileStatus {
        ProfileStatus { deadline, rollback: false, generation: None, owners: BTreeMap::new(), previous: None }
    }

    /// Returns a reducer that goes on from what it wrote before a restart: transition times, failures, the rollback.
    ///
    /// `rolled_back` is the generation of the annotation `rolled-back-generation`, if it is there.
    pub fn resume(deadline: Duration, conditions: &[OwnedCondition], rolled_back: Option<&str>) -> ProfileStatus {
        let mut status = ProfileStatus::new(deadline);
        status.rollback = rolled_back.is_some();
        status.generation = rolled_back.map(str::to_owned);
        for condition in conditions {
            let Some(owner) = Owner::ALL.into_iter().find(|owner| owner.name() == condition.owner) else { continue };
            let Some(index) = Conditions::TYPES.into_iter().position(|type_| type_ == condition.type_) else { continue };
            let memory = status.owners.entry(owner).or_default();
            let on = condition.status == "True";
            memory.conditions[index] = condition.last_transition_time.map(|since| (on, since.0));
            if condition.type_ == "Degraded" && on {
                memory.failure = Reason::FAILURES.into_iter().find(|reason| reason.name() == condition.reason);
            }
        }
        status
    }

    /// Returns whether the desired profile was given up in favour of `Default`.
    pub const fn rollback(&self) -> bool {
        self.rollback
    }

    /// Returns what is to be enforced for a desired profile: give this to the planner.
    pub fn enforced(&self, target: Target, generation: &str) -> Target {
        let same = self.generation.as_deref().is_none_or(|known| known == generation);
        if self.rollback && same { Target::Of(Profile::Default) } else { target }
    }

    /// Takes the next snapshot and returns what it comes to.
    pub fn fold(&mut self, snapshot: &Snapshot) -> Evaluation {
        let new_generation = self.generation.as_ref().is_some_and(|known| *known != snapshot.generation);
        self.rollback &= !new_generation;
        let target = snapshot.target.profile();
        // A failure without a rollback belongs to a desired profile for Default, also when the desired profile changed during a restart.
        if new_generation || (!self.rollback && target != Profile::Default) {
            self.owners.values_mut().for_each(|memory| memory.failure = None);
        }
        self.generation = Some(snapshot.generation.clone());
        self.count_idle_time(snapshot, new_generation);
        let failed = self.judge(snapshot, if self.rollback { Profile::Default } else { target });
        // On the way to Default there is nothing to go back to.
        self.rollback |= failed && target != Profile::Default;
        let effective = if self.rollback { Profile::Default } else { target };
        let owners = Owner::ALL.into_iter().map(|owner| (owner, self.conditions(owner, snapshot, effective))).collect();
        self.previous = Some(snapshot.clone());
        Evaluation { effective, rollback: self.rollback, owners }
    }

    /// Adds the time since the previous snapshot to those that was active and were not paused, unless they progress.
    fn count_idle_time(&mut self, snapshot: &Snapshot, new_generation: bool) {
        for owner in Owner::ALL {
            let memory = self.owners.entry(owner).or_default();
            let Some(previous) = &self.previous else {
                memory.idle = Duration::ZERO;
                continue;
            };
            let (before, now) = (previous.of(owner), snapshot.of(owner));
            if before.active && !previous.paused {
                memory.idle += snapshot.at.since(previous.at);
            }
            let newly_active = now.active && !before.active;
            if new_generation || snapshot.stage != previous.stage || newly_active || now.updated > before.updated {
                memory.idle = Duration::ZERO;
            }
        }
    }

    /// Finds owners that fail, and returns whether any has failed.
    fn judge(&mut self, snapshot: &Snapshot, effective: Profile) -> bool {
        let lost = snapshot.too_many_lost() && Owner::ALL.iter().any(|owner| !snapshot.at_profile(*owner, effective));
        for owner in Owner::ALL {
            let instances = snapshot.of(owner);
            let memory = self.owners.entry(owner).or_default();
            let overdue = instances.active && instances.missing() > 0 && memory.idle >= self.deadline;
            let failure = if instances.failed > 0 && instances.missing() > 0 {
                Some(Reason::ApplyFailed)
            } else if lost && owner == Owner::MachineConfig {
                Some(Reason::NodesLostDuringRollout)
            } else if overdue && instances.only_unaware_missing() {
                Some(Reason::ComponentNotAware)
            } else {
                overdue.then_some(Reason::ProgressDeadlineExceeded)
            };
            // The first reason stays, until the owner reaches a Default that the user wanted.
            memory.failure = memory.failure.or(failure);
            let wanted_default = !self.rollback && snapshot.target.profile() == Profile::Default;
            if wanted_default && snapshot.at_profile(owner, Profile::Default) {
                memory.failure = None;
            }
        }
        self.owners.values().any(|memory| memory.failure.is_some())
    }

    fn conditions(&mut self, owner: Owner, snapshot: &Snapshot, effective: Profile) -> Conditions {
        let rolled_back = self
            .rollback
            .then(|| snapshot.stage == Profile::Default && Owner::ALL.iter().all(|owner| snapshot.of(*owner).missing() == 0));
        let memory = self.owners.entry(owner).or_default();
        let (status, reason) = situation(owner, snapshot, effective, rolled_back, memory.failure);
        let mut since = [snapshot.at; 3];
        for (index, on) in status.into_iter().enumerate() {
            match memory.conditions[index] {
                Some((before, at)) if before == on => since[index] = at,
                _ => memory.conditions[index] = Some((on, snapshot.at)),
            }
        }
        Conditions { status, since, reason }
    }
}

/// Returns Progressing, Complete and Degraded of an owner, and why; `rolled_back`: whether a rollback has finished.
fn situation(
    owner: Owner,
    snapshot: &Snapshot,
    effective: Profile,
    rolled_back: Option<bool>,
    failure: Option<Reason>,
) -> ([bool; 3], Reason) {
    let instances = snapshot.of(owner);
    let waiting = |reason| ([true, false, false], reason);
    match (rolled_back, failure) {
        (Some(finished), Some(reason)) => return ([!finished, false, true], reason),
        (Some(true), None) => return ([false, false, false], Reason::RolledBackToDefault),
        (Some(false), None) => return waiting(Reason::RollingBackToDefault),
        (None, _) => {}
    }
    if snapshot.at_profile(owner, effective) {
        let reason = if snapshot.target == Target::Empty { Reason::ProfileEmpty } else { Reason::ProfileUpdated };
        ([false, true, false], reason)
    } else if let Some(reason) = failure {
        ([true, false, true], reason)
    } else if snapshot.paused {
        ([false, false, false], Reason::RolloutPaused)
    } else if instances.missing() == 0 {
        waiting(Reason::IntermediateProfileReached)
    } else if !instances.active {
        waiting(Reason::WaitingForOtherOwners)
    } else if instances.only_unaware_missing() {
        waiting(Reason::ComponentNotAware)
    } else {
        waiting(Reason::ProfileUpdateTriggered)
    }
}

impl Snapshot {
    fn of(&self, owner: Owner) -> Instances {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    fn at_profile(&self, owner: Owner, profile: Profile) -> bool {
        self.stage == profile && self.of(owner).missing() == 0
    }

    /// Returns whether the nodes lost are at least two and at least 5 % of those Ready at the start.
    fn too_many_lost(&self) -> bool {
        self.nodes_lost >= self.nodes_ready_at_start.div_ceil(20).max(2)
    }
}
