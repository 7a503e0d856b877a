//! The taints that speak of a node's health.

use api::Timestamp;
use api::node::Taint;
use machine::Time;

/// Which of the two health taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// The node says that it is not ready.
    NotReady,
    /// The node says nothing.
    Unreachable,
}

impl Health {
    /// Both.
    pub const ALL: [Health; 2] = [Health::NotReady, Health::Unreachable];

    /// Returns the key of the taint.
    pub const fn key(self) -> &'static str {
        match self {
            Health::NotReady => api::tolerations::NOT_READY,
            Health::Unreachable => api::tolerations::UNREACHABLE,
        }
    }

    /// Returns the health taint of that key.
    pub fn from_key(key: &str) -> Option<Health> {
        Health::ALL.into_iter().find(|health| health.key() == key)
    }
}

/// What a health taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// Keeps new pods away.
    NoSchedule,
    /// Drives pods out that do not tolerate it.
    NoExecute,
}

impl TaintEffect {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        }
    }
}

/// A health taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthTaint {
    /// Which.
    pub health: Health,
    /// What it does.
    pub effect: TaintEffect,
    /// Since when; the API keeps it for NoExecute.
    pub time_added: Option<Time>,
}

impl HealthTaint {
    /// Reads a taint; `None`: it does not speak of health.
    pub fn read(taint: &Taint) -> Option<HealthTaint> {
        let effect = match taint.effect.as_str() {
            "NoSchedule" => TaintEffect::NoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            _ => return None,
        };
        Some(HealthTaint { health: Health::from_key(&taint.key)?, effect, time_added: taint.time_added.map(|stamp| stamp.0) })
    }

    /// Returns the taint as the API has it.
    pub fn taint(&self) -> Taint {
        Taint {
            key: self.health.key().to_owned(),
            value: String::new(),
            effect: self.effect.name().to_owned(),
            time_added: self.time_added.map(Timestamp),
        }
    }
}
