//! An account that may not write: it is said, counted, and does no harm.

use serde_json::{Value, json};

use crate::Test;
use crate::bed::{Bed, Running};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("writes::leadership_is_given_up_by_name_at_the_end", leadership_is_given_up_by_name_at_the_end)];

pub(crate) const LONG: &[(&str, Test)] = &[("writes::refused_writes_are_said", refused_writes_are_said)];

fn refused_writes_are_said(bed: &Bed) {
    bed.install_definitions();
    let namespace = bed.namespace("refused");
    let name = &namespace.name;
    // It may read everything, lead and write events, nothing else.
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    bed.send("POST", roles, &json!({"metadata": {"name": name}, "rules": rules}));
    let binding = json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": name}]});
    bed.send("POST", bindings, &binding);
    let (good, token) = bed.kubectl(&["-n", name, "create", "token", "default"], "");
    assert!(good, "{token}");
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let (_, text) = bed.kubectl(&["config", "view", "--raw", "-o", "json"], "");
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{name}/podprobemarkers");
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "probes": [{"name": "p", "containerName": "c", "podConditionType": "example.com/p", "probe": {"tcpSocket": {"port": 1}}}]}});
    bed.send("POST", &markers, &marker);
    let controllers = Running::controllers(&kubeconfig, &[]);
    controllers.says(bed, "write refused");
    let log = controllers.log();
    let line = log.lines().find(|line| line.contains("write refused")).unwrap();
    for part in ["PodProbeMarker", &format!("{name}/m"), "forbidden"] {
        assert!(line.contains(part), "{part} is not in: {line}");
    }
    let events = format!("/api/v1/namespaces/{name}/events");
    let event = bed
        .until("an event of the marker", |bed| bed.list(&events).into_iter().find(|event| event["reason"] == "WriteRefused"));
    let about = &event["involvedObject"];
    assert_eq!((&about["kind"], &about["name"], &event["type"]), (&json!("PodProbeMarker"), &json!("m"), &json!("Warning")));
    assert!(event["message"].as_str().is_some_and(|message| message.contains("forbidden")), "{event}");
    assert!(about["uid"].is_string(), "kubectl describe shows it: {event}");
    assert!(log.matches("write refused").count() <= 6, "it is not said again and again: {log}");
    assert!(controllers.stop(), "a clean stop");
    bed.ask("DELETE", &format!("{roles}/{name}"), &Value::Null);
    bed.ask("DELETE", &format!("{bindings}/{name}"), &Value::Null);
}

/// Who stops tells the others, so that they need not wait until the Lease has expired.
fn leadership_is_given_up_by_name_at_the_end(bed: &Bed) {
    let first = Running::controllers(bed.kubeconfig(), &[]);
    first.says(bed, "leading");
    let leases = bed.list("/apis/coordination.k8s.io/v1/leases");
    let lease = leases.iter().find(|lease| lease["metadata"]["name"] == first.lease.as_str()).expect("its Lease");
    let place = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}",
        lease["metadata"]["namespace"].as_str().unwrap(),
        first.lease
    );
    assert!(!holder(lease).is_empty(), "{lease}");
    let manager = lease["metadata"]["managedFields"][0]["manager"].as_str().unwrap_or_default();
    assert!(manager.starts_with("lifesign"), "{lease}");
    assert!(first.stop(), "a clean stop");
    let left = bed.get(&place);
    assert_eq!(holder(&left), "", "{left}");
    bed.ask("DELETE", &place, &Value::Null);
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}
