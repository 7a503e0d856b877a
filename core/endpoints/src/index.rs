//! Pods, Services, nodes and slices as facts, kept so that one change costs what it touches.
//!
//! What a flip of one pod costs does not depend on how many endpoints its Service has: the pod knows its Services, each
//! Service knows the pod's slice, and the text of that slice is changed in one place. A change of the Service itself, or of
//! one of its slices by somebody else, recomputes that Service and nothing else.

pub(crate) mod entry;
mod increment;
pub(crate) mod names;
pub(crate) mod nodes;
mod pool;
mod rebuild;
pub(crate) mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::endpointslice::CONTROLLER_NAME;
use api::node::ZONE_LABEL;
use api::{EndpointSlice, Node, ObjectMeta, Pod, Service};
use machine::Time;

use crate::index::entry::{Draft, Entry, Outcome};
use crate::index::names::Names;
use crate::index::nodes::Nodes;
use crate::index::pool::Pool;
use crate::matching::Selectors;
use crate::metrics::Gauges;
use crate::pod::{NamedPort, PodRecord};
use crate::requeue::{PodChange, SliceOwner, node_queues, slice_services};
use crate::service::ServiceRecord;
use crate::settings::Settings;

/// A Service, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// A kind of object that the controller watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Pods of all namespaces.
    Pods,
    /// Services of all namespaces.
    Services,
    /// Nodes.
    Nodes,
    /// EndpointSlices of all namespaces.
    Slices,
}

/// An object, by namespace (empty at cluster scope) and name.
pub(crate) type ObjectKey = (Arc<str>, Arc<str>);

/// Services of a namespace.
type ServiceNames = BTreeSet<Arc<str>>;

/// The pods of a namespace.
pub(crate) type Pods = Names<PodEntry>;

/// A pod and the Services that select it.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) record: PodRecord,
    pub(crate) services: Arc<ServiceNames>,
}

#[derive(Clone, Debug, Default)]
struct Namespace {
    pods: Pods,
    services: BTreeMap<Arc<str>, Entry>,
    selectors: Selectors,
    shared: Shared,
    /// Which Service a managed slice belongs to.
    owners: Names<Arc<str>>,
}

/// What pods of one workload have alike.
#[derive(Clone, Debug, Default)]
struct Shared {
    labels: Pool<BTreeMap<String, String>>,
    ports: Pool<Vec<NamedPort>>,
    services: Pool<ServiceNames>,
}

/// What a sync reads beside the Service.
pub(crate) struct Scope<'a> {
    pub(crate) now: Time,
    pub(crate) pods: &'a Pods,
    pub(crate) nodes: &'a Nodes,
    pub(crate) settings: &'a Settings,
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    settings: Settings,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    nodes: Nodes,
    gauges: Gauges,
}

/// What happened to a slice.
#[derive(Clone, Debug)]
pub(crate) enum SliceEvent {
    Applied(Arc<EndpointSlice>),
    Deleted(Arc<EndpointSlice>),
}

impl SliceEvent {
    pub(crate) fn slice(&self) -> &EndpointSlice {
        match self {
            SliceEvent::Applied(slice) | SliceEvent::Deleted(slice) => slice,
        }
    }
}

impl Index {
    pub(crate) fn new(settings: Settings) -> Index {
        Index { settings, ..Index::default() }
    }

    pub(crate) fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    pub(crate) fn entry(&self, key: &ServiceKey) -> Option<&Entry> {
        self.namespaces.get(&key.namespace)?.services.get(&key.name)
    }

    /// Returns the name of the node of a pod in the namespace of a Service.
    pub(crate) fn node_of(&self, key: &ServiceKey, pod: &str) -> Option<&str> {
        Some(&self.namespaces.get(&key.namespace)?.pods.get(pod)?.record.node)
    }

    /// Lets `change` change what is known of a Service, and keeps the gauges right.
    pub(crate) fn change<T>(&mut self, key: &ServiceKey, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.namespaces.get_mut(&key.namespace)?.services.get_mut(&key.name)?;
        let before = entry.contribution();
        let result = change(entry);
        self.gauges.replace(&before, &entry.contribution());
        self.tidy(key);
        Some(result)
    }

