//! Whole AdmissionReviews.

use admission::review;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

pub(crate) type Case = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// The `request` of a well-formed review.
    #[serde(default)]
    request: Option<Value>,
    /// Or the whole body.
    #[serde(default)]
    body: Option<Value>,
    /// Or its text.
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    allowed: bool,
    uid: String,
    #[serde(default)]
    code: Option<u16>,
    #[serde(default)]
    reason: Option<String>,
    /// Fields of `details.causes`, with the reason of each.
    #[serde(default)]
    causes: Vec<(String, String)>,
    #[serde(default)]
    patch: Vec<String>,
    #[serde(default)]
    says: Vec<String>,
    judged: String,
    outcome: String,
}

pub(crate) fn check(case: Case) -> Verdict {
    let Given { request, body, text } = case.given;
    let whole = |request| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let text = match (request, body, text) {
        (Some(request), None, None) => whole(request).to_string(),
        (None, Some(body), None) => body.to_string(),
        (None, None, Some(text)) => text,
        _ => return Err("one of request, body and text must be given".to_owned()),
    };
    let answer = review(text.as_bytes());
    let expect = case.expect;
    same(&json!(["admission.k8s.io/v1", "AdmissionReview"]), &json!([answer.review["apiVersion"], answer.review["kind"]]))?;
    let response = &answer.review["response"];
    same(
        &json!([expect.allowed, expect.uid, expect.judged, expect.outcome]),
        &json!([response["allowed"], response["uid"], answer.judged.name(), answer.outcome.name()]),
    )
    .map_err(|why| format!("{why}\n{response}"))?;
    let status = &response["status"];
    same(&json!([expect.code, expect.reason]), &json!([status.get("code"), status.get("reason")]))?;
    let causes: Vec<Value> = status["details"]["causes"].as_array().into_iter().flatten().cloned().collect();
    let causes: Vec<Value> = causes.iter().map(|cause| json!([cause["field"], cause["reason"]])).collect();
    same(&json!(expect.causes), &json!(causes))?;
    let message = status["message"].as_str().unwrap_or_default();
    if let Some(part) = expect.says.iter().find(|part| !message.contains(part.as_str())) {
        return Err(format!("the message does not say {part:?}: {message}"));
    }
    same(&json!(expect.patch), &json!(patched_paths(response)?))
}

/// Returns operation and path of every part of the patch.
fn patched_paths(response: &Value) -> Result<Vec<String>, String> {
    let Some(patch) = response["patch"].as_str() else { return Ok(Vec::new()) };
    same(&json!("JSONPatch"), &response["patchType"])?;
    let bytes = STANDARD.decode(patch).map_err(|error| error.to_string())?;
    let patch: Vec<Value> = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok(patch
        .iter()
        .map(|part| format!("{} {}", part["op"].as_str().unwrap_or(""), part["path"].as_str().unwrap_or("")))
        .collect())
}
