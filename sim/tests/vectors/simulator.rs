//! `latency-profiles/simulator`: runs that have a closed form.

use std::collections::BTreeMap;

use machine::{Rng, Time};
use serde::Deserialize;
use sim::{Faults, Latency, Link, Output, Scenario, Spacing, Spans, Values, simulate, simulate_with};
use testkit::Verdict;

const DAY: f64 = 86_400.0;

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Given {
    op: Op,
    interval: f64,
    grace: Option<f64>,
    monitor_period: Option<f64>,
    not_ready: Option<i64>,
    unreachable: Option<i64>,
    attempts: Option<u32>,
    loss: Option<f64>,
    outage: Option<f64>,
    latency: Option<f64>,
    nodes: Option<usize>,
    report_interval: Option<f64>,
    samples: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    False,
    Outage,
    Detect,
    Load,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expect {
    false_not_ready_per_node_day: Option<Number>,
    probability_false_not_ready: Option<Number>,
    detect: Option<Bounds>,
    evict: Option<Bounds>,
    writes_per_second: Option<Number>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Number {
    value: f64,
    tol: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    min: Option<Number>,
    p50: Option<Number>,
    p99: Option<Number>,
    max: Option<Number>,
}

impl Given {
    /// Returns the scenario of the closed forms: one instant per heartbeat, no jitter, no help from the Lease.
    fn scenario(&self, nodes: usize, seconds: f64) -> Scenario {
        let values = Values::default();
        Scenario {
            seed: 1,
            days: Some(seconds / DAY),
            nodes: Some(nodes),
            values: Some(Values {
                interval: self.interval,
                // Where no grace is given nobody is to be taken for dead.
                grace: self.grace.unwrap_or(10.0 * self.interval),
                monitor_period: self.monitor_period.unwrap_or(values.monitor_period),
                not_ready: self.not_ready.unwrap_or(values.not_ready),
                unreachable: self.unreachable.unwrap_or(values.unreachable),
                attempts: self.attempts.unwrap_or(1),
                spacing: Spacing::Burst,
                lease_aware_grace: false,
                report_interval: self.report_interval.unwrap_or(values.report_interval),
                jitter: false,
            }),
            link: Link { latency: Latency::Constant(self.latency.unwrap_or(0.0)), loss: self.loss.unwrap_or(0.0), burst: None },
            ..Scenario::default()
        }
    }

    fn samples(&self) -> Result<usize, String> {
        self.samples.ok_or_else(|| "samples is missing".to_owned())
    }
}

pub(crate) fn check(case: Case) -> Verdict {
    let (given, expect) = (case.given, case.expect);
    let mut got: BTreeMap<&str, f64> = BTreeMap::new();
    match given.op {
        Op::False => {
            // Few nodes for long: a small world stays in the cache.
            let nodes = 25;
            let days = given.samples()?.div_ceil(nodes);
            let output = run(&given.scenario(nodes, days as f64 * DAY), None)?;
            got.insert("falseNotReadyPerNodeDay", output.false_not_ready_per_node_day.mean);
        }
        Op::Outage => {
            got.insert("probabilityFalseNotReady", outage_probability(&given)?);
        }
        Op::Detect => {
            let output = deaths(&given)?;
            for (name, times) in [("detect", output.detect_seconds), ("evict", output.evict_seconds)] {
                let values = [("min", times.min), ("p50", times.p50), ("p99", times.p99), ("max", times.max)];
                for (part, value) in values {
                    let key = format!("{name}.{part}").leak() as &str;
                    got.insert(key, value.ok_or_else(|| format!("nothing was measured for {key}"))?);
                }
            }
        }
        Op::Load => {
            let nodes = given.nodes.ok_or("nodes is missing")?;
            got.insert("writesPerSecond", run(&given.scenario(nodes, 6.0 * 3600.0), None)?.writes_per_second.total);
        }
    }
    compare(&expect, &got)
}

fn run(scenario: &Scenario, faults: Option<Faults>) -> Result<Output, String> {
    let result = match faults {
        Some(faults) => simulate_with(scenario, faults),
        None => simulate(scenario),
    };
    result.map_err(|error| format!("{error:?}"))
}

/// One outage per node and slot, each at a random instant; few nodes are out at the same time.
fn outage_probability(given: &Given) -> Result<f64, String> {
    let length = given.outage.ok_or("outage is missing")?;
    let slot = 20.0 * (length + given.grace.unwrap_or(40.0) + given.interval);
    let (nodes, slots) = (200, given.samples()?.div_ceil(200));
    let mut rng = Rng::new(2);
    let outages = (0..nodes).map(|_| {
        let starts = (0..slots).map(|index| (index as f64 + 0.1 + 0.8 * rng.fraction()) * slot);
        Spans::new(starts.map(|start| (time(start), time(start + length))).collect())
    });
    let faults = Faults { nodes: outages.collect(), ..Faults::default() };
    let output = run(&given.scenario(nodes, slots as f64 * slot), Some(faults))?;
    Ok(output.false_not_ready_per_node_day.count as f64 / (nodes * slots) as f64)
}

/// One node at a time dies at a random instant and comes back with a new phase when its pod is long gone.
fn deaths(given: &Given) -> Result<Output, String> {
    let reaction = given.grace.unwrap_or(40.0) + given.unreachable.unwrap_or(300) as f64;
    let down = reaction + 60.0;
    let slot = 2.0 * down + 4.0 * given.interval;
    let (nodes, trials) = (4, given.samples()?);
    let mut rng = Rng::new(3);
    let mut spans = vec![Vec::new(); nodes];
    for trial in 0..trials {
        let start = trial as f64 * slot + slot * 0.1 + rng.fraction() * (slot * 0.8 - down);
        // An odd span: the new phase lies anywhere on the raster of ticks.
        spans[trial % nodes].push((time(start), time(start + down + 10.0 * rng.fraction())));
    }
    let faults = Faults { deaths: spans.into_iter().map(Spans::new).collect(), ..Faults::default() };
    let output = run(&given.scenario(nodes, trials as f64 * slot), Some(faults))?;
    if output.detect_seconds.count < trials || output.evict_seconds.count < trials {
        return Err(format!("{} deaths were detected, of {trials}", output.detect_seconds.count));
    }
    Ok(output)
}

fn time(seconds: f64) -> Time {
    Time::from_micros((seconds * 1e6) as i64)
}

fn compare(expect: &Expect, got: &BTreeMap<&str, f64>) -> Verdict {
    let mut wrong = Vec::new();
    let mut near = |key: &str, number: Option<Number>| {
        let Some(Number { value, tol }) = number else { return };
        match got.get(key) {
            Some(got) if (got - value).abs() <= tol => {}
            Some(got) if key.ends_with(".min") && *got >= value - tol => {}
            Some(got) if key.ends_with(".max") && *got <= value + tol => {}
            other => wrong.push(format!("{key}: expected {value} within {tol}, got {other:?}")),
        }
    };
    near("falseNotReadyPerNodeDay", expect.false_not_ready_per_node_day);
    near("probabilityFalseNotReady", expect.probability_false_not_ready);
    near("writesPerSecond", expect.writes_per_second);
    for (name, bounds) in [("detect", &expect.detect), ("evict", &expect.evict)] {
        let Some(Bounds { min, p50, p99, max }) = bounds else { continue };
        for (part, number) in [("min", min), ("p50", p50), ("p99", p99), ("max", max)] {
            near(&format!("{name}.{part}"), *number);
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
