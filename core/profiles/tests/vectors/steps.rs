//! `latency-profiles/steps`: what an agent does about the step that its Node shows.

use profiles::steps::{Decision, decide};
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
}

pub(crate) fn check(case: Case) -> Verdict {
    let Given { step, answered, unable } = case.given;
    let text = step.as_str().map_or_else(|| step.to_string(), str::to_owned);
    let got = match decide(Some(&text), &answered, |_| unable.clone().map_or(Ok(()), Err)) {
        Decision::Nothing => json!({"decision": "nothing"}),
        Decision::Begin(step) => {
            let does = step.values.map_or_else(|| "restore".to_owned(), |values| values.to_string());
            json!({"decision": "begin", "does": does, "deadline": step.deadline.as_secs()})
        }
        Decision::Refuse { id, message } => json!({"decision": "refuse", "id": id, "message": message}),
    };
    same(&case.expect, &got)
}
