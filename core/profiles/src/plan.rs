//! The planner: which step is safe now.
//!
//! A pure function of what is observed, asked again at every reconcile. No plan is stored, so a pause, a failure, a
//! reversal and a restart need no code of their own. **Patience up, nodes, patience down:** whatever makes the control
//! plane more patient goes first, whatever makes it less patient goes last.
//!
//! The invariant: from a safe start every state after every step is safe for every counted node under the smallest grace.

mod observed;
#[cfg(test)]
mod properties;
mod stage;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use observed::{ApiServer, ControllerManager, DEFERRED_AFTER, Observed, WorkerNode};
pub(crate) use stage::Stage;
pub use step::{BlockReason, Blocked, InstanceKind, Step};

use crate::hazard::Class;
use crate::path::{Day, path};
use crate::profile::{DEFAULT_GRACE, Owner, Profile, Target};

/// The graces that a repair may raise to.
const REPAIR_GRACES: [Duration; 3] = [Duration::from_secs(40), Duration::from_secs(120), Duration::from_secs(300)];
/// The heartbeat intervals that a repair may set.
const REPAIR_INTERVALS: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(20), Duration::from_secs(10)];

/// What is wanted, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the user wants, or `Default` during a rollback.
    pub target: Target,
    /// The last profile that was completed in the whole cluster.
    pub applied: Profile,
    /// Whether worker nodes exist.
    pub day: Day,
    /// How many nodes may change at a time; 0: no limit.
    pub max_unavailable: usize,
    /// Whether no step may start.
    pub paused: bool,
    /// The grace that `Default` means.
    pub default_grace: Duration,
}

impl Request {
    /// Returns a request with the usual options.
    pub fn new(target: Target, applied: Profile) -> Request {
        Request { target, applied, day: Day::Two, max_unavailable: 1, paused: false, default_grace: DEFAULT_GRACE }
    }
}

/// What is to be done, in order, for the stage at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The profile being applied now.
    pub stage: Profile,
    /// Every step of the stage, in order.
    pub steps: Vec<Step>,
    /// What may be started now.
    pub next: Vec<Step>,
    /// What is left as it is, sorted by kind and name.
    pub blocked: Vec<Blocked>,
    /// Nodes that are away for long; they are changed when they return.
    pub deferred: Vec<String>,
    /// Instances that have been changed and are not yet known to be healthy, sorted by name.
    pub wait: Vec<String>,
    /// Whether the stage is complete.
    pub stage_done: bool,
    /// Whether the target is reached.
    pub done: bool,
    pub(crate) wait_nodes: Vec<String>,
    active_owners: BTreeSet<Owner>,
}

impl Plan {
    /// Returns whether an owner is active: its change is under way or first in line, or nothing but its unaware
    /// instances is missing.
    pub fn active(&self, owner: Owner) -> bool {
        self.active_owners.contains(&owner)
    }
}

/// Returns what is to be done about what is observed.
pub fn plan(request: &Request, observed: &Observed) -> Plan {
    let mut planner = Planner::new(request, observed);
    planner.repair();
    planner.patience_up();
    planner.nodes();
    planner.patience_down();
    planner.finish(request, observed)
}

/// Returns the profile to be applied now.
fn stage(request: &Request, observed: &Observed) -> Profile {
    let target = request.target.profile();
    let medium = Profile::Medium.values().lease_renew_interval();
    let interrupted = (request.applied, target) == (Profile::Medium, Profile::Default)
        && observed.nodes.iter().any(|node| {
            let left_alone = node.control_plane || request.target == Target::Empty && node.untouched;
            !left_alone && !node.deferred() && node.heartbeat > medium
        });
    if interrupted {
        // Medium to Low was given up half way: the slow nodes must not meet the grace of Default.
        return Profile::Medium;
    }
    path(request.applied, target, request.day).first().copied().unwrap_or(target)
}

