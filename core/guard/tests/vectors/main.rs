//! `cluster/guard`: agents that renew their Leases or do not, pods that are judged, in virtual seconds.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use api::moved::{ANNOTATION_MOVED_PROBES, ANNOTATION_PROBES, CONDITION, agent_lease};
use api::{Lease, Node, Pod, Timestamp, Verb};
use guard::{Effect, Guard, Input, Object, Watched};
use machine::{Machine, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Suite, Verdict, same};

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).file("cluster/guard", check).run()
}

type Case = testkit::Case<Given, Vec<String>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    nodes: BTreeMap<String, NodeGiven>,
    #[serde(default)]
    pods: Vec<PodGiven>,
    until: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodeGiven {
    #[serde(default)]
    zone: String,
    /// When its agent renews its Lease; a string `a..b` means every 10 s from a to b.
    #[serde(default)]
    renews: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodGiven {
    name: String,
    node: String,
    /// The API shows this from then on; further entries of the same name change it.
    #[serde(default)]
    at: i64,
    #[serde(default = "yes")]
    gate: bool,
    #[serde(default)]
    condition: Option<Value>,
    /// ID and start of the container `app`, as the status shows it.
    #[serde(default)]
    app: Option<(String, i64)>,
}

fn yes() -> bool {
    true
}

fn at(seconds: i64) -> Time {
    Time::from_secs(seconds)
}

fn stamp(seconds: i64) -> String {
    Timestamp(at(seconds)).to_string()
}

/// Returns the instants of a list like `[0..100, 130]`.
fn instants(texts: &[String]) -> Vec<i64> {
    let number = |text: &str| text.trim().parse::<i64>().expect("a number of seconds");
    let span = |text: &String| match text.split_once("..") {
        Some((from, to)) => (number(from)..=number(to)).step_by(10).collect(),
        None => vec![number(text)],
    };
    texts.iter().flat_map(span).collect()
}

fn pod(given: &PodGiven, condition: Option<&Value>) -> Pod {
    let condition = condition.cloned().map(|mut condition| {
        condition["type"] = CONDITION.into();
        if let Some(seconds) = condition["since"].as_i64() {
            condition["lastTransitionTime"] = stamp(seconds).into();
        }
        condition
    });
    let app = given.app.as_ref().map(|(id, started)| {
        json!({"name": "app", "containerID": format!("containerd://{id}"), "state": {"running": {"startedAt": stamp(*started)}}})
    });
    let gates = if given.gate { json!([{"conditionType": CONDITION}]) } else { json!([]) };
    let moved = if given.gate { ANNOTATION_MOVED_PROBES } else { ANNOTATION_PROBES };
    serde_json::from_value(json!({
        "metadata": {"name": given.name, "namespace": "d", "uid": given.name, "annotations": {moved: "{}"}},
        "spec": {"nodeName": given.node, "containers": [{"name": "app"}], "readinessGates": gates},
        "status": {"conditions": condition.into_iter().collect::<Vec<_>>(), "containerStatuses": app.into_iter().collect::<Vec<_>>()},
    }))
    .expect("a pod")
}

/// What happens, in order: Leases before pods at one instant.
fn facts(given: &Given) -> Vec<(i64, u8, Input, Option<PodGiven>)> {
    let mut facts = Vec::new();
    for (name, node) in &given.nodes {
        let object: Node = serde_json::from_value(
            json!({"metadata": {"name": name, "uid": name, "labels": {"topology.kubernetes.io/zone": node.zone}}}),
        )
        .expect("a node");
        facts.push((0, 0, Input::Applied(Object::Node(Arc::new(object))), None));
        for seconds in instants(&node.renews) {
            let lease: Lease = serde_json::from_value(json!({"metadata": {"name": agent_lease(name), "namespace": "l"},
                "spec": {"leaseDurationSeconds": 40, "renewTime": stamp(seconds)}}))
            .expect("a lease");
            facts.push((seconds, 1, Input::Applied(Object::Lease(Arc::new(lease))), None));
        }
    }
    for watched in [Watched::Nodes, Watched::Leases, Watched::Pods] {
        facts.push((0, 2, Input::Synced(watched), None));
    }
    for given in &given.pods {
        let object = pod(given, given.condition.as_ref());
        facts.push((given.at, 3, Input::Applied(Object::Pod(Arc::new(object))), Some(given.clone())));
    }
    facts.sort_by_key(|(at, order, ..)| (*at, *order));
    facts
}

fn check(case: Case) -> Verdict {
    let mut guard = Guard::new();
    let (mut seen, mut pods) = (Vec::new(), BTreeMap::<String, PodGiven>::new());
    let mut facts = facts(&case.given).into_iter().peekable();
    let end = at(case.given.until);
    loop {
        let next_fact = facts.peek().map(|(seconds, ..)| at(*seconds));
        let due = guard.deadline();
        let Some(now) = [next_fact, due].into_iter().flatten().min().filter(|now| *now <= end) else { break };
        let input = facts.next_if(|(seconds, ..)| at(*seconds) <= now);
        if let Some((.., Some(pod))) = &input {
            pods.insert(pod.name.clone(), pod.clone());
        }
        let mut inputs = vec![input.map(|(_, _, input, _)| input)];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            guard.step(now, input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Event(event) => {
                        seen.push(format!("{} event {} {}", now.as_secs(), event.object.name, event.reason))
                    }
                    Effect::Write { uid, write } => {
                        let Verb::Strategic(patch) = &write.verb else { return Err(format!("{write:?}")) };
                        let condition = &patch["status"]["conditions"][0];
                        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
                        seen.push(format!("{} {uid} {} {}", now.as_secs(), text("status"), text("reason")));
                        let shown = pod(&pods[&uid], Some(condition));
                        inputs.push(Some(Input::Written { uid: uid.clone(), result: Ok(()) }));
                        inputs.push(Some(Input::Applied(Object::Pod(Arc::new(shown)))));
                    }
                }
            }
        }
        if guard.deadline().is_some_and(|due| due <= now) && facts.peek().is_none_or(|(seconds, ..)| at(*seconds) > now) {
            return Err(format!("a busy loop at {now}"));
        }
    }
    same(&json!(case.expect), &json!(seen))
}
