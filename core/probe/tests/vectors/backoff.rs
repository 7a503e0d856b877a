//! Restart back-off of one container.

use std::time::Duration;

use machine::Time;
use probe::{BackOff, BackOffSteps};
use serde::Deserialize;
use serde_json::json;
use testkit::{Verdict, same};

use crate::common::Case;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Given {
    runs_seconds: Vec<u64>,
    #[serde(default = "ten")]
    initial_seconds: u64,
    #[serde(default = "three_hundred")]
    max_seconds: u64,
}

fn ten() -> u64 {
    10
}

fn three_hundred() -> u64 {
    300
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Expect {
    waits_seconds: Vec<u64>,
    starts_seconds: Vec<i64>,
}

pub(crate) fn check(case: Case<Given, Expect>) -> Verdict {
    let seconds = Duration::from_secs;
    let steps = BackOffSteps::new(seconds(case.given.initial_seconds), seconds(case.given.max_seconds))
        .map_err(|error| error.to_string())?;
    let mut back_off = BackOff::default();
    let mut started = Time::ZERO;
    let (mut waits, mut starts) = (Vec::new(), vec![started.as_secs()]);
    for run in case.given.runs_seconds {
        let exited = started + seconds(run);
        started = back_off.restart_at(&steps, started, exited);
        waits.push(started.since(exited).as_secs());
        starts.push(started.as_secs());
    }
    let expect = json!({"waits": case.expect.waits_seconds, "starts": case.expect.starts_seconds});
    same(&expect, &json!({"waits": waits, "starts": starts}))
}
