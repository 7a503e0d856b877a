//! Which profiles lie on the way from one to another, and which states of a cluster lie between two of them.

use std::time::Duration;

use crate::hazard::{Class, chances};
use crate::plan::{ApiServer, ControllerManager, Observed, Request, WorkerNode, plan};
use crate::profile::{Profile, Target};

/// When a profile is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Day {
    /// No worker node is registered yet: there is nobody to hurt.
    Zero,
    /// Any later time.
    #[default]
    Two,
}

/// Returns the profiles to be reached and completed one after the other, without the first one.
pub fn path(from: Profile, to: Profile, day: Day) -> Vec<Profile> {
    match (from, to) {
        _ if from == to => Vec::new(),
        // The states between the two extremes are the worst ones; the enhancement demands the stop.
        (Profile::Default, Profile::Low) | (Profile::Low, Profile::Default) if day == Day::Two => vec![Profile::Medium, to],
        _ => vec![to],
    }
}

/// A state of a cluster with one value of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterState {
    /// Heartbeat interval.
    pub interval: Duration,
    /// Grace.
    pub grace: Duration,
    /// Toleration.
    pub toleration_seconds: i64,
}

impl ClusterState {
    /// Returns how many heartbeats fit into the grace.
    pub fn chances(&self) -> u64 {
        chances(self.interval, self.grace)
    }

    /// Returns how likely a healthy node is taken for dead.
    pub fn class(&self) -> Class {
        Class::of(self.interval, self.grace)
    }

    /// Returns the state of a cluster at a profile.
    pub fn of(profile: Profile) -> ClusterState {
        let values = profile.values();
        ClusterState {
            interval: values.lease_renew_interval(),
            grace: values.node_monitor_grace_period,
            toleration_seconds: values.default_unreachable_toleration_seconds,
        }
    }
}

/// Returns every combination of old and new values: interval, then grace, then toleration, the old value first.
pub fn states(from: Profile, to: Profile) -> Vec<ClusterState> {
    fn both<T: PartialEq>(old: T, new: T) -> Vec<T> {
        if old == new { vec![old] } else { vec![old, new] }
    }
    let (old, new) = (ClusterState::of(from), ClusterState::of(to));
    let mut states = Vec::new();
    for interval in both(old.interval, new.interval) {
        for grace in both(old.grace, new.grace) {
            for toleration_seconds in both(old.toleration_seconds, new.toleration_seconds) {
                states.push(ClusterState { interval, grace, toleration_seconds });
            }
        }
    }
    states
}

/// Returns the indexes into [`states`] that the planner passes through, for one node and one replica of each component.
pub fn visited(from: Profile, to: Profile) -> Vec<usize> {
    let all = states(from, to);
    let start = ClusterState::of(from);
    let mut observed = Observed {
        kcm: vec![ControllerManager::new("kcm-0", start.grace)],
        kas: vec![ApiServer::new("kas-0", start.toleration_seconds, start.toleration_seconds)],
        nodes: vec![WorkerNode::new("n0", start.interval)],
    };
    // Day 0 is the direct transition, also between the extremes.
    let request = Request { day: Day::Zero, ..Request::new(Target::Of(to), from) };
    let mut visited = Vec::new();
    loop {
        let here = ClusterState {
            interval: observed.nodes[0].heartbeat,
            grace: observed.kcm[0].grace,
            toleration_seconds: observed.kas[0].unreachable_seconds,
        };
        visited.extend(all.iter().position(|state| *state == here));
        match plan(&request, &observed).steps.first() {
            Some(step) => observed.apply(step),
            None => return visited,
        }
    }
}
