//! Reasons of events on markers.

use crate::entries::Skip;

/// Why a marker does not do what its author may expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A stored probe breaks a rule of the API and is not run.
    InvalidProbe,
    /// A selected pod has no such container or port.
    ProbeTargetMissing,
    /// Another marker decides a condition type.
    ConditionTypeConflict,
    /// Another probe decides a key, with another value.
    MarkConflict,
}

impl Reason {
    /// Returns the word that the event has.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::InvalidProbe => "InvalidProbe",
            Reason::ProbeTargetMissing => "ProbeTargetMissing",
            Reason::ConditionTypeConflict => "ConditionTypeConflict",
            Reason::MarkConflict => "MarkConflict",
        }
    }
}

impl From<Skip> for Reason {
    fn from(skip: Skip) -> Reason {
        match skip {
            Skip::InvalidProbe => Reason::InvalidProbe,
            Skip::TargetMissing => Reason::ProbeTargetMissing,
        }
    }
}
