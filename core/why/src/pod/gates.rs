//! Readiness gates: conditions that somebody else must write; then the readiness of the pod itself.

use api::{Timestamp, json};
use serde_json::Value;

use super::{Checked, Subject};
use crate::answer::Finding;
use crate::chain::Step;
use crate::facts::{Query, Resource};
use crate::words;

/// Who writes well-known conditions.
const WRITERS: [(&str, &str); 10] = [
    ("lifesign.dev/", "the Lifesign agent of the pod's node"),
    ("target-health.elbv2.k8s.aws/", "the AWS Load Balancer Controller"),
    ("target-health.alb.ingress.k8s.aws/", "the AWS Load Balancer Controller (v1)"),
    ("cloud.google.com/load-balancer-neg-ready", "the NEG controller of GKE"),
    ("InPlaceUpdateReady", "the OpenKruise controller of the workload"),
    ("KruisePodReady", "the kruise-daemon or its controllers"),
    ("apps.kruise.io/", "OpenKruise"),
    ("networking.alibabacloud.com/", "the Alibaba Cloud controller manager"),
    ("cilium.io/", "the Cilium operator"),
    ("azure.com/", "the Azure load balancer controller"),
];

/// Markers of a namespace are few.
const MARKERS_MAX: u32 = 100;

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    let gates = &subject.pod.spec.readiness_gates;
    for gate in gates {
        let type_ = gate.condition_type.as_str();
        let condition = subject.pod.condition(type_);
        if condition.is_some_and(|condition| condition.status == "True") {
            continue;
        }
        return Ok(closed(subject, type_)?.into());
    }
    if !subject.pod.condition_true("Ready") {
        return Ok(not_ready(subject).into());
    }
    let names: Vec<&str> = gates.iter().map(|gate| gate.condition_type.as_str()).collect();
    Ok(Checked::Holds(if names.is_empty() { "none".to_owned() } else { words::some(&names, 4) }))
}

fn closed(subject: &Subject<'_>, type_: &str) -> Step<Finding> {
    let condition = subject.pod.condition(type_);
    let written = writer(subject.raw, type_);
    let known = WRITERS.iter().find(|(prefix, _)| type_.starts_with(prefix)).map(|(_, who)| (*who).to_owned());
    let marker = if known.is_none() && written.is_none() { marker(subject, type_)? } else { None };
    let who = match (&written, known, marker) {
        (Some((manager, _)), None, _) => format!("{manager} wrote it last"),
        (_, Some(who), _) => format!("{who} should write it"),
        (None, None, Some(marker)) => format!("PodProbeMarker {marker} should have it written"),
        (None, None, None) => "nobody has written it: find out which controller should".to_owned(),
    };
    let field = format!("status.conditions[{type_}]");
    let finding = match condition {
        None => Finding::new("GateMissing", subject.short(), format!("readiness gate {type_} has no condition; {who}"))
            .seen_at(subject.short(), field, "missing", subject.pod.metadata.creation_timestamp),
        Some(condition) => {
            let why = [condition.reason.as_str(), condition.message.as_str()]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(": ");
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            Finding::new("GateFalse", subject.short(), format!("readiness gate {type_} is {}{why}; {who}", condition.status))
                .seen_at(subject.short(), field, format!("{}{why}", condition.status), condition.last_transition_time)
        }
    };
    let finding = match written {
        Some((manager, at)) => finding.seen_at(subject.short(), "metadata.managedFields", format!("written by {manager}"), at),
        None => finding,
    };
    Ok(finding
        .act(
            "look at that controller: is it installed, does it run, what does its log say of this pod",
            subject.kubectl(&format!("get {} -o jsonpath='{{.status.conditions}}'", subject.short())),
        )
        .act(
            "without that controller, take the gate out of spec.readinessGates (the pod must be made again)",
            super::Owner::of(&subject.pod).edit(),
        ))
}

/// Returns who wrote a condition, and when, by the owners of the pod's fields.
fn writer(raw: &Value, type_: &str) -> Option<(String, Option<Timestamp>)> {
    let key = format!("k:{{\"type\":\"{type_}\"}}");
    let entry = json::items(raw, &["metadata", "managedFields"])
        .iter()
        .rev()
        .find(|entry| json::at(entry, &["fieldsV1", "f:status", "f:conditions", &key]).is_some())?;
    let manager = json::text(entry, &["manager"]);
    (!manager.is_empty()).then(|| (manager.to_owned(), Timestamp::parse(json::text(entry, &["time"])).ok()))
}

/// Returns the marker that has the condition written.
fn marker(subject: &Subject<'_>, type_: &str) -> Step<Option<String>> {
    let query = Query::list(Resource::PodProbeMarkers, &subject.pod.metadata.namespace, "", "", MARKERS_MAX);
    let Ok(listed) = subject.facts.list(&query)? else { return Ok(None) };
    let writes = |marker: &&Value| {
        json::items(marker, &["spec", "probes"]).iter().any(|probe| json::text(probe, &["podConditionType"]) == type_)
    };
    Ok(listed.items.iter().find(writes).map(|marker| json::text(marker, &["metadata", "name"]).to_owned()))
}

/// Every container is ready and every gate is True, and still the pod is not Ready.
fn not_ready(subject: &Subject<'_>) -> Finding {
    let ready = subject.pod.condition("Ready");
    let shown = ready.map_or_else(
        || "the condition Ready is missing".to_owned(),
        |ready| {
            let why = [ready.reason.as_str(), ready.message.as_str()]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(": ");
            if why.is_empty() { format!("Ready is {}", ready.status) } else { format!("Ready is {}: {why}", ready.status) }
        },
    );
    let what = format!("containers and gates are ready, but {shown}");
    let node = &subject.pod.spec.node_name;
    Finding::new("NotReadyYet", subject.short(), what)
        .seen_at(subject.short(), "status.conditions[Ready]", shown, ready.and_then(|ready| ready.last_transition_time))
        .act("its node says so within seconds; if it stays, look at the node", format!("lifesign why node/{node}"))
}
