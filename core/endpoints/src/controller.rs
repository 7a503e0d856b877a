//! The controller as a machine: facts and answers go in, writes, events and measurements come out.
//!
//! A shell watches pods, Services, nodes and EndpointSlices, hands every event over as an [`Input`], performs the
//! [`Effect`]s and hands the answers back. Nothing is written before all four lists have been read once. A Service has one
//! sync at a time; what happens meanwhile causes one more. The answers to own writes are part of what is known, so there is
//! no phase in which the cache is behind own writes; events of a Service's slices that arrive while its writes are under way
//! are judged when the answers are there.

mod pending_sync;
mod queue;
mod sync;

pub use sync::{FAILED_TO_UPDATE, HINTS_DISABLED};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{EndpointSlice, Event, Node, ObjectMeta, Pod, Service, Write, WriteFailure};
use machine::{Bucket, Machine, Time};

use crate::controller::pending_sync::PendingSync;
use crate::controller::queue::Queue;
use crate::index::{Index, ObjectKey, SliceEvent};
pub use crate::index::{Resource, ServiceKey};
use crate::metrics::{Gauges, Metric};
use crate::requeue::Delays;
use crate::retry;
use crate::settings::Config;

/// A fact.
#[derive(Clone, Debug)]
pub enum Input {
    /// A list of everything of a kind begins; what it does not name by its end is gone.
    ListStarted(Resource),
    /// The list is complete. Nothing is written before every kind was listed once.
    ListEnded(Resource),
    /// A pod was added or changed.
    Pod(Arc<Pod>),
    /// A pod is gone.
    PodDeleted {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A Service was added or changed.
    Service(Arc<Service>),
    /// A Service is gone.
    ServiceDeleted {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node was added or changed.
    Node(Arc<Node>),
    /// A node is gone.
    NodeDeleted {
        /// Its name.
        name: String,
    },
    /// A slice, whoever manages it, was added or changed.
    Slice(Arc<EndpointSlice>),
    /// A slice is gone; its last state.
    SliceDeleted(Arc<EndpointSlice>),
    /// A write was answered. Every write must be, also when its connection broke.
    Answered {
        /// Which one.
        id: u64,
        /// How.
        answer: Answer,
    },
}

/// The answer to a write.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The create or update was done; the metadata of the slice as it is now.
    Written(Box<ObjectMeta>),
    /// The delete was done.
    Deleted,
    /// It was not done, or nobody knows.
    Failed(WriteFailure),
}

/// What must be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write a slice. Those of one step may be sent at the same time.
    Write {
        /// The Service that it is for; the slice is in the same namespace.
        service: ServiceKey,
        /// The request.
        write: Write,
    },
    /// Write an event.
    Event(Event),
    /// Add a measurement.
    Metric(Metric),
}

/// The EndpointSlice controller.
#[derive(Clone, Debug)]
pub struct Controller {
    config: Config,
    index: Index,
    lists: BTreeMap<Resource, List>,
    queue: Queue,
    pending_syncs: BTreeMap<ServiceKey, PendingSync>,
    /// Slices of which events wait, and the Service for whose sync they wait.
    waiting: BTreeMap<ObjectKey, ServiceKey>,
    writes: BTreeMap<u64, ServiceKey>,
    next_write: u64,
    retries: BTreeMap<ServiceKey, Retry>,
    bucket: Bucket,
    /// Services that were told that hints by share are not provided.
    auto_noted: BTreeSet<ServiceKey>,
}

/// How far the list of a kind is.
#[derive(Clone, Debug, Default)]
struct List {
    /// It was read to its end once.
    read: bool,
    /// What was named since the list that is being read began.
    named: Option<BTreeSet<ObjectKey>>,
}

/// A Service whose last sync did not succeed.
#[derive(Clone, Debug, Default)]
struct Retry {
    failures: u32,
    /// Slices whose update met a conflict, with the resourceVersion that was too old.
    stale: BTreeMap<String, String>,
    /// When to try again even if nothing newer was seen of them.
    at: Time,
}

