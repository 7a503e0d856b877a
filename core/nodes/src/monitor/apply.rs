//! Facts: what each changes in the monitor's memory.

use std::sync::Arc;

use machine::Time;

use super::facts::{Input, LeaseFacts, MonitoredPod, NodeFacts, Ready};
use super::node::Node;
use super::zone::Zone;
use super::{Config, Effect, Monitor, NodeId, UnknownReason};

impl Monitor {
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
        if self.node(id).own_grace != facts.grace {
            let config = self.config;
            let node = self.node_mut(id);
            node.own_grace = facts.grace;
            node.raise_grace(&config);
            self.watch(id);
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
        if let Some(duration) = lease.duration {
            self.set_lease_duration(id, duration);
        }
        self.node_mut(id).lease = Some(lease);
        if changed {
            self.heard(now, id);
        }
    }

    fn pod(&mut self, pod: MonitoredPod) {
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
            node.raise_grace(&config);
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
}
