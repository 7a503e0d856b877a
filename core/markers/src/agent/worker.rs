//! The worker of one entry: when its attempts are due, what their outcomes count, which state is settled.
//!
//! Due instants come from the schedule that the probes of containers use. A worker belongs to one container at a time;
//! what began before its last reset is not listened to.

use std::sync::Arc;

use api::marker::{ContainerProbe, ProbeState};
use api::pod::Probe;
use api::{FeatureGates, HandlerKind};
use machine::Time;
use probe::timing::handler_of;
use probe::{Defaults, NodePolicy, Outcome, Progress, Run, Schedule, Timing};
use serde::Deserialize;

use super::reports::{ReportResult, Reports};
use super::{Finished, Instance, Runtime};
use crate::same_probe;

/// What an outcome counts as; errors are counted apart from failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultKind {
    Success,
    Failure,
    Error,
}

/// What a change of an entry means for its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryChange {
    /// Nothing.
    None,
    /// Times or thresholds.
    Timing,
    /// It asks another question, or another container.
    Question,
}

#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) entry: ContainerProbe,
    /// The address of the pod, as the spec has it.
    ip: Box<str>,
    pub(super) probe: Arc<Probe>,
    pub(super) timing: Timing,
    pub(super) schedule: Schedule,
    pub(super) reports: Reports,
    /// What began before is not listened to.
    since: Time,
    run: Run<ResultKind>,
    /// The instance has reached success.
    reached: bool,
    /// The instance that it counts for; unknown before one was seen, and after a restart of the agent.
    id: Option<Box<str>>,
    /// The state comes from before the agent's start: the first attempt may wait a little.
    pub(super) restored: bool,
    /// An attempt was launched since the gate opened.
    launched: bool,
}

impl Worker {
    pub(super) fn new(now: Time, entry: ContainerProbe, ip: &str, reports: Reports, gates: &FeatureGates) -> Worker {
        let (probe, timing) = read(&entry, gates);
        let restored = reports.last.is_some();
        Worker {
            entry,
            ip: ip.into(),
            probe,
            timing,
            schedule: Schedule::default(),
            reached: reports.state() == Some(ProbeState::Succeeded),
            reports,
            since: now,
            run: Run::default(),
            id: None,
            restored,
            launched: false,
        }
    }

