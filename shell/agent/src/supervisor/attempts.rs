//! Attempts of probes: bounded, in due order, each a task of its own; the first success also says whose socket answered.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::pod::{ContainerPort, Probe};
use api::{HandlerKind, ProbeType};
use machine::Time;
use markers::agent::WorkerKey;
use probe::http::Target;
use probe::queue::Ticket;
use probe::timing::handler_of;
use probe::{Knock, Lane, Launch, Report};
use processes::listeners::{ANSWERED_BY_ANOTHER, Owner};
use tokio::task::AbortHandle;

use super::Supervisor;
use super::containers::AgentContext;
use super::hooks::VERSION;
use super::local::{FinishedAttempt, LocalPod, place};
use super::messages::Message;
use super::port_owners::PortOwners;
use super::views::spec_of;
use crate::executors::{Executor, Instance, Knocked, Socket};
use crate::supervisor::HOP;

/// Where to look when nobody listens: in a pod of ours, and in one of a kubelet.
const BIND_HINTS: [&str; 2] =
    ["does the server bind $POD_IP?", "does the server listen on this port, and not on 127.0.0.1 alone?"];

/// A probe of a container instance, ready to be carried out again and again.
pub(super) struct Prepared {
    pub(super) handler: HandlerKind,
    /// Or what every attempt amounts to.
    executor: Result<Executor, Report>,
    /// Where the pod itself is asked; `None`: somewhere else, or not over the network.
    pod_address: Option<SocketAddr>,
    /// It is known that the pod itself answers there.
    own: AtomicBool,
    port_owners: Arc<PortOwners>,
    /// What is asked, as a failure names it; empty: nothing.
    target: Box<str>,
    /// What to look at when nobody listens there.
    hint: &'static str,
}

/// An attempt that waits or runs.
pub(super) struct ActiveAttempt {
    pub(super) attempt: u32,
    kind: AttemptKind,
    stage: Stage,
}

enum Stage {
    Waiting(Ticket),
    Running(AbortHandle),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttemptKind {
    Network,
    Exec,
}

/// Whose attempt.
#[derive(Clone)]
pub(crate) enum AttemptOwner {
    /// That of a container's probe.
    Container { pod: u64, container: Arc<str>, probe: ProbeType },
    /// That of a marker.
    Marker(Arc<WorkerKey>),
}

/// An attempt that waits for its place.
struct Work {
    owner: AttemptOwner,
    attempt: u32,
    due: Time,
    timeout: Duration,
    prepared: Arc<Prepared>,
    /// The connection that a knock has begun.
    begun: Option<Socket>,
}

/// Whose knocks: pod, container, probe.
pub(super) type KnockKey = (u64, Arc<str>, ProbeType);

/// The places for attempts.
pub(super) struct Attempts {
    network: Lane<Work>,
    exec: Lane<Work>,
}

impl Attempts {
    pub(super) fn new(network: usize, exec: usize) -> Attempts {
        Attempts { network: Lane::new(network), exec: Lane::new(exec) }
    }

    fn lane(&mut self, kind: AttemptKind) -> &mut Lane<Work> {
        match kind {
            AttemptKind::Network => &mut self.network,
            AttemptKind::Exec => &mut self.exec,
        }
    }

    fn done(&mut self, active: &ActiveAttempt) {
        self.lane(active.kind).done();
    }

    /// Gives an attempt up, wherever it is.
    pub(super) fn cancel(&mut self, active: &ActiveAttempt) {
        match &active.stage {
            Stage::Waiting(ticket) => drop(self.lane(active.kind).cancel(*ticket)),
            Stage::Running(task) => {
                task.abort();
                self.lane(active.kind).done();
            }
        }
    }
}

impl Supervisor {
    /// Queues an attempt that is due.
    pub(super) fn launch(&mut self, key: u64, container: Arc<str>, launch: Launch) {
        let Some(prepared) = self.prepared(key, &container, launch.probe) else { return };
        let Launch { probe, attempt, due, timeout, .. } = launch;
        let begun = self.begun.take_if(|(owner, _)| *owner == (key, Arc::clone(&container), probe)).map(|(_, socket)| socket);
        let owner = AttemptOwner::Container { pod: key, container, probe };
        self.queue_on(owner, Some(probe), attempt, (due, timeout), prepared, begun);
    }

    /// Has the target of a worker knocked at.
    pub(super) fn knock(&mut self, key: u64, container: Arc<str>, knock: &Knock) {
        let Some(prepared) = self.prepared(key, &container, knock.probe) else { return };
        if let Some(address) = prepared.executor.as_ref().ok().and_then(Executor::address) {
            self.knocker.begin((key, container, knock.probe), address, knock);
        }
    }

