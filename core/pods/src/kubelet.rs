//! A pod that a kubelet runs: readiness probes that were moved out of its spec, and what others see of its containers.
//!
//! The kubelet starts and stops the containers; this learns of them from the container runtime, or from the pod's status while the
//! runtime does not answer. It says one thing to the API: the condition `lifesign.dev/ready`.
//!
//! Invariants: an instance that was not probed is never ready; nothing is said before the instances are known, so a restart of the
//! agent changes nothing; an instance that was replaced does not come back, however old a status is.

mod condition;
mod lists;
mod member;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Pod;
use api::moved::{self, Judgement};
use api::pod::Probe;
use machine::{Machine, Rng, Time};
use probe::{ContainerProber, Prior, Restarts, Role, WorkerView};

use crate::events;
use crate::machine::earlier;
use crate::messages::{Effect, Input, Observed};
use crate::settings::{GRACE_SECONDS, Settings};
use crate::view::ContainerView;
use crate::writer::Writer;
use condition::ReadyCondition;
pub use lists::{Ask, Interest, Lists};
use member::Member;

/// A kubelet that shows a pod as not ready although everything says otherwise has missed the condition; it is told again after
/// this, and then more and more rarely.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// A message that is another one for so long is worth a write of its own.
const TEXT_AFTER: Duration = Duration::from_secs(1);
/// A pod that is not ready for so long after its containers were started is told why. Before that the missing condition holds it
/// back just as well, and most pods are ready by then: each is spared two writes, the kubelet's among them, while its node is busy
/// with starts. A kubelet that has acted on the first of them looks at the second only after its next list of containers.
const FIRST_AFTER: Duration = Duration::from_secs(5);
/// The same of a pod whose containers do not run: its image may take that long to come, and the kubelet says why they wait.
const FIRST_BEFORE_START: Duration = Duration::from_secs(30);
/// The longest wait between two of those.
const TELL_AGAIN_MAX: Duration = Duration::from_secs(16);

/// A pod that a kubelet runs.
#[derive(Debug)]
pub struct KubeletPod {
    /// As applied last.
    pod: Pod,
    /// The condition is ours to write.
    gated: bool,
    /// Why the moved probes cannot be read.
    unreadable: Option<String>,
    members: Vec<Member>,
    /// The container runtime answers; what it says counts more than the pod's status.
    runtime: bool,
    /// The instances are known, from the runtime or from the status.
    known: bool,
    /// The address, as the runtime or the status says.
    ip: String,
    deleted: bool,
    ended: bool,
    /// What the API shows, as far as is known.
    stored: Option<ReadyCondition>,
    /// What the API was told last.
    sent: Option<ReadyCondition>,
    /// Since when the API shows something else than it was told, or the kubelet does not act on it.
    ignored_since: Option<Time>,
    told_again: u32,
    tell_again: bool,
    /// Since when the message is another one than the API was told, and nothing but the message.
    text_since: Option<Time>,
    writer: Writer,
    revision: u64,
    released: bool,
    deadline: Option<Time>,
    scratch: Vec<probe::Effect>,
}

impl KubeletPod {
    /// Returns the machine of a pod as the API has it.
    pub fn new(pod: Pod, settings: &Settings, mut rng: Rng) -> KubeletPod {
        let (moved, unreadable) = match moved::moved_probes(&pod) {
            Ok(moved) => (moved, None),
            Err(why) => (BTreeMap::new(), Some(why)),
        };
        let stored = pod.condition(moved::CONDITION).map(ReadyCondition::of);
        let judged = pod.condition(moved::CONDITION).filter(|condition| condition.status != "Unknown");
        let judged = judged.map(|condition| Judgement::parse(&condition.message)).unwrap_or_default();
        let members = members(&pod, &moved, &judged, settings, &mut rng);
        let mut machine = KubeletPod {
            gated: !moved.is_empty() || unreadable.is_some(),
            unreadable,
            members,
            runtime: false,
            known: false,
            ip: String::new(),
            deleted: false,
            ended: false,
            sent: None,
            stored,
            ignored_since: None,
            told_again: 0,
            tell_again: false,
            text_since: None,
            writer: Writer::new(rng.fork()),
            revision: 0,
            released: false,
            deadline: None,
            scratch: Vec::new(),
            pod,
        };
        machine.take_pod();
        machine
    }

