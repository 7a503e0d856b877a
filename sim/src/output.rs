//! What a run comes to.

use serde::Serialize;

/// The result of a run. Times are seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The seed of the run.
    pub seed: u64,
    /// How long it was.
    pub days: f64,
    /// How many nodes it had.
    pub nodes: usize,
    /// What was simulated: a profile, `Custom`, or `A -> B`.
    pub profile: String,
    /// Living nodes taken for dead.
    pub false_not_ready_per_node_day: Rate,
    /// Pods driven from living nodes.
    pub false_evictions_per_node_day: Rate,
    /// From the death of a node to its condition Unknown.
    pub detect_seconds: Quantiles,
    /// From the death of a node to the eviction of its pod.
    pub evict_seconds: Quantiles,
    /// How long living nodes were not Ready.
    pub recovery_seconds: Quantiles,
    /// Load on the API server.
    pub writes_per_second: Writes,
    /// Node time in each hazard class.
    pub node_seconds_in_class: ClassSeconds,
    /// Node time and false alarms in each state, in the order of their first appearance.
    pub states: Vec<StateOutput>,
}

/// A rate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// How often it happened in the whole run.
    pub count: u64,
}

/// A distribution of times; `None` where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quantiles {
    /// How many were measured.
    pub count: usize,
    /// The smallest.
    pub min: Option<f64>,
    /// Half of them are not larger.
    pub p50: Option<f64>,
    /// 99 of 100 are not larger.
    pub p99: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// Writes per second of the whole fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Writes {
    /// Renewals of Leases.
    pub lease: f64,
    /// Status posts.
    pub status: f64,
    /// Both.
    pub total: f64,
}

/// Node seconds per hazard class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassSeconds {
    /// Four heartbeats or more fit into the grace.
    #[serde(rename = "Safe")]
    pub safe: f64,
    /// One to three do.
    #[serde(rename = "Elevated")]
    pub elevated: f64,
    /// None does.
    #[serde(rename = "Certain")]
    pub certain: f64,
}

/// One state of nodes: which values were in force for them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateOutput {
    /// Heartbeat interval.
    pub interval: f64,
    /// Grace.
    pub grace: f64,
    /// Default toleration of unreachable.
    pub toleration: i64,
    /// How many heartbeats fit into the grace.
    pub chances: u64,
    /// Hazard class.
    pub class: &'static str,
    /// Node time in this state.
    pub node_seconds: f64,
    /// Living nodes taken for dead, per node-day in this state.
    pub false_not_ready_per_node_day: f64,
    /// Pods driven from living nodes, per node-day in this state.
    pub false_evictions_per_node_day: f64,
}

impl Quantiles {
    /// Returns the distribution of some spans, in microseconds.
    pub(crate) fn of(mut micros: Vec<i64>) -> Quantiles {
        micros.sort_unstable();
        let seconds = |micros: i64| micros as f64 / 1e6;
        // The nearest rank: the smallest value that enough of the others do not exceed.
        let rank = |part: f64| {
            let index = (part * micros.len() as f64).ceil() as usize;
            micros.get(index.saturating_sub(1)).copied().map(seconds)
        };
        Quantiles {
            count: micros.len(),
            min: micros.first().copied().map(seconds),
            p50: rank(0.5),
            p99: rank(0.99),
            max: micros.last().copied().map(seconds),
        }
    }
}

impl Rate {
    /// Returns the rate of something counted on each node over so many days, with the normal interval over nodes.
    pub(crate) fn of(counts: &[u32], days: f64) -> Rate {
        let nodes = counts.len().max(1) as f64;
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mean = total as f64 / nodes / days;
        let spread: f64 = counts.iter().map(|count| (f64::from(*count) / days - mean).powi(2)).sum();
        // With few nodes the counts themselves say how far off the mean may be: their deviation is at least that of chance.
        let deviation = if nodes > 1.0 { (spread / (nodes - 1.0)).sqrt() } else { 0.0 };
        let chance = (total as f64).sqrt() / nodes / days;
        let half = 1.96 * (deviation / nodes.sqrt()).max(chance);
        Rate { mean, low: (mean - half).max(0.0), high: mean + half, count: total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let quantiles = Quantiles::of((1..=100).rev().map(|second| second * 1_000_000).collect());
        let found = (quantiles.count, quantiles.min, quantiles.p50, quantiles.p99, quantiles.max);
        assert_eq!(found, (100, Some(1.0), Some(50.0), Some(99.0), Some(100.0)));
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }

    #[test]
    fn the_interval_of_a_rate_holds_its_mean() {
        let rate = Rate::of(&[1, 0, 2, 1], 0.5);
        assert_eq!((rate.mean, rate.count), (2.0, 4));
        assert!(rate.low < 2.0 && rate.high > 2.0 && rate.low >= 0.0);
        assert_eq!(Rate::of(&[0, 0], 1.0), Rate { mean: 0.0, low: 0.0, high: 0.0, count: 0 });
    }
}
