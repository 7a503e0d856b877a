//! A pod on this node: its machine, and what the machine does not know of: instances, attempts, hooks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use api::json::{items, text};
use api::{Pod, ProbeType};
use machine::Time;
use markers::agent::ContainerNews;
use pods::ContainerPhase;
use pods::Hook;
use probe::{Outcome, Report};
use processes::container::Running;
use processes::layout::PodDir;
use runtime::Obj;
use tokio::task::AbortHandle;

use super::attempts::{ActiveAttempt, Prepared};
use super::containers::{AgentContext, CachedReferences, watch_over};
use super::life::PodLife;
use super::port_owners::PortOwners;
use crate::executors::{Instance, RuntimeContainer};

/// Outcomes that `/debug/probes` shows per worker.
const HISTORY: usize = 20;

/// A pod on this node.
pub(super) struct LocalPod {
    pub(super) machine: PodLife,
    pub(super) namespace: String,
    pub(super) name: String,
    /// As the API has it.
    pub(super) object: Obj<Pod>,
    /// Where its processes are; `None`: a kubelet runs it.
    pub(super) dir: Option<PodDir>,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) timer: Option<Time>,
    pub(super) containers: HashMap<Arc<str>, LocalContainer>,
    pub(super) port_owners: Arc<PortOwners>,
    pub(super) hooks: HashMap<(Arc<str>, Hook), AbortHandle>,
    pub(super) known: CachedReferences,
    pub(super) drain_awaited: bool,
    /// When an attempt ended whose result is not in the API yet.
    pub(super) changed_at: Option<Time>,
    /// When the attempt ended that the machine is being told of.
    pub(super) attempt_at: Option<Time>,
    /// What the markers' machine was told of the containers, and when that was worth a look.
    pub(super) container_news: HashMap<String, ContainerNews>,
    pub(super) revision: u64,
}

/// A container of a pod on this node.
#[derive(Default)]
pub(super) struct LocalContainer {
    pub(super) running: Option<Arc<Running>>,
    /// The instance, if a kubelet runs it.
    pub(super) in_runtime: Option<RuntimeContainer>,
    pub(super) started_at: Option<Time>,
    /// It was ready once; for the metric.
    pub(super) was_ready: bool,
    /// In the order of [`ProbeType::ALL`].
    pub(super) workers: [Worker; 3],
}

/// What the loop keeps of a worker.
#[derive(Default)]
pub(super) struct Worker {
    /// Made by the first attempt of an instance.
    pub(super) prepared: Option<Arc<Prepared>>,
    pub(super) active: Option<ActiveAttempt>,
    pub(super) history: VecDeque<FinishedAttempt>,
    /// Knocks at this instance that were refused, but for those that are still going on.
    pub(super) knocks: u64,
    /// When the first attempt at this instance that succeeded began and ended.
    pub(super) first_success: Option<(Time, Time)>,
}

/// An attempt that has ended.
#[derive(Clone, Debug)]
pub(super) struct FinishedAttempt {
    pub(super) began: Time,
    pub(super) ended: Time,
    pub(super) outcome: Outcome,
    /// Why it failed, cut: many workers keep many of these.
    pub(super) message: Box<str>,
}

impl FinishedAttempt {
    /// Longer messages are cut; the event of the attempt has more.
    const MESSAGE_BYTES_MAX: usize = 200;

    pub(super) fn new(began: Time, ended: Time, report: &Report) -> FinishedAttempt {
        let message = &report.message[..report.message.floor_char_boundary(FinishedAttempt::MESSAGE_BYTES_MAX)];
        FinishedAttempt { began, ended, outcome: report.outcome, message: message.into() }
    }
}

impl Worker {
    /// Another instance of the container begins; the history goes on.
    fn begin_instance(&mut self) {
        (self.prepared, self.knocks, self.first_success) = (None, 0, None);
    }

    pub(super) fn remember(&mut self, finished: FinishedAttempt) {
        if matches!(finished.outcome, Outcome::Success | Outcome::Warning) {
            self.first_success.get_or_insert((finished.began, finished.ended));
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(finished);
    }
}

/// Returns the place of a probe in [`LocalContainer::workers`].
pub(super) fn place(probe: ProbeType) -> usize {
    match probe {
        ProbeType::Liveness => 0,
        ProbeType::Readiness => 1,
        ProbeType::Startup => 2,
    }
}

impl LocalPod {
    pub(super) fn is_alive(&self) -> bool {
        self.machine.is_alive()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.machine.is_settled()
    }

