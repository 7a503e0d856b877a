//! `latency-profiles/profiles`: values, validation, inference, rendering.

use std::collections::BTreeSet;
use std::time::Duration;

use api::config_node_rules;
use profiles::profile::{DEFAULT_GRACE, REPORT_FREQUENCY};
use profiles::steps::{ComponentValues, KubeletValues};
use profiles::{Profile, Target, Values, infer, render};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Value>;

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Given {
    Values {
        profile: String,
    },
    Validate {
        write: Write,
        object: Value,
    },
    #[serde(rename_all = "camelCase")]
    Infer {
        node_status_update_frequency: u64,
        node_monitor_grace_period: u64,
        default_not_ready_toleration_seconds: i64,
        default_unreachable_toleration_seconds: i64,
    },
    Render {
        profile: String,
        #[serde(rename = "for")]
        what: What,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Write {
    Main,
    Status,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    KubeletDropin,
    KcmArgs,
    KasArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Validated {
    allowed: bool,
    errors: Vec<Cause>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(deny_unknown_fields)]
struct Cause {
    field: String,
    #[serde(rename = "type")]
    type_: String,
}

pub(crate) fn check(case: Case) -> Verdict {
    match case.given {
        Given::Values { profile } => same(&case.expect, &values(Profile::parse(&profile).map_err(|e| e.to_string())?)),
        Given::Validate { write, object } => validate(&write, &object, case.expect),
        Given::Infer {
            node_status_update_frequency,
            node_monitor_grace_period,
            default_not_ready_toleration_seconds,
            default_unreachable_toleration_seconds,
        } => {
            let observed = Values {
                node_status_update_frequency: Duration::from_secs(node_status_update_frequency),
                node_monitor_grace_period: Duration::from_secs(node_monitor_grace_period),
                default_not_ready_toleration_seconds,
                default_unreachable_toleration_seconds,
            };
            same(&case.expect, &json!({"profile": infer(&observed, DEFAULT_GRACE).map_or("Custom", Profile::name)}))
        }
        Given::Render { profile, what } => {
            let target = Target::parse(&profile).map_err(|error| error.to_string())?;
            let values = target.profile().values();
            let rendered = match what {
                // The empty profile removes what was written before.
                _ if target == Target::Empty && what == What::KubeletDropin => Value::Null,
                _ if target == Target::Empty => json!([]),
                What::KubeletDropin => render::drop_in(&KubeletValues::of(values.lease_renew_interval())),
                What::KcmArgs => arguments(&ComponentValues::ControllerManager { grace: values.node_monitor_grace_period }),
                What::KasArgs => arguments(&ComponentValues::ApiServer {
                    not_ready_seconds: values.default_not_ready_toleration_seconds,
                    unreachable_seconds: values.default_unreachable_toleration_seconds,
                }),
            };
            same(&case.expect, &json!({"rendered": rendered}))
        }
    }
}

fn arguments(values: &ComponentValues) -> Value {
    values.arguments().into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn values(profile: Profile) -> Value {
    let values = profile.values();
    json!({
        "effective": profile.name(),
        "nodeStatusUpdateFrequency": values.node_status_update_frequency.as_secs(),
        "nodeMonitorGracePeriod": values.node_monitor_grace_period.as_secs(),
        "defaultNotReadyTolerationSeconds": values.default_not_ready_toleration_seconds,
        "defaultUnreachableTolerationSeconds": values.default_unreachable_toleration_seconds,
        "leaseRenewInterval": values.lease_renew_interval().as_secs(),
        "nodeLeaseDurationSeconds": KubeletValues::of(values.lease_renew_interval()).lease_duration.as_secs(),
        "nodeStatusReportFrequency": REPORT_FREQUENCY.as_secs(),
        "chances": values.chances(),
        "reactionSeconds": values.reaction_seconds(),
    })
}

fn validate(write: &Write, object: &Value, expect: Value) -> Verdict {
    let expect: Validated = serde_json::from_value(expect).map_err(|error| error.to_string())?;
    let errors = match write {
        Write::Main => config_node_rules::validate(object),
        Write::Status => config_node_rules::validate_status(object),
    };
    let got: BTreeSet<Cause> =
        errors.into_iter().map(|error| Cause { type_: error.kind.cause().to_owned(), field: error.path }).collect();
    let expected: BTreeSet<Cause> = expect.errors.into_iter().collect();
    if got != expected || got.is_empty() != expect.allowed {
        return Err(format!("expected allowed {} and {expected:?}, got {got:?}", expect.allowed));
    }
    Ok(())
}