    /// Returns the uid of the pod.
    pub fn uid(&self) -> &str {
        &self.pod.metadata.uid
    }

    /// Returns the pod as it was applied last.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// Returns the address of the pod; empty: it has none yet.
    pub fn ip(&self) -> &str {
        &self.ip
    }

    /// Returns whether the API has the condition as it should be, as far as is known.
    pub fn is_settled(&self) -> bool {
        self.writer.is_settled()
    }

    /// Returns the moved readiness probe of a container.
    pub fn moved_probe(&self, container: &str) -> Option<&Probe> {
        self.members.iter().find(|member| &*member.name == container)?.moved.as_ref()
    }

    /// Returns what the workers of all containers do.
    pub fn workers(&self) -> impl Iterator<Item = (&Arc<str>, WorkerView)> {
        let probers = self.members.iter().filter_map(|member| Some((&member.name, member.prober.as_ref()?)));
        probers.flat_map(|(name, prober)| prober.workers().map(move |view| (name, view)))
    }

    /// Returns the containers as they are now.
    pub fn containers(&self) -> impl Iterator<Item = ContainerView<'_>> {
        self.members.iter().map(Member::view)
    }

    /// Returns a number that differs whenever [`containers`](KubeletPod::containers) may.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns how much the instances of this pod matter; `by_markers`: which of its containers markers probe.
    pub fn interest(&self, by_markers: impl Fn(&str) -> bool) -> Interest {
        let probed = |member: &&Member| member.moved.is_some() || by_markers(&member.name);
        if self.ended || self.released {
            return Interest::None;
        }
        let running: Vec<bool> = self.members.iter().filter(probed).map(Member::is_running).collect();
        match running.as_slice() {
            [] => Interest::None,
            all if all.contains(&false) => Interest::Starting,
            _ => Interest::Probed,
        }
    }

    fn take_pod(&mut self) {
        if (self.ip.is_empty() || !self.runtime) && !self.pod.status.pod_ip.is_empty() {
            self.ip.clone_from(&self.pod.status.pod_ip);
        }
        self.revision += u64::from(self.members.iter_mut().fold(false, |changed, member| {
            let statuses = self.pod.status.init_container_statuses.iter().chain(&self.pod.status.container_statuses);
            let status = statuses.into_iter().find(|status| *status.name == *member.name);
            status.is_some_and(|status| member.take_started(status)) || changed
        }));
        if !self.runtime && self.known {
            self.take_statuses();
        }
    }

    /// Takes the instances that the status shows, while the runtime does not answer.
    fn take_statuses(&mut self) {
        for member in &mut self.members {
            let mut statuses = self.pod.status.init_container_statuses.iter().chain(&self.pod.status.container_statuses);
            if let Some(status) = statuses.find(|status| *status.name == *member.name) {
                self.revision += u64::from(member.take_status(status));
            }
        }
    }

    fn input(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Applied(pod) => self.applied(now, *pod, out),
            Input::Gone => {
                self.tell_all(now, &probe::Input::Removed, out);
                self.released = true;
                out.push(Effect::Release);
            }
            Input::Observed(observed) => self.observed(&observed),
            Input::RuntimeAway => {
                (self.runtime, self.known) = (false, true);
                self.take_pod();
            }
            Input::ProbeFinished { container, probe, attempt, report } => {
                self.tell(now, &container, probe::Input::Finished { probe, attempt, report }, out);
            }
            Input::ProbeKnocked { container, probe, knock, accepted } => {
                self.tell(now, &container, probe::Input::Knocked { probe, knock, accepted }, out);
            }
            Input::StatusWritten(result) => {
                let again = result.is_err_and(|error| error.is_retryable());
                if again {
                    self.sent = None;
                }
                self.writer.ended(now, again);
            }
            // What only the agent that runs a pod is told.
            _ => {}
        }
    }

    fn applied(&mut self, now: Time, pod: Pod, out: &mut Vec<Effect>) {
        self.pod = pod;
        self.stored = self.pod.condition(moved::CONDITION).map(ReadyCondition::of);
        self.take_pod();
        if self.pod.metadata.deleting() && !std::mem::replace(&mut self.deleted, true) {
            self.tell_all(now, &probe::Input::Deleted, out);
        }
        if self.pod.terminal() && !std::mem::replace(&mut self.ended, true) {
            self.tell_all(now, &probe::Input::PodTerminal, out);
        }
        self.look_for_gaps(now);
    }

    /// Notices when the API or the kubelet does not follow what was said.
    fn look_for_gaps(&mut self, now: Time) {
        let overwritten = self.sent.is_some() && self.stored != self.sent;
        let said_ready = self.stored.as_ref().is_some_and(ReadyCondition::is_true);
        let missed = said_ready && self.pod.condition_true("ContainersReady") && !self.pod.condition_true("Ready");
        match overwritten || (missed && self.gated && !self.pod.metadata.deleting()) {
            true => self.ignored_since = self.ignored_since.or(Some(now)),
            false => (self.ignored_since, self.told_again) = (None, 0),
        }
    }

    fn observed(&mut self, observed: &Observed) {
        (self.runtime, self.known) = (true, true);
        if !observed.ip.is_empty() {
            self.ip.clone_from(&observed.ip);
        }
        for member in &mut self.members {
            let seen = observed.containers.iter().find(|seen| *seen.name == *member.name);
            self.revision += u64::from(member.observe(seen));
        }
    }

    fn tell_all(&mut self, now: Time, input: &probe::Input, out: &mut Vec<Effect>) {
        let names: Vec<Arc<str>> = self.members.iter().map(|member| Arc::clone(&member.name)).collect();
        for name in names {
            self.tell(now, &name, input.clone(), out);
        }
    }

    /// Tells the prober of a container something and does what it says.
    fn tell(&mut self, now: Time, container: &str, input: probe::Input, out: &mut Vec<Effect>) {
        let Some(index) = self.members.iter().position(|member| &*member.name == container) else { return };
        self.probe(now, index, Some(input), out);
    }

    fn probe(&mut self, now: Time, index: usize, input: Option<probe::Input>, out: &mut Vec<Effect>) {
        let mut effects = std::mem::take(&mut self.scratch);
        let member = &mut self.members[index];
        if let Some(prober) = &mut member.prober {
            match input {
                Some(input) => prober.input(now, input, &mut effects),
                None => prober.launch_due(now, &mut effects),
            }
        }
        for effect in effects.drain(..) {
            match effect {
                probe::Effect::Event { event, .. } => {
                    let (type_, reason, count) = (event.type_, event.reason, event.count);
                    let event = events::of_container(&self.pod, member.role, &member.name, type_, reason, event.message);
                    out.push(Effect::Event { event, count });
                }
                effect => out.push(Effect::Probe { container: Arc::clone(&member.name), effect }),
            }
        }
        self.scratch = effects;
    }

    /// Tells the probers which instances run, and launches what is due; returns when the next attempts are.
    fn probe_all(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        let mut next = None;
        for index in 0..self.members.len() {
            for input in self.members[index].news(!self.ip.is_empty()) {
                self.probe(now, index, Some(input), out);
            }
            let deadline = |members: &[Member]| members[index].prober.as_ref().and_then(|prober| prober.deadline());
            if deadline(&self.members).is_some_and(|due| due <= now) {
                self.probe(now, index, None, out);
            }
            next = earlier(next, deadline(&self.members));
        }
        next
    }

    /// Says the condition if it is time; returns when to look again.
    fn write_due(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        if !self.gated || !self.known || self.released {
            return None;
        }
        let want = ReadyCondition::judged(&self.judgement(), self.unreadable.as_deref());
        let shown = self.sent.as_ref().or(self.stored.as_ref());
        // A condition that is not there yet holds the pod back as one that is False does.
        let urgent = shown.is_some_and(ReadyCondition::is_true) != want.is_true();
        let mut due = None;
        if let Some(since) = self.ignored_since {
            let at = since + TELL_AGAIN.saturating_mul(1 << self.told_again.min(5)).min(TELL_AGAIN_MAX);
            if at <= now {
                self.tell_again = true;
                self.told_again += 1;
                self.ignored_since = Some(now);
                due = Some(now + TELL_AGAIN_MAX);
            } else {
                due = Some(at);
            }
        }
        // Another text alone can wait, as can the first that says no: what decides must not wait for its write.
        let first = shown.is_none() && !want.is_true();
        let turns = !first && shown.is_none_or(|shown| shown.status != want.status);
        match turns || shown == Some(&want) {
            true => self.text_since = None,
            false => self.text_since = self.text_since.or(Some(now)),
        }
        let text_at = self.text_since.map(|since| if first { self.first_at(since) } else { since + TEXT_AFTER });
        due = earlier(due, text_at.filter(|at| *at > now));
        self.writer.want(self.tell_again || turns || text_at.is_some_and(|at| at <= now), urgent);
        if self.writer.begin(now) {
            let again = std::mem::take(&mut self.tell_again);
            let known = self.stored.as_ref().map(|stored| stored.status.as_str());
            let shown = if again { known } else { shown.map(|shown| shown.status.as_str()) };
            let write = want.write(&self.pod, now, shown != Some(&want.status), again);
            out.push(Effect::WriteStatus { write: Box::new(write), urgent });
            (self.sent, self.text_since) = (Some(want), None);
        }
        earlier(due, self.writer.deadline())
    }

    /// Returns when a pod that has no condition yet is told why it is not ready; `since`: that is known.
    fn first_at(&self, since: Time) -> Time {
        let mut started = self.members.iter().filter(|member| member.moved.is_some()).map(Member::started_at);
        match started.try_fold(Time::ZERO, |latest, at| Some(latest.max(at?))) {
            // Nothing that starts would change it.
            _ if self.unreadable.is_some() => since + FIRST_AFTER,
            // One that has run for long, as after a restart of the agent, is probed first.
            Some(latest) => (latest + FIRST_AFTER).max(since + TEXT_AFTER),
            None => since + FIRST_BEFORE_START,
        }
    }

    fn judgement(&self) -> Judgement {
        let mut judgement = Judgement::default();
        for member in self.members.iter().filter(|member| member.moved.is_some()) {
            let (name, id) = (member.name.to_string(), member.id().to_owned());
            match member.lacks(!self.ip.is_empty()) {
                None => judgement.ready.push((name, id)),
                Some(why) => judgement.not_ready.push((name, id, why.to_owned())),
            }
        }
        judgement
    }
}

