//! Leader election over a Lease: who may act, and until when.
//!
//! Of several processes that want to lead, at most one believes that it does. Clocks of machines are never compared: a
//! follower measures with its own clock how long it has seen no renewal, and a leader counts from the moment *before* it
//! sent its last renewal that arrived. It gives up after [`Settings::renew_deadline`], which is shorter than the
//! [`Settings::lease_duration`] that followers wait, so it has stopped before another one starts.

use std::time::Duration;

use api::lease::LeaseSpec;
use api::{Lease, Timestamp};
use machine::{Machine, Rng, Time};

/// How an election goes; the defaults are those of the Kubernetes control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who we are; unique among the candidates.
    pub identity: String,
    /// A lease that was not renewed for this long may be taken.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long stops to lead.
    pub renew_deadline: Duration,
    /// How often to look, or to renew.
    pub retry_period: Duration,
}

/// The stored holder of a lease that somebody gave up: one second, so that nobody waits for it.
const RELEASED_SECONDS: i64 = 1;

impl Settings {
    /// Returns the defaults for a candidate.
    pub fn new(identity: &str) -> Settings {
        Settings {
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The answer to [`Effect::Read`]: the lease, if there is one.
    Seen(Option<Box<Lease>>),
    /// The answer to [`Effect::Write`]: what is stored now.
    Written(Box<Lease>),
    /// A read or a write that failed, was refused, or got no answer.
    Failed,
}

/// What must be done. Every read and every write must be answered with an [`Input`].
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read the lease.
    Read,
    /// Store the lease: created if it has no resourceVersion, else replaced if it still has that version.
    Write(Box<Lease>),
    /// We lead from now on.
    Lead,
    /// We do not lead any more, and must not act.
    Lost,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Election {
    settings: Settings,
    rng: Rng,
    /// The last state of the lease that we saw, and when we saw it first.
    observed: Option<(Lease, Time)>,
    /// When the attempt that is under way began.
    attempt: Option<Time>,
    next: Time,
    /// Whether what we observed last is what our own last write stored: then a renewal needs no read.
    known: bool,
    /// When the last renewal that arrived was sent; `None`: we do not lead.
    renewed: Option<Time>,
}

impl Election {
    /// Starts as a follower that looks at once.
    pub fn new(now: Time, settings: Settings, rng: Rng) -> Election {
        Election { settings, rng, observed: None, attempt: None, next: now, known: false, renewed: None }
    }

    /// Returns whether we lead.
    pub fn leads(&self) -> bool {
        self.renewed.is_some()
    }

    /// Returns until when we may act without a further renewal; `None`: we do not lead.
    pub fn leads_until(&self) -> Option<Time> {
        self.renewed.map(|renewed| renewed + self.settings.renew_deadline)
    }

    /// Returns who leads as far as we know.
    pub fn leader(&self) -> Option<&str> {
        self.observed.as_ref()?.0.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Returns the lease that gives up leadership at once, if we have it: others need not wait until it expires.
    pub fn release(self, now: Time) -> Option<Box<Lease>> {
        let (mut lease, _) = self.observed.filter(|_| self.renewed.is_some())?;
        lease.spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED_SECONDS),
            renew_time: Some(Timestamp(now)),
            ..lease.spec
        };
        Some(Box::new(lease))
    }

    fn observe(&mut self, now: Time, lease: Lease) {
        if self.observed.as_ref().is_none_or(|(known, _)| known.spec != lease.spec) {
            self.observed = Some((lease, now));
        } else if let Some((known, _)) = &mut self.observed {
            known.metadata = lease.metadata;
        }
    }

    /// Returns whether nobody else holds the lease.
    fn is_free(&self, now: Time) -> bool {
        let Some((lease, since)) = &self.observed else { return true };
        let holder = lease.spec.holder_identity.as_deref().unwrap_or_default();
        holder.is_empty() || holder == self.settings.identity || now >= *since + self.patience(lease)
    }

    /// How long a silent holder is waited for: what it says itself if that is longer than our own setting.
    fn patience(&self, lease: &Lease) -> Duration {
        let stored = u64::try_from(lease.spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        Duration::from_secs(stored).max(self.settings.lease_duration)
    }

    /// Returns the lease that makes us its holder.
    fn claim(&self, now: Time) -> Box<Lease> {
        let mut lease = self.observed.as_ref().map(|(lease, _)| lease.clone()).unwrap_or_default();
        let ours = lease.spec.holder_identity.as_deref() == Some(&self.settings.identity);
        let transitions = lease.spec.lease_transitions.unwrap_or(0);
        let first = lease.metadata.resource_version.is_empty();
        lease.spec = LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i64::try_from(self.settings.lease_duration.as_secs()).ok(),
            acquire_time: if ours { lease.spec.acquire_time } else { Some(Timestamp(now)) },
            renew_time: Some(Timestamp(now)),
            lease_transitions: Some(if ours || first { transitions } else { transitions + 1 }),
        };
        Box::new(lease)
    }

    fn give_up_in_time(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.leads_until().is_some_and(|until| now >= until) {
            self.renewed = None;
            effects.push(Effect::Lost);
        }
    }

    fn later(&mut self, now: Time) {
        self.attempt = None;
        // Followers that started together must not ask together for ever.
        let extra = if self.leads() { Duration::ZERO } else { self.settings.retry_period.mul_f64(self.rng.fraction() / 5.0) };
        self.next = now + self.settings.retry_period + extra;
    }
}

impl Machine for Election {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        self.give_up_in_time(now, effects);
        match input {
            Some(Input::Seen(lease)) => {
                match lease {
                    Some(lease) => self.observe(now, *lease),
                    None => self.observed = None,
                }
                if self.is_free(now) {
                    self.attempt = Some(now);
                    effects.push(Effect::Write(self.claim(now)));
                } else {
                    self.later(now);
                }
            }
            Some(Input::Written(lease)) => {
                let sent = self.attempt.unwrap_or(now);
                self.observe(now, *lease);
                self.known = true;
                // An answer that took longer than we may lead without one comes too late to begin.
                if now < sent + self.settings.renew_deadline && self.renewed.replace(sent).is_none() {
                    effects.push(Effect::Lead);
                }
                self.later(now);
            }
            // Whether a write without an answer arrived is found out by reading.
            Some(Input::Failed) => {
                self.known = false;
                self.later(now);
            }
            None => {}
        }
        if self.attempt.is_none() && now >= self.next {
            self.attempt = Some(now);
            effects.push(if self.leads() && self.known { Effect::Write(self.claim(now)) } else { Effect::Read });
        }
    }

    fn deadline(&self) -> Option<Time> {
        let attempt = self.attempt.is_none().then_some(self.next);
        attempt.into_iter().chain(self.leads_until()).min()
    }
}
