//! `latency-profiles/nodes`: scripts of heartbeats and failures, against a log of what the controllers did.

use std::collections::BTreeMap;

use api::pod::Toleration;
use serde::Deserialize;
use testkit::Verdict;

use super::tolerations::GivenToleration;
use super::world::{Action, Heartbeat, NodeSpec, Script, Settings, World};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    #[serde(default)]
    config: ConfigKeys,
    nodes: Vec<GivenNode>,
    #[serde(default)]
    pods: Vec<GivenPod>,
    #[serde(default)]
    events: Vec<Event>,
    until: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    log: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ConfigKeys {
    grace_period: Option<f64>,
    startup_grace_period: Option<f64>,
    monitor_period: Option<f64>,
    eviction_rate: Option<f64>,
    secondary_eviction_rate: Option<f64>,
    large_cluster_threshold: Option<usize>,
    unhealthy_zone_threshold: Option<f64>,
    lease_aware_grace: Option<bool>,
    default_not_ready: Option<i64>,
    default_unreachable: Option<i64>,
}

impl ConfigKeys {
    fn change(&self, settings: &mut Settings) {
        let span = |target: &mut std::time::Duration, value: Option<f64>| {
            if let Some(value) = value {
                *target = std::time::Duration::from_secs_f64(value);
            }
        };
        let config = &mut settings.config;
        span(&mut config.grace, self.grace_period);
        span(&mut config.startup_grace, self.startup_grace_period);
        span(&mut config.monitor_period, self.monitor_period);
        config.eviction_rate = self.eviction_rate.unwrap_or(config.eviction_rate);
        config.secondary_eviction_rate = self.secondary_eviction_rate.unwrap_or(config.secondary_eviction_rate);
        config.large_zone = self.large_cluster_threshold.unwrap_or(config.large_zone);
        config.unhealthy_zone_threshold = self.unhealthy_zone_threshold.unwrap_or(config.unhealthy_zone_threshold);
        config.lease_aware_grace = self.lease_aware_grace.unwrap_or(config.lease_aware_grace);
        settings.defaults.not_ready_seconds = self.default_not_ready.unwrap_or(settings.defaults.not_ready_seconds);
        settings.defaults.unreachable_seconds = self.default_unreachable.unwrap_or(settings.defaults.unreachable_seconds);
    }
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenNode {
    name: String,
    #[serde(default)]
    zone: Option<String>,
    #[serde(default)]
    lease_duration_seconds: Option<u64>,
    #[serde(default)]
    exclude_disruption: bool,
    #[serde(default)]
    control_plane: bool,
    #[serde(default)]
    offline_policy: String,
}

impl GivenNode {
    fn spec(self) -> NodeSpec {
        NodeSpec {
            name: self.name,
            zone: self.zone.unwrap_or_else(|| "-".to_owned()),
            lease_duration_seconds: self.lease_duration_seconds.unwrap_or(40),
            excluded: self.exclude_disruption,
            control_plane: self.control_plane,
            keep: self.offline_policy == "Keep",
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenPod {
    name: String,
    node: String,
    tolerations: Option<Vec<GivenToleration>>,
}

fn read(tolerations: Vec<GivenToleration>) -> Vec<Toleration> {
    tolerations.into_iter().map(GivenToleration::read).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Event {
    at: Option<f64>,
    from: Option<f64>,
    to: Option<f64>,
    every: Option<f64>,
    node: Option<String>,
    nodes: Option<Vec<String>>,
    lease: Option<LeaseKey>,
    status: Option<String>,
    add_node: Option<GivenNode>,
    delete_node: Option<String>,
    add_pod: Option<GivenPod>,
    set_tolerations: Option<SetTolerations>,
    set: Option<ConfigKeys>,
    restart: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum LeaseKey {
    Plain(bool),
    Keys(LeaseKeys),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeaseKeys {
    renew_time: Option<f64>,
    duration_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetTolerations {
    pod: String,
    tolerations: Vec<GivenToleration>,
}

impl Event {
    fn instants(&self) -> Result<Vec<f64>, String> {
        match (self.at, self.from, self.to, self.every) {
            (Some(at), None, None, None) => Ok(vec![at]),
            (None, Some(from), Some(to), Some(every)) if every > 0.0 => {
                let count = ((to - from) / every + 1e-9).floor() as i64;
                Ok((0..=count).map(|index| from + index as f64 * every).collect())
            }
            _ => Err("an event has either `at` or `from`, `to` and `every`".to_owned()),
        }
    }

    fn actions(self, settings: &mut Settings) -> Result<Vec<Action>, String> {
        let names: Vec<String> = self.node.into_iter().chain(self.nodes.into_iter().flatten()).collect();
        let mut actions = Vec::new();
        for node in names {
            match (&self.lease, self.status.as_deref()) {
                (Some(LeaseKey::Plain(true)), None) => actions.push(Action::Heartbeat { node, beat: Heartbeat::lease() }),
                (Some(LeaseKey::Keys(keys)), None) => {
                    let beat = Heartbeat::Lease { renew_time: keys.renew_time, duration_seconds: keys.duration_seconds };
                    actions.push(Action::Heartbeat { node, beat });
                }
                (None, Some(status @ ("True" | "False"))) => {
                    actions.push(Action::Heartbeat { node, beat: Heartbeat::Status(status == "True") });
                }
                _ => return Err(format!("the event of node {node} is neither a lease nor a status")),
            }
        }
        actions.extend(self.add_node.map(|node| Action::AddNode(node.spec())));
        actions.extend(self.delete_node.map(Action::DeleteNode));
        actions.extend(self.add_pod.map(|pod| Action::AddPod {
            name: pod.name,
            node: pod.node,
            tolerations: pod.tolerations.map(read),
        }));
        actions.extend(
            self.set_tolerations.map(|set| Action::SetTolerations { pod: set.pod, tolerations: read(set.tolerations) }),
        );
        if let Some(keys) = self.set {
            keys.change(settings);
            actions.push(Action::Set(*settings));
        }
        actions.extend(self.restart.filter(|restart| *restart).map(|_| Action::Restart));
        if actions.is_empty() { Err("an event that does nothing".to_owned()) } else { Ok(actions) }
    }
}

pub(crate) fn check(case: Case) -> Verdict {
    let given = case.given;
    let mut settings = Settings::default();
    given.config.change(&mut settings);
    let mut script = Script {
        settings,
        nodes: given.nodes.into_iter().map(GivenNode::spec).collect(),
        pods: given.pods.into_iter().map(|pod| (pod.name, pod.node, pod.tolerations.map(read))).collect(),
        events: Vec::new(),
        until: given.until,
    };
    for event in given.events {
        let instants = event.instants()?;
        let actions = event.actions(&mut settings)?;
        script.events.extend(instants.into_iter().flat_map(|at| actions.iter().map(move |action| (at, action.clone()))));
    }
    let mut expected = case.expect.log;
    expected.sort();
    let mut naive = World::run(&script, true)?;
    let mut skipping = World::run(&script, false)?;
    naive.sort();
    skipping.sort();
    if naive != skipping {
        return Err(format!("skipping quiet ticks changes the log:\n{naive:#?}\n{skipping:#?}"));
    }
    if expected == naive {
        return Ok(());
    }
    Err(difference(&expected, &naive))
}

/// Returns the lines that only one side has.
fn difference(expected: &[String], got: &[String]) -> String {
    let count = |lines: &[String]| {
        let mut counts: BTreeMap<String, i32> = BTreeMap::new();
        lines.iter().for_each(|line| *counts.entry(line.clone()).or_default() += 1);
        counts
    };
    let (expected, got) = (count(expected), count(got));
    let mut lines = Vec::new();
    for line in expected.keys().chain(got.keys().filter(|line| !expected.contains_key(*line))) {
        match (expected.get(line).unwrap_or(&0), got.get(line).unwrap_or(&0)) {
            (a, b) if a > b => lines.push(format!("missing: {line}")),
            (a, b) if a < b => lines.push(format!("not expected: {line}")),
            _ => {}
        }
    }
    lines.join("\n")
}
