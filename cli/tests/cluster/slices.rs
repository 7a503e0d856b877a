//! `lifesign controllers --endpointslice-controller` beside kube-controller-manager's own: the same objects, the same slices.
//!
//! Pods are given to nodes that have no kubelet and get their status by hand, so that every state can be had and stays.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Test;
use crate::bed::{Bed, Namespace, Running};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("slices::equal_those_of_kube_controller_manager", equal_those_of_kube_controller_manager)];

pub(crate) const LONG: &[(&str, Test)] =
    &[("slices::another_controller_that_comes_later_is_left_alone", another_controller_that_comes_later_is_left_alone)];

/// What a pod of the test is.
struct Pod {
    name: &'static str,
    app: &'static str,
    node: &'static str,
    ip: &'static str,
    ready: bool,
    extra: Value,
}

impl Pod {
    fn new(name: &'static str, app: &'static str, node: &'static str, ip: &'static str, ready: bool) -> Pod {
        Pod { name, app, node, ip, ready, extra: json!({}) }
    }
}

fn pods() -> Vec<Pod> {
    let mut pods = vec![
        Pod::new("web-1", "web", "zone-a", "10.9.0.1", true),
        Pod::new("web-2", "web", "zone-b", "10.9.0.2", true),
        Pod::new("web-3", "web", "zone-b", "10.9.0.3", false),
        Pod::new("web-4", "web", "zone-a", "10.9.0.4", true), // terminating, still serving
        Pod::new("web-5", "web", "zone-a", "10.9.0.5", false), // terminating, not serving
        Pod::new("db-0", "db", "zone-a", "10.9.1.1", true),
        Pod::new("db-1", "db", "zone-b", "10.9.1.2", false),
        Pod::new("lone", "lone", "zone-a", "10.9.2.1", true),
        Pod::new("done", "web", "zone-a", "10.9.0.6", true),   // ended
        Pod::new("fresh", "web", "zone-a", "", false),         // no address yet
        Pod::new("lost", "lost", "nowhere", "10.9.3.1", true), // its node is gone
    ];
    for (pod, index) in pods.iter_mut().filter(|pod| pod.app == "db").zip(0..) {
        pod.extra = json!({"hostname": format!("db-{index}"), "subdomain": "db"});
    }
    pods
}