impl Controller {
    /// Returns a controller that knows nothing yet.
    pub fn new(config: Config) -> Controller {
        Controller {
            config,
            index: Index::new(config.settings),
            lists: BTreeMap::new(),
            queue: Queue::default(),
            pending_syncs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            writes: BTreeMap::new(),
            next_write: 0,
            retries: BTreeMap::new(),
            bucket: retry::bucket(),
            auto_noted: BTreeSet::new(),
        }
    }

    /// Returns what is true now, over all Services.
    pub fn gauges(&self) -> &Gauges {
        self.index.gauges()
    }

    /// Returns whether every kind was listed once, so that syncs may begin.
    pub fn started(&self) -> bool {
        let kinds = [Resource::Pods, Resource::Services, Resource::Nodes, Resource::Slices];
        kinds.iter().all(|kind| self.lists.get(kind).is_some_and(|list| list.read))
    }

    /// Returns whether nothing is queued or under way.
    pub fn idle(&self) -> bool {
        self.queue.first().is_none() && self.pending_syncs.is_empty()
    }

    fn delays(&self) -> Delays {
        Delays { batch: self.config.batch }
    }

    fn take(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        let delays = self.delays();
        match input {
            Input::ListStarted(resource) => self.lists.entry(resource).or_default().named = Some(BTreeSet::new()),
            Input::ListEnded(resource) => self.list_ended(now, resource),
            Input::Pod(pod) => {
                self.name(Resource::Pods, &pod.metadata.namespace, &pod.metadata.name);
                let queued = self.index.apply_pod(now, &pod);
                self.enqueue_all(queued, now + delays.pod());
            }
            Input::PodDeleted { namespace, name } => {
                let queued = self.index.delete_pod(now, &namespace, &name);
                self.enqueue_all(queued, now + delays.pod());
            }
            Input::Service(service) => {
                self.name(Resource::Services, &service.metadata.namespace, &service.metadata.name);
                let key = self.index.apply_service(now, &service);
                self.service_changed(&key);
                self.enqueue(key, now + delays.service());
            }
            Input::ServiceDeleted { namespace, name } => {
                self.service_deleted(now, &ServiceKey { namespace: namespace.into(), name: name.into() });
            }
            Input::Node(node) => {
                self.name(Resource::Nodes, "", &node.metadata.name);
                let queued = self.index.apply_node(now, &node);
                self.enqueue_all(queued, now + delays.pod());
            }
            Input::NodeDeleted { name } => self.index.delete_node(now, &name),
            Input::Slice(slice) => {
                self.name(Resource::Slices, &slice.metadata.namespace, &slice.metadata.name);
                self.slice_event(now, SliceEvent::Applied(slice));
            }
            Input::SliceDeleted(slice) => self.slice_event(now, SliceEvent::Deleted(slice)),
            Input::Answered { id, answer } => self.answered(now, id, answer, effects),
        }
    }

    /// Notes that an object is there, for the list that is being read.
    fn name(&mut self, resource: Resource, namespace: &str, name: &str) {
        if let Some(named) = self.lists.get_mut(&resource).and_then(|list| list.named.as_mut()) {
            named.insert((namespace.into(), name.into()));
        }
    }

    /// Drops what a list did not name.
    fn list_ended(&mut self, now: Time, resource: Resource) {
        let list = self.lists.entry(resource).or_default();
        list.read = true;
        let Some(named) = list.named.take() else { return };
        let at = now + self.delays().pod();
        if resource == Resource::Slices {
            self.index.relisted();
        }
        for key in self.index.known(resource).difference(&named) {
            match resource {
                Resource::Pods => {
                    let queued = self.index.delete_pod(now, &key.0, &key.1);
                    self.enqueue_all(queued, at);
                }
                Resource::Services => {
                    self.service_deleted(now, &ServiceKey { namespace: Arc::clone(&key.0), name: Arc::clone(&key.1) });
                }
                Resource::Nodes => self.index.delete_node(now, &key.1),
                Resource::Slices => {
                    if let Some(event) = self.index.gone(key) {
                        self.slice_event(now, event);
                    }
                }
            }
        }
    }