    /// Forgets a Service that is gone with its last slice, and its namespace if that is empty.
    fn tidy(&mut self, key: &ServiceKey) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        if namespace.services.get(&key.name).is_some_and(|entry| entry.service.is_none() && entry.slices.len() == 0) {
            namespace.services.remove(&key.name);
        }
        if namespace.pods.is_empty() && namespace.services.is_empty() && namespace.owners.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
    }

    /// Takes a pod; returns the Services to queue.
    pub(crate) fn apply_pod(&mut self, now: Time, pod: &Pod) -> Vec<ServiceKey> {
        let space = match self.namespaces.get_key_value(pod.metadata.namespace.as_str()) {
            Some((space, _)) => Arc::clone(space),
            None => pod.metadata.namespace.as_str().into(),
        };
        let record = PodRecord::from(pod);
        let namespace = self.namespaces.entry(Arc::clone(&space)).or_default();
        let facts = Facts { now, space: &space, nodes: &mut self.nodes, settings: &self.settings };
        let queued = namespace.apply_pod(facts, record);
        keys(&space, queued)
    }

    /// Takes a pod that is gone; returns the Services to queue.
    pub(crate) fn delete_pod(&mut self, now: Time, space: &str, name: &str) -> Vec<ServiceKey> {
        let Some((space, namespace)) = get_mut(&mut self.namespaces, space) else { return Vec::new() };
        let Some((name, pod)) = namespace.pods.remove(name) else { return Vec::new() };
        self.nodes.displace(&pod.record.node, &(Arc::clone(&space), Arc::clone(&name)));
        for service in pod.services.iter() {
            let entry = namespace.services.get_mut(service).expect("pods are selected by known Services");
            entry.matching.remove(&name);
            entry.touch(now, &name, None, &self.nodes, &self.settings);
        }
        let queued = keys(&space, pod.services.iter().cloned());
        namespace.shared.labels.release(pod.record.labels);
        namespace.shared.ports.release(pod.record.ports);
        namespace.shared.services.release(pod.services);
        queued
    }

    /// Takes a Service.
    pub(crate) fn apply_service(&mut self, now: Time, service: &Service) -> ServiceKey {
        let (namespace, name) = (service.metadata.namespace.as_str().into(), service.metadata.name.as_str().into());
        let key = ServiceKey { namespace, name };
        let record = ServiceRecord::new(service, &self.settings);
        self.set_service(now, &key, record);
        key
    }

    /// Takes a Service that is gone: nothing of it is remembered. Its slices are left to garbage collection.
    pub(crate) fn delete_service(&mut self, now: Time, key: &ServiceKey) {
        self.set_service(now, key, None);
    }

    fn set_service(&mut self, now: Time, key: &ServiceKey, record: Option<ServiceRecord>) {
        let namespace = self.namespaces.entry(Arc::clone(&key.namespace)).or_default();
        let entry = namespace.services.entry(Arc::clone(&key.name)).or_default();
        let before = entry.contribution();
        if entry.service != record {
            let old = std::mem::replace(&mut entry.service, record);
            let (old, new) = (old.as_ref(), entry.service.as_ref());
            let reselects = old.map(|old| &old.spec.selector) != new.map(|new| &new.spec.selector);
            if old.map(|old| &old.uid) != new.map(|new| &new.uid) {
                entry.forget();
            } else if old.map(|old| &old.spec) != new.map(|new| &new.spec) {
                entry.memory.spec_changed.get_or_insert(now);
            }
            entry.memory.settled = false;
            if reselects {
                namespace.reselect(&key.name);
            }
        }
        self.gauges.replace(&before, &namespace.services[&key.name].contribution());
        self.tidy(key);
    }

    /// Takes a node; returns the Services to queue.
    pub(crate) fn apply_node(&mut self, now: Time, node: &Node) -> Vec<ServiceKey> {
        let zone = node.metadata.labels.get(ZONE_LABEL).map(String::as_str);
        let (added, changed) = self.nodes.apply(&node.metadata.name, zone);
        if !node_queues(added, changed) {
            return Vec::new();
        }
        self.touch_node(now, &node.metadata.name)
    }

    /// Takes a node that is gone: its pods are looked at again at the next sync, which this does not cause.
    pub(crate) fn delete_node(&mut self, now: Time, name: &str) {
        self.nodes.delete(name);
        self.touch_node(now, name);
    }

    fn touch_node(&mut self, now: Time, node: &str) -> Vec<ServiceKey> {
        let mut touched = BTreeSet::new();
        for (space, pod) in self.nodes.pods(node) {
            let namespace = self.namespaces.get_mut(&space).expect("the pod is there");
            let PodEntry { record, services } = namespace.pods.get(&pod).expect("the pod is there");
            for service in services.iter() {
                let entry = namespace.services.get_mut(service).expect("pods are selected by known Services");
                entry.touch(now, &pod, Some(record), &self.nodes, &self.settings);
            }
            touched.extend(keys(&space, services.iter().cloned()));
        }
        touched.into_iter().collect()
    }

    /// Returns the Services whose sync must be over before an event of a slice can be judged.
    pub(crate) fn concerned(&self, event: &SliceEvent) -> Vec<ServiceKey> {
        let slice = event.slice();
        let old = self.owner(slice);
        let new = belonging(slice).ours().then(|| Arc::from(slice.service_name()));
        keys(&slice.metadata.namespace.as_str().into(), old.into_iter().chain(new))
    }

    fn owner(&self, slice: &EndpointSlice) -> Option<Arc<str>> {
        self.namespaces.get(slice.metadata.namespace.as_str())?.owners.get(slice.metadata.name.as_str()).cloned()
    }

    /// Takes an event of a slice; returns the Services to queue.
    pub(crate) fn apply_slice(&mut self, event: SliceEvent) -> Vec<ServiceKey> {
        let space: Arc<str> = event.slice().metadata.namespace.as_str().into();
        let key = |service: &str| ServiceKey { namespace: Arc::clone(&space), name: service.into() };
        let old = self.owner(event.slice());
        let labels = (event.slice().service_name().to_owned(), event.slice().managed_by().to_owned());
        let owner = SliceOwner { service: &labels.0, managed_by: &labels.1 };
        let was = old.as_ref().map(|service| SliceOwner { service, managed_by: CONTROLLER_NAME });
        match event {
            SliceEvent::Deleted(slice) => {
                let (name, uid) = (&slice.metadata.name, &slice.metadata.uid);
                let was = was.unwrap_or(owner);
                let news = self.change(&key(was.service), |entry| entry.observe_delete(name, uid)).unwrap_or(false);
                if self.entry(&key(was.service)).is_none_or(|entry| entry.slices.get(name).is_none()) {
                    self.disown(&space, name);
                }
                slice_services(Some(was), None, news).into_iter().map(key).collect()
            }
            SliceEvent::Applied(slice) => {
                let managed = owner.ours() && !owner.service.is_empty();
                if let Some(was) = was.filter(|was| !managed || was.service != owner.service) {
                    self.change(&key(was.service), |entry| entry.release(&slice.metadata.name));
                    self.disown(&space, &slice.metadata.name);
                }
                let mut news = false;
                if managed {
                    let namespace = self.namespaces.entry(Arc::clone(&space)).or_default();
                    namespace.owners.insert(slice.metadata.name.as_str().into(), owner.service.into());
                    namespace.services.entry(owner.service.into()).or_default();
                    news = self.change(&key(owner.service), |entry| entry.observe(&slice)).unwrap_or(false);
                }
                slice_services(was, Some(owner), news).into_iter().map(key).collect()
            }
        }
    }

    fn disown(&mut self, space: &str, slice: &str) {
        if let Some(namespace) = self.namespaces.get_mut(space) {
            namespace.owners.remove(slice);
        }
    }

    /// Returns every known object of a kind, by namespace and name.
    pub(crate) fn known(&self, resource: Resource) -> BTreeSet<ObjectKey> {
        fn listed<'a>(space: &Arc<str>, names: impl Iterator<Item = &'a Arc<str>>) -> Vec<ObjectKey> {
            names.map(|name| (Arc::clone(space), Arc::clone(name))).collect()
        }
        if resource == Resource::Nodes {
            return self.nodes.known().map(|name| (Arc::default(), Arc::clone(name))).collect();
        }
        let of = |(space, namespace): (&Arc<str>, &Namespace)| match resource {
            Resource::Pods => listed(space, namespace.pods.iter().map(|(name, _)| name)),
            Resource::Services => {
                let there = namespace.services.iter().filter(|(_, entry)| entry.service.is_some());
                listed(space, there.map(|(name, _)| name))
            }
            Resource::Slices => listed(space, namespace.owners.iter().map(|(name, _)| name)),
            Resource::Nodes => Vec::new(),
        };
        self.namespaces.iter().flat_map(of).collect()
    }

    /// Notes that the slices were listed anew.
    pub(crate) fn relisted(&mut self) {
        let entries = self.namespaces.values_mut().flat_map(|namespace| namespace.services.values_mut());
        entries.for_each(|entry| entry.tracker.relisted());
    }

    /// Returns the event that a known slice is gone.
    pub(crate) fn gone(&mut self, (space, name): &ObjectKey) -> Option<SliceEvent> {
        let namespace = self.namespaces.get(space)?;
        let metadata = namespace.services.get(namespace.owners.get(name)?)?.slices.get(name).map(|slice| slice.meta.clone());
        match metadata {
            Some(metadata) => Some(SliceEvent::Deleted(Arc::new(EndpointSlice { metadata, ..EndpointSlice::default() }))),
            None => {
                // It was on its way out already.
                self.disown(space, name);
                None
            }
        }
    }

    /// Takes the answer to a create or an update.
    pub(crate) fn adopt(&mut self, key: &ServiceKey, meta: ObjectMeta, draft: Draft) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace)
            && namespace.owners.get(meta.name.as_str()) != Some(&key.name)
        {
            namespace.owners.insert(meta.name.as_str().into(), Arc::clone(&key.name));
        }
        let max = self.settings.max_endpoints_per_slice;
        self.change(key, |entry| entry.adopt(meta, draft, max));
    }

    /// Syncs a Service: returns what must be written, or `None` if the controller does not look after it.
    pub(crate) fn sync(&mut self, now: Time, key: &ServiceKey) -> Option<Outcome> {
        let namespace = self.namespaces.get_mut(&key.namespace)?;
        let entry = namespace.services.get_mut(&key.name).filter(|entry| entry.service.is_some())?;
        let before = entry.contribution();
        let scope = Scope { now, pods: &namespace.pods, nodes: &self.nodes, settings: &self.settings };
        entry.tracker.sync_started();
        let outcome = if entry.memory.settled { entry.increment(&scope) } else { entry.rebuild(&scope) };
        self.gauges.replace(&before, &entry.contribution());
        Some(outcome)
    }
}