    /// Returns why the entry is not run at all: the node object has no admission of its own.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        let host = match handler_of(&self.probe) {
            None => return Some("no handler that can be read"),
            Some(HandlerKind::HttpGet) => self.probe.http_get.as_ref().map(|action| &action.host),
            Some(HandlerKind::TcpSocket) => self.probe.tcp_socket.as_ref().map(|action| &action.host),
            Some(HandlerKind::Exec | HandlerKind::Grpc) => None,
        };
        host.is_some_and(|host| !host.is_empty() && !self.is_own(host)).then_some("host is not allowed")
    }

    /// Returns whether a host is the pod's own address, which is dialled anyway.
    fn is_own(&self, host: &str) -> bool {
        let own = api::ip::parse(&self.ip);
        own.is_some() && api::ip::parse(host) == own
    }

    /// Returns whether attempts may run, apart from the initial delay.
    fn is_open(&self, instance: Option<&Instance>, ip: &str) -> bool {
        let network = handler_of(&self.probe) != Some(HandlerKind::Exec);
        self.refusal().is_none()
            && !(network && ip.is_empty())
            && instance.is_some_and(|known| known.runtime == Runtime::Running && known.started && known.id.is_some())
    }

    /// Returns whether an attempt may start now.
    pub(super) fn is_eligible(&self, now: Time, instance: Option<&Instance>, ip: &str) -> bool {
        self.is_open(instance, ip) && instance.is_some_and(|known| now >= known.started_at + self.timing.initial_delay)
    }

    /// Opens or closes the gate. `spread` is drawn once, for a worker whose state is from before the agent's start.
    /// Returns whether a running attempt is abandoned.
    pub(super) fn gate(
        &mut self,
        now: Time,
        instance: Option<&Instance>,
        ip: &str,
        node: &NodePolicy,
        spread: impl FnOnce() -> f64,
    ) -> bool {
        match (instance.filter(|_| self.is_open(instance, ip)), self.is_scheduled()) {
            (Some(instance), false) => {
                let mut due = now.max(instance.started_at + self.timing.initial_delay);
                if std::mem::take(&mut self.restored) {
                    due += self.period(node).mul_f64(spread());
                }
                self.schedule.start(due);
                self.launched = false;
                false
            }
            (None, true) => self.schedule.stop().is_some(),
            _ => false,
        }
    }

    pub(super) fn is_scheduled(&self) -> bool {
        self.schedule.due().is_some() || self.schedule.running().is_some()
    }

    /// Hands out the attempt that is due, if one is.
    pub(super) fn launch(&mut self, now: Time) -> Option<Time> {
        let attempt = self.schedule.launch(now)?;
        self.launched = true;
        Some(attempt.due)
    }

    pub(super) fn period(&self, node: &NodePolicy) -> std::time::Duration {
        let is_success = self.reports.state() == Some(ProbeState::Succeeded);
        self.timing.period(node.policy, Progress { reached_success: self.reached, is_success })
    }

    /// Takes news of the container. Returns what is told, and whether a running attempt is abandoned.
    pub(super) fn container(&mut self, now: Time, instance: &Instance) -> (ReportResult, bool) {
        if instance.runtime != Runtime::Running {
            if instance.id.is_none() {
                return (ReportResult::Nothing, false);
            }
            let abandoned = self.forget(now);
            self.id = instance.id.clone();
            // Silent if it failed before, whatever the reason was.
            if self.reports.state() == Some(ProbeState::Failed) {
                return (ReportResult::Nothing, abandoned);
            }
            let text = format!("container \"{}\" is not running", self.entry.container_name);
            return (self.reports.tell(now, ProbeState::Failed, &text), abandoned);
        }
        let other = match (&self.id, &self.reports.last) {
            (Some(id), _) => instance.id.as_ref() != Some(id),
            // After a restart of the agent only the clock can tell; API times are whole seconds.
            (None, Some(last)) => instance.started_at.as_secs() > last.at.as_secs(),
            (None, None) => false,
        };
        self.id = instance.id.clone();
        if other { self.reset(now, "") } else { (ReportResult::Nothing, false) }
    }

    /// Takes another version of the entry or address; `instance` is that of the container which the entry names now.
    pub(super) fn update(
        &mut self,
        now: Time,
        entry: &ContainerProbe,
        ip: &str,
        instance: Option<&Instance>,
        node: &NodePolicy,
    ) -> (EntryChange, ReportResult, bool) {
        let refused = self.refusal();
        if *self.ip != *ip {
            self.ip = ip.into();
        }
        let mut change = difference(&self.entry, entry);
        if change == EntryChange::None && self.refusal() != refused {
            // The host that it names has become the pod's own address, or is that no longer.
            change = EntryChange::Question;
        }
        if change == EntryChange::None {
            return (change, ReportResult::Nothing, false);
        }
        self.entry = entry.clone();
        (self.probe, self.timing) = read(entry, &node.gates);
        if change == EntryChange::Question {
            let (result, abandoned) = self.question_changed(now, instance);
            return (change, result, abandoned);
        }
        if self.launched || self.schedule.running().is_some() {
            self.schedule.shorten(self.period(node));
        } else {
            // Nothing was asked yet: the delay is counted anew when the gate opens again.
            self.schedule.stop();
        }
        (change, ReportResult::Nothing, false)
    }

    fn question_changed(&mut self, now: Time, instance: Option<&Instance>) -> (ReportResult, bool) {
        self.id = instance.and_then(|instance| instance.id.clone());
        if let Some(why) = self.refusal() {
            return self.reset(now, &format!("probe error: {why}"));
        }
        match instance {
            // A container that does not run has failed whatever is asked.
            Some(stopped) if stopped.runtime != Runtime::Running && stopped.id.is_some() => self.container(now, stopped),
            _ => self.reset(now, ""),
        }
    }

    /// Tells why the entry is not run, if it is not.
    pub(super) fn tell_refusal(&mut self, now: Time) -> ReportResult {
        match self.refusal() {
            Some(why) => self.reports.tell(now, ProbeState::Unknown, &format!("probe error: {why}")),
            None => ReportResult::Nothing,
        }
    }

    /// Forgets what was counted and what runs; the state becomes Unknown if another one was reported.
    fn reset(&mut self, now: Time, text: &str) -> (ReportResult, bool) {
        let abandoned = self.forget(now);
        let result = match self.reports.state() {
            None | Some(ProbeState::Unknown) if text.is_empty() => ReportResult::Nothing,
            _ => self.reports.tell(now, ProbeState::Unknown, text),
        };
        (result, abandoned)
    }

    fn forget(&mut self, now: Time) -> bool {
        (self.since, self.reached) = (now, false);
        self.run.reset();
        self.schedule.stop().is_some()
    }

    /// Takes the outcome of an attempt. Returns what is told and whether the attempt overran; `None`: it came too late.
    pub(super) fn finished(
        &mut self,
        now: Time,
        end: &Finished,
        instance: Option<&Instance>,
        node: &NodePolicy,
    ) -> Option<(ReportResult, bool)> {
        let current = instance.filter(|instance| instance.runtime == Runtime::Running)?;
        if current.id.as_deref() != Some(end.container_id.as_str()) || end.began < self.since {
            return None;
        }
        let result = self.count(now, end.outcome, &end.message);
        let attempt = self.schedule.running().and_then(|attempt| self.schedule.finish(attempt.id));
        let period = self.period(node);
        let overran = attempt.is_some_and(|attempt| self.schedule.follow(now, attempt, period));
        Some((result, overran))
    }

    fn count(&mut self, now: Time, outcome: Outcome, text: &str) -> ReportResult {
        let (kind, state, threshold) = match outcome.succeeded() {
            Some(true) => (ResultKind::Success, ProbeState::Succeeded, self.timing.success_threshold),
            Some(false) => (ResultKind::Failure, ProbeState::Failed, self.timing.failure_threshold),
            None => (ResultKind::Error, ProbeState::Unknown, self.timing.failure_threshold),
        };
        if self.run.count(kind) < threshold {
            return ReportResult::Nothing;
        }
        self.reached |= kind == ResultKind::Success;
        match kind {
            ResultKind::Error => self.reports.tell(now, state, &format!("probe error: {text}")),
            ResultKind::Success | ResultKind::Failure => self.reports.tell(now, state, text),
        }
    }
}

