//! `latency-profiles/hazards`: values of one node under a grace.

use std::collections::BTreeSet;
use std::time::Duration;

use profiles::hazard::{Advisory, NodeValues, hazard};
use serde::Deserialize;
use serde_json::json;
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Given {
    node_status_update_frequency: u64,
    node_status_report_frequency: Option<u64>,
    node_lease_duration_seconds: Option<u64>,
    node_monitor_grace_period: u64,
    unreachable_toleration_seconds: Option<i64>,
    #[serde(default)]
    recovery_post: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    interval: f64,
    chances: u64,
    class: String,
    advisories: BTreeSet<String>,
}

pub(crate) fn check(case: Case) -> Verdict {
    let got = hazard(&NodeValues {
        update: Duration::from_secs(case.given.node_status_update_frequency),
        report: case.given.node_status_report_frequency.map(Duration::from_secs),
        lease_duration: case.given.node_lease_duration_seconds.map(Duration::from_secs),
        grace: Duration::from_secs(case.given.node_monitor_grace_period),
        unreachable_seconds: case.given.unreachable_toleration_seconds,
        recovery_post: case.given.recovery_post,
    });
    let advisories: BTreeSet<&str> = got.advisories.iter().copied().map(Advisory::name).collect();
    same(
        &json!({"interval": case.expect.interval, "chances": case.expect.chances, "class": case.expect.class,
            "advisories": case.expect.advisories}),
        &json!({"interval": got.interval.as_secs_f64(), "chances": got.chances, "class": got.class.name(), "advisories": advisories}),
    )
}