/// What a change of a pod is seen with.
struct Facts<'a> {
    now: Time,
    space: &'a Arc<str>,
    nodes: &'a mut Nodes,
    settings: &'a Settings,
}

impl Namespace {
    /// Takes a pod; returns the Services to queue.
    fn apply_pod(&mut self, facts: Facts<'_>, mut record: PodRecord) -> BTreeSet<Arc<str>> {
        let Some(pod) = self.pods.get_mut(&record.name) else { return self.add_pod(facts, record) };
        // What is known is kept, so that everybody shares it.
        record.share(&pod.record);
        let change = PodChange::between(&pod.record, &record);
        let old = std::mem::replace(&mut pod.record, record);
        if old.same_but_version(&pod.record) {
            return BTreeSet::new();
        }
        let name = Arc::clone(&old.name);
        let old_services = Arc::clone(&pod.services);
        if old.labels != pod.record.labels {
            pod.services = self.shared.services.share(Arc::new(self.selectors.matching(&pod.record.labels)));
            pod.record.labels = self.shared.labels.share(Arc::clone(&pod.record.labels));
            self.shared.labels.release(old.labels);
        }
        if old.ports != pod.record.ports {
            pod.record.ports = self.shared.ports.share(Arc::clone(&pod.record.ports));
            self.shared.ports.release(old.ports);
        }
        if old.node != pod.record.node {
            let key = (Arc::clone(facts.space), Arc::clone(&name));
            facts.nodes.displace(&old.node, &key);
            facts.nodes.place(&mut pod.record.node, key);
        }
        for service in old_services.union(&pod.services) {
            let entry = self.services.get_mut(service).expect("pods are selected by known Services");
            let selects = pod.services.contains(service);
            match (old_services.contains(service), selects) {
                (false, true) => entry.matching.insert(Arc::clone(&name)),
                (true, false) => entry.matching.remove(&name),
                _ => false,
            };
            entry.touch(facts.now, &name, selects.then_some(&pod.record), facts.nodes, facts.settings);
        }
        let queued = change.services(&old_services, &pod.services);
        self.shared.services.release(old_services);
        queued
    }