fn services() -> Vec<(&'static str, Value)> {
    let http = json!({"name": "http", "port": 80, "targetPort": "http"});
    let zones = json!({"selector": {"app": "web"}, "ports": [http], "trafficDistribution": "PreferSameZone"});
    vec![
        ("named-port", json!({"selector": {"app": "web"}, "ports": [http]})),
        (
            "several-ports",
            json!({"selector": {"app": "web"}, "ports": [http, {"name": "raw", "port": 9, "targetPort": 9000, "protocol": "UDP"},
                {"name": "app", "port": 443, "targetPort": 8443, "appProtocol": "https"}]}),
        ),
        (
            "db",
            json!({"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}], "publishNotReadyAddresses": true}),
        ),
        ("headless", json!({"clusterIP": "None", "selector": {"app": "web"}, "ports": [http]})),
        ("headless-without-ports", json!({"clusterIP": "None", "selector": {"app": "lone"}})),
        ("unnamed-port", json!({"selector": {"app": "lone"}, "ports": [{"port": 80, "targetPort": 8080}]})),
        ("publishes-not-ready", json!({"selector": {"app": "web"}, "ports": [http], "publishNotReadyAddresses": true})),
        ("selects-nothing", json!({"selector": {"app": "nobody"}, "ports": [http]})),
        ("no-such-port", json!({"selector": {"app": "db"}, "ports": [http]})),
        ("same-zone", zones),
        ("lost", json!({"selector": {"app": "lost"}, "ports": [http]})),
        ("no-selector", json!({"ports": [http]})),
    ]
}

/// Makes nodes, pods and Services; returns what must be removed beside the namespace.
fn make(bed: &Bed, namespace: &str) -> Vec<String> {
    let mut cluster_wide = Vec::new();
    for zone in ["zone-a", "zone-b"] {
        let name = format!("{zone}-{namespace}");
        // No node at all is what the scheduler may see: nothing else is to be put there.
        let node = json!({"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
            "spec": {"unschedulable": true}});
        bed.send("POST", "/api/v1/nodes", &node);
        cluster_wide.push(format!("/api/v1/nodes/{name}"));
    }
    let folder = format!("/api/v1/namespaces/{namespace}/pods");
    for pod in pods() {
        let mut object = json!({
            "metadata": {"name": pod.name, "labels": {"app": pod.app}},
            "spec": {"nodeName": format!("{}-{namespace}", pod.node), "terminationGracePeriodSeconds": 3600,
                "containers": [{"name": "c", "image": "none", "ports": [{"name": "http", "containerPort": 8080}]}]},
        });
        for (key, value) in pod.extra.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        bed.send("POST", &folder, &object);
        let text = if pod.ready { "True" } else { "False" };
        let mut status = json!({"phase": if pod.name == "done" { "Succeeded" } else { "Running" },
            "conditions": [{"type": "Ready", "status": text}]});
        if !pod.ip.is_empty() {
            status["podIP"] = pod.ip.into();
            status["podIPs"] = json!([{"ip": pod.ip}]);
        }
        bed.send("PATCH", &format!("{folder}/{}/status", pod.name), &json!({"status": status}));
    }
    for name in ["web-4", "web-5"] {
        bed.send("DELETE", &format!("{folder}/{name}"), &Value::Null);
    }
    for (name, spec) in services() {
        let labels = json!({"team": "a", "app.kubernetes.io/part-of": name});
        let service = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        bed.send("POST", &format!("/api/v1/namespaces/{namespace}/services"), &service);
    }
    cluster_wide
}

fn folder(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// Returns the slices by Service, without what differs by nature: names, times, versions, managers.
fn slices(bed: &Bed, namespace: &str) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for mut slice in bed.list(&folder(namespace)) {
        let metadata = slice["metadata"].as_object_mut().unwrap();
        let service = metadata["labels"]["kubernetes.io/service-name"].as_str().unwrap().to_owned();
        assert_eq!(metadata["generateName"], format!("{service}-"), "a generated name");
        for field in ["name", "uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(field);
        }
        // When something changed last is said only where something has changed.
        let annotations = metadata.remove("annotations").unwrap_or_else(|| json!({}));
        let others =
            annotations.as_object().unwrap().keys().filter(|key| *key != "endpoints.kubernetes.io/last-change-trigger-time");
        assert_eq!(others.count(), 0, "{annotations}");
        sort(&mut slice, "endpoints");
        sort(&mut slice, "ports");
        found.entry(service).or_default().push(slice);
    }
    found
}

/// The order of these lists means nothing.
fn sort(slice: &mut Value, field: &str) {
    if let Some(list) = slice[field].as_array_mut() {
        list.sort_by_key(Value::to_string);
    }
}

fn versions(bed: &Bed, namespace: &str) -> BTreeMap<String, String> {
    let text = |slice: &Value, field: &str| slice["metadata"][field].as_str().unwrap().to_owned();
    bed.list(&folder(namespace)).iter().map(|slice| (text(slice, "name"), text(slice, "resourceVersion"))).collect()
}

/// Waits until every Service that gets slices has them, and nothing changed for a moment.
fn settled(bed: &Bed, namespace: &str) -> BTreeMap<String, Vec<Value>> {
    let wanted = services().len() - 1; // one has no selector
    let mut before = BTreeMap::new();
    bed.until("slices of every Service", |bed| {
        let now = versions(bed, namespace);
        let same = std::mem::replace(&mut before, now.clone()) == now;
        std::thread::sleep(std::time::Duration::from_millis(500));
        (same && now.len() >= wanted).then_some(())
    });
    slices(bed, namespace)
}

/// Removes what the namespace does not take along; pods first, because nobody stops them.
fn clean(bed: &Bed, namespace: Namespace<'_>, cluster_wide: &[String]) {
    let now = json!({"gracePeriodSeconds": 0});
    for pod in pods() {
        bed.ask("DELETE", &format!("/api/v1/namespaces/{}/pods/{}", namespace.name, pod.name), &now);
    }
    drop(namespace);
    for path in cluster_wide {
        bed.ask("DELETE", path, &Value::Null);
    }
}

/// kube-controller-manager runs without its EndpointSlice controller as long as this lives.
struct TheirsOff<'a>(&'a Bed);

impl TheirsOff<'_> {
    fn new(bed: &Bed) -> TheirsOff<'_> {
        bed.run(&["controllers", "*,-endpointslice-controller"]);
        TheirsOff(bed)
    }
}

impl Drop for TheirsOff<'_> {
    fn drop(&mut self) {
        self.0.run(&["controllers", "*"]);
    }
}

