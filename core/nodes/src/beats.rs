//! The heartbeat loop of the agent: when to renew the Lease, when to try again, when to post the status.
//!
//! Beats lie on a fixed raster, so that a late beat never delays the next. Within a beat up to five attempts start
//! side by side, each but the first over a connection of its own: a stalled connection cannot eat the beat. The profile
//! slows down transmission, not perception: a change of readiness is posted at once, and so is a status that the API shows
//! otherwise than the node would post it. A loop that was held up for longer than its Lease lasts (a stopped process, a
//! suspended machine) posts before anything else: it has been given up meanwhile.

use std::time::Duration;

use machine::{Machine, Rng, Time};

/// Attempts per beat.
pub const ATTEMPTS: u32 = 5;
/// How long an unchanged status is left unposted.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(300);

/// How the attempts of a beat are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Evenly over the interval, until one succeeds.
    #[default]
    Spread,
    /// All at the beginning of the beat, as a stock kubelet does in effect.
    Burst,
}

/// The settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// From beat to beat; more than zero.
    pub interval: Duration,
    /// Attempts per beat; at least one.
    pub attempts: u32,
    /// How they are laid out.
    pub spacing: Spacing,
    /// How long an unchanged status is left unposted.
    pub report_interval: Duration,
    /// Whether each beat is late by a random part of up to 4 % of the interval, so that nodes do not fall into step.
    pub jitter: bool,
}

impl Config {
    /// Returns the settings of our agent for an interval.
    pub const fn new(interval: Duration) -> Config {
        Config { interval, attempts: ATTEMPTS, spacing: Spacing::Spread, report_interval: REPORT_INTERVAL, jitter: true }
    }
}

/// A fact for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// An attempt of this beat has renewed the Lease; a conflict that names ourselves as holder counts.
    Renewed {
        /// The beat of the attempt.
        beat: u64,
    },
    /// The node has become ready or not ready.
    ReadyChanged,
    /// The Node was seen in the API: whether its status is what the node would post, timestamps aside. Somebody else may have
    /// written it: the node lifecycle controller after a silence, or anybody by hand.
    StatusSeen {
        /// Whether it is.
        same: bool,
    },
    /// A status post has failed; it is started again after a fifth of the interval.
    PostFailed,
    /// The profile has changed: the new interval.
    SetInterval(Duration),
}

/// What must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Renew the Lease; create it again if it is gone. Never cancel the attempts before.
    Attempt {
        /// The beat; tell it with [`Input::Renewed`].
        beat: u64,
        /// Whether to open a connection of its own.
        fresh: bool,
        /// What the Lease says: four times the interval.
        lease_duration: Duration,
    },
    /// Drop every attempt of beats up to this one: their time is over.
    Drop {
        /// The last beat that is over.
        beat: u64,
    },
    /// Post the node's status.
    PostStatus,
}

/// The loop.
#[derive(Clone, Debug)]
pub struct Beats {
    config: Config,
    /// An interval that takes effect with the next beat.
    slower: Option<Duration>,
    rng: Rng,
    /// What follows from the interval, ready for use: a simulation beats hundreds of millions of times.
    lease_duration: Duration,
    interval_us: i64,
    jitter_us: u64,
    /// The number of the current beat, from 1; 0 before the first.
    beat: u64,
    /// Where the next beat lies on the raster, and when it really begins.
    next_raster: Time,
    next_beat: Time,
    /// When the current beat began, how many of its attempts have started, and when the next one does.
    began: Time,
    started: u32,
    next_attempt: Time,
    renewed: bool,
    /// Whether one or more beats have passed without success.
    failed: bool,
    /// When an unchanged status is due, and when a failed post is started again; `Time::MAX`: not at all.
    report_at: Time,
    post_again: Time,
    /// When the last post was started, and when the loop last looked at its clock.
    posted_at: Option<Time>,
    stepped_at: Time,
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[inline]
fn after(time: Time, micros: i64) -> Time {
    Time::from_micros(time.as_micros().saturating_add(micros))
}

impl Beats {
    /// Returns a loop whose first beat is at `first`; later ones follow on a raster from there.
    pub fn new(first: Time, config: Config, rng: Rng) -> Beats {
        let mut beats = Beats {
            config,
            slower: None,
            rng,
            lease_duration: Duration::ZERO,
            interval_us: 0,
            jitter_us: 0,
            beat: 0,
            next_raster: first,
            next_beat: first,
            began: first,
            started: 0,
            next_attempt: Time::MAX,
            renewed: true,
            failed: false,
            report_at: first,
            post_again: Time::MAX,
            posted_at: None,
            stepped_at: first,
        };
        beats.use_interval(config.interval);
        beats.next_beat = after(first, beats.jitter());
        beats
    }

    /// Returns the interval in force.
    pub const fn interval(&self) -> Duration {
        self.config.interval
    }

    fn use_interval(&mut self, interval: Duration) {
        self.config.interval = interval;
        self.lease_duration = api::lease::duration_of(interval);
        self.interval_us = micros(interval).max(1);
        self.jitter_us = if self.config.jitter { self.interval_us.unsigned_abs() / 25 } else { 0 };
    }

