//! The prober of one container: its workers, and what their results do to it.
//!
//! Facts go in ([`Input`]), orders come out ([`Effect`]). Of the facts of one instant, completions are told first, in the
//! order startup, readiness, liveness, then what happened to the container, then [`launch_due`](ContainerProber::launch_due)
//! starts what is due; [`Machine::step`] does both halves for a caller that has one fact at a time.
//!
//! Invariants: a worker has one attempt at a time; an outcome that belongs to another instance or an ended worker changes
//! nothing; liveness and readiness attempts run only while the container is started.

mod messages;

use std::time::Duration;

use api::ProbeType;
use api::pod::Container;
use machine::{Machine, Time};

use crate::events::ContainerEvent;
use crate::outcome::{Outcome, Report};
use crate::restart::Restarts;
use crate::schedule::Attempt;
use crate::timing::{Defaults, NodePolicy, Timing, knocks};
use crate::worker::{ProbeResult, Verdict, Worker};

pub use messages::{Effect, Input, Knock, Launch, Prior, WorkerView};

/// A kill gets at least this long; kubelet.
const GRACE_SECONDS_MIN: i64 = 2;

/// The workers in the order in which one instant handles them.
const ORDER: [ProbeType; 3] = [ProbeType::Startup, ProbeType::Readiness, ProbeType::Liveness];

/// What the prober knows of the instance.
#[derive(Clone, Debug)]
enum Seen {
    Nothing,
    Running { id: Box<str>, started_at: Time },
    Stopped,
}

/// The workers of one container.
#[derive(Clone, Debug)]
pub struct ContainerProber {
    // Boxed, because most containers have one probe or none.
    workers: [Option<Box<Worker>>; 3],
    restarts: Restarts,
    pod_grace_seconds: i64,
    second_look: bool,
    prior: Option<Prior>,
    seen: Seen,
    started: bool,
    ready: bool,
    deleted: bool,
    /// A probe has this instance killed, and it will be started again whatever its exit code.
    restart_after_kill: bool,
}

impl ContainerProber {
    /// Returns the prober of a regular container or sidecar that was not seen yet.
    pub fn new(
        container: &Container,
        restarts: Restarts,
        pod_grace_seconds: i64,
        node: &NodePolicy,
        prior: Option<Prior>,
    ) -> ContainerProber {
        let workers = ORDER.map(|type_| {
            let probe = match type_ {
                ProbeType::Startup => container.startup_probe.as_ref(),
                ProbeType::Readiness => container.readiness_probe.as_ref(),
                ProbeType::Liveness => container.liveness_probe.as_ref(),
            }?;
            let (timing, clamped) = Timing::of(probe, Some(type_), &node.gates, &Defaults::CONTAINER);
            let mut worker = Worker::new(type_, timing, node.policy);
            worker.grace_seconds = probe.termination_grace_period_seconds;
            worker.may_knock = knocks(probe, type_, &node.gates);
            worker.clamped = (!clamped.is_empty()).then(|| clamped.join("; ").into());
            Some(Box::new(worker))
        });
        ContainerProber {
            workers,
            restarts,
            pod_grace_seconds,
            second_look: node.second_look,
            prior,
            seen: Seen::Nothing,
            started: false,
            ready: false,
            deleted: false,
            restart_after_kill: false,
        }
    }

    /// Returns whether the container counts as started.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Returns whether the container counts as ready.
    pub fn ready(&self) -> bool {
        self.ready
    }

    /// Returns whether every worker has ended (also if there never was one).
    pub fn ended(&self) -> bool {
        self.workers.iter().flatten().all(|worker| worker.ended)
    }

