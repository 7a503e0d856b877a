//! The service proxy: what is sent to a Service's address reaches one of its endpoints.
//!
//! Every TCP port of a Service with a loopback cluster IP has a listener while it has usable endpoints, and none
//! otherwise, so that the kernel refuses at once. Which endpoints are usable is decided by [`endpoints::usable_endpoints`];
//! what listens where by [`plan`](plan::plan). Established connections are never touched: an endpoint that drains keeps them.

mod backends;
mod connection;
mod connections;
pub mod drain;
mod listener;
mod metrics;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use api::endpointslice::TRIGGER_TIME_ANNOTATION;
use api::write::reference;
use api::{EndpointSlice, Event, EventType, ObjectMeta, Service, Timestamp};
use endpoints::usable::Mode;
use runtime::{Clock, EventWriter, Informers, WatchEvent, Writer};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::drain::Drains;
use backends::Backends;
pub use connections::Connections;
use listener::{Listener, ServicePortInfo};
pub use metrics::Metrics;

/// The reason of the event for a port that is not served.
const UNSUPPORTED: &str = "UnsupportedProtocol";
/// Connections that are carried at once, unless fewer files may be open; more wait to be accepted.
const CONNECTIONS_MAX: usize = 16_384;

/// Where the proxy counts and measures, and by which clock.
pub struct Measured {
    /// Connections by Service and endpoint.
    pub connections: Connections,
    /// What is exposed.
    pub metrics: Metrics,
    /// The clock of the process.
    pub clock: Clock,
}

/// Runs the proxy of a node until told to stop. It tells `drains` what it has acted on.
///
/// `connections` counts what it carries. It may read Services and EndpointSlices; for ports that must move it should be able to patch Services.
pub async fn run(
    writer: Writer,
    informers: Informers,
    node_name: String,
    events: EventWriter,
    drains: Drains,
    Measured { connections, metrics, clock }: Measured,
    stop: CancellationToken,
) {
    let (mut services, mut slices) = (informers.follow::<Service>(), informers.follow::<EndpointSlice>());
    let mut proxy = Proxy::new(writer, node_name, events, drains, connections, stop.clone());
    (proxy.metrics, proxy.clock) = (metrics, clock);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            seen = slices.next() => proxy.see_slice(&seen),
            seen = services.next() => proxy.see_service(&seen),
        }
    }
    proxy.end().await;
}

/// What the listeners and connections of a proxy share.
pub(crate) struct Shared {
    pub(crate) writer: Writer,
    pub(crate) events: EventWriter,
    pub(crate) drains: Drains,
    pub(crate) connections: Connections,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) permits: Arc<Semaphore>,
}

/// Namespace and name.
type Key = (String, String);

fn key(metadata: &ObjectMeta) -> Key {
    (metadata.namespace.clone(), metadata.name.clone())
}

struct Proxy {
    node: String,
    shared: Arc<Shared>,
    services: BTreeMap<Key, Served>,
    /// The slices of each Service, by name; also of Services that are not there yet.
    slices: BTreeMap<Key, BTreeMap<String, Arc<EndpointSlice>>>,
    /// The Service of each slice.
    owners: BTreeMap<Key, String>,
    metrics: Metrics,
    clock: Clock,
    /// Whether the slices that were there at the start are known: how old those are says nothing about this proxy.
    listed: bool,
}

/// A Service that is served.
struct Served {
    service: Arc<Service>,
    listeners: BTreeMap<SocketAddr, Listener>,
    /// Which endpoints its ports use, as they were counted.
    modes: Vec<Mode>,
    /// Protocols that people were told about.
    reported: BTreeSet<String>,
}

impl Proxy {
    fn new(
        writer: Writer,
        node: String,
        events: EventWriter,
        drains: Drains,
        connections: Connections,
        stop: CancellationToken,
    ) -> Proxy {
        let permits = Arc::new(Semaphore::new(connections_max()));
        let shared = Shared { writer, events, drains, connections, stop, tasks: TaskTracker::new(), permits };
        Proxy {
            node,
            shared: Arc::new(shared),
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            owners: BTreeMap::new(),
            metrics: Metrics::default(),
            clock: Clock::system(),
            listed: false,
        }
    }

