//! When what fails: drawn from the scenario before the run, so that the world can look ahead.

use std::time::Duration;

use machine::{Rng, Time};

use crate::link::{exponential, length};
use crate::scenario::{Component, Scenario, Scope};

/// Spans of time `[from, to)`, sorted, without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    list: Vec<(Time, Time)>,
    /// Spans before this one are over; time only moves on.
    cursor: usize,
}

impl Spans {
    /// Returns spans from any list; overlapping ones become one.
    pub fn new(mut list: Vec<(Time, Time)>) -> Spans {
        list.sort_unstable();
        let mut merged: Vec<(Time, Time)> = Vec::with_capacity(list.len());
        for (from, to) in list.into_iter().filter(|(from, to)| from < to) {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Spans { list: merged, cursor: 0 }
    }

    /// Returns the spans.
    pub fn list(&self) -> &[(Time, Time)] {
        &self.list
    }

    /// Returns whether anything of `[from, to]` lies in a span. `now`, not after `from`, must not go back between calls.
    pub(crate) fn hit(&mut self, now: Time, from: Time, to: Time) -> bool {
        while self.list.get(self.cursor).is_some_and(|(_, end)| *end <= now) {
            self.cursor += 1;
        }
        self.list[self.cursor..].iter().take_while(|(begin, _)| *begin <= to).any(|(_, end)| *end > from)
    }
}

/// Everything that fails in a run.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Outages of each node.
    pub nodes: Vec<Spans>,
    /// Outages of each zone.
    pub zones: Vec<Spans>,
    /// Times when nothing reaches the control plane.
    pub control_plane: Spans,
    /// Times when each node is dead.
    pub deaths: Vec<Spans>,
    /// Times when the controller manager is away.
    pub controller_manager: Spans,
}

impl Faults {
    /// Draws the faults of a scenario: first the nodes, then the zones, then the control plane.
    pub fn draw(scenario: &Scenario, nodes: usize, zones: usize, rng: &mut Rng) -> Faults {
        let end = Time::ZERO + scenario.span();
        let outages = |scope: Scope, rng: &mut Rng| {
            let mut list = Vec::new();
            for outage in scenario.outages.iter().filter(|outage| outage.scope == scope) {
                list.extend(process(rng, outage.per_day, end, |rng| length(rng, outage.length)));
            }
            list
        };
        let restarts = |component: Component, rng: &mut Rng| {
            let mut list = Vec::new();
            for restart in scenario.restarts.iter().filter(|restart| restart.component == component) {
                list.extend(process(rng, restart.per_day, end, |_| Duration::from_secs_f64(restart.seconds)));
            }
            list
        };
        let mut faults = Faults::default();
        for _ in 0..nodes {
            let mut rng = rng.fork();
            faults.nodes.push(Spans::new(outages(Scope::Node, &mut rng)));
            let deaths = scenario.deaths.map_or_else(Vec::new, |deaths| {
                process(&mut rng, deaths.per_node_day, end, |_| Duration::from_secs_f64(deaths.down_seconds))
            });
            faults.deaths.push(Spans::new(deaths));
        }
        faults.zones = (0..zones).map(|_| Spans::new(outages(Scope::Zone, &mut rng.fork()))).collect();
        let mut rng = rng.fork();
        let mut control_plane = outages(Scope::ControlPlane, &mut rng);
        control_plane.extend(restarts(Component::ApiServer, &mut rng));
        faults.control_plane = Spans::new(control_plane);
        faults.controller_manager = Spans::new(restarts(Component::ControllerManager, &mut rng));
        faults
    }
}

/// Draws spans that begin at random, so many per day; the next one waits for the end of the one before.
fn process(rng: &mut Rng, per_day: f64, end: Time, mut lasts: impl FnMut(&mut Rng) -> Duration) -> Vec<(Time, Time)> {
    let mut spans = Vec::new();
    let mut now = Time::ZERO;
    loop {
        let from = now + exponential(rng, per_day / 86_400.0);
        if from >= end {
            return spans;
        }
        now = from + lasts(rng);
        spans.push((from, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn overlapping_spans_become_one() {
        let spans = Spans::new(vec![(at(5), at(9)), (at(1), at(3)), (at(2), at(4)), (at(4), at(4))]);
        assert_eq!(spans.list(), [(at(1), at(4)), (at(5), at(9))]);
    }

    #[test]
    fn a_span_ends_before_its_end() {
        let mut spans = Spans::new(vec![(at(10), at(20)), (at(30), at(40))]);
        assert!(!spans.hit(at(0), at(0), at(9)));
        assert!(spans.hit(at(0), at(5), at(10)), "the first instant belongs to it");
        assert!(spans.hit(at(0), at(19), at(19)));
        assert!(!spans.hit(at(15), at(20), at(29)), "the last one does not");
        assert!(spans.hit(at(15), at(16), at(16)), "looking ahead forgets nothing");
        assert!(spans.hit(at(20), at(25), at(50)));
        assert!(!spans.hit(at(40), at(40), at(99)));
    }
}
