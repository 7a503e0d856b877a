//! The heartbeat loop of the agent: when to renew the Lease, when to try again, when to post the status.
//!
//! Beats lie on a fixed raster, so that a beat in trouble never delays the next. Within a beat up to five attempts start
//! side by side, each but the first over a connection of its own: a stalled connection cannot eat the beat. The profile
//! slows down transmission, not perception: a change of readiness is posted at once.

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
    /// The number of the current beat, from 1; 0 before the first.
    beat: u64,
    /// Where the next beat lies on the raster, and when it really begins.
    next_raster: Time,
    next_beat: Time,
    /// When the current beat began, and how many of its attempts have started.
    began: Time,
    started: u32,
    renewed: bool,
    /// Whether one or more beats have passed without success.
    failed: bool,
    last_post: Option<Time>,
    post_again: Option<Time>,
}

impl Beats {
    /// Returns a loop whose first beat is at `first`; later ones follow on a raster from there.
    pub fn new(first: Time, config: Config, rng: Rng) -> Beats {
        let mut beats = Beats {
            config,
            slower: None,
            rng,
            beat: 0,
            next_raster: first,
            next_beat: first,
            began: first,
            started: 0,
            renewed: true,
            failed: false,
            last_post: None,
            post_again: None,
        };
        beats.next_beat = first + beats.jitter();
        beats
    }

    /// Returns the interval in force.
    pub const fn interval(&self) -> Duration {
        self.config.interval
    }

    fn jitter(&mut self) -> Duration {
        if !self.config.jitter {
            return Duration::ZERO;
        }
        let most = u64::try_from(self.config.interval.as_micros() / 25).unwrap_or(u64::MAX);
        Duration::from_micros(self.rng.below(most.saturating_add(1)))
    }

    /// Returns when the next attempt of the current beat starts, if one does.
    fn next_attempt(&self) -> Option<Time> {
        if self.renewed || self.started >= self.config.attempts {
            return None;
        }
        match self.config.spacing {
            Spacing::Burst => Some(self.began),
            // The product first: thirds and sevenths of an interval must not drift.
            Spacing::Spread => Some(self.began + self.config.interval * self.started / self.config.attempts),
        }
    }

    fn begin(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.beat > 0 {
            self.failed |= !self.renewed;
            effects.push(Effect::Drop { beat: self.beat });
        }
        if let Some(interval) = self.slower.take() {
            self.config.interval = interval;
        }
        self.beat += 1;
        (self.began, self.started, self.renewed) = (self.next_beat, 0, false);
        // A loop that was held up (a suspended machine) begins one beat, not all that it has missed.
        self.next_raster += self.config.interval;
        if self.next_raster <= now {
            let behind = now.since(self.next_raster).as_micros() / self.config.interval.as_micros().max(1) + 1;
            self.next_raster += self.config.interval * u32::try_from(behind).unwrap_or(u32::MAX);
            self.began = now;
        }
        self.next_beat = self.next_raster + self.jitter();
        if self.beat == 1 {
            self.post(now, effects);
        }
    }

    fn attempt(&mut self, effects: &mut Vec<Effect>) {
        effects.push(Effect::Attempt {
            beat: self.beat,
            fresh: self.started > 0,
            lease_duration: self.config.interval.saturating_mul(4),
        });
        self.started += 1;
    }

    fn post(&mut self, now: Time, effects: &mut Vec<Effect>) {
        (self.last_post, self.post_again) = (Some(now), None);
        effects.push(Effect::PostStatus);
    }

    fn renewed(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.renewed = true;
        let overdue = self.last_post.is_none_or(|last| now.since(last) >= self.config.report_interval);
        if std::mem::take(&mut self.failed) || overdue {
            self.post(now, effects);
        }
    }

    fn set_interval(&mut self, now: Time, interval: Duration) {
        self.slower = None;
        if interval > self.config.interval {
            self.slower = Some(interval);
        } else if interval < self.config.interval {
            // Faster at once: the grace may be about to shrink.
            self.config.interval = interval;
            if self.beat > 0 {
                (self.next_raster, self.next_beat) = (now, now);
                self.renewed = true; // an interrupted beat has not failed
            }
        }
    }
}

