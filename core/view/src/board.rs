//! The board: what is known, and the rows that follow from it.
//!
//! Facts only mark what they touch; rows are made when somebody looks, so that a burst of facts costs each row once.

mod fact;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::endpointslice::Endpoint;
use api::{ConfigNode, EndpointSlice, Node, ObjectMeta, Pod, PodProbeMarker, Service};
use machine::Time;

use crate::delta::{Changes, Delta};
use crate::events::EventRow;
use crate::markers::MarkerRow;
use crate::nodes::{Beats, NodeRow, grace_of};
use crate::pods::{PodRow, PodState};
use crate::profile::ProfileRow;
use crate::report::AgentReport;
use crate::services::ServiceRow;
use crate::steps::Steps;
use crate::strips::{self, Strip, StripKey, StripRow};
use crate::table::Table;

pub use fact::{Fact, Limits, Origin};

struct KnownPod {
    pod: Arc<Pod>,
    steps: Steps,
}

/// What is known, and the rows that follow from it.
#[derive(Default)]
pub struct Board {
    limits: Limits,
    revision: u64,
    changed: bool,
    pods: BTreeMap<String, KnownPod>,
    /// The key of each pod, by uid.
    uids: BTreeMap<String, String>,
    services: BTreeMap<String, Arc<Service>>,
    slices: BTreeMap<String, Arc<EndpointSlice>>,
    /// The slices of each Service.
    slices_of: BTreeMap<String, BTreeSet<String>>,
    /// The slices that show a pod, by uid.
    shown_in: BTreeMap<String, BTreeSet<String>>,
    nodes: BTreeMap<String, Arc<Node>>,
    beats: BTreeMap<String, Beats>,
    markers: BTreeMap<String, Arc<PodProbeMarker>>,
    cluster: Option<Arc<ConfigNode>>,
    default_grace: Option<Duration>,
    connections: BTreeMap<String, u64>,
    strips: BTreeMap<StripKey, Strip>,
    touched: Touched,
    rows: Rows,
}

/// What may have changed since rows were made.
#[derive(Default)]
struct Touched {
    pods: BTreeSet<String>,
    services: BTreeSet<String>,
    nodes: BTreeSet<String>,
    markers: BTreeSet<String>,
    /// Namespaces of pods: their markers must look again.
    namespaces: BTreeSet<String>,
    /// Every node: a pod came, went or changed, or the grace did.
    all_nodes: bool,
}

#[derive(Default)]
struct Rows {
    pods: Table<PodRow>,
    services: Table<ServiceRow>,
    nodes: Table<NodeRow>,
    markers: Table<MarkerRow>,
    profile: Table<ProfileRow>,
    events: Table<EventRow>,
    /// Events by age.
    newest: BTreeSet<(i64, String)>,
    /// Which strips there are; their attempts have revisions of their own.
    strips: Table<()>,
}

impl Board {
    /// Returns an empty board.
    pub fn new(limits: Limits) -> Board {
        Board { limits, ..Board::default() }
    }

