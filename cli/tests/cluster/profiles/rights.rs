//! What the accounts of `lifesign install --features profiles` may change: tried with their tokens.

use std::process::Command;

use serde_json::{Value, json};

use super::parts::CLUSTER;
use crate::LIFESIGN;
use crate::bed::Bed;

/// Returns a token of an account for a node, as the kubelet gets one for a pod there.
fn token(bed: &Bed, account: &str, node: Option<&str>) -> String {
    let mut arguments = vec!["create", "token", account, "-n", "lifesign-system"];
    if let Some(node) = node {
        arguments.extend(["--bound-object-kind=Node", "--bound-object-name", node]);
    }
    let (good, text) = bed.kubectl(&arguments, "");
    assert!(good, "{text}");
    text.trim().to_owned()
}

/// What `lifesign install --features profiles` gives to its accounts, without anything that runs.
fn install_accounts(bed: &Bed) -> String {
    let output = Command::new(LIFESIGN).args(["install", "--features", "profiles"]).output().unwrap();
    let kinds = [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    let is_right =
        |document: &&str| document.lines().any(|line| line.strip_prefix("kind: ").is_some_and(|kind| kinds.contains(&kind)));
    let text = String::from_utf8(output.stdout).unwrap();
    let rights: Vec<&str> = text.split("\n---\n").filter(is_right).collect();
    let manifests = rights.join("\n---\n");
    let (good, answer) = bed.kubectl(&["apply", "--validate=strict", "-f", "-"], &manifests);
    assert!(good, "{answer}");
    manifests
}

/// A node without a kubelet. It goes with the test, also a failed one: it would hold up every rollout.
struct OtherNode<'a>(&'a Bed);

impl OtherNode<'_> {
    fn make(bed: &Bed) -> OtherNode<'_> {
        bed.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": "elsewhere"}}));
        OtherNode(bed)
    }
}

impl Drop for OtherNode<'_> {
    fn drop(&mut self) {
        self.0.ask("DELETE", "/api/v1/nodes/elsewhere", &Value::Null);
    }
}

/// The token of an agent changes `applied-step` of its own Node and nothing else; the controllers change `apply-step` and nothing else.
pub(super) fn rights(bed: &Bed) {
    bed.install_definitions();
    let manifests = install_accounts(bed);
    let _elsewhere = OtherNode::make(bed);
    let annotation = |name: &str| json!({"metadata": {"annotations": {name: "tried"}}});
    let own = format!("/api/v1/nodes/{}", bed.node);
    let (applied, apply) = (annotation("lifesign.dev/applied-step"), annotation("lifesign.dev/apply-step"));
    for account in ["lifesign-profiles-worker", "lifesign-profiles-control-plane"] {
        let agent = token(bed, account, Some(&bed.node));
        let code = |path: &str, patch: &Value| bed.patch_as(&agent, path, patch).code;
        // A policy is in force a moment after it was made.
        let mut tried = 0;
        bed.until("the policy is in force", |_| {
            tried += 1;
            // Another value each time: what changes nothing is never refused.
            let patch = json!({"metadata": {"annotations": {"example.com/x": tried.to_string()}}});
            (code(&own, &patch) == 403).then_some(())
        });
        assert_eq!(code(&own, &applied), 200, "its answer");
        for (path, patch) in [
            ("/api/v1/nodes/elsewhere", &applied),
            (own.as_str(), &apply),
            (&own, &json!({"metadata": {"labels": {"a": "b"}}})),
            (&own, &json!({"metadata": {"annotations": {"lifesign.dev/applied-step": "x", "example.com/x": "y"}}})),
            (&own, &json!({"metadata": {"finalizers": ["example.com/x"]}})),
            (&own, &json!({"spec": {"unschedulable": true}})),
            (&own, &json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})),
            (&format!("{own}/status"), &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})),
            (
                &format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", bed.node),
                &json!({"spec": {"leaseDurationSeconds": 1}}),
            ),
            (CLUSTER, &json!({"spec": {"workerLatencyProfile": "LowUpdateSlowReaction"}})),
            ("/api/v1/namespaces/kube-system/configmaps/kubeadm-config", &json!({"data": {"a": "b"}})),
        ] {
            assert_eq!(code(path, patch), 403, "{account}: {path} {patch}");
        }
        // Nor in any other way.
        let node = bed.get(&own);
        let pods = "/api/v1/namespaces/kube-system/pods";
        for (method, path, body) in [
            ("PUT", own.as_str(), &node),
            ("PUT", &format!("{own}/status"), &node),
            ("POST", "/api/v1/nodes", &json!({"metadata": {"name": "another"}})),
            ("POST", pods, &json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}})),
            ("DELETE", &own, &Value::Null),
            ("DELETE", CLUSTER, &Value::Null),
            ("DELETE", &format!("{pods}/kube-controller-manager-{}", bed.node), &Value::Null),
        ] {
            assert_eq!(bed.call_as(&agent, method, path, body).code, 403, "{account}: {method} {path}");
        }
        crate::installation::rights_are_golden(bed, account.trim_start_matches("lifesign-"));
        let unbound = token(bed, account, None);
        assert_eq!(bed.patch_as(&unbound, &own, &applied).code, 403, "a token that names no node");
        assert_eq!(bed.call_as(&agent, "GET", "/api/v1/namespaces/kube-system/secrets", &Value::Null).code, 403);
    }
    let controllers = token(bed, "lifesign-controllers", None);
    assert_eq!(bed.patch_as(&controllers, &own, &apply).code, 200);
    let other = json!({"metadata": {"annotations": {"lifesign.dev/applied-step": "another"}}});
    assert_eq!(bed.patch_as(&controllers, &own, &other).code, 403);
    assert_eq!(bed.patch_as(&controllers, &own, &json!({"spec": {"unschedulable": true}})).code, 403);
    let tried = ["lifesign.dev/apply-step-", "lifesign.dev/applied-step-", "example.com/x-"];
    bed.kubectl(&["annotate", "node", &bed.node, tried[0], tried[1], tried[2]], "");
    let (good, text) = bed.kubectl(&["delete", "--ignore-not-found", "--wait=false", "-f", "-"], &manifests);
    assert!(good, "{text}");
}
