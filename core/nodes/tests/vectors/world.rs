//! A small cluster in virtual time around the monitor and the evictor: an API that keeps what they write.
//!
//! It stops a script with an error as soon as an invariant of node lifecycle is broken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::node::Taint;
use api::pod::Toleration;
use machine::{Machine, Time};
use nodes::eviction::{self, Evictor};
use nodes::monitor::{Config, Effect, Input, LeaseFacts, Monitor, MonitoredPod, NodeFacts, Ready, ReadyFacts, UnknownReason};
use nodes::taints::{HealthTaint, TaintEffect};
use nodes::tolerations::{Defaults, missing};

/// Returns an instant in seconds as a time.
pub(crate) fn time(seconds: f64) -> Time {
    Time::from_micros((seconds * 1e6).round() as i64)
}

/// Returns a time in seconds.
pub(crate) fn seconds(time: Time) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// What the controllers are set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) defaults: Defaults,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { config: Config::default(), defaults: Defaults { not_ready_seconds: 300, unreachable_seconds: 300 } }
    }
}

/// A node of a script.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    pub(crate) zone: String,
    pub(crate) lease_duration_seconds: u64,
    pub(crate) excluded: bool,
    pub(crate) control_plane: bool,
    pub(crate) keep: bool,
}

/// How a node speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heartbeat {
    Lease { renew_time: Option<f64>, duration_seconds: Option<u64> },
    Status(bool),
}

impl Heartbeat {
    pub(crate) fn lease() -> Heartbeat {
        Heartbeat::Lease { renew_time: None, duration_seconds: None }
    }
}

/// What happens at an instant.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Heartbeat { node: String, beat: Heartbeat },
    AddNode(NodeSpec),
    DeleteNode(String),
    AddPod { name: String, node: String, tolerations: Option<Vec<Toleration>> },
    SetTolerations { pod: String, tolerations: Vec<Toleration> },
    Set(Settings),
    Restart,
}

/// A cluster and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) settings: Settings,
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) pods: Vec<(String, String, Option<Vec<Toleration>>)>,
    pub(crate) events: Vec<(f64, Action)>,
    pub(crate) until: f64,
}

struct ApiNode {
    facts: NodeFacts,
    lease: LeaseFacts,
}

struct ApiPod {
    facts: eviction::EvictionPod,
    ready: bool,
    /// The eviction that was announced and has neither happened nor been called off.
    scheduled: Option<Time>,
}

pub(crate) struct World {
    settings: Settings,
    monitor: Monitor,
    evictor: Evictor,
    nodes: BTreeMap<String, ApiNode>,
    pods: BTreeMap<String, ApiPod>,
    /// Makes every plain renewal differ from the one before, and every object unique.
    counter: i64,
    log: Vec<String>,
}

impl World {
    /// Runs a script and returns its log; `naive`: with a silence check at every tick, also where nothing can happen.
    pub(crate) fn run(script: &Script, naive: bool) -> Result<Vec<String>, String> {
        let mut world = World {
            settings: script.settings,
            monitor: Monitor::new(script.settings.config, Time::ZERO),
            evictor: Evictor::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            counter: 0,
            log: Vec::new(),
        };
        for spec in &script.nodes {
            world.add_node(Time::ZERO, spec, true);
        }
        for (name, node, tolerations) in &script.pods {
            world.add_pod(Time::ZERO, name, node, tolerations.clone());
        }
        let mut events = script.events.clone();
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut events = events.into_iter().peekable();
        let mut now = Time::ZERO;
        loop {
            while let Some((_, action)) = events.next_if(|(at, _)| time(*at) <= now) {
                world.act(now, action);
            }
            let period = i64::try_from(world.settings.config.monitor_period.as_micros()).expect("a short period");
            world.settle(now, naive && now.as_micros() % period == 0)?;
            let event = events.peek().map(|(at, _)| time(*at));
            let tick = naive.then(|| Time::from_micros((now.as_micros() / period + 1) * period));
            let deadlines = [event, tick, world.monitor.deadline(), world.evictor.deadline()];
            let next = deadlines.into_iter().flatten().min();
            if next.is_some_and(|next| next <= now) {
                return Err(format!("at {}: a deadline that does not pass", seconds(now)));
            }
            match next.filter(|next| *next <= time(script.until)) {
                Some(next) => now = next,
                None => return Ok(world.log),
            }
        }
    }

