//! The vectors of the EndpointSlice API: validation and the gate.

use api::endpointslice_rules::{
    default_endpoint_slice, drop_disabled_endpoint_fields, raises_endpoint_slice_generation, validate_endpoint_slice,
};
use api::{FeatureGates, Gate, json as read};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type ValidationCase = testkit::Case<ValidationGiven, ValidationExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidationGiven {
    old: Option<Value>,
    new: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidationExpect {
    errors: Value,
}

/// Replaces the test notation `generate` by what it stands for.
fn generated(mut slice: Value) -> Value {
    let Some(Value::Object(generate)) = slice.as_object_mut().expect("a slice").remove("generate") else { return slice };
    let addresses = |count: u64| (0..count).map(|i| format!("10.77.{}.{}", i / 250, i % 250 + 1)).collect::<Vec<_>>();
    for (key, count) in generate {
        let count = count.as_u64().expect("a count");
        match key.as_str() {
            "endpoints" => {
                slice["endpoints"] = addresses(count).into_iter().map(|address| json!({"addresses": [address]})).collect();
            }
            "addresses" => slice["endpoints"][0]["addresses"] = json!(addresses(count)),
            "ports" => {
                slice["ports"] =
                    (0..count).map(|i| json!({"name": format!("p{i}"), "protocol": "TCP", "port": i + 1})).collect();
            }
            other => panic!("unknown notation generate.{other}"),
        }
    }
    slice
}

pub(crate) fn validation(case: ValidationCase) -> Verdict {
    let prepared = |slice: Value| {
        let mut slice = generated(slice);
        default_endpoint_slice(&mut slice);
        slice
    };
    let old = case.given.old.map(prepared);
    let errors = validate_endpoint_slice(&prepared(case.given.new), old.as_ref(), false);
    let mut found: Vec<(String, &str)> = errors.into_iter().map(|error| (error.path, error.kind.name())).collect();
    found.sort();
    let found: Value = found.into_iter().map(|(path, kind)| json!({"path": path, "type": kind})).collect();
    same(&case.expect.errors, &found)
}

pub(crate) type GateCase = testkit::Case<GateGiven, GateExpect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateGiven {
    operation: String,
    gate: bool,
    old: Option<Value>,
    new: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateExpect {
    generation: i64,
    endpoints: Value,
}

/// Puts the keys of a case where an object has them.
fn object(case: &Value) -> Value {
    json!({
        "metadata": {"name": "web-abc12", "generation": case["generation"], "labels": case["labels"]},
        "addressType": "IPv4",
        "endpoints": case["endpoints"],
        "ports": [],
    })
}

pub(crate) fn gate(case: GateCase) -> Verdict {
    let gates = FeatureGates::default().with(Gate::EndpointSliceTerminatingCondition, case.given.gate);
    let old = case.given.old.as_ref().map(object);
    if old.is_some() != (case.given.operation == "update") {
        return Err(format!("operation {} does not fit given.old", case.given.operation));
    }
    let mut new = object(&case.given.new);
    default_endpoint_slice(&mut new);
    drop_disabled_endpoint_fields(&mut new, old.as_ref(), &gates);
    let generation = match &old {
        None => 1,
        Some(old) => {
            read::int(old, &["metadata", "generation"]).expect("a stored generation")
                + i64::from(raises_endpoint_slice_generation(&new, old))
        }
    };
    let expected = json!({"generation": case.expect.generation, "endpoints": case.expect.endpoints});
    same(&expected, &json!({"generation": generation, "endpoints": new["endpoints"]}))
}
