//! The control plane of the world: the monitor, the evictor, the rollout; and the invariants that they must keep.

use std::sync::Arc;

use api::node::Taint;
use machine::{Machine, Time};
use nodes::beats;
use nodes::eviction::{self, Evictor};
use nodes::monitor::{self, Input, LeaseFacts, Monitor, MonitoredPod, NodeFacts, Ready, ReadyFacts};
use nodes::taints::{HealthTaint, TaintEffect};
use profiles::Step;
use profiles::path::ClusterState;

use super::World;
use super::queue::Event;

impl World {
    /// Starts the controllers without memory: they find what the API says.
    pub(super) fn start_controllers(&mut self, now: Time) -> Result<(), String> {
        let mut monitor = Monitor::new(self.config, Time::ZERO);
        let mut effects = Vec::new();
        self.evictor = Evictor::new();
        for node in &self.nodes {
            let facts = NodeFacts {
                zone: self.zones[node.zone].0.clone(),
                ready: Some(ReadyFacts { status: node.ready, heartbeat: None, never_updated: false }),
                taints: node.taints.clone(),
                ..NodeFacts::new(node.name.clone())
            };
            monitor.apply(now, Input::Node(facts), &mut effects);
            let lease = LeaseFacts {
                node: node.name.clone(),
                renew_time: None,
                resource_version: String::new(),
                duration: Some(node.lease_known),
            };
            monitor.apply(now, Input::Lease(lease), &mut effects);
        }
        self.ids = self.nodes.iter().map(|node| monitor.id(&node.name).expect("added just above")).collect();
        self.monitor = Some(monitor);
        for index in 0..self.nodes.len() {
            self.tell_taints(index, now)?;
            if self.nodes[index].pod.there {
                self.tell_pod(index, now)?;
            }
        }
        self.monitor_effects(effects, now)?;
        self.evaluate(now)
    }

    pub(super) fn stop_controllers(&mut self) {
        self.monitor = None;
        self.monitor_wake = Time::MAX;
        self.evictor = Evictor::new();
        self.nodes.iter_mut().for_each(|node| node.pod.scheduled = None);
    }

    pub(super) fn heartbeat_arrives(&mut self, index: usize) -> Result<(), String> {
        let lease = self.nodes[index].lease_sent;
        self.nodes[index].lease_known = lease;
        let (now, id) = (self.now, self.ids[index]);
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        monitor.renewed(now, id, lease);
        if monitor.stirred() {
            return self.evaluate(now);
        }
        self.monitor_wake = monitor.deadline().unwrap_or(Time::MAX);
        Ok(())
    }

    pub(super) fn post_arrives(&mut self, index: usize) -> Result<(), String> {
        let (now, id) = (self.now, self.ids[index]);
        let node = &mut self.nodes[index];
        node.ready = Ready::True;
        if let Some(since) = node.not_ready_since.take() {
            let since = node.back_since.map_or(since, |back| back.max(since));
            self.stats.recovery.push(now.as_micros() - since.as_micros());
        }
        let marked = std::mem::take(&mut node.pod.marked);
        let mut effects = Vec::new();
        if let Some(monitor) = &mut self.monitor {
            monitor.post(now, id, Ready::True, &mut effects);
            if marked {
                monitor.pods_ready(id);
            }
        }
        self.monitor_effects(effects, now)?;
        if !self.nodes[index].pod.there {
            self.tell_taints(index, now)?; // of a node that is Ready now
            self.nodes[index].pod.create(now, &self.defaults);
            self.tell_pod(index, now)?;
        }
        self.evaluate(now)
    }

    /// What follows from an event, without the tick that may lie at the same instant.
    fn evaluate(&mut self, now: Time) -> Result<(), String> {
        let mut effects = Vec::new();
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        monitor.evaluate(now, &mut effects);
        self.monitor_wake = monitor.deadline().unwrap_or(Time::MAX);
        self.monitor_effects(effects, now)
    }