impl Machine for KubeletPod {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, out: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.input(now, input, out);
        }
        let attempts = self.probe_all(now, out);
        let write = self.write_due(now, out);
        self.deadline = earlier(attempts, write);
    }

    fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}

/// Returns the containers of a pod, init containers first, with probers for the probes that were moved.
fn members(pod: &Pod, moved: &BTreeMap<String, Probe>, judged: &Judgement, settings: &Settings, rng: &mut Rng) -> Vec<Member> {
    let init = pod.spec.init_containers.iter().map(|spec| (if spec.is_sidecar() { Role::Sidecar } else { Role::Init }, spec));
    let all = init.chain(pod.spec.containers.iter().map(|spec| (Role::Regular, spec)));
    let grace = pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS);
    all.map(|(role, spec)| {
        let probe = moved.get(&spec.name).filter(|_| role != Role::Init).cloned();
        let prober = probe.as_ref().map(|probe| {
            let ready = judged.ready.iter().find(|(name, _)| *name == spec.name).map(|(_, id)| (id, true));
            let others = || judged.not_ready.iter().find(|(name, id, _)| *name == spec.name && !id.is_empty());
            let stored = ready.or_else(|| others().map(|(_, id, _)| (id, false)));
            let prior = stored.map(|(id, ready)| Prior::new(id, true, ready, || rng.fraction()));
            // The kubelet runs what is left in the spec.
            let judged_here = api::pod::Container {
                readiness_probe: Some(probe.clone()),
                liveness_probe: None,
                startup_probe: None,
                ..spec.clone()
            };
            let restarts = Restarts::of(&pod.spec.restart_policy, spec);
            Box::new(ContainerProber::new(&judged_here, restarts, grace, &settings.node, prior))
        });
        Member::new(role, spec, probe, prober)
    })
    .collect()
}

#[cfg(test)]
mod tests;
