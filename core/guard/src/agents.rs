//! The agents of all nodes: which are lost, and which losses are not believed.

use std::collections::BTreeMap;
use std::time::Duration;

use api::moved::AGENT_LEASE_PREFIX;
use api::node::ZONE_LABEL;
use api::{Lease, Node, Timestamp};
use machine::Time;

/// A Lease that does not say for how long it holds.
const LEASE: Duration = Duration::from_secs(40);
/// With fewer agents than this nobody can tell a lost agent from a lost cluster.
const AGENTS_MIN: usize = 3;
/// The same in one zone.
const ZONE_MIN: usize = 2;

/// The agent of a node.
#[derive(Clone, Debug, PartialEq)]
struct Agent {
    renewed: Option<Timestamp>,
    /// By our own clock: clocks of nodes differ.
    expires: Time,
}

/// All agents.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    agents: BTreeMap<String, Agent>,
    /// Nodes that there are, and their zones.
    zones: BTreeMap<String, String>,
}

/// Returns the node whose agent holds a Lease.
pub(crate) fn node_of(lease: &Lease) -> Option<&str> {
    lease.metadata.name.strip_prefix(AGENT_LEASE_PREFIX)
}

impl Agents {
    /// Takes a Lease. Returns the node, if its agent has shown that it lives.
    pub(crate) fn renew(&mut self, now: Time, lease: &Lease) -> Option<String> {
        let node = node_of(lease)?;
        let renewed = lease.spec.renew_time;
        if self.agents.get(node).is_some_and(|agent| agent.renewed == renewed) {
            return None;
        }
        let expires = now + lease.spec.duration().unwrap_or(LEASE);
        self.agents.insert(node.to_owned(), Agent { renewed, expires });
        Some(node.to_owned())
    }

    /// Forgets the agent of a node.
    pub(crate) fn remove(&mut self, node: &str) {
        self.agents.remove(node);
    }

    pub(crate) fn node_seen(&mut self, node: &Node) {
        let zone = node.metadata.labels.get(ZONE_LABEL).cloned().unwrap_or_default();
        self.zones.insert(node.metadata.name.clone(), zone);
    }

    pub(crate) fn node_gone(&mut self, node: &str) {
        self.zones.remove(node);
    }

    /// Returns until when the agent of a node lives, if nothing more is heard of it; `None`: there is none.
    pub(crate) fn lives_until(&self, node: &str) -> Option<Time> {
        self.agents.get(node).map(|agent| agent.expires)
    }

    /// Returns when the next agent is lost, if nothing more is heard of it.
    pub(crate) fn next_loss(&self, now: Time) -> Option<Time> {
        self.agents.values().map(|agent| agent.expires).filter(|at| *at > now).min()
    }

    /// Returns the nodes whose agents are gone, believed or not.
    pub(crate) fn gone(&self, now: Time) -> impl Iterator<Item = &String> {
        self.agents.iter().filter(move |(_, agent)| agent.expires <= now).map(|(node, _)| node)
    }

    /// Returns whether the agent of a node is gone, as far as one can believe it.
    pub(crate) fn is_lost(&self, now: Time, node: &str) -> bool {
        let gone = |name: &String| self.agents.get(name).is_some_and(|agent| agent.expires <= now);
        if !self.zones.contains_key(node) || !gone(&node.to_owned()) {
            return false;
        }
        let all: Vec<&String> = self.agents.keys().filter(|name| self.zones.contains_key(*name)).collect();
        let lost = all.iter().filter(|name| gone(name)).count();
        if all.len() >= AGENTS_MIN && lost * 2 > all.len() {
            return false;
        }
        let zone = &self.zones[node];
        let neighbours: Vec<&&String> = all.iter().filter(|name| self.zones[**name] == *zone).collect();
        let whole = !zone.is_empty() && neighbours.len() >= ZONE_MIN && neighbours.iter().all(|name| gone(name));
        !whole
    }
}
