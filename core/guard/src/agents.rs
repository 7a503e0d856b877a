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
    /// For how long its Lease holds.
    duration: Duration,
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
        let held_back = self.held_back(now);
        let duration = lease.spec.duration().unwrap_or(LEASE);
        self.agents.insert(node.to_owned(), Agent { renewed, expires: now + duration, duration });
        self.wait_for(now, &held_back);
        Some(node.to_owned())
    }

    /// Where it was us, agents come back one after the other: those that this one alone makes look lost get the time of a Lease.
    fn wait_for(&mut self, now: Time, held_back: &[String]) {
        if held_back.is_empty() {
            return;
        }
        let losses = self.losses(now);
        let believed: Vec<&String> = held_back.iter().filter(|node| losses.believed(self, now, node)).collect();
        for node in believed {
            if let Some(agent) = self.agents.get_mut(node) {
                agent.expires = now + agent.duration;
            }
        }
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
        self.losses(now).believed(self, now, node)
    }

    fn is_gone(&self, now: Time, node: &str) -> bool {
        self.zones.contains_key(node) && self.agents.get(node).is_some_and(|agent| agent.expires <= now)
    }

    fn losses(&self, now: Time) -> Losses<'_> {
        let mut losses = Losses::default();
        for (node, agent) in &self.agents {
            let Some(zone) = self.zones.get(node) else { continue };
            let gone = usize::from(agent.expires <= now);
            let of_zone = losses.zones.entry(zone).or_default();
            *of_zone = (of_zone.0 + 1, of_zone.1 + gone);
            losses.all = (losses.all.0 + 1, losses.all.1 + gone);
        }
        losses
    }

    /// Returns the nodes whose agents are gone and not believed to be lost.
    fn held_back(&self, now: Time) -> Vec<String> {
        let losses = self.losses(now);
        let gone = self.gone(now).filter(|node| self.is_gone(now, node));
        gone.filter(|node| !losses.believed(self, now, node)).cloned().collect()
    }
}

/// How many agents there are, and how many of them are gone: of all nodes, and by zone.
#[derive(Default)]
struct Losses<'a> {
    all: (usize, usize),
    zones: BTreeMap<&'a str, (usize, usize)>,
}

impl Losses<'_> {
    fn believed(&self, agents: &Agents, now: Time, node: &str) -> bool {
        let (all, lost) = self.all;
        if !agents.is_gone(now, node) || (all >= AGENTS_MIN && lost * 2 > all) {
            return false;
        }
        let zone = agents.zones[node].as_str();
        let (all, lost) = self.zones.get(zone).copied().unwrap_or_default();
        zone.is_empty() || all < ZONE_MIN || lost < all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(node: &str, renewed: i64) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = format!("{AGENT_LEASE_PREFIX}{node}");
        lease.spec.renew_time = Some(Timestamp(Time::from_secs(renewed)));
        lease
    }

    #[test]
    fn agents_that_come_back_one_after_the_other_are_waited_for() {
        let (mut agents, nodes) = (Agents::default(), ["a", "b", "c", "d"]);
        for name in nodes {
            let mut node = Node::default();
            node.metadata.name = name.to_owned();
            agents.node_seen(&node);
            agents.renew(Time::from_secs(0), &lease(name, 0));
        }
        let silent = Time::from_secs(100);
        assert!(nodes.iter().all(|node| !agents.is_lost(silent, node)), "all at once: it is us");
        for (name, seconds) in [("a", 101), ("b", 102), ("c", 103)] {
            agents.renew(Time::from_secs(seconds), &lease(name, seconds));
        }
        // Half of them is the most that is believed: from the second return on the others count as lost.
        assert!(!agents.is_lost(Time::from_secs(104), "d"), "it has the time of a Lease to come back");
        for (name, seconds) in [("a", 130), ("b", 130), ("c", 130)] {
            agents.renew(Time::from_secs(seconds), &lease(name, seconds));
        }
        assert!(agents.is_lost(Time::from_secs(102) + LEASE, "d"), "and is lost when it does not");
    }
}
