//! Dropping of gated probe fields on writes.

use std::collections::{BTreeMap, BTreeSet};

use api::probe_rules::{drop_disabled_probe_fields, sub_second_fields};
use api::{FeatureGates, Gate};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    kind: String,
    op: Op,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default)]
    old: Option<Value>,
    new: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Op {
    Create,
    Update,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    kept: BTreeSet<String>,
    dropped: BTreeSet<String>,
}

pub(crate) fn check(case: Case) -> Verdict {
    let Given { kind, op, gates: chosen, old, mut new } = case.given;
    let mut gates = FeatureGates::default();
    for (name, on) in chosen {
        gates = gates.with(Gate::from_name(&name).ok_or(format!("no gate {name}"))?, on);
    }
    let old = match op {
        Op::Create => None,
        Op::Update => Some(old.ok_or("an update needs the stored object")?),
    };
    let dropped: BTreeSet<String> = drop_disabled_probe_fields(&kind, &mut new, old.as_ref(), &gates).into_iter().collect();
    let kept: BTreeSet<String> = sub_second_fields(&kind, &new).into_iter().collect();
    same(&json!({"kept": case.expect.kept, "dropped": case.expect.dropped}), &json!({"kept": kept, "dropped": dropped}))
}