    fn event(&mut self, now: Time, what: String) {
        if now > Time::ZERO {
            self.log.push(format!("{} {what}", seconds(now)));
        }
    }

    fn act(&mut self, now: Time, action: Action) {
        match action {
            Action::Heartbeat { node, beat } => self.heartbeat(now, &node, beat),
            Action::AddNode(spec) => self.add_node(now, &spec, false),
            Action::DeleteNode(name) => {
                if self.nodes.remove(&name).is_some() {
                    self.tell(now, Input::NodeDeleted(name.as_str().into()));
                    self.evictor.apply(now, eviction::Input::NodeDeleted(name.as_str().into()), &mut Vec::new());
                }
            }
            Action::AddPod { name, node, tolerations } => self.add_pod(now, &name, &node, tolerations),
            Action::SetTolerations { pod, tolerations } => {
                if let Some(entry) = self.pods.get_mut(&pod) {
                    entry.facts.tolerations = tolerations;
                    self.tell_pod(now, &pod);
                }
            }
            Action::Set(settings) => {
                self.settings = settings;
                self.tell(now, Input::Configure(settings.config));
            }
            Action::Restart => self.restart(now),
        }
    }

    /// Tells the monitor a fact.
    fn tell(&mut self, now: Time, input: Input) {
        let mut effects = Vec::new();
        self.monitor.apply(now, input, &mut effects);
        self.perform(now, effects);
    }

    fn tell_node(&mut self, now: Time, name: &str) {
        let facts = self.nodes[name].facts.clone();
        let taints = facts.taints.iter().map(HealthTaint::taint).collect::<Vec<Taint>>();
        let ready = facts.ready.is_some_and(|ready| ready.status == Ready::True);
        self.tell(now, Input::Node(facts));
        let mut effects = Vec::new();
        self.evictor.apply(now, eviction::Input::Node { name: name.into(), taints, ready }, &mut effects);
        self.evictions(now, effects);
    }

    fn tell_pod(&mut self, now: Time, name: &str) {
        let pod = &self.pods[name];
        let (facts, ready) = (pod.facts.clone(), pod.ready);
        self.tell(now, Input::Pod(MonitoredPod { key: facts.key.clone(), node: facts.node.clone(), ready }));
        let mut effects = Vec::new();
        self.evictor.apply(now, eviction::Input::Pod(facts), &mut effects);
        self.evictions(now, effects);
    }

    fn add_node(&mut self, now: Time, spec: &NodeSpec, ready: bool) {
        self.counter += 1;
        let stamp = Timestamp(Time::from_micros(-self.counter));
        let facts = NodeFacts {
            uid: self.counter.to_string().into(),
            zone: spec.zone.as_str().into(),
            excluded: spec.excluded,
            control_plane: spec.control_plane,
            keep: spec.keep,
            ready: ready.then_some(ReadyFacts { status: Ready::True, heartbeat: Some(stamp), never_updated: false }),
            ..NodeFacts::new(spec.name.as_str())
        };
        let lease = LeaseFacts {
            node: spec.name.as_str().into(),
            renew_time: Some(stamp),
            resource_version: String::new(),
            duration: Some(Duration::from_secs(spec.lease_duration_seconds)),
        };
        self.nodes.insert(spec.name.clone(), ApiNode { facts, lease: lease.clone() });
        self.tell_node(now, &spec.name);
        self.tell(now, Input::Lease(lease));
    }

