//! The rules: every finding has a code that never changes, can be silenced, and is documented.

use std::collections::BTreeSet;

use api::json;
use serde_json::Value;

use crate::report::Finding;

/// The annotation of an object, or of its pod template, with the codes that do not matter there: `a,b`.
pub const IGNORE_ANNOTATION: &str = "lifesign.dev/explain-ignore";

/// Every code, and what its finding says; docs/explain.md has them all.
pub const RULES: &[(&str, &str)] = &[
    ("annotation-invalid", "the annotation lifesign.dev/probes is refused by the webhook"),
    ("cannot-fail", "a probe whose command always succeeds says nothing"),
    ("command-in-one-word", "a command line that no shell takes apart"),
    ("deadline-before-ready", "a rollout is given up before a pod can be ready"),
    ("delay-instead-of-startup", "a fixed delay guesses what a startup probe would measure"),
    ("exec-every-second", "a process is started every second, for ever"),
    ("exec-sub-second", "a process is started several times per second"),
    ("field-ignored", "a millisecond field whose gate is off"),
    ("host-is-the-node", "a probe that asks the node instead of the container"),
    ("invalid", "a rule of the API is broken"),
    ("liveness-before-listening", "liveness kills the container before it listens"),
    ("liveness-not-weaker", "liveness acts no later than readiness"),
    ("liveness-threshold-one", "one failed attempt restarts the container"),
    ("liveness-without-startup", "a slow start is killed by liveness"),
    ("lost-by-undo", "kubectl rollout undo loses the millisecond fields"),
    ("marker-target-missing", "a marker selects a pod without the container that it names"),
    ("no-containers", "the pod has no containers"),
    ("no-readiness-probe", "a Service sends traffic to a container that is never asked"),
    ("prestop-exceeds-grace", "the preStop hook uses up the whole grace"),
    ("readiness-on-job", "a readiness probe on a pod that no Service serves"),
    ("service-port-undeclared", "a Service leads to a port name that no selected pod declares"),
    ("service-selects-nothing", "a Service selects none of the given pods"),
    ("startup-budget-short", "the startup probe kills the container before it listens"),
    ("startup-budget-small", "a sub-second period makes the startup budget short"),
    ("timeout-beyond-period", "a hanging target is asked less often than the period says"),
    ("undeclared-port", "a port name that the container does not declare"),
    ("unknown-field", "a field that does not exist"),
    ("unknown-kind", "a kind that Kubernetes does not serve"),
    ("unreadable", "a value of the wrong type"),
];

/// Kinds of others that make no pods: nothing is overlooked by skipping them.
const WITHOUT_PODS: [(&str, &[&str]); 8] = [
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("autoscaling.k8s.io", &["VerticalPodAutoscaler"]),
    ("cert-manager.io", &["Certificate", "ClusterIssuer", "Issuer"]),
    ("gateway.networking.k8s.io", &["Gateway", "GatewayClass", "GRPCRoute", "HTTPRoute", "ReferenceGrant"]),
    ("kustomize.config.k8s.io", &["Component", "Kustomization"]),
    ("monitoring.coreos.com", &["PodMonitor", "Probe", "PrometheusRule", "ServiceMonitor"]),
    ("networking.istio.io", &["DestinationRule", "Gateway", "ServiceEntry", "VirtualService"]),
];

/// Returns whether a kind is known to make no pods but by a template of its own: a kind of Kubernetes, or a common one of others.
pub fn is_known_kind(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    kinds::model::message_for(api_version, kind).is_some()
        || WITHOUT_PODS.iter().any(|(known, kinds)| *known == group && kinds.contains(&kind))
}

/// Returns whether a controller that nobody here knows may make pods from an object.
pub(crate) fn may_make_pods(object: &Value) -> bool {
    !is_known_kind(json::text(object, &["apiVersion"]), json::text(object, &["kind"]))
}

/// Returns whether a code is one of ours.
pub fn is_known(code: &str) -> bool {
    RULES.binary_search_by_key(&code, |(known, _)| known).is_ok()
}

/// Returns the codes that an object says do not matter: its own annotation, and that of its pod template.
pub(crate) fn ignored_by(object: &Value, template: &Value) -> BTreeSet<String> {
    let read = |value: &Value| {
        let text = json::text(value, &["metadata", "annotations", IGNORE_ANNOTATION]).to_owned();
        text.split([',', ' ']).filter(|code| !code.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    read(object).into_iter().chain(read(template)).collect()
}

/// Takes away the findings that nobody wants to hear. What the API server refuses is never silenced by an annotation's `*`.
pub(crate) fn silence(findings: &mut Vec<Finding>, ignored: &BTreeSet<String>) {
    findings.retain(|finding| !ignored.contains(finding.id));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_and_unique() {
        assert!(RULES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(is_known("cannot-fail") && !is_known("cannot"));
    }
}
