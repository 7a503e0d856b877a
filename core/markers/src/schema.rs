//! What an installed definition of the marker kinds does not know.
//!
//! Where OpenKruise is installed its definitions are used as they are; their schemas prune the fields that we added. The
//! controller says so at its start, once for each field.

use api::json;
use serde_json::Value;

/// The fields that we added, by kind.
const ADDED: [(&str, &[&str]); 8] = [
    ("PodProbeMarker", &["spec", "probes", "probe", "periodMilliseconds"]),
    ("PodProbeMarker", &["spec", "probes", "probe", "initialDelayMilliseconds"]),
    ("PodProbeMarker", &["spec", "probes", "probe", "timeoutMilliseconds"]),
    ("NodePodProbe", &["spec", "podProbes", "probes", "probe", "periodMilliseconds"]),
    ("NodePodProbe", &["spec", "podProbes", "probes", "probe", "initialDelayMilliseconds"]),
    ("NodePodProbe", &["spec", "podProbes", "probes", "probe", "timeoutMilliseconds"]),
    ("NodePodProbe", &["status", "observedGeneration"]),
    ("PodProbeMarker", &["spec", "probes", "probe", "grpc"]),
];

/// Returns the fields that a CustomResourceDefinition of a marker kind would prune, as `spec.probes.probe.grpc`.
pub fn missing_fields(definition: &Value) -> Vec<String> {
    let kind = json::text(definition, &["spec", "names", "kind"]);
    let versions = json::items(definition, &["spec", "versions"]);
    let version = versions.iter().find(|version| json::text(version, &["name"]) == "v1alpha1");
    let Some(schema) = version.and_then(|version| json::at(version, &["schema", "openAPIV3Schema"])) else {
        return Vec::new();
    };
    let added = ADDED.iter().filter(|(of, _)| *of == kind);
    added.filter(|(_, path)| !knows(schema, path)).map(|(_, path)| path.join(".")).collect()
}

/// Returns whether a schema keeps what lies at the end of a path; lists are looked through.
fn knows(schema: &Value, path: &[&str]) -> bool {
    if json::boolean(schema, &["x-kubernetes-preserve-unknown-fields"]) == Some(true) {
        return true;
    }
    match (json::get(schema, "items"), path) {
        (Some(items), _) => knows(items, path),
        (None, []) => true,
        (None, [first, rest @ ..]) => json::at(schema, &["properties", first]).is_some_and(|member| knows(member, rest)),
    }
}