/// The cluster as it will be after the steps found so far.
struct Planner {
    stage: Stage,
    /// Non-leaders by name, then the leader: a leader that restarts hands over, so it goes last.
    kcm: Vec<ControllerManager>,
    kas: Vec<ApiServer>,
    /// The counted ones, by name.
    nodes: Vec<WorkerNode>,
    steps: Vec<Step>,
    blocked: BTreeMap<(InstanceKind, String), BlockReason>,
}

impl Planner {
    fn new(request: &Request, observed: &Observed) -> Planner {
        let mut kcm = observed.kcm.clone();
        kcm.sort_by(|a, b| (a.leader, &a.name).cmp(&(b.leader, &b.name)));
        let mut kas = observed.kas.clone();
        kas.sort_by(|a, b| a.name.cmp(&b.name));
        let mut nodes: Vec<WorkerNode> = observed.nodes.iter().filter(|node| !node.deferred()).cloned().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let stage = Stage::new(stage(request, observed), request);
        Planner { stage, kcm, kas, nodes, steps: Vec::new(), blocked: BTreeMap::new() }
    }

    /// Returns the smallest grace of all replicas, since any may become leader; none seen: none can be relied on.
    fn grace(&self) -> Duration {
        self.kcm.iter().map(|kcm| kcm.grace).min().unwrap_or_default()
    }

    fn all_safe(&self, grace: Duration) -> bool {
        self.nodes.iter().all(|node| node.safe(grace))
    }

    /// Returns the grace that a repair would ask for.
    fn need(&self) -> Duration {
        let largest = REPAIR_GRACES[REPAIR_GRACES.len() - 1];
        REPAIR_GRACES.into_iter().find(|grace| self.all_safe(*grace)).unwrap_or(largest)
    }

    /// Blocks an instance unless it is blocked already: one reason each, the first one found.
    fn block(&mut self, kind: InstanceKind, name: &str, reason: BlockReason) {
        self.blocked.entry((kind, name.to_owned())).or_insert(reason);
    }

    fn is_blocked(&self, kind: InstanceKind, name: &str) -> bool {
        // A rollout with nothing blocked is the common case: spare the key.
        !self.blocked.is_empty() && self.blocked.contains_key(&(kind, name.to_owned()))
    }

    fn set_grace(&mut self, index: usize, grace: Duration) {
        self.kcm[index].grace = grace;
        self.steps.push(Step::Kcm { name: self.kcm[index].name.clone(), grace });
    }

    fn set_tolerations(&mut self, index: usize, (not_ready_seconds, unreachable_seconds): (i64, i64)) {
        let kas = &mut self.kas[index];
        (kas.not_ready_seconds, kas.unreachable_seconds) = (not_ready_seconds, unreachable_seconds);
        self.steps.push(Step::Kas { name: kas.name.clone(), not_ready_seconds, unreachable_seconds });
    }

    fn set_heartbeat(&mut self, index: usize, heartbeat: Duration) {
        (self.nodes[index].heartbeat, self.nodes[index].other_settings) = (heartbeat, false);
        self.steps.push(Step::Node { name: self.nodes[index].name.clone(), heartbeat });
    }