    /// Returns what each worker does at the moment.
    pub fn workers(&self) -> impl Iterator<Item = WorkerView> + '_ {
        self.workers.iter().flatten().map(|worker| WorkerView {
            probe: worker.type_,
            phase: worker.phase(),
            due: worker.schedule.due(),
            period: worker.period(),
            timeout: worker.timing.timeout,
            result: worker.result,
            knocking: worker.knocking,
        })
    }

    /// Returns when the next attempt is due.
    pub fn deadline(&self) -> Option<Time> {
        self.workers.iter().flatten().filter_map(|worker| worker.schedule.due()).min()
    }

    /// Takes one fact and appends what must be done; starts no attempt.
    pub fn input(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Running { id, started_at } => self.running(now, id, started_at, effects),
            Input::NotRunning { exit_code } => self.not_running(exit_code, effects),
            Input::Deleted => self.delete(effects),
            Input::PodTerminal | Input::Removed => self.end(&ORDER, effects),
            Input::Finished { probe, attempt, report } => self.finished(now, probe, attempt, &report, effects),
            Input::Knocked { probe, knock, accepted } => self.knocked(probe, knock, accepted, effects),
        }
    }

    /// Starts every attempt that is due.
    pub fn launch_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for worker in self.workers.iter_mut().flatten() {
            if let Some(attempt) = worker.schedule.launch(now) {
                stop_knocking(worker, effects);
                effects.push(launch(worker, attempt, false));
            }
        }
    }

    fn worker(&mut self, probe: ProbeType) -> Option<&mut Worker> {
        self.workers.iter_mut().flatten().map(Box::as_mut).find(|worker| worker.type_ == probe)
    }

    fn has(&self, probe: ProbeType) -> bool {
        self.workers.iter().flatten().any(|worker| worker.type_ == probe)
    }

    fn running(&mut self, now: Time, id: Box<str>, started_at: Time, effects: &mut Vec<Effect>) {
        if matches!(&self.seen, Seen::Running { id: known, .. } if *known == id) {
            return;
        }
        self.cancel_all(effects);
        let prior = self.prior.take().filter(|prior| prior.id == id);
        self.seen = Seen::Running { id, started_at };
        self.restart_after_kill = false;
        match prior {
            Some(prior) => self.restore(now, &prior, effects),
            None => self.begin(now, effects),
        }
        for worker in self.workers.iter_mut().flatten().filter(|worker| !worker.ended) {
            if let Some(clamped) = worker.clamped.take() {
                effects.push(Effect::Event { probe: worker.type_, event: ContainerEvent::warning(worker.type_, &clamped, 1) });
            }
        }
    }

    /// Begins an instance that nobody knows: everything is reset and published.
    fn begin(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let second_look = self.second_look;
        for worker in self.workers.iter_mut().flatten().filter(|worker| !worker.ended) {
            let probe = worker.type_;
            if worker.hold {
                effects.push(Effect::Hold { probe, on: false });
            }
            let result = worker.reset(second_look);
            effects.push(Effect::Publish { probe, result });
        }
        self.set_started(!self.has(ProbeType::Startup), effects);
        self.set_ready(effects);
        self.schedule(ProbeType::Startup, now, 0.0);
        if self.started {
            self.schedule(ProbeType::Readiness, now, 0.0);
            self.schedule(ProbeType::Liveness, now, 0.0);
        }
    }

    /// Takes up an instance that ran before the agent did: only what differs from the stored status is published.
    fn restore(&mut self, now: Time, prior: &Prior, effects: &mut Vec<Effect>) {
        (self.started, self.ready) = (prior.started, prior.ready);
        // The stored status may be older than the start.
        self.set_started(prior.started || !self.has(ProbeType::Startup), effects);
        let (started, was_ready) = (self.started, prior.ready);
        for worker in self.workers.iter_mut().flatten() {
            worker.restore(match worker.type_ {
                ProbeType::Startup => started,
                ProbeType::Readiness => was_ready,
                ProbeType::Liveness => true,
            });
        }
        self.set_ready(effects);
        if !started {
            self.schedule(ProbeType::Startup, now, 0.0);
            return;
        }
        // Nobody waits for these, so they may come a little later: no burst after a restart of the agent.
        let [_, readiness, liveness] = prior.jitter;
        self.schedule(ProbeType::Readiness, now, if was_ready { readiness } else { 0.0 });
        self.schedule(ProbeType::Liveness, now, liveness);
    }

    /// Schedules the first attempt of the instance, not before `earliest` and not before its delay has passed.
    fn schedule(&mut self, probe: ProbeType, earliest: Time, jitter: f64) {
        let Seen::Running { started_at, .. } = self.seen else { return };
        if let Some(worker) = self.worker(probe).filter(|worker| !worker.ended) {
            let due = earliest.max(started_at + worker.timing.initial_delay);
            let spread = (worker.period().as_millis() as f64 * jitter).floor();
            worker.schedule.start(due + Duration::from_millis(spread as u64));
        }
    }

    fn not_running(&mut self, exit_code: Option<i32>, effects: &mut Vec<Effect>) {
        self.cancel_all(effects);
        self.seen = Seen::Stopped;
        for worker in self.workers.iter_mut().flatten().filter(|worker| !worker.ended) {
            // A dead container is no verdict about liveness or startup, but it is certainly not ready.
            let was = worker.result.take();
            if worker.type_ == ProbeType::Readiness {
                worker.result = Some(ProbeResult::Failure);
                if was == Some(ProbeResult::Success) {
                    effects.push(Effect::Publish { probe: worker.type_, result: ProbeResult::Failure });
                }
            }
        }
        self.set_started(false, effects);
        self.set_ready(effects);
        if self.deleted || !(self.restart_after_kill || self.restarts.follow(exit_code)) {
            self.end(&ORDER, effects);
        }
    }

    fn delete(&mut self, effects: &mut Vec<Effect>) {
        self.deleted = true;
        self.workers.iter_mut().flatten().for_each(|worker| stop_knocking(worker, effects));
        match self.seen {
            // Readiness goes on until the container stops: `serving` of a terminating endpoint follows it.
            Seen::Running { .. } | Seen::Nothing => self.end(&[ProbeType::Startup, ProbeType::Liveness], effects),
            Seen::Stopped => self.end(&ORDER, effects),
        }
    }

    fn end(&mut self, probes: &[ProbeType], effects: &mut Vec<Effect>) {
        for worker in self.workers.iter_mut().flatten().filter(|worker| probes.contains(&worker.type_) && !worker.ended) {
            worker.ended = true;
            worker.result = None;
            cancel(worker, effects);
            effects.push(Effect::Ended { probe: worker.type_ });
        }
    }

    fn cancel_all(&mut self, effects: &mut Vec<Effect>) {
        for worker in self.workers.iter_mut().flatten() {
            cancel(worker, effects);
        }
    }

    fn finished(&mut self, now: Time, probe: ProbeType, id: u32, report: &Report, effects: &mut Vec<Effect>) {
        let deleted = self.deleted;
        let started_at = match self.seen {
            Seen::Running { started_at, .. } => Some(started_at),
            Seen::Nothing | Seen::Stopped => None,
        };
        let Some((worker, attempt)) = self.worker(probe).and_then(|worker| {
            let attempt = worker.schedule.finish(id)?;
            Some((worker, attempt))
        }) else {
            effects.push(Effect::Stale { probe });
            return;
        };
        let verdict = worker.completed(now, attempt, report.outcome);
        event(worker, now, report, &verdict, deleted || attempt.is_extra(), effects);
        if verdict.overran {
            effects.push(Effect::Overrun { probe });
        }
        if let (Some(started_at), Some(until)) = (started_at, worker.knock_until())
            && report.refused
            && !deleted
        {
            worker.knocking = true;
            effects.push(Effect::Knock(Knock { probe, knock: attempt.id, from: now, until, started_at }));
        }
        let Some(result) = verdict.published else { return };
        effects.push(Effect::Publish { probe, result });
        if worker.hold {
            effects.push(Effect::Hold { probe, on: true });
        }
        if verdict.regained && probe == ProbeType::Readiness {
            effects.push(Effect::Event { probe, event: ContainerEvent::healthy(probe) });
        }
        let grace = worker.grace_seconds;
        match (probe, result) {
            (ProbeType::Readiness, _) => self.set_ready(effects),
            (_, ProbeResult::Failure) => self.kill(probe, grace, effects),
            (ProbeType::Startup, _) => self.startup_succeeded(now, effects),
            (ProbeType::Liveness, _) => {}
        }
    }

    /// Takes the end of knocking: the connection becomes an attempt, if there is one.
    fn knocked(&mut self, probe: ProbeType, knock: u32, accepted: Option<Time>, effects: &mut Vec<Effect>) {
        let Some(worker) = self.worker(probe).filter(|worker| worker.knocking && worker.schedule.last_id() == knock) else {
            return;
        };
        worker.knocking = false;
        if let Some(attempt) = accepted.and_then(|at| worker.schedule.launch_accepted(at)) {
            effects.push(launch(worker, attempt, true));
        }
    }

    fn startup_succeeded(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.set_started(true, effects);
        self.set_ready(effects);
        self.schedule(ProbeType::Readiness, now, 0.0);
        // The startup success is itself a sign of life.
        if let Some(period) = self.worker(ProbeType::Liveness).map(|worker| worker.period()) {
            self.schedule(ProbeType::Liveness, now + period, 0.0);
        }
    }

    fn kill(&mut self, probe: ProbeType, grace_seconds: Option<i64>, effects: &mut Vec<Effect>) {
        let restart = self.restarts.follow_kill();
        self.restart_after_kill = restart;
        let grace_seconds = grace_seconds.unwrap_or(self.pod_grace_seconds).max(GRACE_SECONDS_MIN);
        effects.push(Effect::Kill { probe, grace_seconds, restart });
    }

    fn set_started(&mut self, started: bool, effects: &mut Vec<Effect>) {
        if self.started != started {
            self.started = started;
            effects.push(Effect::Started(started));
        }
    }

    /// Computes `ready` from what it depends on.
    fn set_ready(&mut self, effects: &mut Vec<Effect>) {
        let passes = match self.workers.iter().flatten().find(|worker| worker.type_ == ProbeType::Readiness) {
            Some(worker) => worker.result == Some(ProbeResult::Success),
            None => true,
        };
        let ready = matches!(self.seen, Seen::Running { .. }) && self.started && passes;
        if self.ready != ready {
            self.ready = ready;
            effects.push(Effect::Ready(ready));
        }
    }
}