impl Machine for Beats {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        match input {
            Some(Input::Renewed { beat }) if beat == self.beat && !self.renewed => self.renewed(now, effects),
            Some(Input::ReadyChanged) => self.post(now, effects),
            Some(Input::PostFailed) => self.post_again = Some(now + self.config.interval / 5),
            Some(Input::SetInterval(interval)) => self.set_interval(now, interval),
            Some(Input::Renewed { .. }) | None => {}
        }
        if self.next_beat <= now {
            self.begin(now, effects);
        }
        while self.next_attempt().is_some_and(|at| at <= now) {
            self.attempt(effects);
        }
        if self.post_again.is_some_and(|at| at <= now) {
            self.post(now, effects);
        }
    }

    fn deadline(&self) -> Option<Time> {
        [Some(self.next_beat), self.next_attempt(), self.post_again].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Rng;
    use proptest::prelude::{prop_assert, proptest};

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn steady(interval: u64) -> Beats {
        Beats::new(Time::ZERO, Config { jitter: false, ..Config::new(secs(interval)) }, Rng::new(0))
    }

    /// Runs until an instant; every attempt succeeds at once. Returns when attempts started.
    fn run(beats: &mut Beats, until: Time) -> Vec<i64> {
        let mut started = Vec::new();
        let mut effects = Vec::new();
        while let Some(now) = beats.deadline().filter(|now| *now <= until) {
            beats.step(now, None, &mut effects);
            while let Some(effect) = effects.pop() {
                if let Effect::Attempt { beat, .. } = effect {
                    started.push(now.as_secs());
                    beats.step(now, Some(Input::Renewed { beat }), &mut effects);
                }
            }
        }
        started
    }

    fn tell(beats: &mut Beats, now: i64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        beats.step(Time::from_secs(now), Some(input), &mut effects);
        effects
    }

    #[test]
    fn a_slower_profile_begins_after_the_current_beat() {
        let mut beats = steady(10);
        assert_eq!(run(&mut beats, Time::from_secs(25)), [0, 10, 20]);
        assert_eq!(tell(&mut beats, 25, Input::SetInterval(secs(60))), []);
        assert_eq!(run(&mut beats, Time::from_secs(160)), [30, 90, 150]);
        assert_eq!(beats.interval(), secs(60));
    }

    #[test]
    fn a_faster_profile_beats_at_once_on_a_new_raster() {
        let mut beats = steady(60);
        assert_eq!(run(&mut beats, Time::from_secs(70)), [0, 60]);
        let effects = tell(&mut beats, 73, Input::SetInterval(secs(20)));
        let attempt = Effect::Attempt { beat: 3, fresh: false, lease_duration: secs(80) };
        assert_eq!(effects, [Effect::Drop { beat: 2 }, attempt]);
        tell(&mut beats, 73, Input::Renewed { beat: 3 });
        assert_eq!(run(&mut beats, Time::from_secs(120)), [93, 113]);
    }

    #[test]
    fn an_answer_to_a_beat_that_is_over_does_not_count() {
        let mut beats = steady(10);
        beats.step(Time::ZERO, None, &mut Vec::new());
        beats.step(Time::from_secs(10), None, &mut Vec::new());
        assert_eq!(tell(&mut beats, 11, Input::Renewed { beat: 1 }), []);
        assert_eq!(tell(&mut beats, 11, Input::Renewed { beat: 2 }), [Effect::PostStatus], "the first beat has failed");
    }

    #[test]
    fn a_failed_post_is_started_again() {
        let mut beats = steady(10);
        run(&mut beats, Time::from_secs(3));
        assert_eq!(tell(&mut beats, 4, Input::PostFailed), []);
        assert_eq!(beats.deadline(), Some(Time::from_secs(6)));
        let mut effects = Vec::new();
        beats.step(Time::from_secs(6), None, &mut effects);
        assert_eq!(effects, [Effect::PostStatus]);
    }

    #[test]
    fn a_loop_that_was_held_up_begins_one_beat() {
        let mut beats = steady(10);
        run(&mut beats, Time::from_secs(5));
        let mut effects = Vec::new();
        beats.step(Time::from_secs(3607), None, &mut effects);
        assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Attempt { .. })).count(), 1);
        assert_eq!(beats.deadline(), Some(Time::from_secs(3609)), "its second attempt");
        tell(&mut beats, 3608, Input::Renewed { beat: 2 });
        assert_eq!(beats.deadline(), Some(Time::from_secs(3610)), "back on the raster");
    }

    proptest! {
        #[test]
        fn jitter_is_late_by_at_most_4_per_cent_and_does_not_add_up(seed: u64, interval in 1u64..100) {
            let mut beats = Beats::new(Time::ZERO, Config::new(secs(interval)), Rng::new(seed));
            let mut effects = Vec::new();
            for beat in 0..200i64 {
                let now = beats.deadline().expect("a loop has a deadline");
                let raster = Time::from_secs(beat * interval as i64);
                prop_assert!(now >= raster && now.since(raster) <= secs(interval) / 25);
                beats.step(now, None, &mut effects);
                beats.step(now, Some(Input::Renewed { beat: beat as u64 + 1 }), &mut effects);
            }
        }
    }
}
