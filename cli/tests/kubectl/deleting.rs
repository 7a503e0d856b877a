//! `delete` with grace, by force, and what becomes of dependents.

use serde_json::{Value, json};

use super::{Kubectl, pod};

/// Returns what kubectl says it has deleted. Since 1.34 it also names the namespace.
fn deleted(output: &str) -> Vec<&str> {
    output.lines().map(|line| line.split(" deleted").next().unwrap_or_default()).collect()
}

pub(crate) fn a_pod_goes_with_grace_or_by_force() {
    let kubectl = Kubectl::start();
    kubectl.running_pod("web", "n1");
    kubectl.run("delete pod web --wait=false");
    assert_eq!(kubectl.run("get pod web -o jsonpath={.metadata.deletionGracePeriodSeconds}"), "30");
    insta::assert_snapshot!(kubectl.table("get pods"), @"
    NAME | READY | STATUS | RESTARTS | AGE
    web | 1/1 | Terminating | 0 | AGE
    ");
    kubectl.run("delete pod web --grace-period=20 --wait=false");
    assert_eq!(kubectl.run("get pod web -o jsonpath={.metadata.deletionGracePeriodSeconds}"), "20");
    kubectl.run("delete pod web --grace-period=0 --force");
    assert!(kubectl.refused("get pod web").contains(r#"pods "web" not found"#));
    kubectl.run("run idle --image=idle:1 --restart=Never");
    assert_eq!(deleted(&kubectl.run("delete pod idle")), ["pod \"idle\""], "nobody runs it: it goes at once");
}

pub(crate) fn selected_and_listed_objects_go() {
    let kubectl = Kubectl::start();
    kubectl.pending_pod("a", "");
    kubectl.pending_pod("b", "");
    kubectl.run("create configmap c");
    assert_eq!(deleted(&kubectl.run("delete pods -l app=web")), ["pod \"a\"", "pod \"b\""]);
    assert_eq!(kubectl.run_with("delete -f - --ignore-not-found", &pod("a", "").to_string()), "");
    // What every namespace has goes too, and comes again.
    assert_eq!(deleted(&kubectl.run("delete configmaps --all")), ["configmap \"c\"", "configmap \"kube-root-ca.crt\""]);
}

/// A deployment, a replica set that it owns, and a pod that the replica set owns.
fn family(kubectl: &Kubectl) {
    let owner = |object: &Value, kind: &str| {
        json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }])
    };
    let pod = json!({"containers": [{"name": "app", "image": "web:1"}]});
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    });
    let apps = "/apis/apps/v1/namespaces/default";
    let web = kubectl.send("POST", &format!("{apps}/deployments"), &json!({"metadata": {"name": "web"}, "spec": spec}));
    let set = json!({"metadata": {"name": "web-1", "ownerReferences": owner(&web, "Deployment")}, "spec": spec});
    let set = kubectl.send("POST", &format!("{apps}/replicasets"), &set);
    let pod = json!({"metadata": {"name": "web-1-a", "ownerReferences": owner(&set, "ReplicaSet")}, "spec": pod});
    kubectl.send("POST", "/api/v1/namespaces/default/pods", &pod);
}

pub(crate) fn dependents_go_with_their_owner() {
    let kubectl = Kubectl::start();
    family(&kubectl);
    kubectl.run("delete deployment web");
    kubectl.run("wait pod/web-1-a rs/web-1 --for=delete --timeout=30s");
    assert_eq!(kubectl.run("get deployments,replicasets,pods -o name"), "");
}

pub(crate) fn dependents_go_before_their_owner_when_in_the_foreground() {
    let kubectl = Kubectl::start();
    family(&kubectl);
    kubectl.run("delete deployment web --cascade=foreground --timeout=30s");
    assert_eq!(kubectl.run("get deployments,replicasets,pods -o name"), "");
}

pub(crate) fn orphans_stay() {
    let kubectl = Kubectl::start();
    family(&kubectl);
    kubectl.run("delete deployment web --cascade=orphan");
    assert_eq!(kubectl.run("get deployments,replicasets,pods -o name"), "replicaset.apps/web-1\npod/web-1-a\n");
    assert_eq!(kubectl.run("get rs web-1 -o jsonpath={.metadata.ownerReferences}"), "");
}

pub(crate) fn a_namespace_takes_its_contents_along() {
    let kubectl = Kubectl::start();
    kubectl.run("create namespace shop");
    kubectl.run("create configmap settings -n shop");
    kubectl.run("create deployment web -n shop --image=web:1");
    kubectl.run("delete namespace shop --timeout=30s");
    assert!(kubectl.refused("get namespace shop").contains("not found"));
    assert!(kubectl.refused("create configmap again -n shop").contains(r#"namespaces "shop" not found"#));
}
