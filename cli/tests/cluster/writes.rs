//! An account that may not write: it is said, counted, and does no harm.

use serde_json::{Value, json};

use crate::Test;
use crate::bed::{Bed, Running};

pub(crate) const LONG: &[(&str, Test)] = &[("writes::refused_writes_are_said", refused_writes_are_said)];

fn refused_writes_are_said(bed: &Bed) {
    bed.install_definitions();
    let namespace = bed.namespace("refused");
    let name = &namespace.name;
    // It may read everything and lead, nothing else.
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "patch", "update"]},
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
    assert!(log.matches("write refused").count() <= 6, "it is not said again and again: {log}");
    assert!(controllers.stop(), "a clean stop");
    bed.ask("DELETE", &format!("{roles}/{name}"), &Value::Null);
    bed.ask("DELETE", &format!("{bindings}/{name}"), &Value::Null);
}