    pub(super) fn local_container(&mut self, container: &Arc<str>) -> &mut LocalContainer {
        self.containers.entry(Arc::clone(container)).or_default()
    }

    /// Returns the instance of a container that runs, if it is this one.
    pub(super) fn running(&self, container: &str, id: &str) -> Option<&Arc<Running>> {
        self.containers.get(container)?.running.as_ref().filter(|running| running.id() == id)
    }

    /// Returns the instance of a container that runs, if it is this one; `None`: whichever it is.
    pub(super) fn instance(&self, container: &str, id: Option<&str>) -> Option<Instance> {
        let known = self.containers.get(container)?;
        let process = known.running.clone().map(Instance::Process);
        let instance = process.or_else(|| known.in_runtime.clone().map(Instance::Runtime))?;
        id.is_none_or(|id| id == instance.id()).then_some(instance)
    }

    /// Takes note of the instances of a pod that a kubelet runs.
    pub(super) fn take_instances(&mut self, client: &Arc<cri::Client>) {
        let views = self.machine.containers().map(|view| {
            let id = view.id.filter(|_| view.phase == ContainerPhase::Running).map(str::to_owned);
            (Arc::from(view.name), id, view.started_at)
        });
        let views: Vec<(Arc<str>, Option<String>, Option<Time>)> = views.collect();
        for (name, id, started_at) in views {
            let before = self.local_container(&name).in_runtime.take();
            let Some(id) = id else { continue };
            if let Some(before) = before.filter(|before| before.id() == id) {
                self.local_container(&name).in_runtime = Some(before);
                continue;
            }
            let env = literal_environment(&self.object, &name);
            let known = self.local_container(&name);
            known.in_runtime = Some(RuntimeContainer::new(Arc::clone(client), &id, env));
            (known.started_at, known.was_ready) = (started_at, false);
            for worker in &mut known.workers {
                worker.begin_instance();
            }
        }
    }

    /// Takes note of an instance that runs.
    pub(super) fn runs(&mut self, container: &Arc<str>, running: Arc<Running>, at: Time) {
        self.port_owners.change(|all| all.push(Arc::clone(&running)));
        let local_container = self.local_container(container);
        (local_container.running, local_container.started_at, local_container.was_ready) = (Some(running), Some(at), false);
        for worker in &mut local_container.workers {
            worker.begin_instance();
        }
    }

    /// Takes note of the end of an instance.
    pub(super) fn ended(&mut self, container: &str, id: &str) {
        self.port_owners.change(|all| all.retain(|running| running.id() != id));
        if let Some(local_container) =
            self.containers.get_mut(container).filter(|known| known.running.as_ref().is_some_and(|r| r.id() == id))
        {
            local_container.running = None;
        }
    }

    /// Takes over what an earlier agent left running, and watches over it.
    pub(super) fn take_over(&mut self, running: Vec<(String, Arc<Running>)>, context: &Arc<AgentContext>, key: u64) {
        for (container, running) in running {
            let container = Arc::<str>::from(container);
            self.runs(&container, Arc::clone(&running), running.started_at());
            context.spawn(watch_over(Arc::clone(context), key, container, running));
        }
    }

    pub(super) fn new(machine: PodLife, object: Obj<Pod>, dir: Option<PodDir>, address: Option<Ipv4Addr>) -> LocalPod {
        let meta = &machine.pod().metadata;
        LocalPod {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            machine,
            object,
            dir,
            address,
            timer: None,
            containers: HashMap::new(),
            port_owners: Arc::default(),
            hooks: HashMap::new(),
            known: CachedReferences::default(),
            drain_awaited: false,
            changed_at: None,
            attempt_at: None,
            container_news: HashMap::new(),
            revision: 0,
        }
    }
}

/// Returns the environment of a container as far as its spec says it in plain text; what comes from elsewhere is empty, as it is to
/// a kubelet that expands the command of a probe.
fn literal_environment(object: &Obj<Pod>, container: &str) -> BTreeMap<String, String> {
    let pod = object.json();
    let lists = ["initContainers", "containers"].into_iter().flat_map(|list| items(&pod, &["spec", list]));
    let found = lists.into_iter().find(|spec| text(spec, &["name"]) == container);
    let entries = found.into_iter().flat_map(|spec| items(spec, &["env"]));
    entries.map(|entry| (text(entry, &["name"]).to_owned(), text(entry, &["value"]).to_owned())).collect()
}
