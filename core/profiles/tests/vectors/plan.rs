//! `latency-profiles/plan`: the planner.

use std::time::Duration;

use profiles::plan::{ApiServer, ControllerManager, Observed, Request, WorkerNode, plan};
use profiles::{Day, Profile, Target};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Value>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Given {
    target: String,
    applied: String,
    day: u8,
    #[serde(default = "one")]
    max_unavailable: usize,
    #[serde(default)]
    paused: bool,
    #[serde(default = "forty")]
    default_grace_period: u64,
    observed: Lists,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    #[serde(default)]
    kcm: Vec<Kcm>,
    #[serde(default)]
    kas: Vec<Kas>,
    #[serde(default)]
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kcm {
    name: String,
    grace: f64,
    #[serde(default = "yes")]
    aware: bool,
    #[serde(default)]
    leader: bool,
    #[serde(default)]
    settling: bool,
    #[serde(default)]
    untouched: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kas {
    name: String,
    not_ready: i64,
    unreachable: i64,
    #[serde(default = "yes")]
    aware: bool,
    #[serde(default)]
    settling: bool,
    #[serde(default)]
    untouched: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Node {
    name: String,
    heartbeat: f64,
    #[serde(default = "yes")]
    aware: bool,
    #[serde(default)]
    settling: bool,
    #[serde(default = "ready")]
    ready: String,
    #[serde(default)]
    not_ready_for: u64,
    #[serde(default)]
    control_plane: bool,
    #[serde(default)]
    other_settings: bool,
    #[serde(default)]
    untouched: bool,
}

fn one() -> usize {
    1
}

fn forty() -> u64 {
    40
}

fn yes() -> bool {
    true
}

fn ready() -> String {
    "True".to_owned()
}

fn settled(settling: bool) -> Option<Duration> {
    settling.then_some(Duration::ZERO)
}

fn observed(lists: Lists) -> Observed {
    let kcm = lists.kcm.into_iter().map(|kcm| ControllerManager {
        name: kcm.name,
        grace: Duration::from_secs_f64(kcm.grace),
        aware: kcm.aware,
        leader: kcm.leader,
        settling: settled(kcm.settling),
        untouched: kcm.untouched,
    });
    let kas = lists.kas.into_iter().map(|kas| ApiServer {
        name: kas.name,
        not_ready_seconds: kas.not_ready,
        unreachable_seconds: kas.unreachable,
        aware: kas.aware,
        settling: settled(kas.settling),
        untouched: kas.untouched,
    });
    let nodes = lists.nodes.into_iter().map(|node| WorkerNode {
        name: node.name,
        heartbeat: Duration::from_secs_f64(node.heartbeat),
        aware: node.aware,
        settling: settled(node.settling),
        not_ready_for: (node.ready != "True").then_some(Duration::from_secs(node.not_ready_for)),
        control_plane: node.control_plane,
        other_settings: node.other_settings,
        untouched: node.untouched,
    });
    Observed { kcm: kcm.collect(), kas: kas.collect(), nodes: nodes.collect() }
}

pub(crate) fn check(case: Case) -> Verdict {
    let given = case.given;
    let request = Request {
        target: Target::parse(&given.target).map_err(|error| error.to_string())?,
        applied: Profile::parse(&given.applied).map_err(|error| error.to_string())?,
        day: match given.day {
            0 => Day::Zero,
            2 => Day::Two,
            other => return Err(format!("unknown day {other}")),
        },
        max_unavailable: given.max_unavailable,
        paused: given.paused,
        default_grace: Duration::from_secs(given.default_grace_period),
    };
    let got = plan(&request, &observed(given.observed));
    let texts = |steps: &[profiles::Step]| steps.iter().map(ToString::to_string).collect::<Vec<_>>();
    same(
        &case.expect,
        &json!({
            "leg": got.stage.name(),
            "steps": texts(&got.steps),
            "next": texts(&got.next),
            "blocked": got.blocked.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "deferred": got.deferred,
            "wait": got.wait,
            "legDone": got.stage_done,
            "done": got.done,
        }),
    )
}