    fn see_service(&mut self, seen: &WatchEvent<Service>) {
        match seen {
            WatchEvent::Applied(service) => {
                let (key, service) = (key(&service.view.metadata), Arc::clone(&service.view));
                match self.services.get_mut(&key) {
                    Some(served) => served.service = service,
                    None => {
                        let served =
                            Served { service, listeners: BTreeMap::new(), modes: Vec::new(), reported: BTreeSet::new() };
                        self.services.insert(key.clone(), served);
                    }
                }
                self.replan(&key);
            }
            WatchEvent::Deleted(service) => {
                if let Some(served) = self.services.remove(&key(&service.view.metadata)) {
                    served.modes.iter().for_each(|mode| self.metrics.count_port(*mode, -1));
                }
                self.shared.connections.forget(&service.view.metadata.key());
            }
            WatchEvent::ListBegins | WatchEvent::Synced => {}
        }
    }

    fn see_slice(&mut self, seen: &WatchEvent<EndpointSlice>) {
        match seen {
            WatchEvent::Applied(slice) => {
                let (key, service) = (key(&slice.view.metadata), slice.view.service_name());
                if self.owners.get(&key).is_some_and(|owner| owner != service) {
                    self.remove_slice(&key);
                }
                if !service.is_empty() {
                    let owner = (key.0.clone(), service.to_owned());
                    self.owners.insert(key.clone(), service.to_owned());
                    let before = self.slices.entry(owner.clone()).or_default().insert(key.1, Arc::clone(&slice.view));
                    self.replan(&owner);
                    self.measure(before.as_deref(), &slice.view);
                }
            }
            WatchEvent::Deleted(slice) => self.remove_slice(&key(&slice.view.metadata)),
            WatchEvent::Synced => self.listed = true,
            WatchEvent::ListBegins => {}
        }
        // After the listeners know: what is drained gets nothing new.
        self.shared.drains.see(seen);
    }

    /// Measures from the change behind a slice to the listeners that know it, once for each change.
    fn measure(&self, before: Option<&EndpointSlice>, after: &EndpointSlice) {
        let trigger = |slice: &EndpointSlice| slice.metadata.annotations.get(TRIGGER_TIME_ANNOTATION).cloned();
        let Some(text) = trigger(after).filter(|text| self.listed && before.and_then(trigger).as_ref() != Some(text)) else {
            return;
        };
        if let Ok(Timestamp(at)) = Timestamp::parse(&text) {
            self.metrics.programmed_after(self.clock.now().since(at));
        }
    }

    fn remove_slice(&mut self, slice: &Key) {
        let Some(owner) = self.owners.remove(slice) else { return };
        let owner = (slice.0.clone(), owner);
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(&slice.1);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
        self.replan(&owner);
    }

    /// Opens, changes and closes the listeners of a Service so that they are as planned.
    fn replan(&mut self, key: &Key) {
        let Some(served) = self.services.get_mut(key) else { return };
        let service = &*served.service;
        let plan = plan::plan(service);
        for text in plan.unsupported {
            if served.reported.insert(text.clone()) {
                let object = reference::<Service>(&key.0, &key.1, &service.metadata.uid);
                self.shared.events.record(Event { object, type_: EventType::Warning, reason: UNSUPPORTED, message: text });
            }
        }
        let slices = || self.slices.get(key).into_iter().flat_map(BTreeMap::values).map(|slice| &**slice);
        let affinity = plan::affinity(service);
        let (mut listeners, mut modes) = (BTreeMap::new(), Vec::new());
        for planned in plan.listeners {
            let backends = Backends::new(slices(), &planned.port, planned.policy, &self.node, affinity);
            modes.push(backends.mode);
            let listener = match served.listeners.remove(&planned.address).filter(|listener| listener.is_for(&planned.port)) {
                Some(listener) => {
                    listener.update(backends);
                    listener
                }
                None => {
                    let info = ServicePortInfo::new(service, &planned);
                    Listener::open(planned.address, planned.port, info, backends, Arc::clone(&self.shared))
                }
            };
            listeners.insert(planned.address, listener);
        }
        modes.iter().for_each(|mode| self.metrics.count_port(*mode, 1));
        std::mem::replace(&mut served.modes, modes).iter().for_each(|mode| self.metrics.count_port(*mode, -1));
        // What is left behind closes here.
        served.listeners = listeners;
    }

    /// Waits until every listener and connection has ended, which the order to stop makes them do.
    async fn end(self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// Returns how many connections may be carried: each takes two files, and half of them are for others.
fn connections_max() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 4).unwrap_or(CONNECTIONS_MAX).clamp(16, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests;
