//! `latency-profiles/beats`: the heartbeat loop against a link that goes up and down.

use std::collections::BTreeSet;
use std::time::Duration;

use machine::{Machine, Rng, Time};
use nodes::beats::{Beats, Config, Effect, Input};
use serde::Deserialize;
use serde_json::json;
use testkit::{Verdict, same};

use super::world::{seconds, time};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Given {
    interval: f64,
    latency: f64,
    down: Vec<(f64, f64)>,
    ready_changes: Vec<Change>,
    until: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    at: f64,
    #[serde(rename = "ready")]
    _ready: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expect {
    attempts: Vec<f64>,
    fresh: Vec<f64>,
    renewals: Vec<f64>,
    status_posts: Vec<f64>,
}

pub(crate) fn check(case: Case) -> Verdict {
    let given = case.given;
    let latency = Duration::from_secs_f64(given.latency);
    let down: Vec<(Time, Time)> = given.down.iter().map(|(from, to)| (time(*from), time(*to))).collect();
    // An answer comes if the link is up during the whole way; `to` is the first instant at which it is up again.
    let passes = |start: Time| !down.iter().any(|(from, to)| *from <= start + latency && start < *to);
    let config = Config { jitter: false, ..Config::new(Duration::from_secs_f64(given.interval)) };
    let mut beats = Beats::new(Time::ZERO, config, Rng::new(0));
    // Answers before readiness changes, both before the loop's own deadlines.
    let mut inputs: BTreeSet<(Time, u64)> = BTreeSet::new();
    let mut changes: Vec<Time> = given.ready_changes.iter().map(|change| time(change.at)).collect();
    changes.sort_unstable();
    let (mut attempts, mut fresh_ones, mut renewals, mut posts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut renewed = BTreeSet::new();
    let mut effects = Vec::new();
    loop {
        let answer = inputs.first().map(|(at, _)| *at);
        let change = changes.first().copied();
        let now = [answer, change, beats.deadline()].into_iter().flatten().min().expect("a loop has a deadline");
        if now > time(given.until) {
            break;
        }
        let input = if answer == Some(now) {
            let (_, beat) = inputs.pop_first().expect("seen just above");
            Some(Input::Renewed { beat })
        } else if change == Some(now) {
            changes.remove(0);
            Some(Input::ReadyChanged)
        } else {
            None
        };
        let mut over = 0;
        if let Some(Input::Renewed { beat }) = input
            && renewed.insert(beat)
        {
            renewals.push(seconds(now));
        }
        beats.step(now, input, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Attempt { beat, fresh, lease_duration } => {
                    if lease_duration != Duration::from_secs_f64(given.interval) * 4 {
                        return Err(format!("lease duration {lease_duration:?}"));
                    }
                    attempts.push(seconds(now));
                    fresh_ones.extend(fresh.then_some(seconds(now)));
                    if passes(now) {
                        inputs.insert((now + latency, beat));
                    }
                }
                Effect::Drop { beat } => over = beat,
                Effect::PostStatus => posts.push(seconds(now)),
            }
        }
        inputs.retain(|(_, beat)| *beat > over);
    }
    same(
        &json!({"attempts": case.expect.attempts, "fresh": case.expect.fresh, "renewals": case.expect.renewals,
            "statusPosts": case.expect.status_posts}),
        &json!({"attempts": attempts, "fresh": fresh_ones, "renewals": renewals, "statusPosts": posts}),
    )
}