    /// Draws how late a beat is, in microseconds.
    fn jitter(&mut self) -> i64 {
        if self.jitter_us == 0 { 0 } else { self.rng.below(self.jitter_us + 1).cast_signed() }
    }

    fn begin(&mut self, now: Time, want: &mut impl FnMut(Effect)) {
        if self.beat > 0 {
            self.failed |= !self.renewed;
            want(Effect::Drop { beat: self.beat });
        }
        if let Some(interval) = self.slower.take() {
            self.use_interval(interval);
        }
        self.beat += 1;
        (self.began, self.started, self.renewed) = (self.next_beat, 0, false);
        self.next_raster = after(self.next_raster, self.interval_us);
        if self.next_raster <= now {
            // A loop that was held up (a suspended machine) begins one beat, not all that it has missed.
            let behind = now.as_micros().saturating_sub(self.next_raster.as_micros()) / self.interval_us + 1;
            self.next_raster = after(self.next_raster, behind.saturating_mul(self.interval_us));
            self.began = now;
        }
        self.next_beat = after(self.next_raster, self.jitter());
        self.next_attempt = self.began;
        if self.beat == 1 {
            self.post(now, want);
        }
    }

    fn attempt(&mut self, want: &mut impl FnMut(Effect)) {
        want(Effect::Attempt { beat: self.beat, fresh: self.started > 0, lease_duration: self.lease_duration });
        self.started += 1;
        self.next_attempt = if self.started >= self.config.attempts {
            Time::MAX
        } else {
            match self.config.spacing {
                Spacing::Burst => self.began,
                // The product first: thirds and sevenths of an interval must not drift.
                Spacing::Spread => {
                    let offset = self.interval_us.saturating_mul(i64::from(self.started)) / i64::from(self.config.attempts);
                    after(self.began, offset)
                }
            }
        };
    }

    fn post(&mut self, now: Time, want: &mut impl FnMut(Effect)) {
        (self.report_at, self.post_again) = (now + self.config.report_interval, Time::MAX);
        self.posted_at = Some(now);
        want(Effect::PostStatus);
    }

    fn renewed(&mut self, now: Time, want: &mut impl FnMut(Effect)) {
        (self.renewed, self.next_attempt) = (true, Time::MAX);
        if std::mem::take(&mut self.failed) || self.report_at <= now {
            self.post(now, want);
        }
    }

    /// Puts right what somebody else wrote: at once, but not faster than a failed post is started again, so that two who do
    /// not agree do not flood the API.
    fn status_seen(&mut self, now: Time, same: bool, want: &mut impl FnMut(Effect)) {
        if same || self.beat == 0 {
            // Before the first beat nothing was posted, and that one posts anyway.
            self.post_again = Time::MAX;
            return;
        }
        let earliest = self.posted_at.map_or(now, |at| after(at, self.interval_us / 5));
        if earliest <= now {
            self.post(now, want);
        } else {
            self.post_again = self.post_again.min(earliest);
        }
    }

    /// Returns whether nobody has looked after the loop for longer than the Lease lasts.
    fn held_up(&mut self, now: Time) -> bool {
        let before = std::mem::replace(&mut self.stepped_at, now);
        self.beat > 0 && now.since(before) > self.lease_duration
    }

    fn set_interval(&mut self, now: Time, interval: Duration) {
        self.slower = None;
        if interval > self.config.interval {
            self.slower = Some(interval);
        } else if interval < self.config.interval {
            // Faster at once: the grace may be about to shrink.
            self.use_interval(interval);
            if self.beat > 0 {
                (self.next_raster, self.next_beat) = (now, now);
                self.renewed = true; // an interrupted beat has not failed
            }
        }
    }
}

impl Beats {
    /// Does what [`Machine::step`] does, for callers that can do without a list: each effect is handed to `want`.
    pub fn step_with(&mut self, now: Time, input: Option<Input>, mut want: impl FnMut(Effect)) {
        if self.held_up(now) {
            self.post(now, &mut want);
        }
        match input {
            Some(Input::Renewed { beat }) if beat == self.beat && !self.renewed => self.renewed(now, &mut want),
            Some(Input::ReadyChanged) => self.post(now, &mut want),
            Some(Input::StatusSeen { same }) => self.status_seen(now, same, &mut want),
            Some(Input::PostFailed) => self.post_again = after(now, self.interval_us / 5),
            Some(Input::SetInterval(interval)) => self.set_interval(now, interval),
            Some(Input::Renewed { .. }) | None => {}
        }
        if self.next_beat <= now {
            self.begin(now, &mut want);
        }
        while self.next_attempt <= now {
            self.attempt(&mut want);
        }
        if self.post_again <= now {
            self.post(now, &mut want);
        }
    }

    /// Returns when the next step is due; a loop always has one.
    #[inline]
    pub fn due(&self) -> Time {
        self.next_beat.min(self.next_attempt).min(self.post_again)
    }
}

impl Machine for Beats {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        self.step_with(now, input, |effect| effects.push(effect));
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.due())
    }
}

#[cfg(test)]
mod tests;
