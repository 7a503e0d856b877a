//! How containers are stopped, one alone or all of them: hook, turn, signal, grace, kill.
//!
//! When a pod ends, hooks begin at once everywhere. The stop signal waits until the slices show the pod as terminating (if
//! that is switched on), and that of a sidecar until everything has ended that may need it, in reverse order. After the
//! signal a container has what is left of the grace, at least two seconds; then everything of it is killed.

use std::time::Duration;

use api::WriteError;
use api::event::EventType;
use machine::Time;
use probe::{PodPhase, Role};

use crate::container::{Instance, InstanceState, Next, PodContainer, Stage, Stop};
use crate::events;
use crate::machine::{Deletion, PodMachine, earlier};
use crate::messages::{Effect, Hook};
use crate::settings::{AFTER_DRAIN, AFTER_SIGNAL_MIN, DELETION_GRACE_SECONDS_MIN, RETRY_WRITE};

/// Why a pod ends; a later one prevails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// It has done its work, or has failed for good.
    Finished,
    /// The agent stops.
    Stopped,
    /// Its deletion was requested.
    Deleted,
    /// The API does not have it any more.
    Gone,
}

/// The end of a pod, under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    /// When the grace is over.
    pub(crate) until: Time,
    /// Stop signals wait for the slices, but not longer than this; `None`: not any more.
    pub(crate) drain_until: Option<Time>,
}

impl Instance {
    pub(crate) fn is_in_pre_stop(&self) -> bool {
        self.stop.is_some_and(|stop| stop.stage == Stage::PreStop)
    }

    /// Returns whether it was asked to stop, so that its exit code says nothing about its work.
    pub(crate) fn was_signaled(&self) -> bool {
        self.stop.is_some_and(|stop| matches!(stop.stage, Stage::Signaled | Stage::Killed))
    }
}

impl PodMachine {
    pub(crate) fn deletion_grace_seconds(&self) -> i64 {
        let asked = self.pod.metadata.deletion_grace_period_seconds;
        asked.unwrap_or_else(|| self.grace_seconds()).max(DELETION_GRACE_SECONDS_MIN)
    }

    /// Ends the pod, or goes on ending it for another reason.
    pub(crate) fn end(&mut self, now: Time, cause: Cause, grace_seconds: i64, out: &mut Vec<Effect>) {
        let grace = seconds(grace_seconds);
        let mut until = now + grace;
        match self.ending {
            Some(ending) if ending.cause > cause => return,
            Some(ending) if ending.cause == cause => {
                // Asked again: it can only become shorter.
                if until >= ending.until {
                    return;
                }
            }
            // Asked before, with a grace that was given for good.
            Some(ending) if ending.cause == Cause::Deleted => until = until.min(ending.until),
            Some(_) | None => {}
        }
        let drain_until = match (cause, self.ending) {
            (Cause::Deleted, Some(ending)) if ending.cause == Cause::Deleted => ending.drain_until,
            (Cause::Deleted, _) => self.settings.drain_wait.map(|wait| now + wait.min(grace.saturating_sub(AFTER_DRAIN))),
            _ => None,
        };
        self.ending = Some(Ending { cause, until, drain_until });
        self.changed = true;
        for container in &mut self.containers {
            give_up(container, cause);
        }
        let reported = if cause == Cause::Gone { probe::Input::Removed } else { probe::Input::Deleted };
        self.end_workers(now, reported, out);
        for index in 0..self.containers.len() {
            self.stop(now, index, until, out);
        }
    }

    /// Stops an instance because its pod ends.
    pub(crate) fn stop(&mut self, now: Time, index: usize, until: Time, out: &mut Vec<Effect>) {
        let Some(instance) = self.containers[index].instance_mut() else { return };
        if let Some(stop) = &mut instance.stop {
            stop.kill_at = until;
            return;
        }
        let message = format!("Stopping container {}", self.containers[index].name);
        self.event(index, EventType::Normal, events::KILLING, message, out);
        self.begin_stop(now, index, until, out);
    }

    /// Stops an instance because a probe has failed.
    pub(crate) fn probe_kill(&mut self, now: Time, index: usize, grace_seconds: i64, restart: bool, out: &mut Vec<Effect>) {
        self.stop_alone(now, index, seconds(grace_seconds), restart, out);
    }

