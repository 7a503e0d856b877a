//! hints.yaml and usable.yaml: what consumers are told and what they make of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::endpointslice::{Endpoint, EndpointConditions, EndpointHints, ForName};
use api::{EndpointSlice, Service};
use endpoints::hints::Mode;
use endpoints::pack::{Frame, Group, SliceChange, Stored, pack};
use endpoints::record::Record;
use endpoints::usable::{NilServing, Options, Policy};
use endpoints::{Settings, usable_endpoints};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type HintsCase = testkit::Case<HintsGiven, HintsExpect>;

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct HintsGiven {
    traffic_distribution: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default = "yes")]
    prefer_same_gate: bool,
    #[serde(default)]
    slice_changed_otherwise: bool,
    endpoints: Vec<HintsEndpoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HintsEndpoint {
    ready: bool,
    zone: Option<String>,
    node_name: Option<String>,
    hints: Option<Names>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[derive(Default)]
struct Names {
    for_zones: Vec<String>,
    for_nodes: Vec<String>,
}

impl Names {
    fn hints(&self) -> EndpointHints {
        let list = |names: &[String]| names.iter().map(|name| ForName::from(name.as_str())).collect();
        EndpointHints { for_zones: list(&self.for_zones), for_nodes: list(&self.for_nodes) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HintsExpect {
    mode: String,
    write: Option<bool>,
    hints: Option<Value>,
}

fn names_of(hints: Option<&EndpointHints>) -> Value {
    let Some(hints) = hints else { return Value::Null };
    let names = |list: &[ForName]| list.iter().map(|hint| hint.name.clone()).collect::<Vec<_>>();
    let mut shown = serde_json::Map::new();
    for (key, list) in [("forZones", &hints.for_zones), ("forNodes", &hints.for_nodes)] {
        if !list.is_empty() {
            shown.insert(key.to_owned(), json!(names(list)));
        }
    }
    Value::Object(shown)
}

fn record(index: usize, endpoint: &HintsEndpoint) -> Record {
    Record {
        ordinal: 0,
        pod: format!("p{index:03}").into(),
        uid: "u".into(),
        address: format!("10.0.0.{}", index + 1).parse().expect("an address"),
        hostname: None,
        conditions: EndpointConditions { ready: Some(endpoint.ready), ..EndpointConditions::default() },
        node: endpoint.node_name.as_deref().map(Arc::from),
        zone: endpoint.zone.as_deref().map(Arc::from),
    }
}

pub(crate) fn hints(case: HintsCase) -> Verdict {
    let given = case.given;
    let settings = Settings { prefer_same: given.prefer_same_gate, ..Settings::default() };
    let mut service = Service::default();
    service.spec.traffic_distribution = given.traffic_distribution;
    service.metadata.annotations = given.annotations;
    let mode = Mode::of(&service, &settings);
    let shown = match mode {
        Mode::None => "None",
        Mode::Zone => "PreferSameZone",
        Mode::Node => "PreferSameNode",
        Mode::Auto => "Auto",
    };
    if shown != case.expect.mode || mode == Mode::Auto {
        return same(&json!(case.expect.mode), &json!(shown));
    }
    let records: Vec<Arc<Record>> = given.endpoints.iter().enumerate().map(|(i, e)| Arc::new(record(i, e))).collect();
    let stored: Vec<Endpoint> = records
        .iter()
        .zip(&given.endpoints)
        .map(|(record, given)| Endpoint {
            hints: given.hints.as_ref().map(Names::hints),
            ..record.endpoint("default", Mode::None)
        })
        .collect();
    let group = Group { ports: Arc::default(), records };
    let slice = Stored { ports: Arc::default(), endpoints: &stored, owned: true, labelled: !given.slice_changed_otherwise };
    let frame = Frame { namespace: "default", settings: &settings, mode, deleting: false };
    let packing = pack(&[slice], &[group], frame);
    let (write, after) = match &packing.changes[0] {
        SliceChange::Update(packed) => (true, packed.records.iter().map(|record| record.endpoint("default", mode)).collect()),
        SliceChange::Unchanged(_) => (false, stored.clone()),
        other => return Err(format!("unexpected {other:?}")),
    };
    let hints: Value = after.iter().map(|endpoint: &Endpoint| names_of(endpoint.hints.as_ref())).collect();
    same(&json!({"write": case.expect.write, "hints": case.expect.hints}), &json!({"write": write, "hints": hints}))
}

pub(crate) type UsableCase = testkit::Case<UsableGiven, UsableExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct UsableGiven {
    traffic_policy: String,
    #[serde(default)]
    node: String,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    use_hints: bool,
    nil_serving: Option<Value>,
    slices: Vec<UsableSlice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct UsableSlice {
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    endpoints: Vec<UsableEndpoint>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct UsableEndpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: EndpointConditions,
    node_name: Option<String>,
    #[serde(default)]
    for_zones: Vec<String>,
    #[serde(default)]
    for_nodes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsableExpect {
    mode: String,
    addresses: Vec<String>,
}

fn usable_slice(given: UsableSlice) -> EndpointSlice {
    let endpoint = |given: UsableEndpoint| Endpoint {
        addresses: given.addresses,
        conditions: given.conditions,
        node_name: given.node_name,
        hints: Some(Names { for_zones: given.for_zones, for_nodes: given.for_nodes }.hints()),
        ..Endpoint::default()
    };
    let mut slice =
        EndpointSlice { endpoints: given.endpoints.into_iter().map(endpoint).collect(), ..EndpointSlice::default() };
    slice.metadata.name = given.name;
    slice.metadata.resource_version = given.resource_version;
    slice
}

pub(crate) fn usable(case: UsableCase) -> Verdict {
    let given = case.given;
    let policy = match given.traffic_policy.as_str() {
        "Cluster" => Policy::Cluster,
        "Local" => Policy::Local,
        other => return Err(format!("unknown policy {other}")),
    };
    let nil_serving = match given.nil_serving {
        None | Some(Value::Bool(true)) => NilServing::True,
        Some(Value::String(text)) if text == "true" => NilServing::True,
        Some(Value::String(text)) if text == "ready" => NilServing::Ready,
        Some(other) => return Err(format!("unknown nilServing {other}")),
    };
    let slices: Vec<EndpointSlice> = given.slices.into_iter().map(usable_slice).collect();
    let options = Options { use_hints: given.use_hints, nil_serving };
    let usable = usable_endpoints(&slices, policy, &given.node, &given.zone, options);
    same(
        &json!({"mode": case.expect.mode, "addresses": case.expect.addresses}),
        &json!({"mode": usable.mode.name(), "addresses": usable.addresses}),
    )
}
