//! The loop that runs the pods of a node: one task, one timer queue for all workers of all pods.
//!
//! It feeds each pod's machine with what happens and carries out what the machine says. Nothing here waits: whatever takes
//! time is a task that writes back. Work that pods share is bounded: attempts by their lanes, status writes by their queue.

mod adopt;
mod attempts;
mod containers;
mod effects;
mod hooks;
mod life;
mod local;
mod markers;
mod messages;
mod port_owners;
mod source;
mod views;
mod writes;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::marker::NodePodProbe;
use api::pod::PodIp;
use api::{Pod, Service};
use machine::{Rng, Time};
use pods::{Effect, Input, KubeletPod, PodMachine};
use proxy::drain::Drains;
use runtime::{EventWriter, Events, Informers, Obj, WatchEvent};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::OnStop;
use crate::executors::{Knocker, Socket};
use crate::metrics::Metrics;
pub(crate) use adopt::{Adopted, adopt_all};
use attempts::{Attempts, KnockKey};
pub(crate) use containers::{AgentContext, ProcessContext};
use life::PodLife;
use local::LocalPod;
use markers::{MARKERS, Markers};
pub(crate) use messages::{Ask, Message};
use source::RUNTIME;
pub(crate) use source::{RuntimeLists, Source};
use writes::Writes;

/// Messages that wait for the loop: senders wait when it is full, so this only bounds memory.
const INBOX: usize = 4_096;
/// Messages that are read before the loop looks at the clock again.
const BATCH: usize = 256;
/// Status writes that are under way at once.
const WRITES: usize = 32;
/// Whoever waits for the slices longer than this waits for nothing: no grace of use is left.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// When the agent stops and everything has ended, the last status writes may take this long.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// The target of log lines, one per hop, from which the way of a change of readiness can be read: `LIFESIGN_LOG=hop=trace`.
const HOP: &str = "hop";

/// What the loop is made from.
pub(crate) struct Parts {
    pub(crate) informers: Informers,
    pub(crate) context: Arc<AgentContext>,
    pub(crate) inbox: mpsc::Receiver<Message>,
    /// Where containers come from.
    pub(crate) source: Source,
    pub(crate) settings: Arc<pods::Settings>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: EventWriter,
    /// Who gets traffic; `None`: no drain handshake.
    pub(crate) drains: Option<Drains>,
    pub(crate) on_stop: OnStop,
    pub(crate) network_probes: usize,
    pub(crate) exec_probes: usize,
    pub(crate) rng: Rng,
}

/// Returns the message channel of a loop.
pub(crate) fn message_channel() -> (mpsc::Sender<Message>, mpsc::Receiver<Message>) {
    mpsc::channel(INBOX)
}

/// The loop.
pub(crate) struct Supervisor {
    context: Arc<AgentContext>,
    source: Source,
    settings: Arc<pods::Settings>,
    metrics: Arc<Metrics>,
    events: EventWriter,
    rng: Rng,
    pods: HashMap<u64, LocalPod>,
    by_uid: HashMap<String, u64>,
    serial: u64,
    /// When each machine wants to be looked at.
    timers: BTreeSet<(Time, u64)>,
    attempts: Attempts,
    knocker: Knocker<KnockKey>,
    /// A connection for an attempt that begins in this step.
    begun: Option<(KnockKey, Socket)>,
    writes: Writes,
    markers: Markers,
    drains: Option<Drains>,
    services: HashMap<String, Service>,
    on_stop: OnStop,
    stopping: bool,
    effects: Vec<Effect>,
    due: Vec<u64>,
}

