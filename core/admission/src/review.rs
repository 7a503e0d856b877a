//! AdmissionReview in, AdmissionReview out: `admission.k8s.io/v1`.
//!
//! Whatever arrives gets an answer. A request that cannot be understood is refused with code 400: it comes from a
//! configuration that is not ours, and to allow what was not judged would be wrong.

use api::status::{Status, Subject};
use api::{config_node_rules, json, marker_rules};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kinds::model;
use serde_json::{Value, json};

use crate::pods;

/// The version that is spoken; the only one of Kubernetes 1.22 and newer.
const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of question and answer.
const KIND: &str = "AdmissionReview";

/// What was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Judged {
    /// A pod.
    Pods,
    /// A PodProbeMarker.
    PodProbeMarkers,
    /// A NodePodProbe.
    NodePodProbes,
    /// The Node of `config.openshift.io`.
    ConfigNodes,
    /// Something that is not judged here, or cannot be read.
    Unknown,
}

impl Judged {
    /// Everything, in the order of the table.
    pub const ALL: [Judged; 5] =
        [Judged::Pods, Judged::PodProbeMarkers, Judged::NodePodProbes, Judged::ConfigNodes, Judged::Unknown];

    /// Returns the plural name with its group, for a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Judged::Pods => "pods",
            Judged::PodProbeMarkers => "podprobemarkers.apps.kruise.io",
            Judged::NodePodProbes => "nodepodprobes.apps.kruise.io",
            Judged::ConfigNodes => "nodes.config.openshift.io",
            Judged::Unknown => "unknown",
        }
    }

    fn of(request: &Value) -> Judged {
        let part = |key: &str| json::text(request, &["resource", key]);
        let subresource = json::text(request, &["subResource"]);
        match (part("group"), part("version"), part("resource"), subresource) {
            ("", "v1", "pods", "") => Judged::Pods,
            ("apps.kruise.io", "v1alpha1", "podprobemarkers", "") => Judged::PodProbeMarkers,
            ("apps.kruise.io", "v1alpha1", "nodepodprobes", "") => Judged::NodePodProbes,
            ("config.openshift.io", "v1", "nodes", "" | "status") => Judged::ConfigNodes,
            _ => Judged::Unknown,
        }
    }
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReviewOutcome {
    /// Allowed as it is.
    Allowed,
    /// Allowed with a patch.
    Patched,
    /// Refused: the object breaks a rule.
    Refused,
    /// Refused: the request cannot be understood.
    Broken,
}

impl ReviewOutcome {
    /// Everything that can be answered.
    pub const ALL: [ReviewOutcome; 4] =
        [ReviewOutcome::Allowed, ReviewOutcome::Patched, ReviewOutcome::Refused, ReviewOutcome::Broken];

    /// Returns one word, for a metric.
    pub const fn name(self) -> &'static str {
        match self {
            ReviewOutcome::Allowed => "allowed",
            ReviewOutcome::Patched => "patched",
            ReviewOutcome::Refused => "refused",
            ReviewOutcome::Broken => "broken",
        }
    }
}

/// An answer, and what to count.
#[derive(Clone, Debug, PartialEq)]
pub struct Reviewed {
    /// The AdmissionReview to send back.
    pub review: Value,
    /// What was asked about.
    pub judged: Judged,
    /// What was answered.
    pub outcome: ReviewOutcome,
}

