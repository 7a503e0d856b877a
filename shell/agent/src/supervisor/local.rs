//! A pod on this node: its machine, and what the machine does not know of: processes, attempts, hooks.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use api::{Pod, ProbeType};
use machine::Time;
use markers::agent::ContainerNews;
use pods::{Hook, PodMachine};
use probe::Outcome;
use processes::container::Running;
use processes::layout::PodDir;
use runtime::Obj;
use tokio::task::AbortHandle;

use super::attempts::{ActiveAttempt, Prepared};
use super::containers::{AgentContext, CachedReferences, watch_over};
use super::port_owners::PortOwners;

/// Outcomes that `/debug/probes` shows per worker.
const HISTORY: usize = 20;

/// A pod on this node.
pub(super) struct LocalPod {
    pub(super) machine: Box<PodMachine>,
    pub(super) namespace: String,
    pub(super) name: String,
    /// As the API has it.
    pub(super) object: Obj<Pod>,
    pub(super) dir: PodDir,
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
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedAttempt {
    pub(super) began: Time,
    pub(super) ended: Time,
    pub(super) outcome: Outcome,
}

impl Worker {
    pub(super) fn remember(&mut self, finished: FinishedAttempt) {
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

    /// Takes note of an instance that runs.
    pub(super) fn runs(&mut self, container: &Arc<str>, running: Arc<Running>, at: Time) {
        self.port_owners.change(|all| all.push(Arc::clone(&running)));
        let local_container = self.local_container(container);
        (local_container.running, local_container.started_at, local_container.was_ready) = (Some(running), Some(at), false);
        for worker in &mut local_container.workers {
            (worker.prepared, worker.knocks) = (None, 0);
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

    pub(super) fn new(machine: PodMachine, object: Obj<Pod>, dir: PodDir, address: Option<Ipv4Addr>) -> LocalPod {
        let meta = &machine.pod().metadata;
        LocalPod {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            machine: Box::new(machine),
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