impl Supervisor {
    /// Runs pods until told to stop, and then until they have stopped.
    pub(crate) async fn run(parts: Parts, stop: CancellationToken) {
        let (informers, node) = (parts.informers, parts.context.node.clone());
        let (mut inbox, mut rng) = (parts.inbox, parts.rng);
        let mut this = Supervisor {
            drains: parts.drains,
            attempts: Attempts::new(parts.network_probes, parts.exec_probes),
            knocker: Knocker::new(parts.context.clock.clone(), parts.metrics.knock_counters()),
            begun: None,
            context: parts.context,
            source: parts.source,
            metrics: parts.metrics,
            events: parts.events,
            markers: Markers::new(parts.settings.node.clone(), rng.fork()),
            settings: parts.settings,
            rng,
            pods: HashMap::new(),
            by_uid: HashMap::new(),
            serial: 0,
            timers: BTreeSet::new(),
            writes: Writes::new(WRITES),
            services: HashMap::new(),
            on_stop: parts.on_stop,
            stopping: false,
            effects: Vec::new(),
            due: Vec::new(),
        };
        this.reserve_adopted();
        let (here, own, named) = (node.clone(), format!("spec.nodeName={node}"), format!("metadata.name={node}"));
        let mut pods = informers.follow_where::<Pod>(own, move |pod| pod.spec.node_name == here);
        // Containers of a kubelet have their environment from it.
        let mut services = this.source.has_processes().then(|| informers.follow::<Service>());
        let mut node_pod_probes = informers.follow_where::<NodePodProbe>(named, move |object| object.metadata.name == node);
        let mut messages = Vec::with_capacity(BATCH);
        let mut give_up_at = None;
        let clock = this.context.clock.clone();
        this.list_due();
        loop {
            let deadline = this.timers.first().map(|(at, _)| *at);
            tokio::select! {
                () = stop.cancelled(), if !this.stopping => this.begin_stop(),
                _ = inbox.recv_many(&mut messages, BATCH) => {
                    for message in messages.drain(..) {
                        this.take(message);
                    }
                }
                (owner, number, refused, knocked) = this.knocker.next() => this.knocked(owner, number, refused, knocked),
                seen = pods.next() => this.pod_seen(seen),
                seen = next_of(&mut services) => this.service_seen(seen),
                seen = node_pod_probes.next() => this.node_pod_probe_seen(seen),
                () = clock.sleep_until(deadline) => {}
                () = clock.sleep_until(give_up_at) => break,
            }
            this.run_due();
            this.begin_attempts();
            this.begin_writes();
            if this.stopping && !this.pods.values().any(LocalPod::is_alive) {
                if this.pods.values().all(LocalPod::is_settled) {
                    break;
                }
                give_up_at = give_up_at.or_else(|| Some(clock.now() + LAST_WRITES));
            }
        }
        let keys: Vec<u64> = this.pods.keys().copied().collect();
        keys.into_iter().for_each(|key| this.cancel_all(key));
        this.context.halt.cancel();
    }

    fn now(&self) -> Time {
        self.context.clock.now()
    }

    /// Looks at every machine whose time has come.
    fn run_due(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        due.extend(self.timers.range(..=(self.now(), u64::MAX)).map(|(_, key)| *key));
        for key in due.drain(..) {
            match key {
                MARKERS => self.step_markers(None),
                RUNTIME => self.list_due(),
                pod => self.step(pod, None),
            }
        }
        self.due = due;
    }

    /// Tells a machine something and does what it says.
    fn step(&mut self, key: u64, input: Option<Input>) {
        let now = self.now();
        let Some(local) = self.pods.get_mut(&key) else { return };
        let mut effects = std::mem::take(&mut self.effects);
        local.machine.step(now, input, &mut effects);
        if let Source::Runtime(runtime) = &self.source
            && local.machine.revision() != local.revision
        {
            local.take_instances(runtime.client());
        }
        let wanted = local.machine.deadline();
        if local.timer != wanted {
            if let Some(before) = std::mem::replace(&mut local.timer, wanted) {
                self.timers.remove(&(before, key));
            }
            self.timers.extend(wanted.map(|at| (at, key)));
        }
        for effect in effects.drain(..) {
            self.perform(now, key, effect);
        }
        // Nobody has a use for it any more.
        self.begun = None;
        self.effects = effects;
        self.tell_markers(key);
    }

    fn pod_seen(&mut self, seen: WatchEvent<Pod>) {
        match seen {
            WatchEvent::Applied(object) => self.pod_applied(object),
            WatchEvent::Deleted(object) => {
                if let Some(key) = self.by_uid.get(&object.view.metadata.uid) {
                    self.step(*key, Some(Input::Gone));
                }
                self.look_for_kruise_daemon(&object.view, true);
            }
            WatchEvent::ListBegins => {}
            WatchEvent::Synced => self.remove_orphans(),
        }
    }

    fn pod_applied(&mut self, object: Obj<Pod>) {
        let uid = object.view.metadata.uid.clone();
        if !self.source.has_processes() {
            self.look_for_kruise_daemon(&object.view, false);
        }
        let key = match self.by_uid.get(&uid) {
            Some(key) => {
                let key = *key;
                let view = Box::new((*object.view).clone());
                if let Some(local) = self.pods.get_mut(&key) {
                    local.object = object;
                }
                self.step(key, Some(Input::Applied(view)));
                key
            }
            None if self.stopping => return,
            None => match self.begin_pod(object) {
                Some(key) => key,
                None => return,
            },
        };
        self.await_drain(key);
    }

