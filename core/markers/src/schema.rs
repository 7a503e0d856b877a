//! What is there already of OpenKruise: a manager that leads, and definitions of the marker kinds that do not know everything.
//!
//! Where OpenKruise is installed its definitions are used as they are; their schemas prune the fields that we added. The
//! controller says so at its start, once for each field, and leaves those fields out.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{Lease, json};
use machine::Time;
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

/// A Lease that was not renewed for so long belongs to nobody.
const LEADS_FOR: Duration = Duration::from_secs(60);

/// Returns whether the Lease `kruise-manager` is that of a leader.
pub fn kruise_leads(lease: &Lease, now: Time) -> bool {
    let held = lease.spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
    held && lease.spec.renew_time.is_some_and(|renewed| now.since(renewed.0) < LEADS_FOR)
}

/// Returns whether a ValidatingWebhookConfiguration of OpenKruise admits PodProbeMarkers.
pub fn kruise_admits(configuration: &Value) -> bool {
    let webhooks = json::items(configuration, &["webhooks"]).iter();
    let mut rules = webhooks.flat_map(|webhook| json::items(webhook, &["rules"]));
    rules.any(|rule| json::items(rule, &["resources"]).iter().any(|resource| resource == "podprobemarkers"))
}

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

/// Returns the fields of a probe that a definition of NodePodProbes would prune, by name: they are not written there.
///
/// What is pruned would never be found again as it was asked for, so that no result would count.
pub fn pruned_probe_fields(definition: &Value) -> BTreeSet<String> {
    const PROBE: &str = "spec.podProbes.probes.probe.";
    missing_fields(definition).iter().filter_map(|path| path.strip_prefix(PROBE)).map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manager_leads_while_it_renews_its_lease_and_admits_by_its_webhook() {
        let lease = |holder: &str| -> Lease {
            serde_json::from_value(json!({"spec": {"holderIdentity": holder, "renewTime": "1970-01-01T00:10:00Z"}})).unwrap()
        };
        assert!(kruise_leads(&lease("a"), Time::from_secs(659)) && !kruise_leads(&lease("a"), Time::from_secs(660)));
        assert!(!kruise_leads(&lease(""), Time::from_secs(600)), "given up");
        let webhook = |resource: &str| json!({"webhooks": [{"rules": [{"resources": ["pods"]}, {"resources": [resource]}]}]});
        assert!(
            kruise_admits(&webhook("podprobemarkers")) && !kruise_admits(&webhook("clonesets")) && !kruise_admits(&json!(1))
        );
    }
}
