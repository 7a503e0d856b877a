//! reconcile.yaml: packing.

use std::collections::BTreeMap;

use api::EndpointSlice;
use endpoints::Settings;
use endpoints::plan::{Slice, plan};
use endpoints::transitions::Churn;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

use crate::tokens::{Token, endpoint, expand, node, pods, ports_text, service, slice, token};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Given {
    max_endpoints_per_slice: usize,
    existing: Vec<Existing>,
    pods: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    service_deleting: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Existing {
    name: String,
    ports: String,
    endpoints: Vec<String>,
    labels: Option<String>,
    owner: Option<String>,
    address_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    create: usize,
    update: usize,
    delete: usize,
    added: usize,
    removed: usize,
    deleted: Vec<String>,
    slices: Vec<ExpectedSlice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedSlice {
    name: String,
    ports: String,
    write: String,
    endpoints: Vec<String>,
}

fn stored(existing: &Existing) -> EndpointSlice {
    let endpoints = expand(&existing.endpoints).iter().map(endpoint).collect();
    let mut slice = slice(&existing.name, &existing.ports, endpoints);
    match existing.labels.as_deref() {
        None => {}
        Some("stale") => {
            slice.metadata.labels.insert("stale".to_owned(), "yes".to_owned());
        }
        Some(other) => panic!("unknown notation labels: {other}"),
    }
    match existing.owner.as_deref() {
        None => {}
        Some("other") => slice.metadata.owner_references[0].uid = "another-uid".to_owned(),
        Some(other) => panic!("unknown notation owner: {other}"),
    }
    slice.address_type = existing.address_type.clone().unwrap_or(slice.address_type);
    slice
}

fn shown(name: &str, ports: &str, write: &str, tokens: Vec<Token>) -> Value {
    json!({"name": name, "ports": ports, "write": write, "endpoints": tokens.iter().map(|t| format!("{t:?}")).collect::<Vec<_>>()})
}

pub(crate) fn reconcile(case: Case) -> Verdict {
    let settings = Settings { max_endpoints_per_slice: case.given.max_endpoints_per_slice, ..Settings::default() };
    let slices: Vec<EndpointSlice> = case.given.existing.iter().map(stored).collect();
    let service = service(false, case.given.service_deleting);
    let plan = plan(&settings, &service, &pods(&case.given.pods), &[node()], &slices).expect("managed");

    let show = |write: &'static str| {
        move |slice: &Slice| {
            let tokens =
                slice.packed.records.iter().map(|record| token(&record.endpoint("default", endpoints::hints::Mode::None)));
            let write = if slice.recycled { "recycle" } else { write };
            shown(&slice.name, &ports_text(slice.packed.ports.listed()), write, tokens.collect())
        }
    };
    let mut left: Vec<Value> = plan.unchanged.iter().map(show("none")).chain(plan.updates.iter().map(show("update"))).collect();
    left.sort_by_key(|slice| slice["name"].to_string());
    for (index, slice) in plan.creates.iter().enumerate() {
        left.push(show("create")(&Slice { name: format!("new-{}", index + 1), ..slice.clone() }));
    }
    let mut churn = Churn::default();
    plan.churn.iter().for_each(|family| churn.add(family));
    let mut deleted = plan.deletes.clone();
    deleted.sort();
    let got = json!({
        "create": plan.creates.len(), "update": plan.updates.len(), "delete": plan.deletes.len(),
        "added": churn.added, "removed": churn.removed, "deleted": deleted, "slices": left,
    });
    let expect = case.expect;
    let expected_slices: Vec<Value> =
        expect.slices.iter().map(|slice| shown(&slice.name, &slice.ports, &slice.write, expand(&slice.endpoints))).collect();
    let expected = json!({
        "create": expect.create, "update": expect.update, "delete": expect.delete,
        "added": expect.added, "removed": expect.removed, "deleted": expect.deleted, "slices": expected_slices,
    });
    same(&expected, &got)
}