fn equal_those_of_kube_controller_manager(bed: &Bed) {
    let namespace = bed.namespace("slices");
    let cluster_wide = make(bed, &namespace.name);
    let theirs = settled(bed, &namespace.name);
    let endpoints = |slices: &BTreeMap<String, Vec<Value>>| {
        slices.values().flatten().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).sum::<usize>()
    };
    assert_eq!((theirs.len(), endpoints(&theirs)), (11, 31), "the test covers what it means to: {theirs:#?}");

    let off = TheirsOff::new(bed);
    let before = versions(bed, &namespace.name);
    // kube-controller-manager wrote within the last minute, and is known to be off.
    let ours = Running::controllers(bed.kubeconfig(), &["--endpointslice-controller", "--force"]);
    ours.says(bed, "leading");
    // A Service that is made now has slices when all others have been looked at.
    let late = json!({"metadata": {"name": "late"}, "spec": {"selector": {"app": "lone"}, "ports": [{"port": 1}]}});
    bed.send("POST", &format!("/api/v1/namespaces/{}/services", namespace.name), &late);
    bed.until("slices of the last Service", |bed| slices(bed, &namespace.name).contains_key("late").then_some(()));
    let mut after = versions(bed, &namespace.name);
    after.retain(|name, _| !name.starts_with("late-"));
    assert_eq!(after, before, "slices that are right are not written again");
    bed.send("DELETE", &format!("/api/v1/namespaces/{}/services/late", namespace.name), &Value::Null);
    bed.until("the last Service is gone", |bed| (!slices(bed, &namespace.name).contains_key("late")).then_some(()));

    bed.send("DELETE", &folder(&namespace.name), &Value::Null);
    let mine = settled(bed, &namespace.name);
    for (service, theirs) in &theirs {
        assert_eq!(mine.get(service), Some(theirs), "slices of {service}");
    }
    assert_eq!(mine.len(), theirs.len());
    let managers = bed.list(&folder(&namespace.name));
    let manager = |slice: &Value| slice["metadata"]["managedFields"][0]["manager"].clone();
    assert!(
        managers.iter().all(|slice| manager(slice) == "lifesign-endpoint-slice-controller"),
        "{:?}",
        managers.iter().map(manager).collect::<Vec<_>>()
    );
    // The pod whose node is gone is told, with the name of the node, and of ours.
    let missing = format!("Node nowhere-{} not found", namespace.name);
    bed.until("an event that names the node", |bed| {
        let events = bed.list(&format!("/api/v1/namespaces/{}/events", namespace.name));
        let ours =
            |event: &Value| event["source"]["component"].as_str().is_some_and(|name| !name.contains("controller-manager"));
        let warned = |event: &Value| event["message"].as_str().is_some_and(|message| message.contains(&missing));
        events.iter().any(|event| ours(event) && warned(event)).then_some(())
    });
    assert!(ours.stop(), "a clean stop");
    drop(off);
    clean(bed, namespace, &cluster_wide);
}

/// Two that write the same slices would undo each other's work for ever: ours sees it, says who the other is, and stops.
fn another_controller_that_comes_later_is_left_alone(bed: &Bed) {
    let off = TheirsOff::new(bed);
    // What the other wrote within the last minute would keep ours from starting; who starts it by force is not stopped later.
    let theirs = "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=endpointslice.kubernetes.io/managed-by%3Dendpointslice-controller.k8s.io";
    for slice in bed.list(theirs) {
        let text = |field: &str| slice["metadata"][field].as_str().unwrap().to_owned();
        bed.send("DELETE", &format!("{}/{}", folder(&text("namespace")), text("name")), &Value::Null);
    }
    let namespace = bed.namespace("competitors");
    let cluster_wide = make(bed, &namespace.name);
    let ours = Running::controllers(bed.kubeconfig(), &["--endpointslice-controller"]);
    settled(bed, &namespace.name);
    drop(off);
    let status = format!("/api/v1/namespaces/{}/pods/web-1/status", namespace.name);
    let mut flips = ["False", "True"].into_iter().cycle();
    bed.until("it sees the other", |bed| {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": flips.next().unwrap()}]}});
        bed.send("PATCH", &status, &ready);
        ours.log().contains("this one stops").then_some(())
    });
    let log = ours.log();
    let line = log.lines().find(|line| line.contains("this one stops")).unwrap();
    assert!(line.contains("kube-controller-manager"), "{log}");
    // The other goes on alone, and ours is still there for markers.
    bed.send("PATCH", &status, &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    assert_eq!(settled(bed, &namespace.name).len(), services().len() - 1);
    assert!(ours.stop(), "a clean stop");
    clean(bed, namespace, &cluster_wide);
}
