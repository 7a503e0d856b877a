//! The arithmetic of probes: from the settings of a probe to when it acts.
//!
//! All instants count from the start of the container, which the agent is taken to see at once, and nothing waits for a
//! free slot of the agent. Two kinds of target bound what can happen: a **prompt** one answers or refuses at once, a
//! **hanging** one uses the whole timeout for every attempt. For one probe, with
//!
//! ```text
//! d   initial delay          P   period that is valid           T   timeout
//! n   successThreshold       f   failureThreshold               rest = min(100 ms, P / 10)
//! G = max(P, T + rest)       the longest distance between the beginnings of two attempts
//! ```
//!
//! and an application that answers well every attempt which begins at `L` or later:
//!
//! ```text
//! attempts of a prompt target   a(0) = d, [d + 1 s: the second look, if P > 1 s], d + Q, d + Q + P, ... where Q = P, but
//!                               Q = max(P, 1 s + rest) after a look, because the target gets its rest
//! ready, no startup probe       a(j + n - 1), j the first attempt with a(j) >= L
//!   knocks                      the target is also asked between two attempts, at intervals K = max(10 ms, age / 1000): if a knock
//!                               k >= L comes before a(j), k + (n - 1) P
//!   at most                     max(L, d) + n P, hanging: max(L, d) + n G + T
//! started, startup probe s      the first a_s(j) >= L; then readiness r begins at max(started, d_r), so ready comes
//!   at most                     max(L, d_s, d_r) + P_s + (n_r - 1) P_r,
//!                               hanging: max(L, d_s, d_r) + G_s + T_s + (n_r - 1) G_r + T_r
//! never up                      Failure at d, f > 1: d + Q + (f - 2) P; hanging: d + F + (f - 2) G + T, where F = G, or with a second look
//!                               at s = max(1 s, T + rest) < P: F = max(P, s + T + rest)
//! fails after Success           Failure between (f - 1) P and f G + T later, P the period after Success
//! well again after a loss       Success at most n P later, hanging n G + T, P the period after a loss
//! ```
//!
//! The laws in `laws.rs` hold all of this against [`ContainerProber`](probe::ContainerProber).

use std::time::Duration;

use serde::Serialize;

use probe::timing::{Progress, SubSecondProbePolicy, Timing};
use probe::{knocks, schedule};

/// A second look comes this long after the first attempt.
const LOOK_MS: u64 = 1_000;

/// A time between two bounds, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// At the earliest.
    pub from_ms: u64,
    /// At the latest.
    pub to_ms: u64,
}

/// What a probe settles to on a node, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    /// From the start of the container to the first attempt.
    pub delay_ms: u64,
    /// Between attempts until Success.
    pub period_ms: u64,
    /// Between attempts while the result is Success.
    pub period_after_success_ms: u64,
    /// Between attempts after Success was lost.
    pub period_after_loss_ms: u64,
    /// For one attempt.
    pub timeout_ms: u64,
    /// Successes in a row that count.
    pub success_threshold: u32,
    /// Failures in a row that count.
    pub failure_threshold: u32,
    /// Whether one extra attempt follows a first one that did not succeed.
    pub second_look: bool,
    /// Whether a container that refuses connections is knocked at until it listens.
    pub probe_on_listen: bool,
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn rest_ms(period_ms: u64) -> u64 {
    ms(schedule::rest(Duration::from_millis(period_ms)))
}

fn times(count: u32, span_ms: u64) -> u64 {
    span_ms.saturating_mul(u64::from(count))
}

impl Times {
    /// Returns the times of a probe under a policy; `may_look`: its worker takes second looks.
    pub fn new(timing: &Timing, policy: SubSecondProbePolicy, may_look: bool) -> Times {
        let period = |reached_success, is_success| ms(timing.period(policy, Progress { reached_success, is_success }));
        Times {
            delay_ms: ms(timing.initial_delay),
            period_ms: period(false, false),
            period_after_success_ms: period(true, true),
            period_after_loss_ms: period(true, false),
            timeout_ms: ms(timing.timeout),
            success_threshold: timing.success_threshold,
            failure_threshold: timing.failure_threshold,
            second_look: may_look && period(false, false) > LOOK_MS,
            probe_on_listen: false,
        }
    }