    fn add_pod(&mut self, now: Time, name: &str, node: &str, tolerations: Option<Vec<Toleration>>) {
        self.counter += 1;
        let facts = eviction::EvictionPod {
            key: name.into(),
            uid: self.counter.to_string().into(),
            node: node.into(),
            tolerations: tolerations.unwrap_or_else(|| missing(&[], &self.settings.defaults)),
            bound_at: Some(now),
            deleting: false,
        };
        self.pods.insert(name.to_owned(), ApiPod { facts, ready: true, scheduled: None });
        self.tell_pod(now, name);
    }

    fn heartbeat(&mut self, now: Time, name: &str, beat: Heartbeat) {
        self.counter += 1;
        let fresh = Timestamp(Time::from_micros(-self.counter));
        let Some(node) = self.nodes.get_mut(name) else { return };
        match beat {
            Heartbeat::Lease { renew_time, duration_seconds } => {
                node.lease.renew_time = Some(renew_time.map_or(fresh, |renew| Timestamp(time(renew))));
                node.lease.duration = duration_seconds.map(Duration::from_secs).or(node.lease.duration);
                let lease = node.lease.clone();
                self.tell(now, Input::Lease(lease));
            }
            Heartbeat::Status(ready) => {
                let status = if ready { Ready::True } else { Ready::False };
                let before = node.facts.ready.replace(ReadyFacts { status, heartbeat: Some(fresh), never_updated: false });
                if before.map(|before| before.status) != Some(status) {
                    let reason = if ready { "KubeletReady" } else { "KubeletNotReady" };
                    self.event(now, format!("ready {name} {} {reason}", status.name()));
                }
                self.tell_node(now, name);
                let pods: Vec<String> =
                    self.pods.iter().filter(|(_, pod)| *pod.facts.node == *name).map(|(pod, _)| pod.clone()).collect();
                for pod in pods {
                    self.pods.get_mut(&pod).expect("just listed").ready = true;
                    self.tell_pod(now, &pod);
                }
            }
        }
    }

