//! The node lifecycle controller: from silence to conditions and taints.
//!
//! Facts come in as they happen; every [`Config::monitor_period`] the silence of each node is checked; after both,
//! isolation, zones, taints and queues are evaluated (`evaluate`). A healthy node costs a few instructions per heartbeat and
//! nothing per tick: only nodes whose time may be up are looked at, and [`Machine::deadline`] names the next tick at which
//! anything can happen.
//!
//! Silence is measured on the clock of this controller from the arrival of a heartbeat. What a node says about its own
//! clock is compared for change only: a clock set back must not kill a node (kubernetes issue 113081).

mod effect;
mod evaluate;
mod facts;
mod node;
#[cfg(test)]
mod tests;
mod zone;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use machine::{Machine, Time};

pub use effect::{Effect, UnknownReason, unknown_conditions};
pub use facts::{
    ANNOTATION_OFFLINE_POLICY, Input, LABEL_CONTROL_PLANE, LABEL_EXCLUDE_DISRUPTION, LABEL_REGION, LABEL_ZONE, LeaseFacts,
    NodeFacts, PodFacts, Ready, ReadyFacts,
};
use node::Node;
use zone::Zone;
pub use zone::ZoneState;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How long a node may be silent; `--node-monitor-grace-period`.
    pub grace: Duration,
    /// The same for a node that has never posted a status.
    pub startup_grace: Duration,
    /// How often silence is checked; more than zero.
    pub monitor_period: Duration,
    /// Nodes tainted per second in a zone.
    pub eviction_rate: f64,
    /// The same in a large zone under partial disruption.
    pub secondary_eviction_rate: f64,
    /// A zone with more nodes than this is large.
    pub large_zone: usize,
    /// From this part of nodes not ready on a zone is under partial disruption.
    pub unhealthy_zone_threshold: f64,
    /// Whether a node is never judged by less than the duration of its own Lease.
    pub lease_aware_grace: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            grace: Duration::from_secs(40),
            startup_grace: Duration::from_secs(60),
            monitor_period: Duration::from_secs(5),
            eviction_rate: 0.1,
            secondary_eviction_rate: 0.01,
            large_zone: 50,
            unhealthy_zone_threshold: 0.55,
            lease_aware_grace: true,
        }
    }
}

/// A node known to a monitor; valid until the node is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(u32);

/// The node lifecycle controller.
#[derive(Clone, Debug)]
pub struct Monitor {
    config: Config,
    /// Ticks lie at whole periods from here.
    origin: Time,
    nodes: Vec<Option<Node>>,
    free: Vec<NodeId>,
    names: BTreeMap<Arc<str>, NodeId>,
    /// Leases that came before their nodes.
    early_leases: BTreeMap<Arc<str>, LeaseFacts>,
    /// Readiness of pods by node: also of nodes that are not there (yet).
    pods: BTreeMap<Arc<str>, BTreeMap<Arc<str>, bool>>,
    pod_nodes: BTreeMap<Arc<str>, Arc<str>>,
    zones: Vec<Zone>,
    /// When to look at whom: a bound from below, since heartbeats do not touch it. Stale entries differ from `check_at`.
    expiries: BinaryHeap<Reverse<(Time, NodeId)>>,
    /// When the fresh grace of Unknown nodes ends.
    revivals: BTreeSet<(Time, NodeId)>,
    dirty: Vec<NodeId>,
    zones_dirty: bool,
    /// Nodes without the exclusion label: workers, and all.
    workers: usize,
    counted: usize,
    /// Until when somebody of the base is not suspiciously silent; `None`: to be found out.
    heard_until: Option<Time>,
    isolated: bool,
    full_disruption: bool,
    /// When every node got a fresh grace although the control plane is isolated.
    pardoned_at: Option<Time>,
}

impl Monitor {
    /// Returns a monitor that knows nothing yet. Tell it every node, Lease and pod, then [`Machine::step`].
    pub fn new(config: Config, origin: Time) -> Monitor {
        Monitor {
            config,
            origin,
            nodes: Vec::new(),
            free: Vec::new(),
            names: BTreeMap::new(),
            early_leases: BTreeMap::new(),
            pods: BTreeMap::new(),
            pod_nodes: BTreeMap::new(),
            zones: Vec::new(),
            expiries: BinaryHeap::new(),
            revivals: BTreeSet::new(),
            dirty: Vec::new(),
            zones_dirty: false,
            workers: 0,
            counted: 0,
            heard_until: None,
            isolated: false,
            full_disruption: false,
            pardoned_at: None,
        }
    }

