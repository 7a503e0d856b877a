//! Writing results back to the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::marker::{PodProbeMarker, ProbeState};
use api::meta::Condition;
use api::{Pod, Timestamp};
use markers::{Compiled, Marked, Marking, ProbeResult, Trigger, mark};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Given {
    pod: Pod,
    markers: Vec<PodProbeMarker>,
    results: Vec<GivenResult>,
    marked: Option<Marked>,
    #[serde(default)]
    trigger: GivenTrigger,
    last_write_ago_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GivenResult {
    probe: String,
    state: ProbeState,
    message: String,
    last_probe_time: Timestamp,
    last_transition_time: Timestamp,
    #[serde(default = "yes")]
    fresh: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum GivenTrigger {
    #[default]
    Result,
    Marker,
    Pod,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Expect {
    metadata: Option<Metadata>,
    conditions: Vec<Value>,
    remove_conditions: BTreeSet<String>,
    marked: Option<Value>,
    #[serde(default)]
    events: BTreeSet<Event>,
    defer_ms: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, Option<String>>,
    #[serde(default)]
    annotations: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize, serde::Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Event {
    object: String,
    reason: String,
}

pub(crate) fn check(case: Case) -> Verdict {
    let given = case.given;
    let markers: Vec<Compiled> = given.markers.into_iter().map(Compiled::new).collect();
    let result = |result: GivenResult| ProbeResult {
        owner: result.probe,
        state: result.state,
        message: result.message,
        last_probe_time: Some(result.last_probe_time),
        last_transition_time: Some(result.last_transition_time),
        fresh: result.fresh,
    };
    let results: Vec<ProbeResult> = given.results.into_iter().map(result).collect();
    let trigger = match given.trigger {
        GivenTrigger::Result => Trigger::Result,
        GivenTrigger::Marker => Trigger::Marker,
        GivenTrigger::Pod => Trigger::Pod,
    };
    let ago = given.last_write_ago_ms.map(Duration::from_millis);
    let marked = given.marked.unwrap_or_default();
    let marking = mark(&given.pod, &markers.iter().collect::<Vec<_>>(), &results, &marked, trigger, ago);
    same(&expected(case.expect), &shown(&marking))
}

fn expected(expect: Expect) -> Value {
    let metadata = expect.metadata.unwrap_or_default();
    let by_type: BTreeMap<String, &Value> = expect
        .conditions
        .iter()
        .map(|condition| (condition["type"].as_str().unwrap_or_default().to_owned(), condition))
        .collect();
    json!({
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "conditions": by_type,
        "removeConditions": expect.remove_conditions,
        "marked": expect.marked,
        "events": expect.events,
        "deferMs": expect.defer_ms,
    })
}

fn shown(marking: &Marking) -> Value {
    let condition = |condition: &Condition| {
        let mut value = json!(condition);
        value["message"] = condition.message.clone().into();
        (condition.type_.clone(), value)
    };
    let event =
        |(key, reason): &(markers::Key, markers::Reason)| Event { object: key.to_string(), reason: reason.name().into() };
    json!({
        "labels": marking.labels,
        "annotations": marking.annotations,
        "conditions": marking.conditions.iter().map(condition).collect::<BTreeMap<_, _>>(),
        "removeConditions": marking.remove_conditions.iter().collect::<BTreeSet<_>>(),
        "marked": (!marking.marked.is_empty()).then_some(&marking.marked),
        "events": marking.conflicts.iter().map(event).collect::<BTreeSet<_>>(),
        "deferMs": marking.defer.map(|span| span.as_millis()),
    })
}
