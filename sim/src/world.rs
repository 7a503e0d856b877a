//! The world: nodes, links and a control plane in virtual time.
//!
//! Events are ordered by (instant, kind, node): a run depends on nothing else. Facts of an instant come before the tick of
//! the monitor at that instant, the tick before evictions. A heartbeat of a healthy node is usually not an event at all but
//! part of a stretch that its agent runs ahead of the others: `wake_agent` does so as long as nothing that happens elsewhere can
//! make a difference, and the tests compare this with a world that never looks ahead.

mod agent;
mod control;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::lease::duration_of;
use api::pod::Toleration;
use machine::{Machine, Rng, Time};
use nodes::Evictor;
use nodes::beats::{self, Beats};
use nodes::monitor::{self, Monitor, NodeId, Ready};
use nodes::taints::HealthTaint;
use nodes::tolerations::{Defaults, missing};
use profiles::path::ClusterState;

use crate::faults::{Faults, Spans};
use crate::link::{NodeLink, span};
use crate::output::{Output, Quantiles, Rate, Writes};
use crate::rollout::{Rollout, title};
use crate::scenario::{Link, Scenario, ScenarioError, Spacing, Start};
use crate::stats::Stats;
use queue::{Event, Queue};

/// Why there is no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The scenario makes no sense.
    #[error("the scenario cannot be run")]
    Scenario(#[from] ScenarioError),
    /// An invariant does not hold: a bug of ours.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// An invariant that does not hold, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: at {at} s: {what}")]
pub struct Broken {
    /// The seed of the run.
    pub seed: u64,
    /// When.
    pub at: Time,
    /// What.
    pub what: String,
}

/// Runs a scenario.
pub fn simulate(scenario: &Scenario) -> Result<Output, SimError> {
    run(scenario, None, true, &mut |_| ())
}

/// Runs a scenario and tells now and then which part of it is done, from 0 to 1.
pub fn simulate_telling(scenario: &Scenario, tell: &mut dyn FnMut(f64)) -> Result<Output, SimError> {
    run(scenario, None, true, tell)
}

/// Runs a scenario with the given faults instead of drawn ones.
pub fn simulate_with(scenario: &Scenario, faults: Faults) -> Result<Output, SimError> {
    run(scenario, Some(faults), true, &mut |_| ())
}

fn run(scenario: &Scenario, faults: Option<Faults>, look_ahead: bool, tell: &mut dyn FnMut(f64)) -> Result<Output, SimError> {
    scenario.validate()?;
    let start = scenario.start()?;
    let mut world = World::new(scenario, &start, faults, look_ahead)?;
    match world.run(tell) {
        Ok(()) => Ok(world.output(scenario, &start)),
        Err(what) => Err(Broken { seed: scenario.seed, at: world.now, what }.into()),
    }
}

/// So many events are some milliseconds: often enough to see that a run goes on.
const TELL_EVERY: u32 = 1 << 16;

/// A node: its agent, its link, and what the API says of it.
struct Node {
    name: Arc<str>,
    zone: usize,
    /// The heartbeat loop; none while the node is dead.
    beats: Option<Beats>,
    /// Which life of the agent this is: answers to an earlier one go nowhere.
    life: u8,
    /// Answers that are under way to this life.
    answers: u32,
    /// When the agent is woken; the event in the queue with another instant is stale.
    wake: Time,
    rng: Rng,
    link: NodeLink,
    outages: Spans,
    deaths: Spans,
    next_death: usize,
    /// The interval that the node is set to.
    interval: Duration,
    lease_sent: Duration,
    lease_known: Duration,
    ready: Ready,
    not_ready_since: Option<Time>,
    dead_since: Option<Time>,
    back_since: Option<Time>,
    taints: Vec<HealthTaint>,
    /// When the last status that was sent arrives.
    post_arrives: Time,
    pod: Pod,
}

impl Node {
    fn new(name: Arc<str>, zone: usize, outages: Spans, deaths: Spans, interval: Duration, rng: &mut Rng) -> Node {
        let (agent_rng, link_rng) = (rng.fork(), rng.fork());
        Node {
            pod: Pod {
                there: false,
                marked: false,
                key: format!("default/pod-{name}").into(),
                count: 0,
                bound_at: Time::ZERO,
                tolerations: Vec::new(),
                scheduled: None,
            },
            name,
            zone,
            beats: None,
            life: 0,
            answers: 0,
            wake: Time::MAX,
            rng: agent_rng,
            link: NodeLink::new(link_rng),
            outages,
            deaths,
            next_death: 0,
            interval,
            lease_sent: duration_of(interval),
            lease_known: duration_of(interval),
            ready: Ready::True,
            not_ready_since: None,
            dead_since: None,
            back_since: None,
            taints: Vec::new(),
            post_arrives: Time::from_micros(i64::MIN),
        }
    }

    fn post_under_way(&self, now: Time) -> bool {
        self.post_arrives >= now
    }
}

/// The pod of a node: each has one, and gets another when it is Ready again after an eviction.
struct Pod {
    there: bool,
    marked: bool,
    key: Arc<str>,
    count: u32,
    bound_at: Time,
    tolerations: Vec<Toleration>,
    /// The eviction that was announced and has neither happened nor been called off.
    scheduled: Option<Time>,
}

impl Pod {
    /// Another pod takes the place of the one that is gone, with the defaults that admission adds now.
    fn create(&mut self, now: Time, defaults: &Defaults) {
        (self.there, self.marked, self.count, self.bound_at) = (true, false, self.count + 1, now);
        self.tolerations = missing(&[], defaults);
    }
}

struct World {
    now: Time,
    end: Time,
    look_ahead: bool,
    link: Link,
    beats: beats::Config,
    config: monitor::Config,
    defaults: Defaults,
    zones: Vec<(Arc<str>, Spans)>,
    nodes: Vec<Node>,
    control_plane: Spans,
    controller_manager: Spans,
    /// The next step of the rollout, and the next instant at which settings or the memory of the controllers change.
    next_step: Time,
    next_control: Time,
    monitor: Option<Monitor>,
    ids: Vec<NodeId>,
    evictor: Evictor,
    /// Not after the deadline of the monitor.
    monitor_wake: Time,
    rollout: Option<Rollout>,
    queue: Queue,
    stats: Stats,
}

impl World {
    fn new(scenario: &Scenario, start: &Start, faults: Option<Faults>, look_ahead: bool) -> Result<World, ScenarioError> {
        let fleet = scenario.fleet()?;
        let count: usize = fleet.iter().map(|(_, count)| *count).sum();
        let mut rng = Rng::new(scenario.seed);
        let mut fault_rng = rng.fork();
        let mut faults = faults.unwrap_or_else(|| Faults::draw(scenario, count, fleet.len(), &mut fault_rng));
        faults.nodes.resize_with(count, Spans::default);
        faults.deaths.resize_with(count, Spans::default);
        faults.zones.resize_with(fleet.len(), Spans::default);
        let values = &start.values;
        let beats = beats::Config {
            interval: span(values.interval),
            attempts: values.attempts,
            spacing: match values.spacing {
                Spacing::Burst => beats::Spacing::Burst,
                Spacing::Spread => beats::Spacing::Spread,
            },
            report_interval: span(values.report_interval),
            jitter: values.jitter,
        };
        let config = monitor::Config {
            grace: span(values.grace),
            monitor_period: span(values.monitor_period),
            lease_aware_grace: values.lease_aware_grace,
            ..monitor::Config::default()
        };
        let zone_of = fleet.iter().enumerate().flat_map(|(zone, (_, count))| std::iter::repeat_n(zone, *count));
        let spans = faults.nodes.into_iter().zip(faults.deaths);
        let digits = count.to_string().len();
        let nodes: Vec<Node> = zone_of
            .zip(spans)
            .enumerate()
            .map(|(index, (zone, (outages, deaths)))| {
                // Names sort as numbers do.
                let name: Arc<str> = format!("n{index:0digits$}").into();
                Node::new(name, zone, outages, deaths, beats.interval, &mut rng)
            })
            .collect();
        let state = ClusterState { interval: beats.interval, grace: config.grace, toleration_seconds: values.unreachable };
        let rollout = Rollout::new(start, nodes.iter().map(|node| node.name.to_string()));
        Ok(World {
            now: Time::ZERO,
            end: Time::ZERO + scenario.span(),
            look_ahead,
            link: scenario.link.clone(),
            beats,
            config,
            defaults: Defaults { not_ready_seconds: values.not_ready, unreachable_seconds: values.unreachable },
            zones: fleet.into_iter().map(|(name, _)| Arc::from(name)).zip(faults.zones).collect(),
            stats: Stats::new(nodes.iter().map(|_| state)),
            nodes,
            control_plane: faults.control_plane,
            controller_manager: faults.controller_manager,
            next_step: Time::MAX,
            next_control: Time::MAX,
            monitor: None,
            ids: Vec::new(),
            evictor: Evictor::new(),
            monitor_wake: Time::MAX,
            rollout,
            queue: Queue::default(),
        })
    }

    fn run(&mut self, tell: &mut dyn FnMut(f64)) -> Result<(), String> {
        self.nodes.iter_mut().for_each(|node| node.pod.create(Time::ZERO, &self.defaults));
        self.start_controllers(Time::ZERO)?;
        self.start_rollout();
        for index in 0..self.nodes.len() {
            // Phases are spread at the start; later a life begins with a heartbeat.
            let node = &mut self.nodes[index];
            let within = u64::try_from(node.interval.as_micros()).unwrap_or(u64::MAX);
            let phase = Duration::from_micros(node.rng.below(within));
            self.start_agent(index, Time::ZERO + phase);
            self.schedule_death(index);
        }
        for (from, to) in self.controller_manager.list().to_vec() {
            self.queue.push(from, Event::ControllersStop);
            self.queue.push(to, Event::ControllersStart);
        }
        self.find_next_control();
        let mut events = 0u32;
        loop {
            events = events.wrapping_add(1);
            if events.is_multiple_of(TELL_EVERY) {
                tell(self.now.since(Time::ZERO).as_secs_f64() / self.end.since(Time::ZERO).as_secs_f64());
            }
            let event_at = self.queue.next_at();
            let evictor_at = self.evictor.deadline().unwrap_or(Time::MAX);
            let now = event_at.min(self.monitor_wake).min(evictor_at);
            if now > self.end {
                self.now = self.end;
                return self.check_end();
            }
            self.now = now;
            if event_at == now {
                let event = self.queue.pop();
                self.handle(event)?;
            } else if self.monitor_wake == now {
                self.tick()?;
            } else {
                self.evict_due()?;
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Agent { node } => {
                if self.nodes[node].wake == self.now {
                    self.wake_agent(node);
                }
                Ok(())
            }
            Event::Arrival { node } => self.heartbeat_arrives(node),
            Event::Answer { node, life, beat } => {
                self.answer(node, life, beat);
                Ok(())
            }
            Event::Post { node } => self.post_arrives(node),
            Event::Death { node } => {
                self.nodes[node].beats = None;
                self.nodes[node].wake = Time::MAX;
                self.nodes[node].dead_since = Some(self.now);
                let (_, back) = self.nodes[node].deaths.list()[self.nodes[node].next_death];
                self.nodes[node].next_death += 1;
                self.queue.push(back, Event::Back { node });
                Ok(())
            }
            Event::Back { node } => {
                self.nodes[node].dead_since = None;
                self.nodes[node].back_since = Some(self.now);
                self.schedule_death(node);
                self.start_agent(node, self.now);
                Ok(())
            }
            Event::ControllersStop => {
                self.stop_controllers();
                self.find_next_control();
                Ok(())
            }
            Event::ControllersStart => {
                self.start_controllers(self.now)?;
                self.find_next_control();
                Ok(())
            }
            Event::Step => self.rollout_step(),
        }
    }

    fn schedule_death(&mut self, node: usize) {
        if let Some((from, _)) = self.nodes[node].deaths.list().get(self.nodes[node].next_death) {
            self.queue.push(*from, Event::Death { node });
        }
    }

    fn output(&mut self, scenario: &Scenario, start: &Start) -> Output {
        let days = scenario.days.unwrap_or(1.0);
        let seconds = days * 86_400.0;
        let (node_seconds_in_class, states) = self.stats.finish(self.end);
        let (lease, status) = (self.stats.lease_writes as f64 / seconds, self.stats.status_writes as f64 / seconds);
        Output {
            seed: scenario.seed,
            days,
            nodes: self.nodes.len(),
            profile: title(start, scenario.profile.as_deref()),
            false_not_ready_per_node_day: Rate::of(&self.stats.false_not_ready, days),
            false_evictions_per_node_day: Rate::of(&self.stats.false_evictions, days),
            detect_seconds: Quantiles::of(std::mem::take(&mut self.stats.detect)),
            evict_seconds: Quantiles::of(std::mem::take(&mut self.stats.evict)),
            recovery_seconds: Quantiles::of(std::mem::take(&mut self.stats.recovery)),
            writes_per_second: Writes { lease, status, total: lease + status },
            node_seconds_in_class,
            states,
        }
    }
}
