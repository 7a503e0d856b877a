//! The machine of one pod: takes facts, keeps the order of what follows from them.
//!
//! Every step ends with the same questions, in this order: has the pod finished, which stops move on, which containers
//! start, which attempts are due, has the status changed, is it time to write it, is all done.

use std::sync::Arc;

use api::Pod;
use api::event::EventType;
use api::meta::Condition;
use machine::{Failures, Machine, Rng, Time};
use probe::{PodPhase, Role, WorkerView};

use crate::container::{InstanceState, PodContainer, Waiting};
use crate::events;
use crate::messages::{Effect, Found, Input};
use crate::settings::{GRACE_SECONDS, RETRY_SETUP, Settings};
use crate::status::Report;
use crate::stop::{Cause, Ending};
use crate::writer::Writer;

/// Everything about one pod on its node.
#[derive(Debug)]
pub struct PodMachine {
    pub(crate) settings: Arc<Settings>,
    /// As applied last; labels, annotations and status are left out.
    pub(crate) pod: Pod,
    /// Conditions that others write.
    pub(crate) foreign: Vec<Condition>,
    /// Init containers in their order, then the regular ones.
    pub(crate) containers: Vec<PodContainer>,
    pub(crate) sandbox: Sandbox,
    pub(crate) ip: String,
    pub(crate) torn_down: bool,
    pub(crate) start_time: Time,
    /// Everything that comes before the regular containers has been done in this life of the agent.
    pub(crate) initialized: bool,
    pub(crate) ending: Option<Ending>,
    /// A phase that does not follow from the containers any more, with its reason and message.
    pub(crate) fixed: Option<(PodPhase, String, String)>,
    pub(crate) changed: bool,
    /// How often the status was computed.
    pub(crate) revision: u64,
    pub(crate) report: Report,
    pub(crate) sent: Option<Report>,
    pub(crate) stored_ready: bool,
    /// The agent's own conditions as the API showed them while a write was under way.
    pub(crate) seen_meanwhile: Option<Vec<Condition>>,
    pub(crate) writer: Writer,
    pub(crate) deletion: Deletion,
    begun: bool,
    deadline: Option<Time>,
    scratch: Vec<probe::Effect>,
}

/// Address and volumes.
#[derive(Clone, Debug)]
pub(crate) enum Sandbox {
    /// Not asked for, or asked for in vain and asked again at the instant.
    Missing { retry_at: Time, failures: Failures, why: Option<Waiting> },
    /// Asked for.
    Asked { failures: Failures, why: Option<Waiting> },
    /// There.
    Ready,
}

/// The request to delete the pod for good.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deletion {
    /// Not sent, or to be sent again at the instant.
    Open { at: Time, failures: Failures },
    /// Sent.
    UnderWay { failures: Failures },
    /// Answered: the rest is up to others.
    Answered,
    /// The pod is gone.
    Released,
}

impl PodMachine {
    /// Returns the machine of a pod as the API has it, with what an earlier agent has left of it on this machine.
    pub fn new(now: Time, pod: Pod, found: Vec<Found>, settings: Arc<Settings>, mut rng: Rng) -> PodMachine {
        let start_time = pod.status.start_time.map_or(now, |time| time.0);
        let stored = Report::of(&pod);
        let containers = crate::restore::containers(now, &pod, &found, &settings, &mut rng);
        // What comes before the regular containers is done again in order, unless they are running already.
        let initialized = containers.iter().any(|container| container.role == Role::Regular && container.is_alive());
        let fixed = crate::restore::fixed(&pod);
        let mut machine = PodMachine {
            settings,
            foreign: crate::status::foreign(&pod.status.conditions),
            containers,
            sandbox: Sandbox::Missing { retry_at: now, failures: Failures::default(), why: None },
            ip: pod.status.pod_ip.clone(),
            torn_down: fixed.is_some(),
            start_time,
            initialized,
            ending: None,
            fixed,
            changed: true,
            revision: 0,
            stored_ready: stored.is_ready(),
            seen_meanwhile: None,
            report: stored.clone(),
            sent: Some(stored),
            writer: Writer::new(rng.fork()),
            deletion: Deletion::Open { at: now, failures: Failures::default() },
            begun: false,
            deadline: Some(now),
            scratch: Vec::new(),
            pod,
        };
        machine.slim();
        machine
    }

    /// Returns the uid of the pod.
    pub fn uid(&self) -> &str {
        &self.pod.metadata.uid
    }

    /// Returns the pod, without labels, annotations and status.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// Returns the status as it should be.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns whether a process of the pod exists, or may soon.
    pub fn is_alive(&self) -> bool {
        self.containers.iter().any(PodContainer::is_alive)
    }

    /// Returns whether the API has the status as it should be, as far as is known.
    pub fn is_settled(&self) -> bool {
        self.writer.is_settled()
    }

