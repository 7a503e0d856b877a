//! `lifesign install --delete-plan`: the commands that remove everything, as a script that a person reads first.
//!
//! The order matters. Webhook configurations go first, so that nothing waits for a webhook that is about to go. Markers go
//! while the controllers still run, which take their marks away where that is asked for. The controllers go before the
//! agents, or they would take removed agents for lost ones and mark pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use api::json;
use serde_json::Value;

use super::cluster::Cluster;
use super::manifests::Choices;
use crate::error::Failure;
use crate::output;

const MARKERS: &str = "/apis/apps.kruise.io/v1alpha1/podprobemarkers";

/// What is found on the cluster.
#[derive(Debug, Default)]
struct Found {
    /// Markers, as (namespace, name).
    markers: Vec<(String, String)>,
    /// Why the marker kinds and markers must stay.
    kruise: Option<String>,
    /// Pods with a moved probe: namespace -> what to restart.
    moved: BTreeMap<String, BTreeSet<String>>,
}

/// Prints the plan.
pub(super) async fn run(cluster: &Cluster, choices: &Choices) -> Result<(), Failure> {
    let now = crate::config::clock().now();
    let bad = |error| Failure::no(format!("the cluster cannot be looked at: {error}"));
    let key = |object: &Value| {
        let part = |key: &str| json::text(object, &["metadata", key]).to_owned();
        (part("namespace"), part("name"))
    };
    let mut found = Found {
        markers: cluster.list(MARKERS).await.map_err(bad)?.iter().map(key).collect(),
        kruise: cluster.kruise(now).await.map_err(bad)?,
        ..Found::default()
    };
    for pod in cluster.list("/api/v1/pods").await.map_err(bad)?.iter().filter(|pod| is_moved(pod)) {
        found.moved.entry(key(pod).0).or_default().insert(restart(pod));
    }
    output::print(plan(&found, choices.namespace()).as_bytes())
}

fn is_moved(pod: &Value) -> bool {
    json::items(pod, &["spec", "readinessGates"]).iter().any(|gate| json::text(gate, &["conditionType"]) == admission::READY)
}

/// Returns the command that makes a pod anew, with the probe of its template.
fn restart(pod: &Value) -> String {
    let (namespace, name) = (json::text(pod, &["metadata", "namespace"]), json::text(pod, &["metadata", "name"]));
    let owners = json::items(pod, &["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| json::boolean(owner, &["controller"]) == Some(true));
    match owner.map(|owner| (json::text(owner, &["kind"]), json::text(owner, &["name"]))) {
        // The name of a ReplicaSet is that of its Deployment and a hash.
        Some(("ReplicaSet", set)) if set.contains('-') => {
            let deployment = set.rsplit_once('-').map_or(set, |(name, _)| name);
            format!("kubectl rollout restart -n {namespace} deployment/{deployment}")
        }
        Some((kind @ ("StatefulSet" | "DaemonSet"), owner)) => {
            format!("kubectl rollout restart -n {namespace} {}/{owner}", kind.to_lowercase())
        }
        Some((kind, owner)) => format!("kubectl delete pod -n {namespace} {name}    # {kind} {owner} makes another one"),
        None => format!("kubectl delete pod -n {namespace} {name}    # nobody makes another one: create it again yourself"),
    }
}

fn plan(found: &Found, namespace: &str) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# Removes Lifesign from the cluster; written by `lifesign install --delete-plan`. Read it, then run it.\nset -e\n",
    );
    moved(found, &mut text);
    text.push_str("\n# 1. Nothing waits for the webhook any more.\n");
    text.push_str(
        "kubectl delete --ignore-not-found mutatingwebhookconfiguration/lifesign validatingwebhookconfiguration/lifesign\n",
    );
    match &found.kruise {
        Some(sign) => {
            let _ = writeln!(text, "\n# 2. Markers and their kinds stay: OpenKruise runs them ({sign}).");
        }
        None => markers(found, &mut text),
    }
    text.push_str(
        "\n# Latency profiles, while controllers and agents run: files of kubelets and static pods as they were before the first profile.\n\
        # Only needed where --features profiles was installed:\n#   lifesign profile uninstall\n",
    );
    let _ = write!(
        text,
        "\n# 3. Controllers before agents: what is left must not take removed agents for lost ones.\n\
        kubectl delete --ignore-not-found --wait -n {namespace} deployment/lifesign-controllers\n\
        kubectl wait --for=delete pod -n {namespace} -l app.kubernetes.io/component=controllers --timeout=90s\n\
        kubectl delete --ignore-not-found --wait -n {namespace} daemonset/lifesign-agent daemonset/lifesign-profiles-worker daemonset/lifesign-profiles-control-plane\n\
        \n# 4. The rest.\n\
        kubectl delete --ignore-not-found validatingadmissionpolicybindings,validatingadmissionpolicies -l app.kubernetes.io/name=lifesign\n\
        kubectl delete --ignore-not-found clusterrolebindings,clusterroles -l app.kubernetes.io/name=lifesign\n\
        kubectl delete --ignore-not-found rolebindings,roles -n kube-system -l app.kubernetes.io/name=lifesign\n\
        kubectl delete --ignore-not-found rolebindings,roles -n kube-node-lease -l app.kubernetes.io/name=lifesign\n"
    );
    if found.kruise.is_none() {
        text.push_str("kubectl delete --ignore-not-found crd podprobemarkers.apps.kruise.io nodepodprobes.apps.kruise.io\n");
    }
    text.push_str("# The kind of latency profiles belongs to OpenShift where it is one; elsewhere:\n");
    text.push_str("#   kubectl delete --ignore-not-found crd nodes.config.openshift.io\n");
    let _ = writeln!(text, "kubectl delete --ignore-not-found --wait namespace {namespace}");
    text
}

