//! The node lifecycle controller: from silence to conditions and taints.
//!
//! Facts come in as they happen; every [`Config::monitor_period`] the silence of each node is checked; after both,
//! isolation, zones, taints and queues are evaluated (`evaluate`). A healthy node costs a few instructions per heartbeat and
//! nothing per tick: only nodes whose time may be up are looked at, and [`Machine::deadline`] names the next tick at which
//! anything can happen.
//!
//! Silence is measured on the clock of this controller from the arrival of a heartbeat. What a node says about its own
//! clock is compared for change only: a clock set back must not kill a node (kubernetes issue 113081).

mod apply;
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
    MonitoredPod, NodeFacts, Ready, ReadyFacts,
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
    /// How many nodes wait in the queues of all zones.
    queued: usize,
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
            queued: 0,
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

    fn set_lease_duration(&mut self, id: NodeId, duration: Duration) {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        if node.lease_duration.replace(duration) != Some(duration) {
            node.measure(&self.config);
            self.heard_until = None; // its own share in this may have shrunk
            self.watch(id);
        }
    }

    /// Takes a heartbeat of a node, arrived now.
    pub fn heard(&mut self, now: Time, id: NodeId) {
        let workers_only = self.workers >= evaluate::BASE_OF_WORKERS;
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        node.last_seen = node.last_seen.max(now); // it may have been heard ahead
        node.take_grace(&self.config); // a lower grace applies from the next heartbeat on: this one
        if node.in_base(workers_only) {
            self.heard_until = self.heard_until.map(|until| until.max(node.quiet_until()));
        }
        if node.ready == Some(Ready::Unknown) {
            self.touch(id);
        } else if node.expiry() < node.check_at {
            self.watch(id);
        }
    }

    /// Takes a renewal of a node's Lease, arrived now, with the duration that it carries.
    pub fn renewed(&mut self, now: Time, id: NodeId, duration: Duration) {
        self.set_lease_duration(id, duration);
        self.heard(now, id);
    }

    /// Returns whether the facts taken since the last evaluation can change anything; a heartbeat of a ready node cannot.
    pub fn stirred(&self) -> bool {
        self.isolated || self.zones_dirty || self.heard_until.is_none() || !self.dirty.is_empty()
    }

    /// Takes a heartbeat that is under way and arrives at `at`, if nothing that happens until then can depend on it.
    ///
    /// For simulations: a healthy node then costs no event, however far it is ahead of the others. Its heartbeats are never
    /// further apart than the isolation guard listens and the grace lasts, so that at no instant before `at` the answer to
    /// any question differs. Returns whether the heartbeat was taken; if not, it must be taken when it arrives. No change of
    /// the settings and no restart may come before `at`.
    #[inline]
    pub fn heard_ahead(&mut self, at: Time, id: NodeId) -> bool {
        if self.isolated || self.full_disruption {
            return false;
        }
        let workers_only = self.workers >= evaluate::BASE_OF_WORKERS;
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        let steady =
            node.ready == Some(Ready::True) && node.grace == node.wanted_grace(&self.config) && node.in_base(workers_only);
        if !steady || node.expiry() < at || node.quiet_until() < at {
            return false;
        }
        node.last_seen = at;
        self.heard_until = self.heard_until.map(|until| until.max(node.quiet_until()));
        true
    }

    /// Takes a status post of a node, arrived now: a heartbeat that also says whether the node is ready.
    pub fn post(&mut self, now: Time, id: NodeId, ready: Ready, effects: &mut Vec<Effect>) {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        if !std::mem::replace(&mut node.posted, true) {
            node.measure(&self.config);
        }
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
        let expiry = node.expiry();
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
            if node.expiry() < now {
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