/// Returns the probe of an entry and its times; what cannot be read has no handler.
fn read(entry: &ContainerProbe, gates: &FeatureGates) -> (Arc<Probe>, Timing) {
    let probe = Probe::deserialize(&entry.probe).unwrap_or_default();
    let (timing, _) = Timing::of(&probe, None, gates, &Defaults::MARKER);
    (Arc::new(probe), timing)
}

/// The fields that say when to ask and how often, not what.
const TIMING_FIELDS: [&str; 9] = [
    "initialDelaySeconds",
    "initialDelayMilliseconds",
    "timeoutSeconds",
    "timeoutMilliseconds",
    "periodSeconds",
    "periodMilliseconds",
    "successThreshold",
    "failureThreshold",
    "terminationGracePeriodSeconds",
];

fn difference(old: &ContainerProbe, new: &ContainerProbe) -> EntryChange {
    let question = |entry: &ContainerProbe| {
        let mut probe = entry.probe.clone();
        if let Some(members) = probe.as_object_mut() {
            TIMING_FIELDS.iter().for_each(|field| drop(members.remove(*field)));
        }
        probe
    };
    match () {
        () if old.container_name == new.container_name && same_probe(&old.probe, &new.probe) => EntryChange::None,
        () if old.container_name == new.container_name && same_probe(&question(old), &question(new)) => EntryChange::Timing,
        () => EntryChange::Question,
    }
}