    /// Returns the settings in force.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether the control plane seems to be cut off.
    pub const fn isolated(&self) -> bool {
        self.isolated
    }

    /// Returns whether no zone has a ready node.
    pub const fn full_disruption(&self) -> bool {
        self.full_disruption
    }

    /// Returns the handle of a node.
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Returns the condition Ready of a node as the monitor knows it.
    pub fn ready(&self, id: NodeId) -> Option<Ready> {
        self.node(id).ready
    }

    /// Returns when a node was last heard.
    pub fn last_seen(&self, id: NodeId) -> Time {
        self.node(id).last_seen
    }

    /// Returns each zone: name, state, nodes without the exclusion label, those of them that are not ready; for metrics.
    pub fn zones(&self) -> impl Iterator<Item = (&str, Option<ZoneState>, usize, usize)> {
        let used = self.zones.iter().filter(|zone| zone.nodes > 0);
        used.map(|zone| (&*zone.name, zone.state, zone.counted, zone.counted - zone.ready))
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes[id.0 as usize].as_ref().expect("the handle of a node that is there")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there")
    }

    fn ids(&self) -> Vec<NodeId> {
        self.names.values().copied().collect()
    }

    /// Takes a fact. What follows from it is found by the next [`Machine::step`], so that many facts can be taken as one.
    pub fn apply(&mut self, now: Time, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Node(facts) => match self.id(&facts.name) {
                Some(id) if self.node(id).uid == facts.uid => self.update_node(now, id, &facts, effects),
                Some(_) => {
                    self.delete_node(&facts.name, effects);
                    self.add_node(now, &facts, effects);
                }
                None => self.add_node(now, &facts, effects),
            },
            Input::NodeDeleted(name) => self.delete_node(&name, effects),
            Input::Lease(lease) => match self.id(&lease.node) {
                Some(id) => self.lease(now, id, lease),
                None => drop(self.early_leases.insert(lease.node.clone(), lease)),
            },
            Input::LeaseDeleted(name) => {
                self.early_leases.remove(&name);
                if let Some(id) = self.id(&name) {
                    self.node_mut(id).lease = None;
                }
            }
            Input::Pod(pod) => self.pod(pod),
            Input::PodDeleted(key) => self.delete_pod(&key),
            Input::Configure(config) => self.configure(config),
        }
    }

    fn add_node(&mut self, now: Time, facts: &NodeFacts, effects: &mut Vec<Effect>) {
        let zone = self.zone(&facts.zone, now);
        let mut node = Node::new(facts, zone, now, &self.config);
        node.observe_taints(&facts.taints, now, self.full_disruption);
        let id = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            NodeId(u32::try_from(self.nodes.len() - 1).expect("fewer nodes than u32 can count"))
        });
        self.nodes[id.0 as usize] = Some(node);
        self.names.insert(facts.name.clone(), id);
        self.count(id, 1);
        effects.push(Effect::Registered(facts.name.clone()));
        if let Some(lease) = self.early_leases.remove(&facts.name) {
            self.lease(now, id, lease);
        }
        self.watch(id);
        self.touch(id);
    }

    fn delete_node(&mut self, name: &Arc<str>, effects: &mut Vec<Effect>) {
        self.early_leases.remove(name);
        let Some(id) = self.id(name) else { return };
        self.dequeue(id);
        self.set_revival(id, None);
        self.count(id, -1);
        self.names.remove(name);
        self.nodes[id.0 as usize] = None;
        self.dirty.retain(|dirty| *dirty != id);
        self.free.push(id);
        effects.push(Effect::Removing(name.clone()));
    }

    fn update_node(&mut self, now: Time, id: NodeId, facts: &NodeFacts, effects: &mut Vec<Effect>) {
        let zone = self.zone(&facts.zone, now);
        let node = self.node(id);
        if (node.zone, node.excluded, node.control_plane) != (zone, facts.excluded, facts.control_plane) {
            let queued = self.dequeue(id);
            self.count(id, -1);
            let node = self.node_mut(id);
            (node.zone, node.excluded, node.control_plane) = (zone, facts.excluded, facts.control_plane);
            self.count(id, 1);
            if let Some(since) = queued {
                self.enqueue(id, since);
            }
        }
        let all_stop = self.full_disruption;
        let node = self.node_mut(id);
        node.keep = facts.keep;
        let before = std::mem::replace(&mut node.observed, facts.ready);
        if let Some(ready) = facts.ready.filter(|_| before != facts.ready) {
            match ready.status {
                Ready::Unknown => self.set_ready(id, Ready::Unknown, effects),
                status => self.post(now, id, status, effects),
            }
        } else if facts.ready.is_some_and(|ready| ready.status != Ready::Unknown) && node.ready == Some(Ready::Unknown) {
            // Our own write is missing.
            let reason = if node.posted { UnknownReason::StoppedPosting } else { UnknownReason::NeverUpdated };
            effects.push(Effect::SetUnknown { node: node.name.clone(), reason });
        }
        self.node_mut(id).observe_taints(&facts.taints, now, all_stop);
        self.touch(id);
    }

    /// Takes a Lease: a heartbeat if it differs from the one remembered.
    fn lease(&mut self, now: Time, id: NodeId, lease: LeaseFacts) {
        let node = self.node(id);
        let changed = node
            .lease
            .as_ref()
            .is_none_or(|before| before.renew_time != lease.renew_time || before.resource_version != lease.resource_version);
        if lease.duration.is_some() && lease.duration != node.lease_duration {
            self.node_mut(id).lease_duration = lease.duration;
            self.heard_until = None; // its own share in this may have shrunk
            self.watch(id);
        }
        self.node_mut(id).lease = Some(lease);
        if changed {
            self.heard(now, id);
        }
    }

    /// Takes a heartbeat of a node, arrived now.
    pub fn heard(&mut self, now: Time, id: NodeId) {
        let grace = self.config.grace;
        let workers_only = self.workers >= evaluate::BASE_OF_WORKERS;
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        node.last_seen = now;
        node.grace = grace; // a lower grace applies from the next heartbeat on: this one
        if node.in_base(workers_only) {
            self.heard_until = self.heard_until.map(|until| until.max(node.quiet_until()));
        }
        if node.ready == Some(Ready::Unknown) {
            self.touch(id);
        } else if node.expiry(&self.config) < node.check_at {
            self.watch(id);
        }
    }

    /// Takes a status post of a node, arrived now: a heartbeat that also says whether the node is ready.
    pub fn post(&mut self, now: Time, id: NodeId, ready: Ready, effects: &mut Vec<Effect>) {
        self.node_mut(id).posted = true;
        self.heard(now, id);
        self.set_ready(id, ready, effects);
    }

    /// Gives a node's pods their readiness back without a pod object, for worlds that have none.
    pub fn pods_ready(&mut self, id: NodeId) {
        if let Some(pods) = self.pods.get_mut(&self.nodes[id.0 as usize].as_ref().expect("the handle of a node").name) {
            pods.values_mut().for_each(|ready| *ready = true);
        }
    }

    fn set_ready(&mut self, id: NodeId, ready: Ready, effects: &mut Vec<Effect>) {
        let node = self.node_mut(id);
        let before = node.ready.replace(ready);
        if before == Some(ready) {
            return;
        }
        if before == Some(Ready::True) {
            effects.push(Effect::NotReady(node.name.clone()));
        }
        let (zone, excluded) = (node.zone, node.excluded);
        if !excluded {
            let zone = &mut self.zones[zone];
            zone.ready += usize::from(ready == Ready::True);
            zone.ready -= usize::from(before == Some(Ready::True));
            self.zones_dirty = true;
        }
        if ready != Ready::Unknown {
            self.set_revival(id, None);
            self.watch(id);
        }
        self.touch(id);
    }

    fn pod(&mut self, pod: PodFacts) {
        if self.pod_nodes.get(&pod.key).is_some_and(|node| *node != pod.node) {
            self.delete_pod(&pod.key);
        }
        if pod.node.is_empty() {
            return;
        }
        self.pod_nodes.insert(pod.key.clone(), pod.node.clone());
        let id = self.id(&pod.node);
        self.pods.entry(pod.node).or_default().insert(pod.key, pod.ready);
        if let Some(id) = id {
            self.touch(id);
        }
    }

    fn delete_pod(&mut self, key: &Arc<str>) {
        let Some(node) = self.pod_nodes.remove(key) else { return };
        if let Some(pods) = self.pods.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods.remove(&node);
            }
        }
    }

    fn configure(&mut self, config: Config) {
        self.config = config;
        self.zones_dirty = true;
        for id in self.ids() {
            let node = self.node_mut(id);
            // Raised: also for the current silence. Lowered: not before the node is heard again.
            node.grace = node.grace.max(config.grace);
            self.watch(id);
            self.touch(id);
        }
    }

    /// Counts a node in its zone and in the base of the isolation guard, or counts it out.
    fn count(&mut self, id: NodeId, sign: isize) {
        let node = self.nodes[id.0 as usize].as_ref().expect("the handle of a node that is there");
        let zone = &mut self.zones[node.zone];
        zone.nodes = zone.nodes.wrapping_add_signed(sign);
        if !node.excluded {
            zone.counted = zone.counted.wrapping_add_signed(sign);
            zone.ready = zone.ready.wrapping_add_signed(if node.is_ready() { sign } else { 0 });
            self.counted = self.counted.wrapping_add_signed(sign);
            self.workers = self.workers.wrapping_add_signed(if node.control_plane { 0 } else { sign });
        }
        self.zones_dirty = true;
        self.heard_until = None;
    }

    fn zone(&mut self, name: &Arc<str>, now: Time) -> usize {
        // Zones are few: a scan beats a map.
        match self.zones.iter().position(|zone| zone.name == *name) {
            Some(index) => {
                if self.zones[index].nodes == 0 {
                    self.zones[index] = Zone::new(name.clone(), now);
                }
                index
            }
            None => {
                self.zones.push(Zone::new(name.clone(), now));
                self.zones.len() - 1
            }
        }
    }

    /// Has a node evaluated by the next step.
    fn touch(&mut self, id: NodeId) {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        if !std::mem::replace(&mut node.dirty, true) {
            self.dirty.push(id);
        }
    }

    /// Makes sure that the silence check looks at a node as soon as its time may be up.
    fn watch(&mut self, id: NodeId) {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        let expiry = node.expiry(&self.config);
        if node.ready != Some(Ready::Unknown) && expiry < node.check_at {
            node.check_at = expiry;
            self.expiries.push(Reverse((expiry, id)));
        }
    }

    /// Checks the silence of all nodes, as a tick does.
    ///
    /// [`Machine::step`] does so by itself whenever a tick can matter; an additional check at another tick changes nothing.
    pub fn check_silence(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let mut silent = Vec::new();
        while let Some(Reverse((at, id))) = self.expiries.peek().copied().filter(|Reverse((at, _))| *at < now) {
            self.expiries.pop();
            let Some(node) = self.nodes[id.0 as usize].as_mut().filter(|node| node.check_at == at) else { continue };
            node.check_at = Time::MAX;
            if node.ready == Some(Ready::Unknown) {
                continue;
            }
            if node.expiry(&self.config) < now {
                silent.push((node.name.clone(), id));
            } else {
                self.watch(id);
            }
        }
        silent.sort();
        for (name, id) in silent {
            let posted = self.node(id).posted;
            let reason = if posted { UnknownReason::StoppedPosting } else { UnknownReason::NeverUpdated };
            effects.push(Effect::SetUnknown { node: name, reason });
            self.set_ready(id, Ready::Unknown, effects);
        }
    }

    /// Returns the first tick at which silence can matter.
    fn next_tick(&self) -> Option<Time> {
        let expiry = self.expiries.peek().map(|Reverse((at, _))| *at);
        let revival = self.revivals.first().map(|(at, _)| *at);
        let isolation = self.heard_until.filter(|_| !self.isolated && self.base_size() >= evaluate::BASE_MIN);
        let last_quiet = [expiry, revival, isolation, self.pardoned_at].into_iter().flatten().min()?;
        let period = i64::try_from(self.config.monitor_period.as_micros()).unwrap_or(i64::MAX).max(1);
        let passed = last_quiet.as_micros().saturating_sub(self.origin.as_micros()).max(-1);
        let ticks = passed.div_euclid(period).saturating_add(1);
        Some(Time::from_micros(self.origin.as_micros().saturating_add(ticks.saturating_mul(period))))
    }
}

impl Machine for Monitor {
    type Input = Input;
    type Effect = Effect;

    fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        if let Some(input) = input {
            self.apply(now, input, effects);
        }
        if self.next_tick().is_some_and(|tick| tick <= now) {
            self.check_silence(now, effects);
        }
        self.evaluate(now, effects);
    }

    fn deadline(&self) -> Option<Time> {
        self.next_tick().into_iter().chain(self.next_token()).min()
    }
}