    /// Stops an instance with the grace of its pod.
    pub(crate) fn restart(&mut self, now: Time, index: usize, restart: bool, out: &mut Vec<Effect>) {
        self.stop_alone(now, index, seconds(self.grace_seconds()).max(AFTER_SIGNAL_MIN), restart, out);
    }

    fn stop_alone(&mut self, now: Time, index: usize, grace: Duration, restart: bool, out: &mut Vec<Effect>) {
        let Some(instance) = self.containers[index].instance_mut().filter(|instance| instance.stop.is_none()) else { return };
        instance.restart_anyway = restart;
        self.begin_stop(now, index, now + grace, out);
    }

    fn begin_stop(&mut self, now: Time, index: usize, kill_at: Time, out: &mut Vec<Effect>) {
        let container = &self.containers[index];
        let handler = container.spec(&self.pod).lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.clone());
        let container = container.name.clone();
        let Some(instance) = self.containers[index].instance_mut() else { return };
        let id = instance.id.clone();
        let in_post_start = instance.in_post_start;
        let handler = handler.filter(|_| !in_post_start);
        let stage = if handler.is_some() { Stage::PreStop } else { Stage::AwaitingSignal };
        instance.stop = Some(Stop { kill_at, stage });
        if in_post_start {
            out.push(Effect::CancelHook { container: container.clone(), id: id.clone(), hook: Hook::PostStart });
        }
        if let Some(handler) = handler {
            let timeout = Some(kill_at.since(now));
            out.push(Effect::Hook { container, id, hook: Hook::PreStop, handler, timeout });
        }
    }

    /// Marks the hook of an instance as done.
    pub(crate) fn await_signal(&mut self, index: usize) {
        if let Some(stop) = self.containers[index].instance_mut().and_then(|instance| instance.stop.as_mut()) {
            stop.stage = Stage::AwaitingSignal;
        }
    }

    /// Ends the pod when it has done its work, has failed or has used up its time; returns when that will be.
    pub(crate) fn check_finished(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        if self.ending.is_some() {
            return None;
        }
        let mut regular = self.containers.iter().filter(|container| container.role == Role::Regular).peekable();
        let done = regular.peek().is_some() && regular.all(PodContainer::has_ended_for_good);
        let failed = |container: &PodContainer| {
            container.role == Role::Init && container.has_ended_for_good() && !container.has_succeeded()
        };
        if done || self.containers.iter().any(failed) {
            self.end(now, Cause::Finished, self.grace_seconds(), out);
            return None;
        }
        let expires = self.start_time + seconds(self.pod.spec.active_deadline_seconds?);
        if now < expires {
            return Some(expires);
        }
        let message = "Pod was active on the node longer than the specified deadline".to_owned();
        let event = events::of_pod(&self.pod, EventType::Normal, events::DEADLINE_EXCEEDED, message.clone());
        out.push(Effect::Event { event, count: 1 });
        self.fixed = Some((PodPhase::Failed, events::DEADLINE_EXCEEDED.to_owned(), message));
        self.end(now, Cause::Finished, self.grace_seconds(), out);
        self.end_workers(now, probe::Input::PodTerminal, out);
        None
    }

    /// Moves stops on; returns when the next one moves on by itself.
    pub(crate) fn stop_due(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        if let Some(ending) = &mut self.ending {
            ending.drain_until = ending.drain_until.filter(|until| *until > now);
        }
        let mut next = None;
        for index in 0..self.containers.len() {
            next = earlier(next, self.move_stop_on(now, index, out));
        }
        next
    }

    fn move_stop_on(&mut self, now: Time, index: usize, out: &mut Vec<Effect>) -> Option<Time> {
        let known = &self.containers[index];
        // Hardly ever does anything stop, and this is asked with every result of a probe.
        known.instance()?.stop.as_ref()?;
        let may_signal = self.may_signal(index);
        let signal = known.spec(&self.pod).lifecycle.as_ref().map(|lifecycle| lifecycle.stop_signal.clone());
        let container = known.name.clone();
        let instance = self.containers[index].instance_mut()?;
        let id = instance.id.clone();
        let stop = instance.stop.as_mut()?;
        if stop.stage == Stage::PreStop && stop.kill_at <= now {
            stop.stage = Stage::AwaitingSignal;
            out.push(Effect::CancelHook { container: container.clone(), id: id.clone(), hook: Hook::PreStop });
            let message = "PreStopHook failed: not completed within the grace period".to_owned();
            self.event(index, EventType::Warning, events::FAILED_PRE_STOP, message, out);
        }
        let stop = self.containers[index].instance_mut()?.stop.as_mut()?;
        if stop.stage == Stage::AwaitingSignal && may_signal {
            stop.stage = Stage::Signaled;
            stop.kill_at = stop.kill_at.max(now + AFTER_SIGNAL_MIN);
            let signal = signal.filter(|signal| !signal.is_empty()).unwrap_or_else(|| "SIGTERM".to_owned());
            out.push(Effect::Signal { container: container.clone(), id: id.clone(), signal });
        }
        if stop.stage == Stage::Signaled && stop.kill_at <= now {
            stop.stage = Stage::Killed;
            out.push(Effect::Kill { container, id });
        }
        match stop.stage {
            Stage::PreStop | Stage::Signaled => Some(stop.kill_at),
            // The turn comes with the end of others, or with this instant.
            Stage::AwaitingSignal => self.ending.and_then(|ending| ending.drain_until),
            Stage::Killed => None,
        }
    }

    fn may_signal(&self, index: usize) -> bool {
        let Some(ending) = &self.ending else { return true };
        if ending.drain_until.is_some() {
            return false;
        }
        let sidecar = self.containers[index].role == Role::Sidecar;
        let waits_for = |(other, container): (usize, &PodContainer)| {
            container.is_alive() && (container.role != Role::Sidecar || other > index)
        };
        !sidecar || !self.containers.iter().enumerate().any(waits_for)
    }

    /// Gives the address back once nothing of the pod runs or ever will.
    pub(crate) fn tear_down(&mut self, out: &mut Vec<Effect>) {
        let Some(ending) = &self.ending else { return };
        if !self.torn_down && !self.is_alive() && (ending.cause != Cause::Stopped || self.is_terminal()) {
            (self.torn_down, self.changed) = (true, true);
            out.push(Effect::TearDown);
        }
    }

    /// Deletes or forgets the pod once everything has stopped; returns when to try again.
    pub(crate) fn finish(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        let cause = self.ending.as_ref()?.cause;
        if self.is_alive() {
            return None;
        }
        match (cause, self.deletion) {
            (Cause::Gone, Deletion::Released) => None,
            (Cause::Gone, _) => {
                self.deletion = Deletion::Released;
                out.push(Effect::Release);
                None
            }
            // Watchers are to see how it ended, so the last status goes first.
            (Cause::Deleted, Deletion::Open { at, failures }) if self.writer.is_settled() => {
                if at > now {
                    return Some(at);
                }
                let meta = &self.pod.metadata;
                let (namespace, name, uid) = (meta.namespace.clone(), meta.name.clone(), meta.uid.clone());
                out.push(Effect::DeletePod { namespace, name, uid });
                self.deletion = Deletion::UnderWay { failures };
                None
            }
            _ => None,
        }
    }

    pub(crate) fn pod_deleted(&mut self, now: Time, result: Result<(), WriteError>) {
        let Deletion::UnderWay { mut failures } = self.deletion else { return };
        self.deletion = match result {
            Ok(()) | Err(WriteError::NotFound | WriteError::Conflict) => Deletion::Answered,
            Err(_) => Deletion::Open { at: now + failures.next(RETRY_WRITE), failures },
        };
    }
}

/// What was to be started is not started any more.
pub(crate) fn give_up(container: &mut PodContainer, cause: Cause) {
    let next = if cause == Cause::Stopped { Next::Resume } else { Next::Never };
    if let InstanceState::Unfit { after, .. } = &mut container.state {
        container.state = after.take().map_or(InstanceState::New, InstanceState::Ended);
    }
    if let InstanceState::Ended(ended) = &mut container.state
        && ended.next != Next::Never
    {
        ended.next = next;
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
