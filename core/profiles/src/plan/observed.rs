//! What the planner sees of a cluster.

use std::time::Duration;

use super::Step;
use crate::hazard::Class;

/// A node that is not ready for this long is left out of a rollout until it returns.
pub const DEFERRED_AFTER: Duration = Duration::from_secs(600);

/// The values in use, as their users report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Controller managers.
    pub kcm: Vec<ControllerManager>,
    /// API servers.
    pub kas: Vec<ApiServer>,
    /// Nodes.
    pub nodes: Vec<WorkerNode>,
}

impl Observed {
    /// Makes a step come true; a step for an unknown instance changes nothing.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Kcm { name, grace } => {
                for kcm in self.kcm.iter_mut().filter(|kcm| kcm.name == *name) {
                    (kcm.grace, kcm.untouched) = (*grace, false);
                }
            }
            Step::Kas { name, not_ready_seconds, unreachable_seconds } => {
                for kas in self.kas.iter_mut().filter(|kas| kas.name == *name) {
                    (kas.not_ready_seconds, kas.unreachable_seconds) = (*not_ready_seconds, *unreachable_seconds);
                    kas.untouched = false;
                }
            }
            Step::Node { name, heartbeat } => {
                for node in self.nodes.iter_mut().filter(|node| node.name == *name) {
                    (node.heartbeat, node.other_settings, node.untouched) = (*heartbeat, false, false);
                }
            }
        }
    }
}

/// A controller manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerManager {
    /// Name.
    pub name: String,
    /// The grace that it uses.
    pub grace: Duration,
    /// Whether it can be changed by us.
    pub aware: bool,
    /// Whether it leads.
    pub leader: bool,
    /// For how long it has been changed without having passed its health check.
    pub settling: Option<Duration>,
    /// Whether nothing of ours is in its files: where nothing is wanted it is left alone, whatever it uses.
    pub untouched: bool,
}

impl ControllerManager {
    /// Returns a replica that can be changed and is at rest.
    pub fn new(name: impl Into<String>, grace: Duration) -> ControllerManager {
        ControllerManager { name: name.into(), grace, aware: true, leader: false, settling: None, untouched: false }
    }
}

/// An API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// Name.
    pub name: String,
    /// The default toleration of not-ready that it adds to pods.
    pub not_ready_seconds: i64,
    /// The default toleration of unreachable that it adds to pods.
    pub unreachable_seconds: i64,
    /// Whether it can be changed by us.
    pub aware: bool,
    /// For how long it has been changed without having passed its health check.
    pub settling: Option<Duration>,
    /// Whether nothing of ours is in its files.
    pub untouched: bool,
}

impl ApiServer {
    /// Returns a replica that can be changed and is at rest.
    pub fn new(name: impl Into<String>, not_ready_seconds: i64, unreachable_seconds: i64) -> ApiServer {
        ApiServer { name: name.into(), not_ready_seconds, unreachable_seconds, aware: true, settling: None, untouched: false }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerNode {
    /// Name.
    pub name: String,
    /// How often it speaks: a quarter of the duration of its Lease.
    pub heartbeat: Duration,
    /// Whether it can be changed by us.
    pub aware: bool,
    /// For how long it has been changed without having passed its health check.
    pub settling: Option<Duration>,
    /// For how long its condition Ready is not `True`.
    pub not_ready_for: Option<Duration>,
    /// Whether it is a control plane node: it keeps its own interval, but the grace counts for it as well.
    pub control_plane: bool,
    /// Whether what else a profile sets is not as its heartbeat asks for.
    pub other_settings: bool,
    /// Whether nothing of ours is in its files.
    pub untouched: bool,
}

impl WorkerNode {
    /// Returns a worker that is ready, can be changed and is at rest.
    pub fn new(name: impl Into<String>, heartbeat: Duration) -> WorkerNode {
        WorkerNode {
            name: name.into(),
            heartbeat,
            aware: true,
            settling: None,
            not_ready_for: None,
            control_plane: false,
            other_settings: false,
            untouched: false,
        }
    }

    /// Returns whether the node is left out because it is away for long.
    pub fn deferred(&self) -> bool {
        self.not_ready_for.is_some_and(|span| span >= DEFERRED_AFTER)
    }

    /// Returns whether the node is safe under a grace.
    pub fn safe(&self, grace: Duration) -> bool {
        Class::of(self.heartbeat, grace) == Class::Safe
    }
}
