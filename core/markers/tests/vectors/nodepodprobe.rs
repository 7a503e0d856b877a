//! Planning of NodePodProbe objects.

use std::collections::{BTreeMap, BTreeSet};

use api::marker::{NodePodProbe, PodProbeMarker};
use api::{Node, Pod};
use markers::{MarkerPlan, NodePodProbeAction, plan};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Given {
    markers: Vec<PodProbeMarker>,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    node_pod_probes: Vec<NodePodProbe>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Expect {
    node_pod_probes: BTreeMap<String, Value>,
    markers: BTreeMap<String, Value>,
    #[serde(default)]
    events: BTreeSet<Event>,
    usable: Option<BTreeMap<String, BTreeSet<String>>>,
}

#[derive(Deserialize, serde::Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Event {
    object: String,
    reason: String,
}

pub(crate) fn check(case: Case) -> Verdict {
    let Given { markers, pods, nodes, node_pod_probes } = case.given;
    let plan = plan(markers, pods, &nodes, node_pod_probes);
    let nodes: BTreeMap<&String, Value> = plan.node_pod_probes.iter().map(|(node, action)| (node, shown(action))).collect();
    let markers: BTreeMap<String, Value> = plan.markers.iter().map(|(key, plan)| (key.to_string(), marker(plan))).collect();
    let event =
        |(key, reason): &(markers::Key, markers::Reason)| Event { object: key.to_string(), reason: reason.name().into() };
    let events: BTreeSet<Event> = plan.events.iter().map(event).collect();
    let expected = json!({"nodes": case.expect.node_pod_probes, "markers": case.expect.markers, "events": case.expect.events});
    same(&expected, &json!({"nodes": nodes, "markers": markers, "events": events}))?;
    match case.expect.usable {
        Some(usable) => same(&json!(usable), &json!(plan.usable)),
        None => Ok(()),
    }
}

fn shown(action: &NodePodProbeAction) -> Value {
    match action {
        NodePodProbeAction::Create(items) => json!({"action": "create", "podProbes": items}),
        NodePodProbeAction::Update(items) => json!({"action": "update", "podProbes": items}),
        NodePodProbeAction::Delete => json!({"action": "delete"}),
    }
}

fn marker(plan: &MarkerPlan) -> Value {
    match plan {
        MarkerPlan::Keep { add_finalizer, observed_generation, matched_pods } => json!({
            "finalizer": if *add_finalizer { "add" } else { "none" },
            "observedGeneration": observed_generation,
            "matchedPods": matched_pods,
        }),
        MarkerPlan::Release { remove_finalizer } => json!({"finalizer": if *remove_finalizer { "remove" } else { "none" }}),
    }
}