    fn add_pod(&mut self, facts: Facts<'_>, mut record: PodRecord) -> BTreeSet<Arc<str>> {
        let services = self.shared.services.share(Arc::new(self.selectors.matching(&record.labels)));
        record.labels = self.shared.labels.share(record.labels);
        record.ports = self.shared.ports.share(record.ports);
        facts.nodes.place(&mut record.node, (Arc::clone(facts.space), Arc::clone(&record.name)));
        for service in services.iter() {
            let entry = self.services.get_mut(service).expect("pods are selected by known Services");
            entry.matching.insert(Arc::clone(&record.name));
            entry.touch(facts.now, &record.name, Some(&record), facts.nodes, facts.settings);
        }
        let queued = (*services).clone();
        self.pods.insert(Arc::clone(&record.name), PodEntry { record, services });
        queued
    }

    /// Finds anew which pods a Service selects.
    fn reselect(&mut self, service: &Arc<str>) {
        let entry = self.services.get_mut(service).expect("only known Services select");
        let mut moved = Moved { pool: &mut self.shared.services, sets: BTreeMap::new() };
        for pod in std::mem::take(&mut entry.matching) {
            let services = &mut self.pods.get_mut(&pod).expect("selected pods are known").services;
            moved.apply(services, |services| services.remove(service));
        }
        moved.end();
        let Some(record) = &entry.service else {
            self.selectors.remove(service);
            return;
        };
        self.selectors.insert(service, &record.spec.selector);
        let mut moved = Moved { pool: &mut self.shared.services, sets: BTreeMap::new() };
        for (name, pod) in self.pods.iter_mut().filter(|(_, pod)| record.selects(&pod.record.labels)) {
            moved.apply(&mut pod.services, |services| services.insert(Arc::clone(service)));
            entry.matching.insert(Arc::clone(name));
        }
        moved.end();
    }
}

