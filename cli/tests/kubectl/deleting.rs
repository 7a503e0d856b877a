//! `delete` with grace, by force, and what becomes of dependents.

use serde_json::{Value, json};

use crate::commands::pod;
use crate::{Kubectl, On};

/// Returns what kubectl says it has deleted. Since 1.34 it also names the namespace.
fn deleted(output: &str) -> Vec<&str> {
    output.lines().map(|line| line.split(" deleted").next().unwrap_or_default()).collect()
}

pub(crate) fn a_pod_goes_with_grace_or_by_force(on: On) {
    let kubectl = Kubectl::start(on);
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
    kubectl.run(r#"run idle --image=idle:1 --restart=Never --overrides='{"spec":{"schedulerName":"nobody"}}'"#);
    assert_eq!(deleted(&kubectl.run("delete pod idle")), ["pod \"idle\""], "nobody runs it: it goes at once");
}

pub(crate) fn selected_and_listed_objects_go(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.pending_pod("a", "");
    kubectl.pending_pod("b", "");
    kubectl.run("create configmap c");
    assert_eq!(deleted(&kubectl.run("delete pods -l app=web")), ["pod \"a\"", "pod \"b\""]);
    assert_eq!(kubectl.run_with("delete -f - --ignore-not-found", &pod("a", "").to_string()), "");
    // What every namespace has goes too, and comes again.
    assert_eq!(deleted(&kubectl.run("delete configmaps --all")), ["configmap \"c\"", "configmap \"kube-root-ca.crt\""]);
}

/// A deployment, a replica set that it owns, and a pod that the replica set owns; their controllers have nothing to do.
fn family(kubectl: &Kubectl) {
    let owner = |object: &Value, kind: &str| {
        json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
            "blockOwnerDeletion": true,
        }])
    };
    let pod = json!({"schedulerName": "nobody", "containers": [{"name": "app", "image": "web:1"}]});
    let spec = json!({
        "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    });
    let apps = format!("/apis/apps/v1/namespaces/{}", kubectl.namespace());
    let mut web = json!({"metadata": {"name": "web"}, "spec": spec});
    web["spec"]["paused"] = json!(true);
    let web = kubectl.send("POST", &format!("{apps}/deployments"), &web);
    let set = json!({"metadata": {"name": "web-1", "ownerReferences": owner(&web, "Deployment")}, "spec": spec});
    let set = kubectl.send("POST", &format!("{apps}/replicasets"), &set);
    let pod = json!({"metadata": {"name": "web-1-a", "ownerReferences": owner(&set, "ReplicaSet")}, "spec": pod});
    kubectl.send("POST", &kubectl.path("pods"), &pod);
}

pub(crate) fn dependents_go_with_their_owner(on: On) {
    let kubectl = Kubectl::start(on);
    family(&kubectl);
    kubectl.run("delete deployment web");
    kubectl.run("wait pod/web-1-a rs/web-1 --for=delete --timeout=120s");
    assert_eq!(kubectl.run("get deployments,replicasets,pods -o name"), "");
}

pub(crate) fn dependents_go_before_their_owner_when_in_the_foreground(on: On) {
    let kubectl = Kubectl::start(on);
    family(&kubectl);
    kubectl.run("delete deployment web --cascade=foreground --timeout=120s");
    assert_eq!(kubectl.run("get deployments,replicasets,pods -o name"), "");
}

pub(crate) fn orphans_stay(on: On) {
    let kubectl = Kubectl::start(on);
    family(&kubectl);
    kubectl.run("delete deployment web --cascade=orphan");
    assert_eq!(kubectl.run("get deployments,replicasets,pods -o name"), "replicaset.apps/web-1\npod/web-1-a\n");
    assert_eq!(kubectl.run("get rs web-1 -o jsonpath={.metadata.ownerReferences}"), "");
}

pub(crate) fn a_namespace_takes_its_contents_along(on: On) {
    let kubectl = Kubectl::start(on);
    let shop = kubectl.apart("namespaces", "shop");
    kubectl.run(&format!("create namespace {shop}"));
    kubectl.run(&format!("create configmap settings -n {shop}"));
    kubectl.run(&format!("create deployment web -n {shop} --image=web:1"));
    // A namespace whose pods are not gone at once is looked at again after half of their grace.
    kubectl.run(&format!("delete namespace {shop} --timeout=120s"));
    assert!(kubectl.refused(&format!("get namespace {shop}")).contains("not found"));
    let late = kubectl.refused(&format!("create configmap again -n {shop}"));
    assert!(late.contains(&format!("namespaces \"{shop}\" not found")), "{late}");
}
