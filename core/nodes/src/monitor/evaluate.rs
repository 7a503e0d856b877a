//! What follows from the facts of an instant: isolation, zones, taints, queues, in this order.

use machine::Time;

use super::facts::Ready;
use super::{Effect, Monitor, NodeId, ZoneState};
use crate::taints::Health;

/// With so many workers the isolation guard asks workers only: control plane nodes sit beside the control plane.
pub(super) const BASE_OF_WORKERS: usize = 3;
/// With fewer nodes in its base the isolation guard does not speak.
pub(super) const BASE_MIN: usize = 2;

impl Monitor {
    /// Evaluates everything that the facts since the last time, or the time itself, can have changed.
    ///
    /// [`Machine::step`](machine::Machine::step) does so after the silence check; alone it is what follows an event.
    pub fn evaluate(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.evaluate_isolation(now, effects);
        // Zones before the queue, so that no node of a zone that has just broken down is tainted.
        self.evaluate_zones(now, effects);
        self.evaluate_nodes(now, effects);
        self.serve_queues(now, effects);
    }

    pub(super) const fn base_size(&self) -> usize {
        if self.workers >= BASE_OF_WORKERS { self.workers } else { self.counted }
    }

    fn evaluate_isolation(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let heard_until = self.heard_until.unwrap_or_else(|| self.find_heard_until(now));
        self.heard_until = Some(heard_until);
        if self.pardoned_at == Some(now) {
            return; // the fresh grace of this instant says nothing about who is heard; the next one tells
        }
        self.pardoned_at = None;
        let isolated = self.base_size() >= BASE_MIN && heard_until < now;
        if std::mem::replace(&mut self.isolated, isolated) == isolated {
            return;
        }
        effects.push(if isolated { Effect::Isolated } else { Effect::Connected });
        if !isolated {
            self.pardon_all(now);
        }
    }

    /// Returns until when somebody of the base is not suspiciously silent.
    fn find_heard_until(&self, now: Time) -> Time {
        let workers_only = self.workers >= BASE_OF_WORKERS;
        let base = self.nodes.iter().flatten().filter(|node| node.in_base(workers_only));
        base.map(super::Node::quiet_until).max().unwrap_or(now)
    }

    /// Gives every node a fresh grace: what it said while we could not listen is not its fault.
    fn pardon_all(&mut self, now: Time) {
        for id in self.ids() {
            let node = self.node_mut(id);
            node.last_seen = node.last_seen.max(now);
            self.touch(id);
        }
        self.heard_until = Some(self.find_heard_until(now));
    }

    fn evaluate_zones(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if !std::mem::take(&mut self.zones_dirty) {
            return;
        }
        for zone in &mut self.zones {
            let state = zone.judge(&self.config);
            // The first state of a zone is news only if it is bad news.
            if let Some(state) = state
                && state != zone.state.unwrap_or(ZoneState::Normal)
            {
                effects.push(Effect::Zone { zone: zone.name.clone(), state });
            }
            zone.state = state;
        }
        let mut states = self.zones.iter().filter_map(|zone| zone.state).peekable();
        let full = states.peek().is_some() && states.all(|state| state == ZoneState::FullDisruption);
        if std::mem::replace(&mut self.full_disruption, full) != full {
            effects.push(if full { Effect::FullDisruption } else { Effect::Recovering });
            if full {
                self.ids().into_iter().for_each(|id| self.touch(id));
            } else {
                self.pardon_all(now);
                self.pardoned_at = self.isolated.then_some(now);
            }
        }
        for zone in &mut self.zones {
            let pace = if full { None } else { zone.pace(&self.config) };
            zone.bucket.set_pace(now, pace);
        }
    }