fn markers(found: &Found, text: &mut String) {
    text.push_str(
        "\n# 2. Markers, while the controllers run: they take marks away where lifesign.dev/release-policy says Remove.\n",
    );
    if found.markers.is_empty() {
        text.push_str("# There are none.\n");
    }
    for (namespace, name) in &found.markers {
        let _ = writeln!(
            text,
            "kubectl delete --ignore-not-found --timeout=30s -n {namespace} podprobemarker/{name} ||\n  \
            kubectl patch -n {namespace} podprobemarker/{name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
        );
    }
}

fn moved(found: &Found, text: &mut String) {
    if found.moved.is_empty() {
        text.push_str("\n# No pod has a moved readiness probe.\n");
        return;
    }
    text.push_str(
        "\n# These pods have a readiness probe that the agent runs. They go on running, but nobody probes them any more: the\n\
        # last result stays. Made anew after step 1 they have the kubelet's own probe again; this is not done for you:\n",
    );
    for command in found.moved.values().flatten() {
        let _ = writeln!(text, "#   {command}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn webhooks_go_first_then_markers_then_controllers_then_agents_then_the_rest() {
        let found = Found { markers: vec![("ns".to_owned(), "idle".to_owned())], ..Found::default() };
        let text = plan(&found, "health");
        let order = [
            "mutatingwebhookconfiguration/lifesign",
            "podprobemarker/idle",
            "deployment/lifesign-controllers",
            "daemonset/lifesign-agent",
            "validatingadmissionpolicies",
            "crd podprobemarkers",
            "namespace health",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{text}");
    }

    #[test]
    fn markers_of_openkruise_stay() {
        let found =
            Found { kruise: Some("its Lease".to_owned()), markers: vec![("ns".into(), "m".into())], ..Found::default() };
        let text = plan(&found, "health");
        assert!(!text.contains("podprobemarker/m") && !text.contains("crd podprobemarkers"), "{text}");
    }

    #[test]
    fn pods_with_a_moved_probe_are_listed_with_what_to_do() {
        let owned = |kind: &str, name: &str| json!({"metadata": {"namespace": "a", "name": "p", "ownerReferences": [{"kind": kind, "name": name, "controller": true}]}});
        assert_eq!(restart(&owned("ReplicaSet", "web-5d9c")), "kubectl rollout restart -n a deployment/web");
        assert_eq!(restart(&owned("StatefulSet", "db")), "kubectl rollout restart -n a statefulset/db");
        assert!(restart(&owned("Job", "j")).starts_with("kubectl delete pod -n a p"));
        assert!(restart(&json!({"metadata": {"namespace": "a", "name": "p"}})).contains("create it again"));
        assert!(is_moved(&json!({"spec": {"readinessGates": [{"conditionType": "lifesign.dev/ready"}]}})));
    }
}