    /// Takes a fact.
    pub fn apply(&mut self, now: Time, seen: Origin, fact: Fact) {
        let live = seen == Origin::Live;
        match fact {
            Fact::Pod(pod) => self.see_pod(now, live, pod),
            Fact::PodGone(key) => self.pod_gone(&key),
            Fact::Service(service) => {
                let key = service.metadata.key();
                self.services.insert(key.clone(), service);
                self.touched.services.insert(key);
            }
            Fact::ServiceGone(key) => {
                self.services.remove(&key);
                self.connections.remove(&key);
                self.touched.services.insert(key);
            }
            Fact::Slice(slice) => self.see_slice(now, live, slice),
            Fact::SliceGone(key) => self.slice_gone(&key),
            Fact::Node(node) => {
                let key = node.metadata.name.clone();
                self.nodes.insert(key.clone(), node);
                self.touched.nodes.insert(key);
            }
            Fact::NodeGone(key) => {
                self.nodes.remove(&key);
                self.beats.remove(&key);
                self.touched.nodes.insert(key);
            }
            Fact::Lease(lease) => {
                let key = lease.metadata.name.clone();
                self.beats.entry(key.clone()).or_default().see(now, live, &lease);
                self.touched.nodes.insert(key);
            }
            Fact::LeaseGone(key) => {
                self.beats.remove(&key);
                self.touched.nodes.insert(key);
            }
            Fact::Marker(marker) => {
                let key = marker.metadata.key();
                self.markers.insert(key.clone(), marker);
                self.touched.markers.insert(key);
            }
            Fact::MarkerGone(key) => {
                self.markers.remove(&key);
                self.touched.markers.insert(key);
            }
            Fact::Cluster(cluster) => self.see_cluster(Some(cluster)),
            Fact::ClusterGone => self.see_cluster(None),
            Fact::DefaultGrace(grace) => {
                self.default_grace = Some(grace);
                self.touched.all_nodes = true;
            }
            Fact::Event(event) => self.see_event(EventRow::of(&event)),
            Fact::EventGone(key) => self.event_gone(&key),
            Fact::Report(report) => self.see_report(&report),
            Fact::Connections(connections) => {
                let known = connections.into_iter().filter(|(key, _)| self.services.contains_key(key));
                for (key, count) in known.collect::<Vec<_>>() {
                    if self.connections.insert(key.clone(), count) != Some(count) {
                        self.touched.services.insert(key);
                    }
                }
            }
        }
    }

    fn next(&self) -> u64 {
        self.revision + 1
    }

    fn see_pod(&mut self, now: Time, live: bool, pod: Arc<Pod>) {
        let (key, uid) = (pod.metadata.key(), pod.metadata.uid.clone());
        if self.pods.get(&key).is_some_and(|known| known.pod.metadata.uid != uid) {
            self.pod_gone(&key);
        }
        self.uids.insert(uid, key.clone());
        let known = self.pods.entry(key).or_insert_with(|| KnownPod { pod: Arc::clone(&pod), steps: Steps::default() });
        known.steps.see_pod(now, live, &pod);
        known.pod = Arc::clone(&pod);
        self.touch_pod(&pod.metadata);
    }

    fn touch_pod(&mut self, metadata: &ObjectMeta) {
        self.touched.pods.insert(metadata.key());
        self.touched.namespaces.insert(metadata.namespace.clone());
        self.touched.all_nodes = true;
    }

    fn pod_gone(&mut self, key: &str) {
        let Some(known) = self.pods.remove(key) else { return };
        let uid = &known.pod.metadata.uid;
        self.uids.remove(uid);
        let first = (uid.clone(), String::new(), String::new());
        let of_pod: Vec<StripKey> =
            self.strips.range(first..).map(|(key, _)| key.clone()).take_while(|key| key.0 == *uid).collect();
        let next = self.next();
        for strip in of_pod {
            self.strips.remove(&strip);
            self.changed |= self.rows.strips.remove(next, &strips::text(&strip));
        }
        self.touch_pod(&known.pod.metadata);
    }

    fn see_slice(&mut self, now: Time, live: bool, slice: Arc<EndpointSlice>) {
        let key = slice.metadata.key();
        // One endpoint of many changes its conditions: then the others are left alone.
        let before = self.slices.get(&key).filter(|before| same_targets(before, &slice)).cloned();
        if before.is_none() {
            self.slice_gone(&key);
        }
        if slice.service_name().is_empty() {
            return;
        }
        let service = service_of(&slice);
        if before.is_none() {
            self.slices_of.entry(service.clone()).or_default().insert(key.clone());
        }
        self.touched.services.insert(service);
        for (at, endpoint) in slice.endpoints.iter().enumerate() {
            let Some(target) = &endpoint.target_ref else { continue };
            match &before {
                Some(before) if before.endpoints[at] == *endpoint => continue,
                Some(_) => {}
                None => drop(self.shown_in.entry(target.uid.clone()).or_default().insert(key.clone())),
            }
            let Some(pod) = self.uids.get(&target.uid) else { continue };
            self.touched.pods.insert(pod.clone());
            if let Some(known) = self.pods.get_mut(pod).filter(|_| endpoint.conditions.is_ready()) {
                known.steps.see_in_slice(now, live);
            }
        }
        self.slices.insert(key, slice);
    }

