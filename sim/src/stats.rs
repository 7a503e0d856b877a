//! What is counted during a run, also per state of the values in force.

use std::time::Duration;

use machine::Time;
use profiles::hazard::{Class, chances};
use profiles::path::ClusterState;

use crate::output::{ClassSeconds, StateOutput};

/// Everything counted.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    pub(crate) false_not_ready: Vec<u32>,
    pub(crate) false_evictions: Vec<u32>,
    pub(crate) detect: Vec<i64>,
    pub(crate) evict: Vec<i64>,
    pub(crate) recovery: Vec<i64>,
    pub(crate) lease_writes: u64,
    pub(crate) status_writes: u64,
    states: Vec<StateCount>,
    /// The state of each node, and since when.
    now: Vec<(usize, Time)>,
}

#[derive(Clone, Debug)]
struct StateCount {
    state: ClusterState,
    time: Duration,
    false_not_ready: u64,
    false_evictions: u64,
}

impl Stats {
    pub(crate) fn new(states: impl Iterator<Item = ClusterState>) -> Stats {
        let mut stats = Stats {
            false_not_ready: Vec::new(),
            false_evictions: Vec::new(),
            detect: Vec::new(),
            evict: Vec::new(),
            recovery: Vec::new(),
            lease_writes: 0,
            status_writes: 0,
            states: Vec::new(),
            now: Vec::new(),
        };
        for state in states {
            let index = stats.state(state);
            stats.now.push((index, Time::ZERO));
        }
        stats.false_not_ready = vec![0; stats.now.len()];
        stats.false_evictions = vec![0; stats.now.len()];
        stats
    }

    fn state(&mut self, state: ClusterState) -> usize {
        self.states.iter().position(|count| count.state == state).unwrap_or_else(|| {
            self.states.push(StateCount { state, time: Duration::ZERO, false_not_ready: 0, false_evictions: 0 });
            self.states.len() - 1
        })
    }

    /// The values in force for a node have changed.
    pub(crate) fn enter(&mut self, node: usize, state: ClusterState, now: Time) {
        let (before, since) = self.now[node];
        self.states[before].time += now.since(since);
        self.now[node] = (self.state(state), now);
    }

    pub(crate) fn false_not_ready(&mut self, node: usize) {
        self.false_not_ready[node] += 1;
        self.states[self.now[node].0].false_not_ready += 1;
    }

    pub(crate) fn false_eviction(&mut self, node: usize) {
        self.false_evictions[node] += 1;
        self.states[self.now[node].0].false_evictions += 1;
    }

    /// Returns node time per class, and the states in the order of their first appearance.
    pub(crate) fn finish(&mut self, end: Time) -> (ClassSeconds, Vec<StateOutput>) {
        for node in 0..self.now.len() {
            let (index, since) = self.now[node];
            self.states[index].time += end.since(since);
            self.now[node] = (index, end);
        }
        let mut seconds = ClassSeconds::default();
        let states = self.states.iter().map(|count| {
            let ClusterState { interval, grace, toleration_seconds } = count.state;
            let class = Class::of(interval, grace);
            let in_class = match class {
                Class::Safe => &mut seconds.safe,
                Class::Elevated => &mut seconds.elevated,
                Class::Certain => &mut seconds.certain,
            };
            *in_class += count.time.as_secs_f64();
            let days = count.time.as_secs_f64() / 86_400.0;
            let per_day = |count: u64| if days > 0.0 { count as f64 / days } else { 0.0 };
            StateOutput {
                interval: interval.as_secs_f64(),
                grace: grace.as_secs_f64(),
                toleration: toleration_seconds,
                chances: chances(interval, grace),
                class: class.name(),
                node_seconds: count.time.as_secs_f64(),
                false_not_ready_per_node_day: per_day(count.false_not_ready),
                false_evictions_per_node_day: per_day(count.false_evictions),
            }
        });
        let states = states.collect();
        (seconds, states)
    }
}