    /// If a node is in danger: raise the grace where that can be done, else make the node faster.
    fn repair(&mut self) {
        if self.all_safe(self.grace()) {
            return;
        }
        let need = self.need();
        // At once to the grace of the stage, so that a replica restarts only once.
        let raised = need.max(self.stage.values.node_monitor_grace_period);
        for index in 0..self.kcm.len() {
            let kcm = &self.kcm[index];
            if kcm.aware && kcm.grace < need && !self.stage.leaves(kcm.untouched) {
                self.set_grace(index, raised);
            }
        }
        let grace = self.grace();
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if node.safe(grace) || self.stage.leaves(node.untouched) {
                continue;
            }
            let better = |interval: &Duration| Class::of(*interval, grace) == Class::Safe && *interval < node.heartbeat;
            let (name, aware) = (node.name.clone(), node.aware);
            match REPAIR_INTERVALS.into_iter().find(better) {
                _ if !aware => self.block(InstanceKind::Node, &name, BlockReason::ComponentNotAware),
                Some(interval) => self.set_heartbeat(index, interval),
                None => self.block(InstanceKind::Node, &name, BlockReason::HazardUnresolvable),
            }
        }
    }

    /// Raises graces and tolerations that are below the stage.
    fn patience_up(&mut self) {
        let grace = self.stage.values.node_monitor_grace_period;
        for index in 0..self.kcm.len() {
            let kcm = &self.kcm[index];
            if self.stage.kcm_done(kcm) || kcm.grace > grace {
                continue;
            }
            if kcm.aware {
                self.set_grace(index, grace);
            } else {
                let name = kcm.name.clone();
                self.block(InstanceKind::Kcm, &name, BlockReason::ComponentNotAware);
            }
        }
        let (not_ready, unreachable) = self.stage.tolerations();
        for index in 0..self.kas.len() {
            let kas = &self.kas[index];
            let enough = kas.not_ready_seconds >= not_ready && kas.unreachable_seconds >= unreachable;
            if enough || self.stage.leaves(kas.untouched) {
                continue;
            }
            let raised = (kas.not_ready_seconds.max(not_ready), kas.unreachable_seconds.max(unreachable));
            if kas.aware {
                self.set_tolerations(index, raised);
            } else {
                let name = kas.name.clone();
                self.block(InstanceKind::Kas, &name, BlockReason::ComponentNotAware);
            }
        }
    }

    /// Sets the heartbeat of the workers, where that is safe under the grace reached so far.
    fn nodes(&mut self) {
        let (grace, interval) = (self.grace(), self.stage.values.lease_renew_interval());
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if self.stage.node_done(node) || self.is_blocked(InstanceKind::Node, &node.name) {
                continue;
            }
            let (name, aware) = (node.name.clone(), node.aware);
            if !aware {
                self.block(InstanceKind::Node, &name, BlockReason::ComponentNotAware);
            } else if Class::of(interval, grace) == Class::Safe {
                self.set_heartbeat(index, interval);
            } else {
                self.block(InstanceKind::Node, &name, BlockReason::HazardousStateAvoided);
            }
        }
    }

    /// Lowers tolerations, then graces, once nobody depends on the higher ones.
    fn patience_down(&mut self) {
        let others_blocked = self.blocked.keys().any(|(kind, _)| *kind != InstanceKind::Kas);
        for index in 0..self.kas.len() {
            let kas = &self.kas[index];
            if self.stage.kas_done(kas) || self.is_blocked(InstanceKind::Kas, &kas.name) {
                continue;
            }
            let (name, aware) = (kas.name.clone(), kas.aware);
            if !aware {
                self.block(InstanceKind::Kas, &name, BlockReason::ComponentNotAware);
            } else if others_blocked {
                self.block(InstanceKind::Kas, &name, BlockReason::WaitingForOtherOwners);
            } else {
                self.set_tolerations(index, self.stage.tolerations());
            }
        }
        let grace = self.stage.values.node_monitor_grace_period;
        // While a replica that cannot be raised keeps a node in danger, the next plan would repair again: a grace that it
        // would raise at once must not be lowered, or the two would alternate for ever.
        let raised_again = self.need() > grace && !self.all_safe(self.grace());
        let safe = self.all_safe(grace) && !raised_again;
        for index in 0..self.kcm.len() {
            let kcm = &self.kcm[index];
            if self.stage.kcm_done(kcm) || self.is_blocked(InstanceKind::Kcm, &kcm.name) {
                continue;
            }
            let (name, aware) = (kcm.name.clone(), kcm.aware);
            if !aware {
                self.block(InstanceKind::Kcm, &name, BlockReason::ComponentNotAware);
            } else if safe {
                self.set_grace(index, grace);
            } else {
                self.block(InstanceKind::Kcm, &name, BlockReason::HazardousStateAvoided);
            }
        }
    }

    fn finish(self, request: &Request, observed: &Observed) -> Plan {
        let settling = Settling::of(observed);
        let next = next(request, &self.steps, &settling);
        let active_owners = active_owners(&self.steps, &self.blocked, &settling);
        let mut deferred: Vec<String> =
            observed.nodes.iter().filter(|node| node.deferred()).map(|node| node.name.clone()).collect();
        deferred.sort();
        let blocked: Vec<Blocked> =
            self.blocked.into_iter().map(|((kind, name), reason)| Blocked { kind, name, reason }).collect();
        let stage_done = self.steps.is_empty() && blocked.is_empty() && settling.names.is_empty();
        Plan {
            stage: self.stage.profile,
            done: stage_done && self.stage.profile == request.target.profile(),
            steps: self.steps,
            next,
            blocked,
            deferred,
            wait: settling.names,
            stage_done,
            wait_nodes: settling.nodes,
            active_owners,
        }
    }
}