    /// Stops that; a connection that is being made waits for an attempt that begins in the same step.
    pub(super) fn stop_knocking(&mut self, key: u64, container: Arc<str>, probe: ProbeType) {
        let owner = (key, container, probe);
        let (refused, begun) = self.knocker.stop(&owner);
        self.count_knocks(&owner, refused);
        self.begun = begun.map(|socket| (owner, socket));
    }

    /// Takes the end of knocking at a target.
    pub(super) fn knocked(&mut self, owner: KnockKey, number: u32, refused: u64, knocked: Knocked) {
        self.count_knocks(&owner, refused);
        let (pod, container, probe) = owner.clone();
        let accepted = match knocked {
            Knocked::Accepted { socket, at } => {
                tracing::trace!(target: HOP, container = &*container, probe = probe.name(), "knock accepted");
                self.begun = Some((owner, socket));
                Some(at)
            }
            Knocked::Failed => None,
        };
        self.step(pod, Some(pods::Input::ProbeKnocked { container, probe, knock: number, accepted }));
    }

    fn count_knocks(&mut self, (pod, container, probe): &KnockKey, refused: u64) {
        if let Some(local) = self.pods.get_mut(pod) {
            local.local_container(container).workers[place(*probe)].knocks += refused;
        }
    }

    /// Queues an attempt; `probe` is `None` for that of a marker.
    pub(super) fn queue(
        &mut self,
        owner: AttemptOwner,
        probe: Option<ProbeType>,
        attempt: u32,
        times: (Time, Duration),
        prepared: Arc<Prepared>,
    ) {
        self.queue_on(owner, probe, attempt, times, prepared, None);
    }

    fn queue_on(
        &mut self,
        owner: AttemptOwner,
        probe: Option<ProbeType>,
        attempt: u32,
        (due, timeout): (Time, Duration),
        prepared: Arc<Prepared>,
        begun: Option<Socket>,
    ) {
        let kind = if prepared.handler == HandlerKind::Exec { AttemptKind::Exec } else { AttemptKind::Network };
        let work = Work { owner: owner.clone(), attempt, due, timeout, prepared, begun };
        let ticket = self.attempts.lane(kind).push(due, probe, work);
        if let Some(active) = self.active(&owner) {
            *active = Some(ActiveAttempt { attempt, kind, stage: Stage::Waiting(ticket) });
        }
    }

    /// Returns where the attempt of a worker is kept while it waits or runs; `None`: the worker is gone.
    fn active(&mut self, owner: &AttemptOwner) -> Option<&mut Option<ActiveAttempt>> {
        match owner {
            AttemptOwner::Container { pod, container, probe } => {
                Some(&mut self.pods.get_mut(pod)?.local_container(container).workers[place(*probe)].active)
            }
            AttemptOwner::Marker(key) => self.markers.active(key),
        }
    }

    /// Returns the probe of the instance that runs, made once per instance.
    fn prepared(&mut self, key: u64, container: &Arc<str>, probe: ProbeType) -> Option<Arc<Prepared>> {
        let local = self.pods.get_mut(&key)?;
        if let Some(prepared) = local.local_container(container).workers[place(probe)].prepared.clone() {
            return Some(prepared);
        }
        let instance = local.instance(container, None)?;
        let (spec, stored) = spec_of(local, container, probe)?;
        let prepared = Arc::new(Prepared::new(local, &self.context, stored, &spec.ports, &instance));
        local.local_container(container).workers[place(probe)].prepared = Some(Arc::clone(&prepared));
        Some(prepared)
    }

    /// Begins the attempts for which there is a place.
    pub(super) fn begin_attempts(&mut self) {
        for kind in [AttemptKind::Network, AttemptKind::Exec] {
            while let Some(work) = self.attempts.lane(kind).begin() {
                let now = self.now();
                self.metrics.began(work.prepared.handler, now.since(work.due));
                let (owner, attempt) = (work.owner.clone(), work.attempt);
                if self.active(&owner).is_none() {
                    self.attempts.lane(kind).done();
                    continue;
                }
                // Not one of the agent's tasks: there are many, each is short, and each can be given up.
                let task = tokio::spawn(carry_out(Arc::clone(&self.context), work, now));
                if let Some(active) = self.active(&owner) {
                    *active = Some(ActiveAttempt { attempt, kind, stage: Stage::Running(task.abort_handle()) });
                }
            }
        }
    }