    /// Both controllers lose their memory and read the API again.
    fn restart(&mut self, now: Time) {
        self.monitor = Monitor::new(self.settings.config, Time::ZERO);
        self.evictor = Evictor::new();
        self.pods.values_mut().for_each(|pod| pod.scheduled = None);
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.tell_node(now, &name);
            let lease = self.nodes[&name].lease.clone();
            self.tell(now, Input::Lease(lease));
        }
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.tell_pod(now, &name);
        }
    }

    /// Everything that follows from the events of an instant.
    fn settle(&mut self, now: Time, tick: bool) -> Result<(), String> {
        let mut effects = Vec::new();
        if tick {
            self.monitor.check_silence(now, &mut effects);
        }
        self.monitor.step(now, None, &mut effects);
        self.perform(now, effects);
        let mut again = Vec::new();
        self.monitor.step(now, None, &mut again);
        if !again.is_empty() {
            return Err(format!("at {}: hearing of its own writes moves the monitor: {again:?}", seconds(now)));
        }
        let mut effects = Vec::new();
        self.evictor.step(now, None, &mut effects);
        self.evictions(now, effects);
        self.check_invariants(now)
    }

    fn check_invariants(&mut self, now: Time) -> Result<(), String> {
        let broken = |what: String| Err(format!("at {}: {what}", seconds(now)));
        for (name, node) in &self.nodes {
            let count = node.facts.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).count();
            if count > 1 {
                return broken(format!("{name} has {count} NoExecute health taints"));
            }
            if count > 0 && node.facts.ready.is_some_and(|ready| ready.status == Ready::True) {
                return broken(format!("{name} is Ready and has a NoExecute taint"));
            }
        }
        for (name, pod) in &self.pods {
            if pod.scheduled.is_some_and(|at| at <= now) {
                return broken(format!("{name} was to be evicted and nothing was said since"));
            }
        }
        match self.log.iter().find(|line| line.starts_with('!')) {
            Some(line) => broken(line.clone()),
            None => Ok(()),
        }
    }

    /// Writes what the monitor wants and tells both controllers what the API then says.
    fn perform(&mut self, now: Time, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::SetUnknown { node, reason } => {
                    self.event(now, format!("ready {node} Unknown {}", reason.name()));
                    let entry = self.nodes.get_mut(&*node).expect("the monitor speaks of nodes that are there");
                    let heartbeat = entry.facts.ready.and_then(|ready| ready.heartbeat);
                    let never_updated = reason == UnknownReason::NeverUpdated;
                    entry.facts.ready = Some(ReadyFacts { status: Ready::Unknown, heartbeat, never_updated });
                    self.tell_node(now, &node);
                }
                Effect::Taints { node, add, remove } => self.change_taints(now, &node, &add, &remove),
                Effect::MarkPod { key, .. } => {
                    self.event(now, format!("pod-not-ready {key}"));
                    self.pods.get_mut(&*key).expect("the monitor speaks of pods that are there").ready = false;
                    self.tell_pod(now, &key);
                }
                Effect::Zone { zone, state } => self.event(now, format!("zone {zone} {}", state.name())),
                Effect::Isolated => self.event(now, "cluster Isolated".to_owned()),
                Effect::Connected => self.event(now, "cluster Connected".to_owned()),
                Effect::FullDisruption => self.event(now, "cluster FullDisruption".to_owned()),
                Effect::Recovering => self.event(now, "cluster Recovering".to_owned()),
                Effect::Registered(_) | Effect::Removing(_) | Effect::NotReady(_) => {}
            }
        }
    }

    fn change_taints(&mut self, now: Time, node: &Arc<str>, add: &[HealthTaint], remove: &[HealthTaint]) {
        for (sign, taints) in [('+', add), ('-', remove)] {
            for taint in taints {
                self.event(now, format!("taint{sign} {node} {}:{}", taint.health.key(), taint.effect.name()));
            }
        }
        let taints = &mut self.nodes.get_mut(&**node).expect("the monitor speaks of nodes that are there").facts.taints;
        let same = |a: &HealthTaint, b: &HealthTaint| (a.health, a.effect) == (b.health, b.effect);
        taints.retain(|taint| !remove.iter().chain(add).any(|other| same(taint, other)));
        taints.extend(add);
        self.tell_node(now, node);
    }

    fn evictions(&mut self, now: Time, effects: Vec<eviction::Effect>) {
        for effect in effects {
            match effect {
                eviction::Effect::Evict { key, .. } => {
                    self.event(now, format!("evict {key}"));
                    let pod = self.pods.remove(&*key).expect("the evictor speaks of pods that are there");
                    let node = self.nodes.get(&*pod.facts.node).and_then(|node| node.facts.ready);
                    if node.is_some_and(|ready| ready.status == Ready::True) {
                        self.log.push(format!("! {key} was evicted from a Ready node"));
                    }
                    self.tell(now, Input::PodDeleted(key.clone()));
                    self.evictor.apply(now, eviction::Input::PodDeleted(key), &mut Vec::new());
                }
                eviction::Effect::Scheduled { key, at } => {
                    self.event(now, format!("evict-scheduled {key} {}", seconds(at)));
                    let before = self.pods.get_mut(&*key).expect("a pod that is there").scheduled.replace(at);
                    if before == Some(at) || at <= now {
                        self.log.push(format!("! {key} was scheduled in vain"));
                    }
                }
                eviction::Effect::Cancelled { key } => {
                    self.event(now, format!("evict-cancelled {key}"));
                    if self.pods.get_mut(&*key).expect("a pod that is there").scheduled.take().is_none() {
                        self.log.push(format!("! {key} was called off without having been scheduled"));
                    }
                }
            }
        }
    }
}