/// Answers the body of a request.
pub fn review(body: &[u8]) -> Reviewed {
    let parsed = match model::json::parse(body) {
        Ok(parsed) => parsed.value,
        Err(error) => return broken("", Judged::Unknown, &format!("the AdmissionReview cannot be read: {error}")),
    };
    let request = &parsed["request"];
    let uid = json::text(request, &["uid"]);
    let found = (json::text(&parsed, &["apiVersion"]), json::text(&parsed, &["kind"]));
    if found != (API_VERSION, KIND) {
        return broken(uid, Judged::Unknown, &format!("expected {API_VERSION} {KIND}, got {:?} {:?}", found.0, found.1));
    }
    if uid.is_empty() {
        return broken(uid, Judged::Unknown, "the AdmissionReview has no request with a uid");
    }
    let judged = Judged::of(request);
    let (operation, object) = (json::text(request, &["operation"]), json::get(request, "object"));
    match (judged, operation, object) {
        (Judged::Unknown, ..) => broken(
            uid,
            judged,
            &format!("{} is not judged here: correct the rules of the webhook configuration", request["resource"]),
        ),
        (_, "DELETE" | "CONNECT", _) => answer(uid, judged, ReviewOutcome::Allowed, json!({"allowed": true})),
        (_, "CREATE" | "UPDATE", Some(object)) if object.is_object() => {
            judge(uid, judged, request, object, operation == "CREATE")
        }
        (_, "CREATE" | "UPDATE", _) => broken(uid, judged, "the request has no object"),
        _ => broken(uid, judged, &format!("unknown operation {operation:?}")),
    }
}

fn judge(uid: &str, judged: Judged, request: &Value, object: &Value, create: bool) -> Reviewed {
    let old = json::get(request, "oldObject").filter(|_| !create);
    let errors = match judged {
        // A pod that exists keeps its annotations: a policy of the API server sees to it, without asking us.
        Judged::Pods if !create => Vec::new(),
        Judged::Pods => match pods::mutate(object) {
            Ok(mutation) => return mutated(uid, mutation),
            Err(errors) => errors,
        },
        Judged::PodProbeMarkers => marker_rules::validate_pod_probe_marker(object, old),
        Judged::NodePodProbes => marker_rules::validate_node_pod_probe(object, old),
        Judged::ConfigNodes if json::text(request, &["subResource"]) == "status" => config_node_rules::validate_status(object),
        Judged::ConfigNodes => config_node_rules::validate(object),
        Judged::Unknown => Vec::new(),
    };
    if errors.is_empty() {
        return answer(uid, judged, ReviewOutcome::Allowed, json!({"allowed": true}));
    }
    refused(uid, judged, ReviewOutcome::Refused, &Status::invalid(&subject(request, object), &errors))
}

fn mutated(uid: &str, mutation: pods::Mutation) -> Reviewed {
    let mut response = json!({"allowed": true});
    if !mutation.warnings.is_empty() {
        response["warnings"] = mutation.warnings.into();
    }
    if mutation.patch.is_empty() {
        return answer(uid, Judged::Pods, ReviewOutcome::Allowed, response);
    }
    response["patchType"] = "JSONPatch".into();
    response["patch"] = STANDARD.encode(Value::from(mutation.patch).to_string()).into();
    answer(uid, Judged::Pods, ReviewOutcome::Patched, response)
}

/// Returns what an error is about; a pod of a controller has a name to come instead of a name.
fn subject(request: &Value, object: &Value) -> Subject {
    let name = [json::text(object, &["metadata", "name"]), json::text(object, &["metadata", "generateName"])];
    Subject {
        group: json::text(request, &["resource", "group"]).to_owned(),
        resource: json::text(request, &["resource", "resource"]).to_owned(),
        kind: json::text(request, &["kind", "kind"]).to_owned(),
        name: name.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned(),
    }
}

fn broken(uid: &str, judged: Judged, why: &str) -> Reviewed {
    refused(uid, judged, ReviewOutcome::Broken, &Status::bad_request(why))
}

fn refused(uid: &str, judged: Judged, outcome: ReviewOutcome, status: &Status) -> Reviewed {
    answer(uid, judged, outcome, json!({"allowed": false, "status": status.to_json()}))
}

fn answer(uid: &str, judged: Judged, outcome: ReviewOutcome, mut response: Value) -> Reviewed {
    response["uid"] = uid.into();
    Reviewed { review: json!({"apiVersion": API_VERSION, "kind": KIND, "response": response}), judged, outcome }
}