    pub(super) fn tick(&mut self) -> Result<(), String> {
        let mut effects = Vec::new();
        let now = self.now;
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        monitor.step(now, None, &mut effects);
        self.monitor_wake = monitor.deadline().unwrap_or(Time::MAX);
        self.monitor_effects(effects, now)?;
        if self.monitor_wake <= now {
            return Err("the monitor has a deadline that does not pass".to_owned());
        }
        Ok(())
    }

    fn monitor_effects(&mut self, effects: Vec<monitor::Effect>, now: Time) -> Result<(), String> {
        for effect in effects {
            match effect {
                monitor::Effect::SetUnknown { node, .. } => {
                    let index = index_of(&node);
                    let was_ready = std::mem::replace(&mut self.nodes[index].ready, Ready::Unknown) == Ready::True;
                    self.nodes[index].not_ready_since = Some(now);
                    match self.nodes[index].dead_since {
                        Some(died) => self.stats.detect.push(now.as_micros() - died.as_micros()),
                        None if was_ready => self.stats.false_not_ready(index),
                        None => {}
                    }
                }
                monitor::Effect::Taints { node, add, remove } => {
                    let index = index_of(&node);
                    let same = |a: &HealthTaint, b: &HealthTaint| (a.health, a.effect) == (b.health, b.effect);
                    let taints = &mut self.nodes[index].taints;
                    taints.retain(|taint| !remove.iter().chain(&add).any(|other| same(taint, other)));
                    taints.extend(add);
                    self.check_taints(index)?;
                    self.tell_taints(index, now)?;
                }
                monitor::Effect::MarkPod { node, .. } => self.nodes[index_of(&node)].pod.marked = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_taints(&self, index: usize) -> Result<(), String> {
        let node = &self.nodes[index];
        let count = node.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).count();
        if count > 1 {
            return Err(format!("{} has {count} NoExecute health taints", node.name));
        }
        if count > 0 && node.ready == Ready::True {
            return Err(format!("{} is Ready and has a NoExecute taint", node.name));
        }
        Ok(())
    }

    /// Tells the evictor of the NoExecute taints of a node.
    fn tell_taints(&mut self, index: usize, now: Time) -> Result<(), String> {
        let node = &self.nodes[index];
        let no_execute = node.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute);
        let taints: Vec<Taint> = no_execute.map(HealthTaint::taint).collect();
        let mut effects = Vec::new();
        let ready = node.ready == Ready::True;
        self.evictor.apply(now, eviction::Input::Node { name: node.name.clone(), taints, ready }, &mut effects);
        self.evictions(effects, now)
    }

    /// Tells both controllers of the pod of a node.
    fn tell_pod(&mut self, index: usize, now: Time) -> Result<(), String> {
        let node = &self.nodes[index];
        let pod = &node.pod;
        let mut effects = Vec::new();
        if let Some(monitor) = &mut self.monitor {
            let facts = MonitoredPod { key: pod.key.clone(), node: node.name.clone(), ready: !pod.marked };
            monitor.apply(now, Input::Pod(facts), &mut effects);
        }
        let facts = eviction::EvictionPod {
            key: pod.key.clone(),
            uid: Arc::from(pod.count.to_string()),
            node: node.name.clone(),
            tolerations: pod.tolerations.clone(),
            bound_at: Some(pod.bound_at),
            deleting: false,
        };
        let mut evictions = Vec::new();
        self.evictor.apply(now, eviction::Input::Pod(facts), &mut evictions);
        self.evictions(evictions, now)
    }

    pub(super) fn evict_due(&mut self) -> Result<(), String> {
        let mut effects = Vec::new();
        self.evictor.step(self.now, None, &mut effects);
        self.evictions(effects, self.now)
    }

    fn evictions(&mut self, effects: Vec<eviction::Effect>, now: Time) -> Result<(), String> {
        for effect in effects {
            let (eviction::Effect::Evict { key, .. }
            | eviction::Effect::Scheduled { key, .. }
            | eviction::Effect::Cancelled { key }) = &effect;
            let index = index_of(key.trim_start_matches("default/pod-"));
            let pod = &mut self.nodes[index].pod;
            match effect {
                eviction::Effect::Scheduled { at, .. } => {
                    if at <= now || pod.scheduled.replace(at) == Some(at) {
                        return Err(format!("{} was scheduled in vain", pod.key));
                    }
                }
                eviction::Effect::Cancelled { .. } => {
                    if pod.scheduled.take().is_none() {
                        return Err(format!("{} was called off without having been scheduled", pod.key));
                    }
                }
                eviction::Effect::Evict { key, .. } => {
                    (pod.scheduled, pod.there) = (None, false);
                    self.evictor.apply(now, eviction::Input::PodDeleted(key.clone()), &mut Vec::new());
                    if let Some(monitor) = &mut self.monitor {
                        monitor.apply(now, Input::PodDeleted(key), &mut Vec::new());
                    }
                    match self.nodes[index].dead_since {
                        Some(died) => self.stats.evict.push(now.as_micros() - died.as_micros()),
                        None => self.stats.false_eviction(index),
                    }
                    if self.nodes[index].ready == Ready::True {
                        return Err(format!("a pod of {} was evicted although it is Ready", self.nodes[index].name));
                    }
                }
            }
        }
        Ok(())
    }

    /// Every announced eviction has happened or was called off.
    pub(super) fn check_end(&self) -> Result<(), String> {
        match self.nodes.iter().find(|node| node.pod.scheduled.is_some_and(|at| at <= self.end)) {
            Some(node) => Err(format!("the eviction of {} was announced and forgotten", node.pod.key)),
            None => Ok(()),
        }
    }

    pub(super) fn start_rollout(&mut self) {
        if let Some(rollout) = &mut self.rollout
            && rollout.start_steps()
        {
            self.next_step = self.now + rollout.step_time;
            self.queue.push(self.next_step, Event::Step);
        }
    }

    pub(super) fn rollout_step(&mut self) -> Result<(), String> {
        let now = self.now;
        let Some(mut rollout) = self.rollout.take() else { return Ok(()) };
        for step in rollout.finish_steps()? {
            if let Step::Node { name, heartbeat } = step {
                let index = index_of(&name);
                self.nodes[index].interval = heartbeat;
                self.step_agent(index, now, Some(beats::Input::SetInterval(heartbeat)));
                self.schedule_wake(index);
                self.enter_state(index);
            } else {
                self.config.grace = rollout.grace();
                (self.defaults.not_ready_seconds, self.defaults.unreachable_seconds) = rollout.tolerations();
                if let Some(monitor) = &mut self.monitor {
                    monitor.apply(now, Input::Configure(self.config), &mut Vec::new());
                }
                self.evaluate(now)?;
                (0..self.nodes.len()).for_each(|index| self.enter_state(index));
            }
        }
        for (seen, node) in rollout.observed.nodes.iter_mut().zip(&self.nodes) {
            seen.not_ready_for = node.not_ready_since.map(|since| now.since(since));
        }
        self.next_step = Time::MAX;
        // Nodes that are away now may come back with old values: look again as long as any differs.
        let first = rollout.observed.nodes.first().map(|node| node.heartbeat);
        let mixed = rollout.observed.nodes.iter().any(|node| Some(node.heartbeat) != first);
        if rollout.start_steps() || mixed {
            self.next_step = now + rollout.step_time;
            self.queue.push(self.next_step, Event::Step);
        }
        self.rollout = Some(rollout);
        self.find_next_control();
        Ok(())
    }

    fn enter_state(&mut self, index: usize) {
        let state = ClusterState {
            interval: self.nodes[index].interval,
            grace: self.config.grace,
            toleration_seconds: self.defaults.unreachable_seconds,
        };
        self.stats.enter(index, state, self.now);
    }

    /// Finds the next instant at which settings or the memory of the controllers change.
    pub(super) fn find_next_control(&mut self) {
        let now = self.now;
        let list = self.controller_manager.list();
        let span = &list[list.partition_point(|(_, to)| *to <= now)..];
        let boundary = span.first().map_or(Time::MAX, |(from, to)| if *from > now { *from } else { *to });
        self.next_control = self.next_step.min(boundary);
    }
}

/// Returns the index of a node from its name, `n` and a number.
fn index_of(name: &str) -> usize {
    name.trim_start_matches('n').parse().expect("the names of nodes are ours")
}
