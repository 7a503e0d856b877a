//! `get` in its forms, `describe`, `explain`, `wait`, events.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::json;

use crate::{Kubectl, On};

pub(crate) fn get_shows_the_columns_of_kubernetes(on: On) {
    let kubectl = Kubectl::start(on);
    let n1 = kubectl.ready_node("n1");
    kubectl.running_pod("web", "n1");
    kubectl.run("create configmap settings --from-literal=a=1 --from-literal=b=2");
    kubectl.run("create secret generic password --from-literal=a=1");
    kubectl.paused_deployment("shop", "shop:2", 2);
    kubectl.run("create service clusterip shop --tcp=80:8080");
    kubectl.run("create service nodeport door --tcp=443:8443");
    kubectl.run("create service externalname away --external-name=example.org");
    insta::assert_snapshot!(kubectl.table("get pods"), @"
    NAME | READY | STATUS | RESTARTS | AGE
    web | 1/1 | Running | 0 | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get pods -o wide"), @"
    NAME | READY | STATUS | RESTARTS | AGE | IP | NODE | NOMINATED NODE | READINESS GATES
    web | 1/1 | Running | 0 | AGE | 127.88.0.7 | n1 | <none> | <none>
    ");
    insta::assert_snapshot!(kubectl.table("get pods --show-labels"), @"
    NAME | READY | STATUS | RESTARTS | AGE | LABELS
    web | 1/1 | Running | 0 | AGE | app=web
    ");
    insta::assert_snapshot!(kubectl.table(&format!("get pods -A -L app --field-selector metadata.namespace={}", kubectl.namespace())), @"
    NAMESPACE | NAME | READY | STATUS | RESTARTS | AGE | APP
    default | web | 1/1 | Running | 0 | AGE | web
    ");
    insta::assert_snapshot!(kubectl.table(&format!("get node {n1} -o wide")), @"
    NAME | STATUS | ROLES | AGE | VERSION | INTERNAL-IP | EXTERNAL-IP | OS-IMAGE | KERNEL-VERSION | CONTAINER-RUNTIME
    n1 | Ready | worker | AGE | v1.36.0 | 10.0.0.1 | <none> | Linux | 6.1.0 (amd64) | process://1
    ");
    insta::assert_snapshot!(kubectl.table("get services -n default kubernetes"), @"
    NAME | TYPE | CLUSTER-IP | EXTERNAL-IP | PORT(S) | AGE
    kubernetes | ClusterIP | CLUSTER-IP | <none> | 443/TCP | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get services -o wide -l app"), @"
    NAME | TYPE | CLUSTER-IP | EXTERNAL-IP | PORT(S) | AGE | SELECTOR
    away | ExternalName | <none> | example.org | <none> | AGE | app=away
    door | NodePort | CLUSTER-IP | <none> | 443:NODE-PORT/TCP | AGE | app=door
    shop | ClusterIP | CLUSTER-IP | <none> | 80/TCP | AGE | app=shop
    ");
    insta::assert_snapshot!(kubectl.table("get deployments -o wide"), @"
    NAME | READY | UP-TO-DATE | AVAILABLE | AGE | CONTAINERS | IMAGES | SELECTOR
    shop | 0/2 | 0 | 0 | AGE | shop | shop:2 | app=shop
    ");
    insta::assert_snapshot!(kubectl.table("get configmaps"), @"
    NAME | DATA | AGE
    kube-root-ca.crt | 1 | AGE
    settings | 2 | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get secrets"), @"
    NAME | TYPE | DATA | AGE
    password | Opaque | 1 | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get namespaces default kube-node-lease kube-public kube-system"), @"
    NAME | STATUS | AGE
    default | Active | AGE
    kube-node-lease | Active | AGE
    kube-public | Active | AGE
    kube-system | Active | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get serviceaccounts"), @"
    NAME | AGE
    default | AGE
    ");
    insta::assert_snapshot!(kubectl.run("get pods,services -o name -l app"), @"
    pod/web
    service/away
    service/door
    service/shop
    ");
    assert_eq!(kubectl.run("get pods -l app=other"), "");
    assert_eq!(kubectl.run("get pods --field-selector status.phase=Running -o name"), "pod/web\n");
    assert_eq!(kubectl.run("get pod web -o jsonpath={.status.podIP}"), "127.88.0.7");
}

pub(crate) fn get_shows_slices_leases_and_replica_sets(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.apply(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}, {addresses: [10.1.0.4]}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: n1}
spec: {holderIdentity: n1, leaseDurationSeconds: 40}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-5d9c}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {schedulerName: nobody, containers: [{name: app, image: 'web:1'}]}}
",
    );
    if kubectl.plane().is_some() {
        // The controller's part: it has made the pods.
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets/web-5d9c/status", kubectl.namespace());
        kubectl.send("PATCH", &path, &json!({"status": {"replicas": 3, "observedGeneration": 1}}));
    }
    kubectl.run("wait rs/web-5d9c --for=jsonpath={.status.replicas}=3 --timeout=120s");
    insta::assert_snapshot!(kubectl.table("get endpointslices -l kubernetes.io/service-name!=kubernetes"), @"
    NAME | ADDRESSTYPE | PORTS | ENDPOINTS | AGE
    web-1 | IPv4 | 8080 | 10.1.0.1,10.1.0.2,10.1.0.3 + 1 more... | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get leases"), @"
    NAME | HOLDER | AGE
    n1 | n1 | AGE
    ");
    insta::assert_snapshot!(kubectl.table("get replicasets -o wide"), @"
    NAME | DESIRED | CURRENT | READY | AGE | CONTAINERS | IMAGES | SELECTOR
    web-5d9c | 3 | 3 | 0 | AGE | app | web:1 | app=web
    ");
}

pub(crate) fn yaml_and_json_show_the_object(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.run("create configmap settings --from-literal=a=1");
    let yaml = kubectl.plain(&kubectl.run("get configmap settings -o yaml"));
    let stable: Vec<&str> = yaml
        .lines()
        .filter(|line| !["  creationTimestamp", "  uid", "  resourceVersion"].iter().any(|p| line.starts_with(p)))
        .collect();
    insta::assert_snapshot!(stable.join("\n"), @r#"
    apiVersion: v1
    data:
      a: "1"
    kind: ConfigMap
    metadata:
      name: settings
      namespace: default
    "#);
    let list: serde_json::Value = serde_json::from_str(&kubectl.run("get configmaps -o json")).unwrap();
    let values: Vec<_> = list["items"].as_array().unwrap().iter().filter_map(|item| item["data"]["a"].as_str()).collect();
    assert_eq!(values, ["1"]);
}

pub(crate) fn a_watch_shows_changes_as_they_happen(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.pending_pod("web", "n1");
    let mut watch = kubectl.follow("get pods -w --output-watch-events");
    assert_eq!(watch.next(), "EVENT NAME READY STATUS RESTARTS AGE");
    assert_eq!(watch.next(), "ADDED web 0/1 Pending 0 AGE");
    kubectl.set_pod_status("web", json!({"phase": "Running"}));
    assert_eq!(watch.next(), "MODIFIED web 0/1 Running 0 AGE");
    kubectl.run("delete pod web --wait=false");
    assert_eq!(watch.next(), "MODIFIED web 0/1 Terminating 0 AGE");
    kubectl.run("delete pod web --grace-period=0 --force");
    // kube-apiserver writes that no grace is left before it removes the pod; ours does both at once.
    let last = std::iter::repeat_with(|| watch.next()).find(|line| kubectl.plane().is_some() || !line.starts_with("MODIFIED"));
    assert!(last.as_ref().is_some_and(|line| line.starts_with("DELETED web 0/1")), "{last:?}");
}

pub(crate) fn wait_ends_when_the_condition_holds(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.pending_pod("web", "n1");
    let mut waiting = kubectl.follow("wait pod/web --for=condition=Ready --timeout=120s");
    kubectl.set_pod_status("web", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!(waiting.next(), "pod/web condition met");
    kubectl.run(&format!("wait pod/web --for=jsonpath={{.spec.nodeName}}={} --timeout=120s", kubectl.node("n1")));
    let late = kubectl.refused("wait pod/none --for=condition=Ready --timeout=1s");
    assert!(late.contains("not found"), "{late}");
}

pub(crate) fn wait_ends_when_the_object_is_gone(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.pending_pod("web", "n1");
    let mut command = kubectl.command("wait pod/web --for=delete --timeout=120s -v=6");
    let mut waiting = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It waits once the server has its watch, and logs so.
    let mut log = BufReader::new(waiting.stderr.take().unwrap());
    let mut line = String::new();
    while !(line.contains("watch=true") && line.contains("200 OK")) {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "kubectl never watched");
    }
    kubectl.run("delete pod web --grace-period=0 --force");
    let mut output = String::new();
    waiting.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(waiting.wait().unwrap().success());
    assert_eq!(output, "pod/web condition met\n");
}

pub(crate) fn describe_tells_about_pods_nodes_and_services(on: On) {
    let kubectl = Kubectl::start(on);
    let n1 = kubectl.ready_node("n1");
    kubectl.running_pod("web", "n1");
    kubectl.run("expose pod web --port=80 --target-port=http");
    create_event(&kubectl);
    let describe = |what: &str| words(&kubectl.plain(&kubectl.run(&format!("describe {what}"))));
    let pod = describe("pod web");
    for part in [
        "Node: n1/10.0.0.1",
        "Status: Running",
        "http-get http://:http/ delay=0s timeout=1s period=1s",
        "Started",
        "the app runs",
    ] {
        assert!(pod.contains(part), "{part:?} is missing:\n{pod}");
    }
    let node = describe(&format!("node {n1}"));
    for part in ["Roles: worker", "AgentReady", " default web ", " cpu 0 (0%)"] {
        assert!(node.contains(part), "{part:?} is missing:\n{node}");
    }
    let service = describe("service web");
    for part in ["Selector: app=web", "TargetPort: http/TCP", "IP Families: IPv4"] {
        assert!(service.contains(part), "{part:?} is missing:\n{service}");
    }
}

/// Returns a text with one blank between words: widths depend on names.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Makes an event about the pod `web`, as old as the pod.
fn create_event(kubectl: &Kubectl) {
    let pod = kubectl.send("GET", &kubectl.path("pods/web"), &json!(null));
    let at = &pod["metadata"]["creationTimestamp"];
    let about = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": kubectl.namespace(), "uid": pod["metadata"]["uid"],
    });
    let event = json!({
        "metadata": {"name": "started"}, "involvedObject": about, "type": "Normal", "reason": "Started",
        "message": "the app runs", "count": 2, "source": {"component": "agent"}, "firstTimestamp": at, "lastTimestamp": at,
    });
    kubectl.send("POST", &kubectl.path("events"), &event);
}

pub(crate) fn events_are_listed_and_selected(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.pending_pod("web", "n1");
    create_event(&kubectl);
    insta::assert_snapshot!(kubectl.table("get events -o wide"), @"
    LAST SEEN | TYPE | REASON | OBJECT | SUBOBJECT | SOURCE | MESSAGE | FIRST SEEN | COUNT | NAME
    AGE | Normal | Started | pod/web |  | agent | the app runs | AGE | 2 | started
    ");
    assert!(kubectl.run("events --for pod/web").contains("the app runs"));
    assert!(!kubectl.run("events --for pod/other").contains("the app runs"));
    assert_eq!(kubectl.run("get events --field-selector involvedObject.uid=none -o name"), "");
    assert_eq!(kubectl.run("get events.v1.events.k8s.io started -o jsonpath={.note}"), "the app runs");
}

pub(crate) fn explain_knows_fields_and_their_meaning(on: On) {
    let kubectl = Kubectl::start(on);
    let probe = kubectl.run("explain pod.spec.containers.readinessProbe");
    for part in ["FIELD: readinessProbe <Probe>", "periodSeconds\t<integer>", "httpGet\t<HTTPGetAction>"] {
        assert!(probe.contains(part), "{part:?} is missing:\n{probe}");
    }
    assert_eq!(probe.contains("periodMilliseconds\t<integer>"), kubectl.plane().is_some(), "a field of ours:\n{probe}");
    assert!(kubectl.run("explain deployments --recursive").contains("maxSurge"));
    assert!(kubectl.refused("explain pod.spec.nothing").contains("does not exist"));
}

pub(crate) fn api_resources_lists_what_is_served(on: On) {
    let kubectl = Kubectl::start(on);
    let resources = kubectl.table("api-resources --api-group=");
    // What docs/compatibility.md says that we do not have.
    let resources = resources.replace("componentstatuses | cs | v1 | false | ComponentStatus\n", "");
    insta::assert_snapshot!(resources, @"
    NAME | SHORTNAMES | APIVERSION | NAMESPACED | KIND
    bindings |  | v1 | true | Binding
    configmaps | cm | v1 | true | ConfigMap
    endpoints | ep | v1 | true | Endpoints
    events | ev | v1 | true | Event
    limitranges | limits | v1 | true | LimitRange
    namespaces | ns | v1 | false | Namespace
    nodes | no | v1 | false | Node
    persistentvolumeclaims | pvc | v1 | true | PersistentVolumeClaim
    persistentvolumes | pv | v1 | false | PersistentVolume
    pods | po | v1 | true | Pod
    podtemplates |  | v1 | true | PodTemplate
    replicationcontrollers | rc | v1 | true | ReplicationController
    resourcequotas | quota | v1 | true | ResourceQuota
    secrets |  | v1 | true | Secret
    serviceaccounts | sa | v1 | true | ServiceAccount
    services | svc | v1 | true | Service
    ");
    let all = kubectl.run("api-resources --categories=all -o name");
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    let workloads = ["daemonsets.apps", "deployments.apps", "horizontalpodautoscalers.autoscaling", "jobs.batch"];
    assert!(workloads.iter().all(|name| all.contains(name)) && all.contains(&"pods") && all.contains(&"services"), "{all:?}");
    assert!(kubectl.run("api-versions").contains("discovery.k8s.io/v1"));
    let version = kubectl.run("version");
    assert!(version.contains("Server Version: v1.36."), "{version}");
    assert_eq!(version.contains("+lifesign"), kubectl.plane().is_some(), "{version}");
    assert!(kubectl.run("get --raw /readyz?verbose").ends_with("readyz check passed\n"));
}

pub(crate) fn cluster_info_dumps_what_is_there(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.running_pod("web", "n1");
    assert!(kubectl.run("cluster-info").contains("is running at"));
    kubectl.run(&format!("cluster-info dump --namespaces {} --output-directory dump", kubectl.namespace()));
    let folder = kubectl.folder().join("dump");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read("nodes.json").contains("\"NodeList\""));
    let pods: serde_json::Value = serde_json::from_str(&read(&format!("{}/pods.json", kubectl.namespace()))).unwrap();
    assert_eq!(pods["items"][0]["metadata"]["name"], "web");
    for kind in ["events", "replication-controllers", "services", "daemonsets", "deployments", "replicasets"] {
        let list: serde_json::Value = serde_json::from_str(&read(&format!("{}/{kind}.json", kubectl.namespace()))).unwrap();
        assert!(list["kind"].as_str().unwrap().ends_with("List"), "{list}");
    }
}
