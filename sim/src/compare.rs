//! Which runs belong side by side: the profiles and the states between them, or the candidates for a link.

use profiles::path::ClusterState;
use profiles::preview::between;
use profiles::{Class, Profile};
use serde::Serialize;

use crate::output::Output;
use crate::recommend::{RATE_MAX, by_name};
use crate::scenario::{Deaths, Link, Outage, Scenario, Spacing, Values};

/// Fleet and span of a candidate: enough that 0.01 false alarms per node and day are some tens of them.
const CANDIDATE_NODES: usize = 1_000;
const CANDIDATE_DAYS: f64 = 3.0;

/// Returns an everyday scenario under each profile and in each state that a rollout between the extremes passes through, then
/// in the dangerous states that it avoids, each with its name: `10/120/300` is heartbeat, grace and toleration.
///
/// An avoided state begins with `!`. It has a stock kubelet and controller manager, because ours would not let it be one: a
/// node is never judged by less than the duration of its Lease.
pub fn comparison(nodes: usize, days: f64, seed: u64) -> Vec<(String, Scenario)> {
    let everyday = |profile| Scenario::everyday(nodes, days, seed, profile);
    let of_values = |values: Values| Scenario { profile: None, values: Some(values), ..everyday(Profile::Default) };
    let mut all: Vec<(String, Scenario)> =
        Profile::ALL.into_iter().map(|profile| (profile.name().to_owned(), everyday(profile))).collect();
    let (passed, mut avoided) = between(Profile::Default, Profile::Low);
    // The one that a direct way would lead through.
    avoided.push(ClusterState {
        interval: Profile::Low.values().lease_renew_interval(),
        grace: Profile::Default.values().node_monitor_grace_period,
        toleration_seconds: Profile::Low.values().default_unreachable_toleration_seconds,
    });
    all.extend(passed.iter().map(|state| (name(state), of_values(values(state)))));
    avoided.retain(|state| state.class() != Class::Safe);
    // Without the lower toleration: how often nodes are taken for dead does not depend on it.
    avoided.dedup_by_key(|state| (state.interval, state.grace));
    for state in &avoided {
        let stock = Values { lease_aware_grace: false, spacing: Spacing::Burst, ..values(state) };
        all.push((format!("! {}", name(state)), of_values(stock)));
    }
    all
}

/// Returns an everyday scenario of what a stock cluster uses now, with its name.
pub fn in_use(nodes: usize, days: f64, seed: u64, state: &ClusterState) -> (String, Scenario) {
    let values = Values { lease_aware_grace: false, spacing: Spacing::Burst, ..values(state) };
    let everyday = Scenario::everyday(nodes, days, seed, Profile::Default);
    (format!("in use {}", name(state)), Scenario { profile: None, values: Some(values), ..everyday })
}

fn name(state: &ClusterState) -> String {
    format!("{}/{}/{}", state.interval.as_secs(), state.grace.as_secs(), state.toleration_seconds)
}

fn values(state: &ClusterState) -> Values {
    Values {
        interval: state.interval.as_secs_f64(),
        grace: state.grace.as_secs_f64(),
        not_ready: state.toleration_seconds,
        unreachable: state.toleration_seconds,
        ..Values::default()
    }
}

/// Returns a scenario of each profile for links that are known.
pub fn candidates(link: &Link, outages: &[Outage], seed: u64) -> Vec<(String, Scenario)> {
    let scenario = |profile: Profile| Scenario {
        seed,
        days: Some(CANDIDATE_DAYS),
        nodes: Some(CANDIDATE_NODES),
        profile: Some(profile.name().to_owned()),
        link: link.clone(),
        outages: outages.to_vec(),
        // So that detection and eviction can be told as well.
        deaths: Some(Deaths { per_node_day: 0.02, down_seconds: 900.0 }),
        ..Scenario::default()
    };
    Profile::ALL.into_iter().map(|profile| (profile.name().to_owned(), scenario(profile))).collect()
}

/// A choice among the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The quickest profile that is good enough; if none is, the one with the fewest false alarms.
    #[serde(serialize_with = "by_name")]
    pub profile: Profile,
    /// Whether it is good enough.
    pub acceptable: bool,
}

/// Chooses among the runs of [`candidates`].
pub fn choose(runs: &[Output]) -> Choice {
    let rate = |index: &usize| runs.get(*index).map_or(f64::INFINITY, |run| run.false_not_ready_per_node_day.mean);
    let good = (0..Profile::ALL.len()).find(|index| rate(index) < RATE_MAX);
    let fewest = (0..Profile::ALL.len()).min_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(0);
    Choice { profile: Profile::ALL[good.unwrap_or(fewest)], acceptable: good.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Latency, Length, Scope};
    use crate::simulate;

    #[test]
    fn profiles_come_first_then_states_then_what_is_avoided() {
        let all = comparison(10, 0.01, 1);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let states = ["10/120/300", "20/120/300", "20/300/60", "! 20/40/300", "! 60/120/60", "! 60/40/60"];
        assert_eq!(names[..3], Profile::ALL.map(Profile::name));
        assert_eq!(names[3..], states);
        assert!(all.iter().all(|(_, scenario)| scenario.validate().is_ok()));
    }

    #[test]
    fn long_outages_ask_for_patience() {
        let link = Link { latency: Latency::Constant(0.02), loss: 0.0, burst: None };
        let outage = |seconds| Outage { per_day: 1.0, length: Length::Seconds(seconds), scope: Scope::Node };
        let choice = |outages: &[Outage]| {
            let small = |(_, scenario): (String, Scenario)| Scenario { nodes: Some(60), days: Some(1.0), ..scenario };
            let runs: Vec<Output> = candidates(&link, outages, 3)
                .into_iter()
                .map(|pair| simulate(&small(pair)).expect("a good scenario"))
                .collect();
            choose(&runs)
        };
        assert_eq!(choice(&[]), Choice { profile: Profile::Default, acceptable: true });
        assert_eq!(choice(&[outage(80.0)]), Choice { profile: Profile::Medium, acceptable: true });
        assert_eq!(choice(&[outage(200.0)]), Choice { profile: Profile::Low, acceptable: true });
        assert!(!choice(&[outage(900.0)]).acceptable);
    }
}
