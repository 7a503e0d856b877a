//! Probes of markers on this node: feeds `markers::Agent` and carries out what it says.
//!
//! The machine shares everything with those of pods: the loop, the timer queue (as [`MARKERS`]), the places for attempts,
//! the queue of status writes. It learns of containers from the machines of their pods, before anybody else does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::marker::NodePodProbe;
use api::{Pod, WriteError};
use machine::{Machine, Rng, Time};
use markers::agent::{Agent, ContainerNews, Effect, Finished, Input, Launch, Runtime, WorkerKey, status_write};
use pods::{ContainerPhase, ContainerView};
use probe::outcome::Discarded;
use probe::{NodePolicy, Report};
use runtime::WatchEvent;

use super::Supervisor;
use super::attempts::{ActiveAttempt, AttemptOwner, Prepared};
use crate::metrics::MarkerLabels;

/// The key of the markers' machine where pods have theirs; no pod gets it.
pub(crate) const MARKERS: u64 = 0;

/// The markers' machine, and what it does not know of: processes and attempts.
pub(super) struct Markers {
    pub(super) machine: Agent,
    workers: HashMap<Arc<WorkerKey>, Worker>,
    timer: Option<Time>,
    effects: Vec<Effect>,
    attempts: u32,
    suppressed: u64,
    /// The node's object, as the API has it.
    object: Option<Arc<NodePodProbe>>,
    /// Pods of this node that write the same object.
    kruise_daemons: HashSet<String>,
}

/// What the loop keeps of a worker.
struct Worker {
    labels: MarkerLabels,
    /// Made by the first attempt on an instance.
    prepared: Option<Arc<Prepared>>,
    /// The instance that is asked.
    container_id: String,
    active: Option<ActiveAttempt>,
}

impl Markers {
    pub(super) fn new(node: NodePolicy, rng: Rng) -> Markers {
        let machine = Agent::new(node, rng);
        Markers {
            machine,
            workers: HashMap::new(),
            timer: None,
            effects: Vec::new(),
            attempts: 0,
            suppressed: 0,
            object: None,
            kruise_daemons: HashSet::new(),
        }
    }

    /// Returns the containers that markers probe, by uid and name.
    pub(super) fn probed(&self) -> HashSet<(String, String)> {
        self.machine.views().map(|view| (view.key.uid.clone(), view.container.to_owned())).collect()
    }

    /// Returns where the attempt of a worker is kept while it waits or runs; `None`: the worker is gone.
    pub(super) fn active(&mut self, key: &WorkerKey) -> Option<&mut Option<ActiveAttempt>> {
        self.workers.get_mut(key).map(|worker| &mut worker.active)
    }
}

impl Supervisor {
    /// Takes what the API has of the node's own object.
    pub(super) fn node_pod_probe_seen(&mut self, seen: WatchEvent<NodePodProbe>) {
        match seen {
            WatchEvent::Applied(object) if object.view.metadata.name == self.context.node => {
                self.markers.object = Some(Arc::clone(&object.view));
                self.follow_markers();
            }
            WatchEvent::Deleted(object) if object.view.metadata.name == self.context.node => {
                self.markers.object = None;
                self.follow_markers();
            }
            WatchEvent::Applied(_) | WatchEvent::Deleted(_) | WatchEvent::ListBegins | WatchEvent::Synced => {}
        }
    }

    /// Has the machine do what the node's object says, unless that is another's business.
    fn follow_markers(&mut self) {
        let object = self.markers.object.clone().filter(|_| self.markers.kruise_daemons.is_empty());
        self.step_markers(Some(object.map_or(Input::NoSpec, |object| Input::Spec(Box::new((*object).clone())))));
        self.list_due();
    }

    /// Looks whether a pod of this node is the daemon of OpenKruise: two writers of one object would undo each other's work.
    pub(super) fn look_for_kruise_daemon(&mut self, pod: &Pod, gone: bool) {
        let had = !self.markers.kruise_daemons.is_empty();
        if gone || !markers::agent::is_kruise_daemon(pod) {
            self.markers.kruise_daemons.remove(&pod.metadata.uid);
        } else {
            self.markers.kruise_daemons.insert(pod.metadata.uid.clone());
        }
        let has = !self.markers.kruise_daemons.is_empty();
        if had != has {
            match has {
                true => tracing::warn!(
                    pod = pod.metadata.key(),
                    "kruise-daemon runs on this node: marker probes are left to it until it is gone"
                ),
                false => tracing::info!("kruise-daemon is gone from this node: marker probes are ours"),
            }
            self.follow_markers();
        }
    }

    /// Tells the markers' machine what has become of a pod's containers.
    pub(super) fn tell_markers(&mut self, pod: u64) {
        let Some(local) = self.pods.get_mut(&pod) else { return };
        let revision = local.machine.revision();
        if std::mem::replace(&mut local.revision, revision) == revision {
            return;
        }
        let uid = local.machine.uid();
        let all: Vec<ContainerNews> = local.machine.containers().map(|view| news(uid, &view)).collect();
        for news in all {
            let container_news =
                self.pods.get_mut(&pod).and_then(|local| local.container_news.insert(news.name.clone(), news.clone()));
            if container_news.as_ref() != Some(&news) {
                self.step_markers(Some(Input::Container(news)));
            }
        }
    }