    /// Returns what the workers of all containers do.
    pub fn workers(&self) -> impl Iterator<Item = (&Arc<str>, WorkerView)> {
        let probers = self.containers.iter().filter_map(|container| Some((&container.name, container.prober.as_ref()?)));
        probers.flat_map(|(name, prober)| prober.workers().map(move |view| (name, view)))
    }

    fn slim(&mut self) {
        // Only the specification is read again; the rest may be large.
        self.pod.metadata.annotations.clear();
        self.pod.metadata.labels.clear();
        self.pod.status = Default::default();
    }

    pub(crate) fn grace_seconds(&self) -> i64 {
        self.pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS).max(0)
    }

    pub(crate) fn find(&self, container: &str) -> Option<usize> {
        self.containers.iter().position(|known| &*known.name == container)
    }

    pub(crate) fn event(&self, index: usize, type_: EventType, reason: &'static str, message: String, out: &mut Vec<Effect>) {
        let container = &self.containers[index];
        let event = events::of_container(&self.pod, container.role, &container.name, type_, reason, message);
        out.push(Effect::Event { event, count: 1 });
    }

    /// Takes up what was found, once, before the first fact.
    fn begin(&mut self, now: Time, out: &mut Vec<Effect>) {
        self.begun = true;
        for index in 0..self.containers.len() {
            match &self.containers[index].state {
                InstanceState::Running(instance) if instance.in_post_start => self.post_start(index, out),
                InstanceState::Running(_) => self.counts_as_running(now, index, out),
                InstanceState::Ended(ended) => {
                    let exit_code = self.exit_code_for_prober(ended);
                    self.probe(now, index, Some(probe::Input::NotRunning { exit_code }), out);
                }
                _ => {}
            }
        }
        if self.fixed.is_some() {
            self.end(now, Cause::Finished, self.grace_seconds(), out);
            self.end_workers(now, probe::Input::PodTerminal, out);
        }
        if self.pod.metadata.deleting() {
            self.end(now, Cause::Deleted, self.deletion_grace_seconds(), out);
        }
    }

    fn input(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Applied(pod) => self.applied(now, *pod, out),
            Input::Gone => self.end(now, Cause::Gone, self.deletion_grace_seconds(), out),
            Input::Stop => self.end(now, Cause::Stopped, self.grace_seconds(), out),
            Input::Prepared { ip } => {
                if self.ip != ip {
                    (self.ip, self.changed) = (ip, true);
                }
                self.sandbox = Sandbox::Ready;
            }
            Input::PrepareFailed { reason, message } => self.prepare_failed(now, reason, message, out),
            Input::Started { container, id, at } => self.started(now, &container, id, at, out),
            Input::Exited { container, id, exit } => self.exited(now, &container, &id, exit, out),
            Input::StartFailed { container, id, reason, message } => {
                self.start_failed(now, &container, &id, Waiting { reason, message }, out);
            }
            Input::HookFinished { container, id, hook, result } => self.hook_finished(now, &container, &id, hook, result, out),
            Input::ProbeFinished { container, probe, attempt, report } => {
                if let Some(index) = self.find(&container) {
                    self.probe(now, index, Some(probe::Input::Finished { probe, attempt, report }), out);
                }
            }
            Input::ProbeKnocked { container, probe, knock, accepted } => {
                if let Some(index) = self.find(&container) {
                    self.probe(now, index, Some(probe::Input::Knocked { probe, knock, accepted }), out);
                }
            }
            Input::Drained => {
                if let Some(ending) = &mut self.ending {
                    ending.drain_until = None;
                }
            }
            Input::StatusWritten(result) => {
                if result.is_ok() {
                    self.stored_ready = self.sent.as_ref().is_some_and(Report::is_ready);
                }
                self.writer.ended(now, result.is_err_and(|error| error.is_retryable()));
                if let Some(stored) = self.seen_meanwhile.take() {
                    self.stored_conditions(now, stored);
                }
            }
            Input::PodDeleted(result) => self.pod_deleted(now, result),
            // The containers of this pod are processes of the agent.
            Input::Observed(_) | Input::RuntimeAway => {}
        }
    }

    fn applied(&mut self, now: Time, pod: Pod, out: &mut Vec<Effect>) {
        let before = std::mem::replace(&mut self.pod, pod);
        let foreign = crate::status::foreign(&self.pod.status.conditions);
        self.changed |= self.foreign != foreign || before.metadata.generation != self.pod.metadata.generation;
        self.foreign = foreign;
        let owned = self.pod.status.conditions.iter().filter(|condition| crate::status::is_owned(condition));
        let owned = owned.cloned().collect();
        self.stored_conditions(now, owned);
        let fixed = crate::restore::fixed(&self.pod);
        self.slim();
        if self.containers.len() != self.pod.spec.init_containers.len() + self.pod.spec.containers.len() {
            // The API does not let containers come and go: what runs here goes on as it was.
            self.pod.spec = before.spec.clone();
        }
        for index in 0..self.containers.len() {
            self.spec_changed(now, index, &before, out);
        }
        if let (None, Some(fixed)) = (&self.fixed, fixed) {
            // Somebody else has ended the pod.
            (self.fixed, self.changed) = (Some(fixed), true);
            self.end(now, Cause::Finished, self.grace_seconds(), out);
            self.end_workers(now, probe::Input::PodTerminal, out);
        }
        if self.pod.metadata.deleting() {
            self.end(now, Cause::Deleted, self.deletion_grace_seconds(), out);
        }
    }

    /// A container with another image is another container: it is started anew, and its ladder with it.
    fn spec_changed(&mut self, now: Time, index: usize, before: &Pod, out: &mut Vec<Effect>) {
        let container = &mut self.containers[index];
        let (old, new) = (container.spec(before), container.spec(&self.pod));
        if old.image == new.image && old.resources == new.resources {
            return;
        }
        container.back_off = Default::default();
        let other_image = old.image != new.image;
        if other_image && container.role != Role::Init && container.instance().is_some() && self.ending.is_none() {
            let name = self.containers[index].name.clone();
            let message = format!("Container {name} definition changed, will be restarted");
            self.event(index, EventType::Normal, events::KILLING, message, out);
            self.restart(now, index, true, out);
        }
    }

    fn prepare_failed(&mut self, now: Time, reason: String, message: String, out: &mut Vec<Effect>) {
        let Sandbox::Asked { mut failures, why: before } = self.sandbox.clone() else { return };
        let why = Waiting { reason, message };
        if before.as_ref() != Some(&why) {
            let event = events::of_pod(&self.pod, EventType::Warning, events::FAILED_SANDBOX, why.message.clone());
            out.push(Effect::Event { event, count: 1 });
        }
        let retry_at = now + failures.next(RETRY_SETUP);
        self.sandbox = Sandbox::Missing { retry_at, failures, why: Some(why) };
        self.changed = true;
    }

    /// Hands a fact to the prober of a container (`None`: the time has come), and does what it says.
    pub(crate) fn probe(&mut self, now: Time, index: usize, input: Option<probe::Input>, out: &mut Vec<Effect>) {
        let mut effects = std::mem::take(&mut self.scratch);
        if let Some(prober) = &mut self.containers[index].prober {
            match input {
                Some(input) => prober.input(now, input, &mut effects),
                None => prober.launch_due(now, &mut effects),
            }
        }
        for effect in effects.drain(..) {
            let container = &self.containers[index];
            match effect {
                probe::Effect::Kill { probe, grace_seconds, restart } => {
                    let event = probe::ContainerEvent::killing(&container.name, probe, grace_seconds, restart);
                    self.event(index, event.type_, event.reason, event.message, out);
                    self.probe_kill(now, index, grace_seconds, restart, out);
                }
                probe::Effect::Event { event, .. } => {
                    let (name, role) = (&container.name, container.role);
                    let count = event.count;
                    let event = events::of_container(&self.pod, role, name, event.type_, event.reason, event.message);
                    out.push(Effect::Event { event, count });
                }
                effect => {
                    self.changed |= matches!(effect, probe::Effect::Started(_) | probe::Effect::Ready(_));
                    out.push(Effect::Probe { container: container.name.clone(), effect });
                }
            }
        }
        self.scratch = effects;
    }

    /// Tells something to the workers of all containers.
    pub(crate) fn end_workers(&mut self, now: Time, input: probe::Input, out: &mut Vec<Effect>) {
        for index in 0..self.containers.len() {
            self.probe(now, index, Some(input.clone()), out);
        }
    }

    /// Launches the attempts that are due; returns when the next ones are.
    fn launch_due(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        let mut next = None;
        for index in 0..self.containers.len() {
            let deadline = |containers: &[PodContainer]| containers[index].prober.as_ref().and_then(|prober| prober.deadline());
            if deadline(&self.containers).is_some_and(|due| due <= now) {
                self.probe(now, index, None, out);
            }
            next = earlier(next, deadline(&self.containers));
        }
        next
    }
}

/// Returns the earlier of two instants, where there are any.
pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Machine for PodMachine {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, out: &mut Vec<Effect>) {
        if !self.begun {
            self.begin(now, out);
        }
        if let Some(input) = input {
            self.input(now, input, out);
        }
        let expires = self.check_finished(now, out);
        let stops = self.stop_due(now, out);
        let starts = self.start_due(now, out);
        let attempts = self.launch_due(now, out);
        self.tear_down(out);
        self.update_report(now);
        let write = self.write_due(now, out);
        let rest = self.finish(now, out);
        self.deadline = [expires, stops, starts, attempts, write, rest].into_iter().fold(None, earlier);
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}
