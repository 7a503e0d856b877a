//! Pod conditions from container statuses and readiness gates.

use std::collections::BTreeMap;

use api::meta::Condition;
use api::pod::{Container, ContainerRunning, ContainerState, ContainerStatus, PodSpec, ReadinessGate};
use machine::Time;
use probe::conditions::{ConditionFacts, pod_conditions};
use serde::Deserialize;
use serde_json::json;
use testkit::{Verdict, same};

use crate::common::Case;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    spec: Spec,
    statuses: Option<Vec<Status>>,
    phase: String,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    #[serde(default)]
    readiness_gates: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    name: String,
    ready: bool,
    #[serde(default)]
    started: bool,
    state: StateName,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StateName {
    Running,
    Waiting,
    Terminated,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    mentions: Vec<String>,
}

fn status(status: Status) -> ContainerStatus {
    let mut state = ContainerState::default();
    match status.state {
        StateName::Running => state.running = Some(ContainerRunning::default()),
        StateName::Waiting => state.waiting = Some(Default::default()),
        StateName::Terminated => state.terminated = Some(Default::default()),
    }
    ContainerStatus { name: status.name, ready: status.ready, started: Some(status.started), state, ..Default::default() }
}

pub(crate) fn check(case: Case<Given, BTreeMap<String, Expected>>) -> Verdict {
    let given = case.given;
    let spec = PodSpec {
        init_containers: given.spec.init_containers,
        containers: given.spec.containers,
        readiness_gates: given
            .spec
            .readiness_gates
            .into_iter()
            .map(|condition_type| ReadinessGate { condition_type })
            .collect(),
        ..PodSpec::default()
    };
    let statuses: Option<Vec<ContainerStatus>> = given.statuses.map(|all| all.into_iter().map(status).collect());
    let facts = ConditionFacts {
        spec: &spec,
        statuses: statuses.as_deref(),
        phase: &given.phase,
        has_sandbox: true,
        generation: Some(1),
    };
    let conditions = pod_conditions(Time::from_secs(100), &facts, &given.conditions);
    for (type_, expected) in case.expect {
        let condition = conditions.iter().find(|condition| condition.type_ == type_).ok_or(format!("no {type_}"))?;
        same(&json!([type_, expected.status, expected.reason]), &json!([type_, condition.status, condition.reason]))?;
        // Names are whole words: what is around them cannot be part of a name.
        let words: Vec<&str> =
            condition.message.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))).collect();
        if let Some(name) = expected.mentions.iter().find(|name| !words.contains(&name.as_str())) {
            return Err(format!("{type_}: {:?} does not mention {name}", condition.message));
        }
    }
    Ok(())
}
