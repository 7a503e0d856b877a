//! The worker of one probe of one container: counts outcomes, decides what is published and when to ask again.
//!
//! It knows one container instance at a time. What a verdict does to the container (started, ready, kill) is decided by
//! [`ContainerProber`](crate::ContainerProber).

use std::time::Duration;

use api::ProbeType;
use machine::Time;

use crate::events::Rate;
use crate::outcome::Outcome;
use crate::schedule::{Attempt, Run, Schedule};
use crate::timing::{FAST_BELOW, Progress, SubSecondProbePolicy, Timing};

/// What a probe says about the instance that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeResult {
    /// The success threshold was reached last.
    Success,
    /// The failure threshold was reached last.
    Failure,
    /// Neither was reached yet (startup probes only).
    Unknown,
}

/// What a worker does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Waits for the container to run or to be started.
    Gated,
    /// Asks with a period below one second.
    Fast,
    /// Asks with a period of at least one second.
    Slow,
    /// Rests until the next instance.
    Hold,
    /// Has ended for good.
    Ended,
}

/// What one completed attempt brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The published result has changed to this.
    pub(crate) published: Option<ProbeResult>,
    /// How many outcomes of its kind there are in a row; 0: it was not counted.
    pub(crate) run: u32,
    /// It was Success before, in this instance, and is again.
    pub(crate) regained: bool,
    /// The attempt overran and moved the grid.
    pub(crate) overran: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) type_: ProbeType,
    pub(crate) timing: Timing,
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) schedule: Schedule,
    /// `None`: no instance runs, so there is nothing to say.
    pub(crate) result: Option<ProbeResult>,
    pub(crate) hold: bool,
    pub(crate) ended: bool,
    pub(crate) unhealthy: Rate,
    pub(crate) warnings: Rate,
    /// The last attempt ended with a warning.
    pub(crate) warned: bool,
    /// What was corrected in the stored probe; told once.
    pub(crate) clamped: Option<Box<str>>,
    /// Whether a target that refuses connections may be knocked at.
    pub(crate) may_knock: bool,
    /// The executor knocks for this worker.
    pub(crate) knocking: bool,
    policy: SubSecondProbePolicy,
    run: Run<bool>,
    reached: bool,
    /// A first attempt that does not reach Success may get a second look.
    may_look: bool,
}

impl Worker {
    pub(crate) fn new(type_: ProbeType, timing: Timing, policy: SubSecondProbePolicy) -> Worker {
        Worker {
            type_,
            timing,
            policy,
            grace_seconds: None,
            schedule: Schedule::default(),
            result: None,
            hold: false,
            ended: false,
            unhealthy: Rate::default(),
            warnings: Rate::default(),
            warned: false,
            clamped: None,
            may_knock: false,
            knocking: false,
            run: Run::default(),
            reached: false,
            may_look: false,
        }
    }

    /// Returns what is published for an instance about which nothing is known.
    fn initial(&self) -> ProbeResult {
        match self.type_ {
            ProbeType::Readiness => ProbeResult::Failure,
            ProbeType::Liveness => ProbeResult::Success,
            ProbeType::Startup => ProbeResult::Unknown,
        }
    }

    /// Begins a new instance; returns its initial result.
    pub(crate) fn reset(&mut self, second_look: bool) -> ProbeResult {
        let initial = self.initial();
        self.result = Some(initial);
        self.hold = false;
        self.reached = false;
        self.run.reset();
        self.warned = false;
        self.may_look = second_look && self.type_ != ProbeType::Liveness;
        initial
    }

    /// Takes up an instance that ran before the agent did; `succeeded`: its stored status says so.
    pub(crate) fn restore(&mut self, succeeded: bool) {
        self.reset(false);
        if succeeded {
            self.result = Some(ProbeResult::Success);
            self.reached = true;
            self.hold = self.type_ == ProbeType::Startup;
        }
    }

    fn progress(&self) -> Progress {
        Progress { reached_success: self.reached, is_success: self.result == Some(ProbeResult::Success) }
    }

    /// Returns the period that is valid now.
    pub(crate) fn period(&self) -> Duration {
        self.timing.period(self.policy, self.progress())
    }

    /// Returns until when the target may be knocked at, after it refused an attempt; `None`: not at all.
    pub(crate) fn knock_until(&self) -> Option<Time> {
        self.schedule.due().filter(|_| self.may_knock && self.policy.waits_for_success(self.progress()))
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.ended {
            Phase::Ended
        } else if self.hold {
            Phase::Hold
        } else if self.schedule.due().is_none() && self.schedule.running().is_none() {
            Phase::Gated
        } else if self.period() < FAST_BELOW {
            Phase::Fast
        } else {
            Phase::Slow
        }
    }

    /// Takes the outcome of an attempt that completed now, and schedules the next one unless the worker goes on hold.
    pub(crate) fn completed(&mut self, now: Time, attempt: Attempt, outcome: Outcome) -> Verdict {
        let mut verdict = Verdict { published: None, run: 0, regained: false, overran: false };
        let first = std::mem::take(&mut self.may_look);
        match outcome.succeeded() {
            Some(success) if success || !attempt.is_extra() => self.count(success, &mut verdict),
            // An error is discarded, and so is the failure of an extra attempt: no count, and no run is broken.
            Some(_) | None => {}
        }
        if !self.hold {
            let period = self.period();
            if outcome.succeeded() != Some(true) && self.schedule.resume(now, attempt, period) {
                return verdict;
            }
            let look = first && self.result != Some(ProbeResult::Success) && self.schedule.look_again(now, attempt, period);
            verdict.overran = !look && self.schedule.follow(now, attempt, period);
        }
        verdict
    }

    fn count(&mut self, success: bool, verdict: &mut Verdict) {
        verdict.run = self.run.count(success);
        let (result, threshold) = match success {
            true => (ProbeResult::Success, self.timing.success_threshold),
            false => (ProbeResult::Failure, self.timing.failure_threshold),
        };
        if verdict.run < threshold || self.result == Some(result) {
            return;
        }
        self.result = Some(result);
        verdict.published = Some(result);
        if success {
            verdict.regained = std::mem::replace(&mut self.reached, true);
        }
        self.hold = match self.type_ {
            ProbeType::Readiness => false,
            ProbeType::Liveness => !success,
            ProbeType::Startup => true,
        };
    }
}