    fn slice_gone(&mut self, key: &str) {
        let Some(slice) = self.slices.remove(key) else { return };
        let service = service_of(&slice);
        if let Some(slices) = self.slices_of.get_mut(&service) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices_of.remove(&service);
            }
        }
        self.touched.services.insert(service);
        for target in slice.endpoints.iter().filter_map(|endpoint| endpoint.target_ref.as_ref()) {
            if let Some(shown) = self.shown_in.get_mut(&target.uid) {
                shown.remove(key);
                if shown.is_empty() {
                    self.shown_in.remove(&target.uid);
                }
            }
            self.touched.pods.extend(self.uids.get(&target.uid).cloned());
        }
    }

    fn see_cluster(&mut self, cluster: Option<Arc<ConfigNode>>) {
        let next = self.next();
        self.changed |= match &cluster {
            Some(cluster) => self.rows.profile.put(next, &cluster.metadata.name, ProfileRow::of(cluster)),
            None => self.rows.profile.remove(next, api::config_node::NAME),
        };
        let before = self.grace();
        self.cluster = cluster;
        self.touched.all_nodes |= self.grace() != before;
    }

    fn grace(&self) -> Option<Duration> {
        grace_of(self.cluster.as_deref(), self.default_grace)
    }

    fn see_event(&mut self, row: EventRow) {
        let (next, key) = (self.next(), row.key.clone());
        if let Some(known) = self.rows.events.get(&key) {
            self.rows.newest.remove(&(known.at, key.clone()));
        }
        self.rows.newest.insert((row.at, key.clone()));
        self.changed |= self.rows.events.put(next, &key, row);
        while self.rows.newest.len() > self.limits.events
            && let Some((_, oldest)) = self.rows.newest.pop_first()
        {
            self.changed |= self.rows.events.remove(next, &oldest);
        }
    }

    fn event_gone(&mut self, key: &str) {
        if let Some(known) = self.rows.events.get(key) {
            self.rows.newest.remove(&(known.at, key.to_owned()));
        }
        self.changed |= self.rows.events.remove(self.revision + 1, key);
    }

    fn see_report(&mut self, report: &AgentReport) {
        let next = self.next();
        for worker in &report.workers {
            // Of a pod that is not known there is nothing to show, and nothing that would ever let go of its attempts.
            let Some(pod) = self.uids.get(&worker.uid) else { continue };
            let key = (worker.uid.clone(), worker.container.clone(), worker.probe.clone());
            let is_new = self.strips.entry(key.clone()).or_default().see(next, worker, &self.limits);
            self.rows.strips.put(next, &strips::text(&key), ());
            self.changed |= is_new;
            if let Some(known) = self.pods.get_mut(pod) {
                let before = known.steps.rows();
                known.steps.see_worker(worker);
                if known.steps.rows() != before {
                    self.touched.pods.insert(pod.clone());
                }
            }
        }
    }

    /// Makes the rows of what was touched.
    fn settle(&mut self) {
        let (next, touched) = (self.next(), std::mem::take(&mut self.touched));
        for key in &touched.pods {
            self.changed |= match self.pods.get(key) {
                Some(known) => {
                    let row = PodRow::of(&known.pod, known.steps.rows(), self.services_of(&known.pod.metadata.uid));
                    self.rows.pods.put(next, key, row)
                }
                None => self.rows.pods.remove(next, key),
            };
        }
        for key in &touched.services {
            self.changed |= match self.services.get(key) {
                Some(service) => {
                    let slices = self.slices_of.get(key).into_iter().flatten().filter_map(|slice| self.slices.get(slice));
                    let row = ServiceRow::of(service, slices.map(|slice| &**slice), self.connections.get(key).copied());
                    self.rows.services.put(next, key, row)
                }
                None => self.rows.services.remove(next, key),
            };
        }
        self.settle_markers(next, &touched);
        self.settle_nodes(next, &touched);
        if std::mem::take(&mut self.changed) {
            self.revision = next;
        }
    }

    fn settle_markers(&mut self, next: u64, touched: &Touched) {
        let of_namespaces = self.markers.iter().filter(|(_, marker)| touched.namespaces.contains(&marker.metadata.namespace));
        let keys: BTreeSet<&String> = of_namespaces.map(|(key, _)| key).chain(&touched.markers).collect();
        for key in keys {
            self.changed |= match self.markers.get(key) {
                Some(marker) => {
                    let row = MarkerRow::of(marker, self.pods.values().map(|known| &known.pod));
                    self.rows.markers.put(next, key, row)
                }
                None => self.rows.markers.remove(next, key),
            };
        }
    }

    fn settle_nodes(&mut self, next: u64, touched: &Touched) {
        if touched.nodes.is_empty() && !touched.all_nodes {
            return;
        }
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for row in self.rows.pods.rows() {
            let count = counts.entry(&row.node).or_default();
            count.0 += 1;
            count.1 += usize::from(row.state == PodState::Ready);
        }
        let grace = self.grace();
        let all = self.nodes.keys().filter(|_| touched.all_nodes);
        for key in all.chain(&touched.nodes).collect::<BTreeSet<_>>() {
            self.changed |= match self.nodes.get(key) {
                Some(node) => {
                    let count = counts.get(key.as_str()).copied().unwrap_or_default();
                    self.rows.nodes.put(next, key, NodeRow::of(node, self.beats.get(key), grace, count))
                }
                None => self.rows.nodes.remove(next, key),
            };
        }
    }

    fn services_of(&self, uid: &str) -> Vec<String> {
        let slices = self.shown_in.get(uid).into_iter().flatten().filter_map(|key| self.slices.get(key));
        slices.map(|slice| slice.service_name().to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns what changed after a revision that was seen before; `None`: everything. Whoever was away for too long, or saw
    /// another board, gets everything.
    pub fn delta(&mut self, now: Time, since: Option<u64>) -> Delta {
        self.settle();
        let oldest = now - self.limits.window;
        self.strips.values_mut().for_each(|strip| strip.forget(oldest));
        let since = since.filter(|since| *since <= self.revision && self.remembers(*since));
        let rows = &self.rows;
        let strips = self.strips.iter().filter_map(|(key, strip)| strip.since(key, since));
        Delta {
            revision: self.revision,
            at: now.as_millis(),
            whole: since.is_none(),
            pods: rows.pods.since(since),
            strips: Changes::<StripRow> { put: strips.collect(), gone: rows.strips.since(since).gone },
            services: rows.services.since(since),
            nodes: rows.nodes.since(since),
            markers: rows.markers.since(since),
            profile: rows.profile.since(since),
            events: rows.events.since(since),
        }
    }

    fn remembers(&self, since: u64) -> bool {
        let rows = &self.rows;
        rows.pods.remembers(since)
            && rows.services.remembers(since)
            && rows.nodes.remembers(since)
            && rows.markers.remembers(since)
            && rows.profile.remembers(since)
            && rows.events.remembers(since)
            && rows.strips.remembers(since)
    }

    /// Returns how many things are kept: objects, attempts, events.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let objects = self.pods.len() + self.services.len() + self.slices.len() + self.nodes.len() + self.markers.len();
        (objects, self.strips.values().map(Strip::len).sum(), self.rows.events.len())
    }
}

/// Returns whether two states of a slice are of the same Service and have the same pods in the same places.
fn same_targets(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    fn target(endpoint: &Endpoint) -> Option<&str> {
        endpoint.target_ref.as_ref().map(|target| target.uid.as_str())
    }
    a.service_name() == b.service_name()
        && a.endpoints.len() == b.endpoints.len()
        && a.endpoints.iter().zip(&b.endpoints).all(|(a, b)| target(a) == target(b))
}

fn service_of(slice: &EndpointSlice) -> String {
    format!("{}/{}", slice.metadata.namespace, slice.service_name())
}