/// One change of the Services that select pods, the same for all pods that were selected by the same ones.
struct Moved<'a> {
    pool: &'a mut Pool<ServiceNames>,
    /// What there was, and what became of it.
    sets: BTreeMap<Arc<ServiceNames>, Arc<ServiceNames>>,
}

impl Moved<'_> {
    fn apply(&mut self, services: &mut Arc<ServiceNames>, change: impl FnOnce(&mut ServiceNames) -> bool) {
        let new = self.sets.entry(Arc::clone(services)).or_insert_with(|| {
            let mut set = (**services).clone();
            change(&mut set);
            self.pool.share(Arc::new(set))
        });
        *services = Arc::clone(new);
    }

    fn end(self) {
        self.sets.into_keys().for_each(|old| self.pool.release(old));
    }
}

fn belonging(slice: &EndpointSlice) -> SliceOwner<'_> {
    SliceOwner { service: slice.service_name(), managed_by: slice.managed_by() }
}

fn keys(namespace: &Arc<str>, services: impl IntoIterator<Item = Arc<str>>) -> Vec<ServiceKey> {
    let key = |name| ServiceKey { namespace: Arc::clone(namespace), name };
    services.into_iter().map(key).collect()
}

fn get_mut<'a, T>(map: &'a mut BTreeMap<Arc<str>, T>, key: &str) -> Option<(Arc<str>, &'a mut T)> {
    let name = map.get_key_value(key).map(|(key, _)| Arc::clone(key))?;
    let value = map.get_mut(key)?;
    Some((name, value))
}