    /// Takes the end of an attempt; one that was given up is not told.
    pub(super) fn attempt_ended(&mut self, message: Message) {
        let Message::Attempt { owner, attempt, report, began, ended } = message else { return };
        let Some(active) = self.active(&owner).and_then(|active| active.take_if(|active| active.attempt == attempt)) else {
            return;
        };
        self.attempts.done(&active);
        let (pod, container, probe) = match owner {
            AttemptOwner::Container { pod, container, probe } => (pod, container, probe),
            AttemptOwner::Marker(key) => return self.marker_attempt_ended(&key, &report, began, ended),
        };
        let Some(local) = self.pods.get_mut(&pod) else { return };
        let labels = local.labels(&container, probe);
        let uid = local.machine.uid().to_owned();
        let worker = &mut local.local_container(&container).workers[place(probe)];
        worker.remember(FinishedAttempt::new(began, ended, &report));
        if let Some(prepared) = &worker.prepared {
            self.metrics.ended(&labels, &uid, prepared.handler, &report, ended.since(began));
        }
        let took_us = ended.since(began).as_micros();
        tracing::trace!(target: HOP, pod = local.name, container = &*container, probe = probe.name(), took_us, "attempt");
        local.attempt_at = Some(ended);
        self.step(pod, Some(pods::Input::ProbeFinished { container, probe, attempt, report }));
        if let Some(local) = self.pods.get_mut(&pod) {
            local.attempt_at = None;
        }
    }

    /// Gives up every attempt of a pod.
    pub(super) fn cancel_all(&mut self, key: u64) {
        let Some(local) = self.pods.get_mut(&key) else { return };
        let workers = local.containers.values_mut().flat_map(|local_container| &mut local_container.workers);
        let active: Vec<ActiveAttempt> = workers.filter_map(|worker| worker.active.take()).collect();
        for active in active {
            self.attempts.cancel(&active);
        }
    }
}

async fn carry_out(context: Arc<AgentContext>, mut work: Work, began: Time) {
    let report = match &work.prepared.executor {
        Ok(executor) => work.prepared.judged(executor.run(work.begun.take(), work.timeout).await).await,
        Err(report) => report.clone(),
    };
    let Work { owner, attempt, .. } = work;
    let ended = context.clock.now();
    context.send(Message::Attempt { owner, attempt, report, began, ended }).await;
}

impl Prepared {
    /// Prepares a probe of a container instance.
    pub(super) fn new(
        local: &LocalPod,
        context: &AgentContext,
        probe: &Probe,
        ports: &[ContainerPort],
        instance: &Instance,
    ) -> Prepared {
        let ip = local.ip(context);
        let host_network = local.machine.pod().spec.host_network;
        let pod_ip = Some(ip.as_str()).filter(|ip| !ip.is_empty());
        let target = Target { pod_ip, ports, version: VERSION };
        let executor = Executor::new(probe, &target, host_network, instance);
        let own_ip = local.address.map(IpAddr::V4);
        let asked = executor.as_ref().and_then(Executor::address);
        let hint = match asked {
            Some(address) if !ip.is_empty() && address.ip().to_string() == ip => BIND_HINTS[usize::from(own_ip.is_none())],
            _ => "",
        };
        Prepared {
            target: executor.as_ref().map(|executor| executor.target(probe)).unwrap_or_default().into(),
            hint,
            handler: handler_of(probe).unwrap_or(HandlerKind::HttpGet),
            pod_address: asked.filter(|address| !host_network && Some(address.ip()) == own_ip),
            executor: executor.ok_or_else(|| Report::failure("the probe has no handler")),
            own: AtomicBool::new(false),
            port_owners: Arc::clone(&local.port_owners),
        }
    }

    /// Returns a probe of an instance that is gone: every attempt amounts to the same.
    pub(super) fn of_nobody(probe: &Probe, report: Report) -> Prepared {
        Prepared {
            handler: handler_of(probe).unwrap_or(HandlerKind::HttpGet),
            pod_address: None,
            executor: Err(report),
            own: AtomicBool::new(false),
            port_owners: Arc::default(),
            target: Box::default(),
            hint: "",
        }
    }

    /// Turns the first success into a failure if it was not the pod that answered; a failure says who was asked.
    async fn judged(&self, mut report: Report) -> Report {
        if !self.target.is_empty() {
            report = report.naming(&self.target, self.hint);
        }
        let Some(address) = self.pod_address else { return report };
        if report.outcome.succeeded() != Some(true) || self.own.load(Ordering::Relaxed) {
            return report;
        }
        match self.port_owners.owner(address).await {
            Some(Owner::Pod) => {
                self.own.store(true, Ordering::Relaxed);
                report
            }
            Some(Owner::Another) => Report::failure(ANSWERED_BY_ANOTHER),
            // Whoever answered is gone, or the kernel does not tell: the next success is looked at again.
            Some(Owner::Nobody) | None => report,
        }
    }
}
