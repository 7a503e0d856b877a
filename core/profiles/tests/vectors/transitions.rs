//! `latency-profiles/transitions`: paths, and the states between two profiles.

use profiles::path::{Day, path, states, visited};
use profiles::{Profile, UnknownProfile};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Value>;

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Given {
    Path { from: String, to: String, day: u8 },
    States { from: String, to: String },
}

pub(crate) fn check(case: Case) -> Verdict {
    let got = match case.given {
        Given::Path { from, to, day } => on_path(&from, &to, day)?,
        Given::States { from, to } => between(&from, &to),
    };
    same(&case.expect, &got.unwrap_or_else(|UnknownProfile(_)| json!({"error": "UnknownProfile"})))
}

fn on_path(from: &str, to: &str, day: u8) -> Result<Result<Value, UnknownProfile>, String> {
    let day = match day {
        0 => Day::Zero,
        2 => Day::Two,
        other => return Err(format!("unknown day {other}")),
    };
    let names = |from, to| path(from, to, day).into_iter().map(Profile::name).collect::<Vec<_>>();
    Ok(Profile::parse(from).and_then(|from| Ok(json!({"path": names(from, Profile::parse(to)?)}))))
}

fn between(from: &str, to: &str) -> Result<Value, UnknownProfile> {
    let (from, to) = (Profile::parse(from)?, Profile::parse(to)?);
    let states: Vec<Value> = states(from, to)
        .iter()
        .map(|state| {
            json!([
                state.interval.as_secs(),
                state.grace.as_secs(),
                state.toleration_seconds,
                state.chances(),
                state.class().name()
            ])
        })
        .collect();
    Ok(json!({"states": states, "visited": visited(from, to)}))
}
