//! The words of a plan: steps, and what stands in their way.

use std::fmt;
use std::time::Duration;

use crate::profile::Owner;

/// What kind of instance a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceKind {
    /// An API server.
    Kas,
    /// A controller manager.
    Kcm,
    /// A node.
    Node,
}

impl InstanceKind {
    /// Returns the short name, as steps and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            InstanceKind::Kas => "kas",
            InstanceKind::Kcm => "kcm",
            InstanceKind::Node => "node",
        }
    }

    /// Returns who answers for it.
    pub const fn owner(self) -> Owner {
        match self {
            InstanceKind::Kas => Owner::KubeApiServer,
            InstanceKind::Kcm => Owner::KubeControllerManager,
            InstanceKind::Node => Owner::MachineConfig,
        }
    }
}

/// One change of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Set the grace of a controller manager.
    Kcm {
        /// Which one.
        name: String,
        /// To what.
        grace: Duration,
    },
    /// Set the default tolerations of an API server.
    Kas {
        /// Which one.
        name: String,
        /// To what.
        not_ready_seconds: i64,
        /// To what.
        unreachable_seconds: i64,
    },
    /// Set the heartbeat interval of a node.
    Node {
        /// Which one.
        name: String,
        /// To what.
        heartbeat: Duration,
    },
}

impl Step {
    /// Returns the kind of the instance.
    pub const fn kind(&self) -> InstanceKind {
        match self {
            Step::Kcm { .. } => InstanceKind::Kcm,
            Step::Kas { .. } => InstanceKind::Kas,
            Step::Node { .. } => InstanceKind::Node,
        }
    }

    /// Returns the name of the instance.
    pub fn name(&self) -> &str {
        match self {
            Step::Kcm { name, .. } | Step::Kas { name, .. } | Step::Node { name, .. } => name,
        }
    }
}

/// `kcm kcm-0 grace=120`, `kas kas-0 tolerations=60/60`, `node n0 heartbeat=20`.
impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Kcm { name, grace } => write!(out, "kcm {name} grace={}", grace.as_secs_f64()),
            Step::Kas { name, not_ready_seconds, unreachable_seconds } => {
                write!(out, "kas {name} tolerations={not_ready_seconds}/{unreachable_seconds}")
            }
            Step::Node { name, heartbeat } => write!(out, "node {name} heartbeat={}", heartbeat.as_secs_f64()),
        }
    }
}

/// Why an instance is left as it is although it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockReason {
    /// It cannot be changed by us.
    ComponentNotAware,
    /// No value that may be set makes it safe.
    HazardUnresolvable,
    /// The change would put nodes at risk.
    HazardousStateAvoided,
    /// Other owners must finish first, and cannot.
    WaitingForOtherOwners,
}

impl BlockReason {
    /// Returns the word of the specification.
    pub const fn name(self) -> &'static str {
        match self {
            BlockReason::ComponentNotAware => "ComponentNotAware",
            BlockReason::HazardUnresolvable => "HazardUnresolvable",
            BlockReason::HazardousStateAvoided => "HazardousStateAvoided",
            BlockReason::WaitingForOtherOwners => "WaitingForOtherOwners",
        }
    }
}

impl BlockReason {
    /// Returns what it means.
    pub const fn text(self) -> &'static str {
        match self {
            BlockReason::ComponentNotAware => "it cannot be changed by us",
            BlockReason::HazardUnresolvable => "no value that may be set makes it safe",
            BlockReason::HazardousStateAvoided => "living nodes could be taken for dead",
            BlockReason::WaitingForOtherOwners => "others must be changed first, and cannot",
        }
    }
}

/// An instance that is left as it is although it differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocked {
    /// Its kind.
    pub kind: InstanceKind,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: BlockReason,
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.kind.name(), self.name, self.reason.name())
    }
}