    /// Tells the markers' machine something and does what it says.
    pub(super) fn step_markers(&mut self, input: Option<Input>) {
        let now = self.now();
        let markers = &mut self.markers;
        let mut effects = std::mem::take(&mut markers.effects);
        markers.machine.step(now, input, &mut effects);
        let wanted = markers.machine.deadline();
        if markers.timer != wanted {
            if let Some(before) = std::mem::replace(&mut markers.timer, wanted) {
                self.timers.remove(&(before, MARKERS));
            }
            self.timers.extend(wanted.map(|at| (at, MARKERS)));
        }
        let suppressed = markers.machine.messages_suppressed();
        self.metrics.markers.suppressed(suppressed - std::mem::replace(&mut markers.suppressed, suppressed));
        for effect in effects.drain(..) {
            self.perform_marker(effect);
        }
        self.markers.effects = effects;
    }

    fn perform_marker(&mut self, effect: Effect) {
        match effect {
            Effect::Launch(launch) => self.launch_marker(*launch),
            Effect::Abandon(key) => {
                if let Some(active) = self.markers.active(&key).and_then(Option::take) {
                    self.attempts.cancel(&active);
                }
            }
            Effect::Started(key) => {
                let labels = MarkerLabels::new(self.markers.machine.namespace(&key).unwrap_or_default(), &key.entry);
                self.metrics.markers.worker_began(&labels);
                let worker = Worker { labels, prepared: None, container_id: String::new(), active: None };
                self.markers.workers.insert(Arc::new(key), worker);
            }
            Effect::Stopped(key) => {
                let Some(worker) = self.markers.workers.remove(&key) else { return };
                self.metrics.markers.worker_ended(&worker.labels);
                if let Some(active) = worker.active {
                    self.attempts.cancel(&active);
                }
            }
            Effect::Updated(key) => {
                if let Some(worker) = self.markers.workers.get_mut(&key) {
                    worker.prepared = None;
                }
            }
            Effect::Reported { worker, state, changed, .. } => {
                let Some(known) = self.markers.workers.get(&worker) else { return };
                if changed {
                    self.metrics.markers.changed(&known.labels, state);
                    tracing::info!(uid = worker.uid, probe = worker.entry, state = state.name(), "marker probe state");
                }
            }
            Effect::Overran(key) => {
                let handler = self.markers.workers.get(&key).and_then(|worker| Some(worker.prepared.as_ref()?.handler));
                if let Some(handler) = handler {
                    self.metrics.marker_overran(handler);
                }
            }
            Effect::Stale(_) => self.metrics.stale(),
            // A change of state decides about traffic as readiness does.
            Effect::Write(status) => {
                self.writes.push(MARKERS, Box::new(status_write(&self.context.node, &status)), true);
            }
            Effect::Event(event) => self.events.record(event),
        }
    }

    fn launch_marker(&mut self, launch: Launch) {
        let Launch { worker: key, container, container_id, probe, timeout, due, .. } = launch;
        let Some(worker) = self.markers.workers.get_mut(&key) else { return };
        if worker.container_id != container_id {
            (worker.prepared, worker.container_id) = (None, container_id);
        }
        let prepared = match &worker.prepared {
            Some(prepared) => Arc::clone(prepared),
            None => {
                // The address is that of the pod as this node knows it: an object that says otherwise is not believed.
                let local = self.by_uid.get(&key.uid).and_then(|pod| self.pods.get(pod));
                let running = local.and_then(|local| Some((local, local.instance(&container, Some(&worker.container_id))?)));
                let prepared = Arc::new(match &running {
                    Some((local, instance)) => Prepared::new(local, &self.context, &probe, &[], instance),
                    None => Prepared::of_nobody(&probe, Report::error(Discarded::Runtime, "the container has ended")),
                });
                // An address that is not known yet is asked for again.
                worker.prepared =
                    running.filter(|(local, _)| !local.ip(&self.context).is_empty()).map(|_| Arc::clone(&prepared));
                prepared
            }
        };
        self.markers.attempts = self.markers.attempts.wrapping_add(1);
        let attempt = self.markers.attempts;
        self.queue(AttemptOwner::Marker(Arc::new(key)), None, attempt, (due, timeout), prepared);
    }

    /// Takes the end of an attempt that was not given up.
    pub(super) fn marker_attempt_ended(&mut self, key: &WorkerKey, report: &Report, began: Time, ended: Time) {
        let Some(worker) = self.markers.workers.get(key) else { return };
        if let Some(prepared) = &worker.prepared {
            self.metrics.marker_ended(&worker.labels, prepared.handler, report, ended.since(began));
        }
        let end = Finished {
            worker: key.clone(),
            container_id: worker.container_id.clone(),
            began,
            outcome: report.outcome,
            message: report.marker_message(),
        };
        self.step_markers(Some(Input::Finished(end)));
    }

    /// Takes the end of a write of the node's object.
    pub(super) fn markers_written(&mut self, result: Result<(), WriteError>) {
        self.metrics.markers.wrote(result);
        self.step_markers(Some(Input::Written(result)));
    }
}

fn news(uid: &str, view: &ContainerView<'_>) -> ContainerNews {
    ContainerNews {
        uid: uid.to_owned(),
        name: view.name.to_owned(),
        id: view.id.unwrap_or_default().to_owned(),
        runtime: match view.phase {
            ContainerPhase::Running => Runtime::Running,
            ContainerPhase::New => Runtime::Waiting,
            ContainerPhase::Ended => Runtime::Terminated,
        },
        started_at: view.started_at,
        started: view.started,
    }
}
