//! `latency-profiles/steps`: what an agent does about the step that its Node shows.

use std::time::Duration;

use profiles::steps::{Decision, Unable, decide};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    step: Value,
    #[serde(default)]
    answered: String,
    unable: Option<String>,
    #[serde(default)]
    starting: bool,
    #[serde(default)]
    waited: u64,
}

pub(crate) fn check(case: Case) -> Verdict {
    let Given { step, answered, unable, starting, waited } = case.given;
    let unable = unable.map(if starting { Unable::Yet } else { Unable::ByItself });
    let text = step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let got = match decide(Some(&text), &answered, Duration::from_secs(waited), |_| unable.clone().map_or(Ok(()), Err)) {
        Decision::Nothing => json!({"decision": "nothing"}),
        Decision::Wait => json!({"decision": "wait"}),
        Decision::Begin(step) => {
            let does = step.values.map_or_else(|| "restore".to_owned(), |values| values.to_string());
            json!({"decision": "begin", "does": does, "deadline": step.deadline.as_secs()})
        }
        Decision::Refuse { id, message } => json!({"decision": "refuse", "id": id, "message": message}),
    };
    same(&case.expect, &got)
}