    fn service_deleted(&mut self, now: Time, key: &ServiceKey) {
        self.index.delete_service(now, key);
        self.service_changed(key);
        self.queue.remove(key);
        self.retries.remove(key);
        self.auto_noted.remove(key);
    }

    /// Lets go of the writes of a Service that is no longer the one they are for.
    fn service_changed(&mut self, key: &ServiceKey) {
        let uid = self.index.entry(key).and_then(|entry| entry.service.as_ref()).map(|service| service.uid.as_str());
        if let Some(pending) = self.pending_syncs.get_mut(key)
            && uid != Some(pending.service_uid.as_str())
        {
            pending.abandoned = true;
        }
    }

    fn slice_event(&mut self, now: Time, event: SliceEvent) {
        let concerned = self.index.concerned(&event);
        let key = object_key(&event);
        // What comes after an event that waits must wait with it, whomever it concerns: the older one would be believed last.
        let before =
            self.waiting.get(&key).or_else(|| concerned.iter().find(|key| self.pending_syncs.contains_key(*key))).cloned();
        if let Some(service) = before {
            let pending = self.pending_syncs.get_mut(&service).expect("events wait for a sync that is under way");
            pending.events.push(event);
            // Whoever else it concerns must not decide without it.
            pending.holds.extend(concerned.into_iter().filter(|other| *other != service));
            self.waiting.insert(key, service);
            return;
        }
        let delay = self.delays().slice();
        let slice = event.slice().metadata.name.clone();
        let revision = match &event {
            SliceEvent::Applied(slice) => Some(slice.metadata.resource_version.clone()),
            SliceEvent::Deleted(_) => None,
        };
        let queued = self.index.apply_slice(event);
        self.enqueue_all(queued, now + delay);
        for key in concerned {
            self.refreshed(now, key, &slice, revision.as_ref());
        }
    }

    /// Starts a sync that waited for newer news of a slice; without revision: it is gone.
    fn refreshed(&mut self, now: Time, key: ServiceKey, slice: &str, revision: Option<&String>) {
        let Some(retry) = self.retries.get_mut(&key) else { return };
        if retry.stale.get(slice).is_some_and(|old| Some(old) != revision) {
            retry.stale.remove(slice);
            if retry.stale.is_empty() {
                self.enqueue(key, now);
            }
        }
    }

    fn enqueue_all(&mut self, keys: Vec<ServiceKey>, at: Time) {
        keys.into_iter().for_each(|key| self.enqueue(key, at));
    }

    fn enqueue(&mut self, key: ServiceKey, at: Time) {
        match self.pending_syncs.get_mut(&key) {
            Some(pending) => pending.again = pending.again.into_iter().chain([at]).min(),
            None => self.queue.add(key, at),
        }
    }
}

fn object_key(event: &SliceEvent) -> ObjectKey {
    let metadata = &event.slice().metadata;
    (metadata.namespace.as_str().into(), metadata.name.as_str().into())
}

impl Machine for Controller {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.take(now, input, effects);
        }
        if !self.started() {
            return;
        }
        while self.pending_syncs.len() < self.config.concurrent_syncs {
            let Some(key) = self.queue.pop(now) else { break };
            match self.pending_syncs.values_mut().find(|pending| pending.holds.contains(&key)) {
                Some(pending) => pending.held.push(key),
                None => self.sync(now, key, effects),
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        let free = self.started() && self.pending_syncs.len() < self.config.concurrent_syncs;
        self.queue.first().filter(|_| free)
    }
}