/// What has been changed and is not yet known to be healthy.
struct Settling {
    names: Vec<String>,
    control_plane: usize,
    nodes: Vec<String>,
    owners: BTreeSet<Owner>,
}

impl Settling {
    fn of(observed: &Observed) -> Settling {
        let kcm = observed.kcm.iter().filter(|kcm| kcm.settling.is_some()).map(|kcm| (InstanceKind::Kcm, &kcm.name));
        let kas = observed.kas.iter().filter(|kas| kas.settling.is_some()).map(|kas| (InstanceKind::Kas, &kas.name));
        // A node that went away while it settled must not hold up the others.
        let nodes = observed.nodes.iter().filter(|node| node.settling.is_some() && !node.deferred());
        let all: Vec<(InstanceKind, &String)> =
            kcm.chain(kas).chain(nodes.map(|node| (InstanceKind::Node, &node.name))).collect();
        let nodes: Vec<String> =
            all.iter().filter(|(kind, _)| *kind == InstanceKind::Node).map(|(_, name)| (*name).clone()).collect();
        let mut names: Vec<String> = all.iter().map(|(_, name)| (*name).clone()).collect();
        names.sort();
        Settling {
            names,
            control_plane: all.len() - nodes.len(),
            nodes,
            owners: all.iter().map(|(kind, _)| kind.owner()).collect(),
        }
    }
}

/// Returns what may be started now: a control plane step alone, or as many nodes as may change at a time.
fn next(request: &Request, steps: &[Step], settling: &Settling) -> Vec<Step> {
    let Some(first) = steps.first().filter(|_| !request.paused && settling.control_plane == 0) else {
        return Vec::new();
    };
    if first.kind() != InstanceKind::Node {
        return if settling.nodes.is_empty() { vec![first.clone()] } else { Vec::new() };
    }
    let room = match request.max_unavailable {
        0 => usize::MAX,
        limit => limit.saturating_sub(settling.nodes.len()),
    };
    let mut seen = BTreeSet::new();
    let leading = steps.iter().take_while(|step| step.kind() == InstanceKind::Node);
    leading.filter(|step| seen.insert(step.name())).take(room).cloned().collect()
}

/// Returns who is active.
fn active_owners(
    steps: &[Step],
    blocked: &BTreeMap<(InstanceKind, String), BlockReason>,
    settling: &Settling,
) -> BTreeSet<Owner> {
    let mut active_owners = settling.owners.clone();
    if active_owners.is_empty() {
        active_owners.extend(steps.first().map(|step| step.kind().owner()));
    }
    for owner in Owner::ALL {
        let mut reasons = blocked.iter().filter(|((kind, _), _)| kind.owner() == owner).map(|(_, reason)| *reason).peekable();
        let has_steps = steps.iter().any(|step| step.kind().owner() == owner);
        if reasons.peek().is_some() && !has_steps && reasons.all(|reason| reason == BlockReason::ComponentNotAware) {
            active_owners.insert(owner);
        }
    }
    active_owners
}