    /// Returns `G`: the longest distance between the beginnings of two attempts at a period.
    fn gap_ms(&self, period_ms: u64) -> u64 {
        period_ms.max(self.timeout_ms.saturating_add(rest_ms(period_ms)))
    }

    /// Returns how long after the first attempt the second one comes that is no look: a look that ends right before it gets
    /// its rest too, which moves the grid.
    fn second_ms(&self) -> u64 {
        match self.second_look {
            true => self.period_ms.max(LOOK_MS + rest_ms(self.period_ms)),
            false => self.period_ms,
        }
    }

    /// Returns when attempt number `index` of a prompt target begins that has not reached Success; `first` is the first.
    pub(super) fn attempt_ms(&self, first: u64, index: u64) -> u64 {
        let after = match (index, self.second_look) {
            (0, _) => 0,
            (1, true) => LOOK_MS,
            (2.., true) => self.second_ms().saturating_add(self.period_ms.saturating_mul(index - 2)),
            (_, false) => self.period_ms.saturating_mul(index),
        };
        first.saturating_add(after)
    }

    /// Returns the number of the first attempt that begins at `listens_ms` or later.
    fn first_good(&self, first: u64, listens_ms: u64) -> u64 {
        let wait = listens_ms.saturating_sub(first);
        match self.second_look {
            false => wait.div_ceil(self.period_ms),
            true if wait == 0 => 0,
            true if wait <= LOOK_MS => 1,
            true => wait.saturating_sub(self.second_ms()).div_ceil(self.period_ms).saturating_add(2),
        }
    }

    /// Returns when a knock is accepted by a container that refuses connections until `listens_ms`; `None`: an attempt comes first.
    pub(super) fn knock_ms(&self, first: u64, listens_ms: u64) -> Option<u64> {
        let good = self.first_good(first, listens_ms);
        let refused = good.checked_sub(1).filter(|_| self.probe_on_listen).map(|last| self.attempt_ms(first, last))?;
        let micros = |ms: u64| ms.saturating_mul(1_000);
        let (mut at, listens, until) = (micros(refused), micros(listens_ms), micros(self.attempt_ms(first, good)));
        while at < listens {
            let interval = knocks::interval(1, Duration::from_micros(at));
            at = at.saturating_add(u64::try_from(interval.as_micros()).unwrap_or(u64::MAX));
            if at >= until {
                return None;
            }
        }
        Some(at / 1_000)
    }

    /// Returns when a prompt target reaches Success whose first attempt begins at `first`.
    pub(super) fn success_ms(&self, first: u64, listens_ms: u64) -> u64 {
        if let Some(knock) = self.knock_ms(first, listens_ms) {
            return knock.saturating_add(times(self.success_threshold - 1, self.period_ms));
        }
        let last = self.first_good(first, listens_ms).saturating_add(u64::from(self.success_threshold - 1));
        self.attempt_ms(first, last)
    }

    /// Returns when Failure is reached by a container that never answers well, from its start.
    pub fn never_up(&self) -> Span {
        let (period, timeout) = (self.period_ms, self.timeout_ms);
        let rested = timeout.saturating_add(rest_ms(period));
        let look = LOOK_MS.max(rested);
        let first = match self.second_look && look < period {
            true => period.max(look.saturating_add(rested)),
            false => self.gap_ms(period),
        };
        // From the first to the last attempt that counts.
        let between = |first: u64, gap: u64| match self.failure_threshold {
            1 => 0,
            failures => first.saturating_add(times(failures - 2, gap)),
        };
        let hanging = between(first, self.gap_ms(period)).saturating_add(timeout);
        Span {
            from_ms: self.delay_ms.saturating_add(between(self.second_ms(), period)),
            to_ms: self.delay_ms.saturating_add(hanging),
        }
    }

    /// Returns how long after it began to fail a container that was well has the result Failure.
    pub fn failing(&self) -> Span {
        let period = self.period_after_success_ms;
        let worst = times(self.failure_threshold, self.gap_ms(period)).saturating_add(self.timeout_ms);
        Span { from_ms: times(self.failure_threshold - 1, period), to_ms: worst }
    }

