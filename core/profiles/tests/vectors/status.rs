//! `latency-profiles/status`: the reducer.

use std::collections::BTreeMap;
use std::time::Duration;

use machine::Time;
use profiles::status::{Conditions, Instances, ProfileStatus, Snapshot};
use profiles::{Evaluation, Owner, Profile, Target};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    deadline: u64,
    timeline: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    timeline: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    at: i64,
    profile: String,
    generation: i64,
    #[serde(rename = "leg")]
    stage: String,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    nodes_lost: usize,
    #[serde(default)]
    nodes_ready_at_start: usize,
    owners: BTreeMap<String, Counts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    total: usize,
    updated: usize,
    #[serde(rename = "turn")]
    active: bool,
    #[serde(default)]
    unaware: usize,
    #[serde(default)]
    failed: usize,
}

impl Entry {
    fn snapshot(&self) -> Result<Snapshot, String> {
        let mut owners = BTreeMap::new();
        for (name, counts) in &self.owners {
            let owner = Owner::ALL.into_iter().find(|owner| owner.name() == name);
            let owner = owner.ok_or_else(|| format!("unknown owner {name}"))?;
            let Counts { total, updated, active, unaware, failed } = *counts;
            owners.insert(owner, Instances { total, updated, active, unaware, failed });
        }
        Ok(Snapshot {
            at: Time::from_secs(self.at),
            target: Target::parse(&self.profile).map_err(|error| error.to_string())?,
            generation: self.generation.to_string(),
            stage: Profile::parse(&self.stage).map_err(|error| error.to_string())?,
            paused: self.paused,
            nodes_lost: self.nodes_lost,
            nodes_ready_at_start: self.nodes_ready_at_start,
            owners,
        })
    }
}

fn shown(at: i64, outcome: &Evaluation) -> Value {
    let word = |on: bool| if on { "True" } else { "False" };
    let mut value = json!({"at": at, "effective": outcome.effective.name(), "rollback": outcome.rollback});
    for (owner, conditions) in &outcome.owners {
        let Conditions { since, reason, .. } = conditions;
        value[owner.name()] = json!({
            "progressing": word(conditions.progressing()),
            "complete": word(conditions.complete()),
            "degraded": word(conditions.degraded()),
            "reason": reason.name(),
            "since": since.map(Time::as_secs),
        });
    }
    value
}

pub(crate) fn check(case: Case) -> Verdict {
    let mut status = ProfileStatus::new(Duration::from_secs(case.given.deadline));
    let mut timeline = Vec::new();
    for entry in &case.given.timeline {
        let snapshot = entry.snapshot()?;
        let outcome = status.fold(&snapshot);
        if status.fold(&snapshot) != outcome {
            return Err(format!("at {}: the same snapshot again has another outcome", entry.at));
        }
        timeline.push(shown(entry.at, &outcome));
    }
    same(&json!(case.expect.timeline), &json!(timeline))
}