    fn evaluate_nodes(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((_, id)) = self.revivals.first().copied().filter(|(until, _)| *until < now) {
            self.set_revival(id, None);
            self.touch(id);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        if dirty.len() > 1 {
            dirty.sort_by(|a, b| self.node(*a).name.cmp(&self.node(*b).name));
        }
        for id in &dirty {
            self.node_mut(*id).dirty = false;
            self.evaluate_node(*id, now, effects);
        }
        dirty.clear();
        self.dirty = dirty; // keep the allocation
    }

    fn evaluate_node(&mut self, id: NodeId, now: Time, effects: &mut Vec<Effect>) {
        let (isolated, full) = (self.isolated, self.full_disruption);
        let node = self.node(id);
        let expiry = node.expiry();
        let silent = node.ready == Some(Ready::Unknown) && expiry < now;
        let revival = (node.ready == Some(Ready::Unknown) && !silent).then_some(expiry);
        let (ready, keep, granted) = (node.ready, node.keep, node.granted);
        self.set_revival(id, revival);
        if silent && !isolated {
            self.mark_pods(id, effects);
        }
        let wants_taint = match ready {
            Some(Ready::False) => true,
            Some(Ready::Unknown) => silent && !keep && !isolated,
            Some(Ready::True) | None => false,
        };
        if ready == Some(Ready::True) || full {
            self.node_mut(id).granted = None;
            self.dequeue(id);
        } else if wants_taint {
            let health = self.node(id).health();
            match granted {
                Some((other, _)) if other != health && !isolated => self.node_mut(id).granted = Some((health, now)),
                Some(_) => {}
                None => self.enqueue(id, now),
            }
        } else if keep || revival.is_some() {
            self.dequeue(id);
        }
        self.emit_taints(id, effects);
    }

    /// Marks the pods of a silent node that are still ready: nobody else can say that they are not.
    fn mark_pods(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        let node = self.node(id).name.clone();
        for (key, ready) in self.pods.get_mut(&node).into_iter().flatten() {
            if std::mem::replace(ready, false) {
                effects.push(Effect::MarkPod { key: key.clone(), node: node.clone() });
            }
        }
    }

    fn emit_taints(&mut self, id: NodeId, effects: &mut Vec<Effect>) {
        let node = self.node_mut(id);
        let (add, remove) = node.settle_taints();
        if !add.is_empty() || !remove.is_empty() {
            effects.push(Effect::Taints { node: node.name.clone(), add, remove });
        }
    }

    fn serve_queues(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.isolated || self.queued == 0 {
            return;
        }
        for index in 0..self.zones.len() {
            while self.zones[index].bucket.token(now)
                && let Some(id) = self.zones[index].queue.first_key_value().map(|(_, id)| *id)
            {
                self.zones[index].bucket.take(now);
                self.dequeue(id);
                let node = self.node_mut(id);
                node.granted = Some((node.health(), now));
                self.emit_taints(id, effects);
            }
        }
    }

    /// Returns when the next token lets somebody out of a queue.
    pub(super) fn next_token(&self) -> Option<Time> {
        if self.isolated || self.queued == 0 {
            return None;
        }
        self.zones.iter().filter(|zone| !zone.queue.is_empty()).filter_map(|zone| zone.bucket.token_at()).min()
    }

    pub(super) fn enqueue(&mut self, id: NodeId, since: Time) {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        if node.queued.is_none() {
            node.queued = Some(since);
            self.queued += 1;
            self.zones[node.zone].queue.insert((since, node.name.clone()), id);
        }
    }

    /// Takes a node out of its queue, and returns since when it was there.
    pub(super) fn dequeue(&mut self, id: NodeId) -> Option<Time> {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        let since = node.queued.take()?;
        self.queued -= 1;
        self.zones[node.zone].queue.remove(&(since, node.name.clone()));
        Some(since)
    }

    pub(super) fn set_revival(&mut self, id: NodeId, until: Option<Time>) {
        let node = self.nodes[id.0 as usize].as_mut().expect("the handle of a node that is there");
        let before = std::mem::replace(&mut node.revival, until);
        if before == until {
            return;
        }
        if let Some(before) = before {
            self.revivals.remove(&(before, id));
        }
        if let Some(until) = until {
            self.revivals.insert((until, id));
        }
    }
}

const _: () = assert!(Health::NotReady as usize == 0 && Health::Unreachable as usize == 1, "indexes of taint arrays");