    /// Returns how long after it is well again a container that failed has the result Success: prompt and hanging bound.
    pub fn recovering(&self) -> Span {
        self.answering(self.period_after_loss_ms)
    }

    /// Returns how long after it answers well, and after its delay, Success is reached at most: prompt and hanging bound.
    pub(super) fn succeeding(&self) -> Span {
        self.answering(self.period_ms)
    }

    fn answering(&self, period_ms: u64) -> Span {
        let worst = times(self.success_threshold, self.gap_ms(period_ms)).saturating_add(self.timeout_ms);
        Span { from_ms: times(self.success_threshold, period_ms), to_ms: worst }
    }
}

/// When a container is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// After its start, if it answers well from the first attempt on.
    pub earliest_ms: u64,
    /// After it answers well (and the delays are over), at most, if it refused or answered at once before.
    pub lag_ms: u64,
    /// The same if attempts may use their whole timeout.
    pub lag_worst_ms: u64,
    /// About how long after it listens, if it refused connections before and answers well at once; absent: nobody knocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_on_listen_ms: Option<u64>,
}

/// The probes that decide when a container is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Of the startup probe.
    pub startup: Option<Times>,
    /// Of the readiness probe.
    pub readiness: Option<Times>,
    /// Of the liveness probe.
    pub liveness: Option<Times>,
}

impl Start {
    /// Returns when the container is ready, whatever it does.
    pub fn ready(&self) -> Ready {
        let (lag, worst) = match (&self.startup, &self.readiness) {
            (None, None) => (0, 0),
            (None, Some(probe)) | (Some(probe), None) => (probe.succeeding().from_ms, probe.succeeding().to_ms),
            (Some(startup), Some(readiness)) => {
                // The first attempt of readiness begins when the container is started, so it counts.
                let more = readiness.success_threshold - 1;
                let (prompt, hanging) = (startup.succeeding(), readiness.gap_ms(readiness.period_ms));
                (
                    prompt.from_ms.saturating_add(times(more, readiness.period_ms)),
                    prompt.to_ms.saturating_add(times(more, hanging)).saturating_add(readiness.timeout_ms),
                )
            }
        };
        Ready {
            earliest_ms: self.ready_unless_killed_ms(0),
            lag_ms: lag,
            lag_worst_ms: worst,
            lag_on_listen_ms: self.lag_on_listen_ms(),
        }
    }

    fn lag_on_listen_ms(&self) -> Option<u64> {
        self.startup.or(self.readiness).filter(|first| first.probe_on_listen)?;
        let more = self.readiness.map_or(0, |readiness| times(readiness.success_threshold - 1, readiness.period_ms));
        Some(ms(knocks::INTERVAL_MIN).saturating_add(more))
    }

    /// Returns when the container is started if it answers at once from `listens_ms` on.
    pub(super) fn started_ms(&self, listens_ms: u64) -> u64 {
        self.startup.map_or(0, |startup| startup.success_ms(startup.delay_ms, listens_ms))
    }

    fn ready_unless_killed_ms(&self, listens_ms: u64) -> u64 {
        let started = self.started_ms(listens_ms);
        self.readiness.map_or(started, |readiness| readiness.success_ms(readiness.delay_ms.max(started), listens_ms))
    }

    /// Returns the last instant at which a container may begin to answer well without being killed before; `None`: any.
    pub fn budget_ms(&self) -> Option<u64> {
        let decides = self.startup.as_ref().or(self.liveness.as_ref())?;
        Some(decides.never_up().from_ms)
    }

    /// Returns when the container is ready if it refuses at once until `listens_ms` and answers at once from then on.
    ///
    /// `None`: it is killed before.
    pub fn ready_ms(&self, listens_ms: u64) -> Option<u64> {
        // Without a probe to wait for it is ready before anything can kill it.
        let waits = self.startup.is_some() || self.readiness.is_some();
        let killed = waits && self.budget_ms().is_some_and(|budget| listens_ms > budget);
        (!killed).then(|| self.ready_unless_killed_ms(listens_ms))
    }
}
