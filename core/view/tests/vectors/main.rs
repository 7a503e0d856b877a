//! The cases of `conformance/view`: facts in, rows out.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use machine::Time;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use testkit::{Suite, Verdict};
use view::{AgentReport, Board, Fact, Limits, Origin};

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).file("view/board", check).run()
}

type Case = testkit::Case<Given, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    now: i64,
    #[serde(default)]
    since: Option<i64>,
    #[serde(default)]
    limits: Option<GivenLimits>,
    facts: Vec<GivenFact>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenLimits {
    attempts: usize,
    window_ms: u64,
    events: usize,
}

#[derive(Deserialize)]
struct GivenFact {
    at: i64,
    #[serde(default)]
    listed: bool,
    #[serde(flatten)]
    what: BTreeMap<String, Value>,
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<Arc<T>, String> {
    serde_json::from_value(value.clone()).map(Arc::new).map_err(|error| format!("{error}: {value}"))
}

fn fact(kind: &str, value: &Value) -> Result<Fact, String> {
    Ok(match kind {
        "pod" => Fact::Pod(read(value)?),
        "service" => Fact::Service(read(value)?),
        "slice" => Fact::Slice(read(value)?),
        "node" => Fact::Node(read(value)?),
        "lease" => Fact::Lease(read(value)?),
        "marker" => Fact::Marker(read(value)?),
        "cluster" => Fact::Cluster(read(value)?),
        "event" => Fact::Event(read(value)?),
        "report" => Fact::Report(Arc::new(AgentReport::read(value))),
        "connections" => Fact::Connections(serde_json::from_value(value.clone()).map_err(|error| error.to_string())?),
        "defaultGraceMs" => Fact::DefaultGrace(Duration::from_millis(value.as_u64().ok_or("a number")?)),
        "gone" => gone(value)?,
        other => return Err(format!("there is no fact {other:?}")),
    })
}

fn gone(value: &Value) -> Result<Fact, String> {
    let (kind, key) = value.as_object().and_then(|one| one.iter().next()).ok_or("gone: {kind: key}")?;
    let key = key.as_str().unwrap_or_default().to_owned();
    Ok(match kind.as_str() {
        "pod" => Fact::PodGone(key),
        "service" => Fact::ServiceGone(key),
        "slice" => Fact::SliceGone(key),
        "node" => Fact::NodeGone(key),
        "lease" => Fact::LeaseGone(key),
        "marker" => Fact::MarkerGone(key),
        "cluster" => Fact::ClusterGone,
        "event" => Fact::EventGone(key),
        other => return Err(format!("there is no kind {other:?}")),
    })
}

fn check(case: Case) -> Verdict {
    let given = case.given;
    let limits = given.limits.map_or_else(Limits::default, |limits| Limits {
        attempts: limits.attempts,
        window: Duration::from_millis(limits.window_ms),
        events: limits.events,
    });
    let mut board = Board::new(limits);
    let mut seen = None;
    for given_fact in &given.facts {
        if let Some(since) = given.since.filter(|since| seen.is_none() && given_fact.at > *since) {
            seen = Some(board.delta(Time::from_millis(since), None).revision);
        }
        let how = if given_fact.listed { Origin::Listed } else { Origin::Live };
        for (kind, value) in &given_fact.what {
            board.apply(Time::from_millis(given_fact.at), how, fact(kind, value)?);
        }
    }
    if let Some(since) = given.since.filter(|_| seen.is_none()) {
        seen = Some(board.delta(Time::from_millis(since), None).revision);
    }
    let delta = board.delta(Time::from_millis(given.now), seen);
    let got = serde_json::to_value(&delta).map_err(|error| error.to_string())?;
    part("", &case.expect, &got).map_err(|why| format!("{why}\ngot: {got:#}"))
}

/// Checks that what is expected is there; null: that it is not.
fn part(path: &str, expected: &Value, got: &Value) -> Verdict {
    match (expected, got) {
        (Value::Object(wanted), Value::Object(_)) => {
            wanted.iter().try_for_each(|(name, wanted)| part(&format!("{path}.{name}"), wanted, &got[name]))
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found).enumerate();
            pairs.into_iter().try_for_each(|(index, (wanted, found))| part(&format!("{path}[{index}]"), wanted, found))
        }
        (wanted, found) if wanted == found => Ok(()),
        (wanted, found) => Err(format!("{path}: expected {wanted}, got {found}")),
    }
}
