//! Defaulting, validation and effective times.

use std::collections::BTreeMap;
use std::time::Duration;

use api::field::Path;
use api::probe_rules::{default_probe, validate_probe};
use probe::{Defaults, Progress, SubSecondProbePolicy, Timing};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

use crate::common::{Case, TypeName, gates};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    #[serde(rename = "type")]
    type_: TypeName,
    probe: Value,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    stage: Option<Stage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stage {
    Node,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Expect {
    Errors(Errors),
    Times(Times),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Errors {
    errors: Vec<FieldError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldError {
    field: String,
    kind: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Times {
    initial_delay_ms: u64,
    period_before_success_ms: u64,
    period_after_success_ms: u64,
    period_after_loss_ms: u64,
    timeout_ms: u64,
}

pub(crate) fn check(case: Case<Given, Expect>) -> Verdict {
    let Given { type_, mut probe, gates: chosen, policy, stage } = case.given;
    let type_ = type_.probe_type();
    let policy: SubSecondProbePolicy =
        policy.as_deref().map_or(Ok(SubSecondProbePolicy::default()), str::parse).map_err(|error| error.to_string())?;
    default_probe(&mut probe);
    let mut errors: Vec<String> = match stage {
        Some(Stage::Node) => Vec::new(),
        None => validate_probe(&probe, type_, &Path::new(type_.field()))
            .iter()
            .map(|error| format!("{} {}", error.path, error.kind.name()))
            .collect(),
    };
    errors.sort();
    let times = match case.expect {
        Expect::Errors(expected) => {
            let mut expected: Vec<String> =
                expected.errors.iter().map(|error| format!("{} {}", error.field, error.kind)).collect();
            expected.sort();
            return same(&json!(expected), &json!(errors));
        }
        Expect::Times(times) => times,
    };
    same(&json!([]), &json!(errors))?;
    let probe = serde_json::from_value(probe).map_err(|error| error.to_string())?;
    let (timing, _) = Timing::of(&probe, Some(type_), &gates(&chosen)?, &Defaults::CONTAINER);
    let period = |reached_success, is_success| {
        let period = timing.period(policy, Progress { reached_success, is_success });
        millis(period)
    };
    same(
        &json!([
            times.initial_delay_ms,
            times.period_before_success_ms,
            times.period_after_success_ms,
            times.period_after_loss_ms,
            times.timeout_ms
        ]),
        &json!([
            millis(timing.initial_delay),
            period(false, false),
            period(true, true),
            period(true, false),
            millis(timing.timeout)
        ]),
    )
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("the vectors have no times beyond a u64")
}
