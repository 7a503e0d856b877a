//! A pod on this node: its machine, and what the machine does not know of: processes, attempts, hooks.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, RwLock};

use api::ProbeType;
use machine::Time;
use markers::agent::ContainerNews;
use pods::{Hook, PodMachine};
use probe::Outcome;
use serde_json::Value;
use tokio::task::AbortHandle;

use super::attempts::{Prepared, Under};
use super::containers::{Known, Surround, watch_over};
use crate::container::Running;
use crate::layout::PodDir;

/// Outcomes that `/debug/probes` shows per worker; spec probes 8.
const HISTORY: usize = 20;

/// The processes of a pod, shared with attempts that ask whose socket answered.
pub(super) type Processes = Arc<RwLock<Answering>>;

/// The containers of a pod that run, and the ports where it is known that they answer.
#[derive(Default)]
pub(super) struct Answering {
    pub(super) running: Vec<Arc<Running>>,
    /// Asking the kernel is dear, and several probes often ask the same port. Forgotten whenever a container starts or ends.
    ports: BTreeSet<u16>,
    changes: u64,
}

impl Answering {
    /// Changes which containers run.
    fn change(&mut self, change: impl FnOnce(&mut Vec<Arc<Running>>)) {
        change(&mut self.running);
        self.ports.clear();
        self.changes += 1;
    }

    /// Returns whether it is known that the pod answers on a port.
    pub(super) fn is_own(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// Returns what runs, and a mark to tell later whether that has changed.
    pub(super) fn look(&self) -> (Vec<Arc<Running>>, u64) {
        (self.running.clone(), self.changes)
    }

    /// Takes note that the pod answers on a port, unless its containers have changed since the mark.
    pub(super) fn owns(&mut self, port: u16, mark: u64) {
        if mark == self.changes {
            self.ports.insert(port);
        }
    }
}

/// A pod on this node.
pub(super) struct Local {
    pub(super) machine: Box<PodMachine>,
    pub(super) namespace: String,
    pub(super) name: String,
    /// As the API has it.
    pub(super) raw: Arc<Value>,
    pub(super) dir: PodDir,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) timer: Option<Time>,
    pub(super) units: HashMap<Arc<str>, Unit>,
    pub(super) processes: Processes,
    pub(super) hooks: HashMap<(Arc<str>, Hook), AbortHandle>,
    pub(super) known: Known,
    pub(super) drain_awaited: bool,
    /// When an attempt ended whose result is not in the API yet.
    pub(super) changed_at: Option<Time>,
    /// When the attempt ended that the machine is being told of.
    pub(super) attempt_at: Option<Time>,
    /// What the markers' machine was told of the containers, and when that was worth a look.
    pub(super) told: HashMap<String, ContainerNews>,
    pub(super) revision: u64,
}

/// A container of a pod on this node.
#[derive(Default)]
pub(super) struct Unit {
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
    pub(super) under: Option<Under>,
    pub(super) history: VecDeque<Past>,
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) began: Time,
    pub(super) ended: Time,
    pub(super) outcome: Outcome,
}

impl Worker {
    pub(super) fn remember(&mut self, past: Past) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(past);
    }
}

/// Returns the place of a probe in [`Unit::workers`].
pub(super) fn place(probe: ProbeType) -> usize {
    match probe {
        ProbeType::Liveness => 0,
        ProbeType::Readiness => 1,
        ProbeType::Startup => 2,
    }
}

impl Local {
    pub(super) fn is_alive(&self) -> bool {
        self.machine.is_alive()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.machine.is_settled()
    }

    pub(super) fn unit(&mut self, container: &Arc<str>) -> &mut Unit {
        self.units.entry(Arc::clone(container)).or_default()
    }

    /// Returns the instance of a container that runs, if it is this one.
    pub(super) fn running(&self, container: &str, id: &str) -> Option<&Arc<Running>> {
        self.units.get(container)?.running.as_ref().filter(|running| running.id() == id)
    }

    /// Takes note of an instance that runs.
    pub(super) fn runs(&mut self, container: &Arc<str>, running: Arc<Running>, at: Time) {
        self.processes.write().expect("nothing panics while it is held").change(|all| all.push(Arc::clone(&running)));
        let unit = self.unit(container);
        (unit.running, unit.started_at, unit.was_ready) = (Some(running), Some(at), false);
        for worker in &mut unit.workers {
            worker.prepared = None;
        }
    }

    /// Takes note of the end of an instance.
    pub(super) fn ended(&mut self, container: &str, id: &str) {
        self.processes.write().expect("nothing panics while it is held").change(|all| all.retain(|running| running.id() != id));
        if let Some(unit) = self.units.get_mut(container).filter(|unit| unit.running.as_ref().is_some_and(|r| r.id() == id)) {
            unit.running = None;
        }
    }

    /// Takes over what an earlier agent left running, and watches over it.
    pub(super) fn take_over(&mut self, running: Vec<(String, Arc<Running>)>, surround: &Arc<Surround>, key: u64) {
        for (container, running) in running {
            let container = Arc::<str>::from(container);
            self.runs(&container, Arc::clone(&running), running.started_at());
            surround.spawn(watch_over(Arc::clone(surround), key, container, running));
        }
    }

    pub(super) fn new(machine: PodMachine, raw: Arc<Value>, dir: PodDir, address: Option<Ipv4Addr>) -> Local {
        let meta = &machine.pod().metadata;
        Local {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            machine: Box::new(machine),
            raw,
            dir,
            address,
            timer: None,
            units: HashMap::new(),
            processes: Processes::default(),
            hooks: HashMap::new(),
            known: Known::default(),
            drain_awaited: false,
            changed_at: None,
            attempt_at: None,
            told: HashMap::new(),
            revision: 0,
        }
    }
}
