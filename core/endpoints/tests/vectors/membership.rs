//! conditions.yaml, labels.yaml, membership.yaml, ports.yaml: what becomes of pods.

use std::collections::BTreeMap;

use api::endpointslice::EndpointPort;
use api::{Node, Pod, Service};
use endpoints::Settings;
use endpoints::desired::desired;
use endpoints::membership::{NodeFact, eligible};
use endpoints::plan::{plan, writes};
use endpoints::pod::PodRecord;
use endpoints::service::ServiceRecord;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

fn gated(gate: bool) -> Settings {
    Settings { terminating_condition: gate, ..Settings::default() }
}

fn yes() -> bool {
    true
}

pub(crate) type ConditionsCase = testkit::Case<ConditionsGiven, ConditionsExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ConditionsGiven {
    #[serde(default = "yes")]
    gate: bool,
    publish_not_ready_addresses: bool,
    pod: Pod,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionsExpect {
    included: bool,
    conditions: Option<Value>,
}

pub(crate) fn conditions(case: ConditionsCase) -> Verdict {
    let settings = gated(case.given.gate);
    let pod = PodRecord::from(&case.given.pod);
    let publish = case.given.publish_not_ready_addresses;
    let included = eligible(&pod, publish, &settings);
    let conditions = included.then(|| json!(endpoints::conditions::conditions(&pod, publish, &settings)));
    same(
        &json!({"included": case.expect.included, "conditions": case.expect.conditions}),
        &json!({"included": included, "conditions": conditions}),
    )
}

pub(crate) type LabelsCase = testkit::Case<LabelsGiven, LabelsExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct LabelsGiven {
    service: Service,
    slice_labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelsExpect {
    labels: BTreeMap<String, String>,
    changed: Option<bool>,
}

pub(crate) fn labels(case: LabelsCase) -> Verdict {
    let labels = endpoints::labels::wanted_labels(&case.given.service);
    let changed = case.given.slice_labels.map(|stored| stored != labels);
    same(&json!({"labels": case.expect.labels, "changed": case.expect.changed}), &json!({"labels": labels, "changed": changed}))
}

pub(crate) type MembershipCase = testkit::Case<MembershipGiven, MembershipExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MembershipGiven {
    #[serde(default = "yes")]
    gate: bool,
    max_endpoints_per_slice: usize,
    service: Service,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MembershipExpect {
    managed: bool,
    #[serde(default)]
    skipped: Vec<String>,
    #[serde(default)]
    slices: Value,
}

pub(crate) fn membership(case: MembershipCase) -> Verdict {
    let given = case.given;
    let settings = Settings { max_endpoints_per_slice: given.max_endpoints_per_slice, ..gated(given.gate) };
    let plan = plan(&settings, &given.service, &given.pods, &given.nodes, &[]);
    if !case.expect.managed {
        return if plan.is_none() { Ok(()) } else { Err(format!("expected not managed, got {plan:?}")) };
    }
    let plan = plan.ok_or("expected managed")?;
    let bodies = writes(&settings, &given.service, &[], &plan, None);
    let slices: Value = bodies
        .creates
        .iter()
        .map(|body| {
            let slice: Value = serde_json::from_slice(body).expect("JSON");
            json!({"addressType": slice["addressType"], "ports": slice["ports"], "endpoints": slice["endpoints"]})
        })
        .collect();
    let expected = json!({"skipped": case.expect.skipped, "slices": case.expect.slices});
    let skipped: Vec<&str> = plan.skipped.iter().map(|pod| &**pod).collect();
    same(&expected, &json!({"skipped": skipped, "slices": slices}))
}

pub(crate) type PortsCase = testkit::Case<PortsGiven, PortsExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortsGiven {
    service: Service,
    pods: Vec<Pod>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortsExpect {
    groups: Value,
}

pub(crate) fn ports(case: PortsCase) -> Verdict {
    let settings = Settings::default();
    let mut service = case.given.service;
    service.spec.ip_families = vec!["IPv4".to_owned()];
    let service = ServiceRecord::new(&service, &settings).ok_or("expected managed")?;
    let mut pods: Vec<PodRecord> = case.given.pods.iter().map(PodRecord::from).collect();
    for pod in &mut pods {
        // The cases are about ports and leave addresses out.
        pod.has_addresses = true;
        pod.addresses = vec!["10.0.0.1".parse().expect("an address")];
    }
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    let desired = desired(&service, pods.iter().map(|pod| (pod, NodeFact::Known(None))), &settings);
    let shown = |ports: &[EndpointPort]| serde_json::to_value(ports).expect("JSON");
    let groups: Value = desired.families[0]
        .1
        .iter()
        .map(|group| {
            let pods: Vec<&str> = group.records.iter().map(|record| &*record.pod).collect();
            json!({"ports": shown(group.ports.listed()), "pods": pods})
        })
        .collect();
    same(&case.expect.groups, &groups)
}