    /// Takes a pod that is new to this agent.
    fn begin_pod(&mut self, object: Obj<Pod>) -> Option<u64> {
        let view = (*object.view).clone();
        let uid = view.metadata.uid.clone();
        // A pod of the same name that is another one has replaced it.
        let same = |local: &LocalPod| local.name == view.metadata.name && local.namespace == view.metadata.namespace;
        let replaced: Vec<u64> = self.pods.iter().filter(|(_, local)| same(local)).map(|(key, _)| *key).collect();
        for key in replaced {
            self.step(key, Some(Input::Gone));
        }
        self.serial += 1;
        let key = self.serial;
        let (local, first) = match &mut self.source {
            Source::Processes { .. } => (self.own_pod(key, view, object)?, None),
            Source::Runtime(runtime) => {
                let machine = PodLife::Kubelet(Box::new(KubeletPod::new(view, &self.settings, self.rng.fork())));
                (LocalPod::new(machine, object, None, None), runtime.is_away().then_some(Input::RuntimeAway))
            }
        };
        self.pods.insert(key, local);
        self.by_uid.insert(uid, key);
        self.step(key, first);
        self.list_due();
        Some(key)
    }

    /// Takes a pod whose containers are processes of this agent.
    fn own_pod(&mut self, key: u64, view: Pod, object: Obj<Pod>) -> Option<LocalPod> {
        let uid = view.metadata.uid.clone();
        let Some(dir) = self.context.processes().layout.pod(&uid) else {
            tracing::warn!(pod = view.metadata.name, uid, "the uid of a pod cannot be the name of a directory");
            return None;
        };
        let adopted = match &mut self.source {
            Source::Processes { adopted, .. } => adopted.remove(&uid).unwrap_or_default(),
            Source::Runtime(_) => Adopted::default(),
        };
        let address = self.address_of(&view, adopted.address);
        tracing::info!(
            pod = view.metadata.name,
            namespace = view.metadata.namespace,
            uid,
            found = adopted.found.len(),
            "pod taken"
        );
        let machine = PodMachine::new(self.now(), view, adopted.found, Arc::clone(&self.settings), self.rng.fork());
        let mut local = LocalPod::new(PodLife::Processes(Box::new(machine)), object, Some(dir), address);
        local.take_over(adopted.running, &self.context, key);
        Some(local)
    }

    fn service_seen(&mut self, seen: WatchEvent<Service>) {
        match seen {
            WatchEvent::Applied(object) => drop(self.services.insert(object.view.metadata.key(), (*object.view).clone())),
            WatchEvent::Deleted(object) => drop(self.services.remove(&object.view.metadata.key())),
            WatchEvent::ListBegins | WatchEvent::Synced => {}
        }
    }

    /// Has a pod that is being deleted told when nobody sends it traffic any more.
    fn await_drain(&mut self, key: u64) {
        let (Some(drains), Some(local)) = (&self.drains, self.pods.get_mut(&key)) else { return };
        let mut pod = Pod { metadata: local.machine.pod().metadata.clone(), ..Pod::default() };
        if !pod.metadata.deleting() || std::mem::replace(&mut local.drain_awaited, true) {
            return;
        }
        pod.status.pod_ips = local.address.iter().map(|address| PodIp { ip: address.to_string() }).collect();
        let (drains, context) = (drains.clone(), Arc::clone(&self.context));
        self.context.spawn(async move {
            // The machine does not wait for ever.
            let _ = tokio::time::timeout(DRAIN_LIMIT, drains.drained(&pod)).await;
            context.fact(key, Input::Drained).await;
        });
    }

    fn begin_stop(&mut self) {
        self.stopping = true;
        let keys: Vec<u64> = self.pods.keys().copied().collect();
        tracing::info!(pods = keys.len(), on_stop = ?self.on_stop, "agent stops");
        match self.on_stop {
            OnStop::Drain => {
                for key in keys {
                    self.step(key, Some(Input::Stop));
                }
            }
            // What they do is left to the next agent.
            OnStop::Leave => {
                self.pods.clear();
                self.timers.clear();
            }
        }
    }
}

/// Waits for the next event of a watch that there may not be.
async fn next_of<T: Send + Sync + 'static>(events: &mut Option<Events<T>>) -> WatchEvent<T> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
