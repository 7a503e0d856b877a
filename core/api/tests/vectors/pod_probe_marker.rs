//! Admission of PodProbeMarkers.

use std::collections::BTreeSet;

use api::marker_rules::validate_pod_probe_marker;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    object: Value,
    old: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Expect {
    errors: Vec<ExpectedError>,
    #[serde(default)]
    detail_contains: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    field: String,
    #[serde(rename = "type")]
    kind: String,
}

pub(crate) fn validation(case: Case) -> Verdict {
    let errors = validate_pod_probe_marker(&case.given.object, case.given.old.as_ref());
    let expected: BTreeSet<(&str, &str)> = case.expect.errors.iter().map(|e| (e.field.as_str(), e.kind.as_str())).collect();
    let got: BTreeSet<(&str, &str)> = errors.iter().map(|e| (e.path.as_str(), e.kind.name())).collect();
    same(&json!(expected), &json!(got))?;
    let text: String = errors.iter().map(|error| format!("{error}\n")).collect();
    match case.expect.detail_contains.iter().find(|part| !text.contains(part.as_str())) {
        Some(part) => Err(format!("no error says {part:?}:\n{text}")),
        None => Ok(()),
    }
}
