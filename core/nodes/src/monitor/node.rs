//! What the monitor remembers of a node.

use std::sync::Arc;
use std::time::Duration;

use machine::Time;

use super::facts::{LeaseFacts, Ready, ReadyFacts};
use super::{Config, NodeFacts};
use crate::taints::{Health, HealthTaint, TaintEffect};

/// The lease duration that a node without a Lease is judged by where an interval is needed; kubelet default.
const LEASE_DURATION: Duration = Duration::from_secs(40);

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
    pub(super) zone: usize,
    pub(super) excluded: bool,
    pub(super) control_plane: bool,
    pub(super) keep: bool,
    /// Ready as we know it, ahead of the API where our own write is under way.
    pub(super) ready: Option<Ready>,
    /// Ready as the API last had it.
    pub(super) observed: Option<ReadyFacts>,
    /// Whether the node has ever posted a status.
    pub(super) posted: bool,
    pub(super) last_seen: Time,
    /// A grace of its own in place of that of the settings.
    pub(super) own_grace: Option<Duration>,
    /// The grace in use: raised at once, lowered with the next heartbeat.
    pub(super) grace: Duration,
    pub(super) lease: Option<LeaseFacts>,
    pub(super) lease_duration: Option<Duration>,
    /// How long it may be silent, and how long without suspicion, in microseconds; see [`Node::measure`].
    patience_us: i64,
    quiet_us: i64,
    /// The taints that are there, as far as we know.
    pub(super) no_schedule: [bool; 2],
    pub(super) no_execute: [Option<Time>; 2],
    /// The NoExecute taint that is to be there, and since when.
    pub(super) granted: Option<(Health, Time)>,
    /// Since when it waits for a NoExecute taint.
    pub(super) queued: Option<Time>,
    /// When the silence check looks at it; `Time::MAX` while it need not.
    pub(super) check_at: Time,
    /// When its fresh grace ends, while it is Unknown and has been heard or pardoned since.
    pub(super) revival: Option<Time>,
    pub(super) dirty: bool,
}

impl Node {
    pub(super) fn new(facts: &NodeFacts, zone: usize, now: Time, config: &Config) -> Node {
        let mut node = Node {
            name: facts.name.clone(),
            uid: facts.uid.clone(),
            zone,
            excluded: facts.excluded,
            control_plane: facts.control_plane,
            keep: facts.keep,
            ready: facts.ready.map(|ready| ready.status),
            observed: facts.ready,
            posted: facts.ready.is_some_and(|ready| !ready.never_updated),
            last_seen: now,
            own_grace: facts.grace,
            grace: facts.grace.unwrap_or(config.grace),
            lease: None,
            lease_duration: None,
            patience_us: 0,
            quiet_us: 0,
            no_schedule: [false; 2],
            no_execute: [None; 2],
            granted: None,
            queued: None,
            check_at: Time::MAX,
            revival: None,
            dirty: false,
        };
        node.measure(config);
        node
    }

    /// Finds how long the node may be silent; to be called whenever what that depends on has changed.
    pub(super) fn measure(&mut self, config: &Config) {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let grace = if self.posted { self.grace } else { config.startup_grace };
        let lease = self.lease_duration.filter(|_| config.lease_aware_grace).unwrap_or_default();
        self.patience_us = micros(grace.max(lease));
        self.quiet_us = micros(self.lease_duration.unwrap_or(LEASE_DURATION) / 2);
    }

    /// Returns the last instant at which the silence is not yet too long.
    #[inline]
    pub(super) const fn expiry(&self) -> Time {
        Time::from_micros(self.last_seen.as_micros().saturating_add(self.patience_us))
    }

    /// Returns the last instant at which the node is not yet suspiciously silent: two lease intervals.
    #[inline]
    pub(super) const fn quiet_until(&self) -> Time {
        Time::from_micros(self.last_seen.as_micros().saturating_add(self.quiet_us))
    }

    /// Returns the grace that the node is to be judged by from its next heartbeat on.
    #[inline]
    pub(super) fn wanted_grace(&self, config: &Config) -> Duration {
        self.own_grace.unwrap_or(config.grace)
    }

    /// Judges the node by the grace that is wanted.
    pub(super) fn take_grace(&mut self, config: &Config) {
        let grace = self.wanted_grace(config);
        if self.grace != grace {
            self.grace = grace;
            self.measure(config);
        }
    }

    /// Judges the node by the grace that is wanted if it is longer: a shorter one waits for the next heartbeat.
    pub(super) fn raise_grace(&mut self, config: &Config) {
        self.grace = self.grace.max(self.wanted_grace(config));
        self.measure(config);
    }

    /// Returns whether the isolation guard listens to the node.
    pub(super) const fn in_base(&self, workers_only: bool) -> bool {
        !self.excluded && (!workers_only || !self.control_plane)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready == Some(Ready::True)
    }

    /// Takes over the taints that the API has. What stands there stays, unless the node is ready or `all_stop`.
    pub(super) fn observe_taints(&mut self, taints: &[HealthTaint], now: Time, all_stop: bool) {
        (self.no_schedule, self.no_execute) = ([false; 2], [None; 2]);
        for taint in taints {
            match taint.effect {
                TaintEffect::NoSchedule => self.no_schedule[taint.health as usize] = true,
                TaintEffect::NoExecute => self.no_execute[taint.health as usize] = Some(taint.time_added.unwrap_or(now)),
            }
        }
        if self.granted.is_none() && !self.is_ready() && !all_stop {
            let fitting = self.health();
            let other = Health::ALL.into_iter().find(|health| *health != fitting).expect("there are two");
            let found = [fitting, other].into_iter().find_map(|health| Some((health, self.no_execute[health as usize]?)));
            self.granted = found;
        }
    }

    /// Returns the health taint that fits the condition; of no account for a ready node.
    pub(super) fn health(&self) -> Health {
        match self.ready {
            Some(Ready::Unknown) => Health::Unreachable,
            Some(Ready::True | Ready::False) | None => Health::NotReady,
        }
    }

    /// Makes the taints what they are to be, and returns what must be added and removed for that.
    pub(super) fn settle_taints(&mut self) -> (Vec<HealthTaint>, Vec<HealthTaint>) {
        let (mut add, mut remove) = (Vec::new(), Vec::new());
        for health in Health::ALL {
            let index = health as usize;
            let wanted = !self.is_ready() && self.health() == health;
            if self.no_schedule[index] != wanted {
                let list = if wanted { &mut add } else { &mut remove };
                list.push(HealthTaint { health, effect: TaintEffect::NoSchedule, time_added: None });
                self.no_schedule[index] = wanted;
            }
            let wanted = self.granted.filter(|(granted, _)| *granted == health).map(|(_, since)| since);
            if self.no_execute[index].is_some() != wanted.is_some() {
                let list = if wanted.is_some() { &mut add } else { &mut remove };
                list.push(HealthTaint { health, effect: TaintEffect::NoExecute, time_added: wanted });
                self.no_execute[index] = wanted;
            }
        }
        (add, remove)
    }
}
