//! Pods that ask for their readiness probe to be moved.

use admission::{MOVED_PROBES, mutate, read_moved};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    #[serde(default)]
    annotations: Map<String, Value>,
    spec: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    #[serde(default)]
    errors: Vec<ExpectedError>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    moved: Option<Value>,
    #[serde(default)]
    gates: Vec<String>,
    #[serde(default)]
    probed: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    unchanged: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    field: String,
    #[serde(rename = "type")]
    kind: String,
}

pub(crate) fn check(case: Case) -> Verdict {
    let (given, expect) = (case.given, case.expect);
    let pod = json!({"metadata": {"name": "web", "annotations": given.annotations}, "spec": given.spec});
    let (errors, mutation) = match mutate(&pod) {
        Ok(mutation) => (Vec::new(), mutation),
        Err(errors) => (errors, admission::Mutation::default()),
    };
    let text: String = errors.iter().map(|error| format!("{error}\n")).chain(mutation.warnings.clone()).collect();
    let expected: Vec<(&str, &str)> = expect.errors.iter().map(|error| (&*error.field, &*error.kind)).collect();
    let got: Vec<(&str, &str)> = errors.iter().map(|error| (&*error.path, error.kind.name())).collect();
    same(&json!(expected), &json!(got)).map_err(|why| format!("{why}\n{text}"))?;
    if let Some(part) = expect.says.iter().chain(&expect.warnings).find(|part| !text.contains(part.as_str())) {
        return Err(format!("nothing says {part:?}:\n{text}"));
    }
    same(&json!(expect.warnings.len()), &json!(mutation.warnings.len()))?;
    if !errors.is_empty() {
        return Ok(());
    }
    same(&json!(expect.unchanged), &json!(mutation.patch.is_empty()))?;
    let patched = apply(&pod, &mutation.patch)?;
    outcome(&expect, &patched)?;
    let again = mutate(&patched).map_err(|errors| format!("its own output is refused: {errors:?}"))?;
    same(&json!([]), &json!(again.patch))
}

fn apply(pod: &Value, patch: &[Value]) -> Result<Value, String> {
    let mut patched = pod.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch.into()).map_err(|error| error.to_string())?;
    json_patch::patch(&mut patched, &patch).map_err(|error| error.to_string())?;
    Ok(patched)
}

fn outcome(expect: &Expect, pod: &Value) -> Verdict {
    let annotation = pod["metadata"]["annotations"][MOVED_PROBES].as_str();
    let moved: Option<Value> = annotation.and_then(|text| serde_json::from_str(text).ok());
    same(&json!(expect.moved), &json!(moved))?;
    let read = annotation.map(read_moved).unwrap_or_default();
    same(&json!(expect.moved.clone().unwrap_or_else(|| json!({}))), &json!(read.probes))?;
    let empty = Vec::new();
    let gates = pod["spec"]["readinessGates"].as_array().unwrap_or(&empty);
    same(&json!(expect.gates), &json!(gates.iter().map(|gate| gate["conditionType"].clone()).collect::<Vec<_>>()))?;
    let lists = ["initContainers", "containers"].into_iter().filter_map(|list| pod["spec"][list].as_array()).flatten();
    let probed: Vec<Value> = lists.filter(|item| !item["readinessProbe"].is_null()).map(|item| item["name"].clone()).collect();
    same(&json!(expect.probed), &json!(probed))
}