fn launch(worker: &Worker, attempt: Attempt, knocked: bool) -> Effect {
    Effect::Launch(Launch {
        probe: worker.type_,
        attempt: attempt.id,
        due: attempt.due,
        timeout: worker.timing.timeout,
        look: attempt.is_look(),
        knocked,
    })
}

fn stop_knocking(worker: &mut Worker, effects: &mut Vec<Effect>) {
    if std::mem::take(&mut worker.knocking) {
        effects.push(Effect::StopKnocking { probe: worker.type_ });
    }
}

fn cancel(worker: &mut Worker, effects: &mut Vec<Effect>) {
    stop_knocking(worker, effects);
    if let Some(attempt) = worker.schedule.stop() {
        effects.push(Effect::Cancel { probe: worker.type_, attempt });
    }
}

/// Writes the event that an outcome is worth, if any. An extra attempt and a pod that goes away cause no complaint.
fn event(worker: &mut Worker, now: Time, report: &Report, verdict: &Verdict, silent: bool, effects: &mut Vec<Effect>) {
    let probe = worker.type_;
    let notable = verdict.run == 1 || verdict.run == worker.timing.failure_threshold;
    let warned = std::mem::replace(&mut worker.warned, report.outcome == Outcome::Warning);
    let event = match report.outcome {
        Outcome::Success => None,
        Outcome::Warning => {
            worker.warnings.admit(now, !warned, 0).map(|count| ContainerEvent::warning(probe, &report.message, count))
        }
        _ if silent => None,
        Outcome::Failure | Outcome::Unknown => worker
            .unhealthy
            .admit(now, notable, report.cause())
            .map(|count| ContainerEvent::failed(probe, &report.message, count)),
        Outcome::Error => worker
            .unhealthy
            .admit(now, false, report.cause())
            .map(|count| ContainerEvent::errored(probe, &report.message, count)),
    };
    effects.extend(event.map(|event| Effect::Event { probe, event }));
}

impl Machine for ContainerProber {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.input(now, input, effects);
        }
        self.launch_due(now, effects);
    }

    fn deadline(&self) -> Option<Time> {
        ContainerProber::deadline(self)
    }
}

#[cfg(test)]
mod tests;
