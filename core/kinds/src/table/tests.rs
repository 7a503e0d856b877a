use proptest::prelude::*;

use super::*;

/// 2024-01-01T00:10:00Z.
const NOW: Time = Time::from_secs(1_704_067_800);

fn cells(kind: &str, object: Value) -> Vec<Value> {
    let row = row(kind, &object, NOW);
    assert_eq!(row.cells.len(), columns(kind).len(), "{kind}");
    row.cells
}

fn meta(name: &str) -> Value {
    json!({"name": name, "creationTimestamp": "2024-01-01T00:00:00Z"})
}

/// Returns the status cell of a pod.
fn word(pod: Value) -> Value {
    cells("Pod", pod)[2].clone()
}

#[test]
fn ages_are_short() {
    for (seconds, text) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_799, "7h59m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (8 * 86_400 - 1, "7d23h"),
        (8 * 86_400, "8d"),
        (730 * 86_400 - 1, "729d"),
        (730 * 86_400, "2y"),
        (731 * 86_400, "2y1d"),
        (8 * 365 * 86_400, "8y"),
        (20 * 365 * 86_400, "20y"),
    ] {
        assert_eq!(since(Time::from_secs(seconds), Time::ZERO), text, "{seconds}");
    }
    assert_eq!(since(Time::from_millis(-1_999), Time::ZERO), "0s");
    assert_eq!(age(NOW, None), "<unknown>");
    assert_eq!(age(NOW, Some(&json!("2024-01-01T00:00:00.5Z"))), "9m59s");
}

#[test]
fn pods_show_ready_containers_restarts_and_gates() {
    let pod = json!({
        "metadata": meta("p"),
        "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}],
            "containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.9.8.7"}], "conditions": [{"type": "example.com/a", "status": "True"}],
            "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}},
                {"name": "b", "ready": false, "restartCount": 1, "state": {"running": {}}}]}
    });
    assert_eq!(json!(cells("Pod", pod)), json!(["p", "1/2", "Running", "3", "10m", "10.9.8.7", "n", "<none>", "1/2"]));
    let fresh = json!({"metadata": {"name": "p"}, "spec": {"containers": [{}]}, "status": {"phase": "Pending"}});
    let expected = json!(["p", "0/1", "Pending", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]);
    assert_eq!(json!(cells("Pod", fresh)), expected);
}

#[test]
fn restarts_tell_when_the_last_one_was() {
    let last = |at: &str| json!({"terminated": {"exitCode": 1, "finishedAt": at}});
    let pod = json!({"metadata": meta("p"), "spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [
        {"restartCount": 1, "lastState": last("2024-01-01T00:05:00Z"), "state": {"running": {}}},
        {"restartCount": 1, "lastState": last("2024-01-01T00:03:00Z"), "state": {"running": {}}}]}});
    assert_eq!(cells("Pod", pod)[3], "2 (5m ago)");
}

#[test]
fn the_status_word_of_a_pod_comes_from_what_matters_most() {
    let with = |status: Value| json!({"metadata": meta("p"), "spec": {"containers": [{"name": "a"}]}, "status": status});
    let one = |state: Value| with(json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": state}]}));
    for (pod, expected) in [
        (with(json!({"phase": "Pending"})), "Pending"),
        (with(json!({"phase": "Failed", "reason": "Evicted"})), "Evicted"),
        (
            with(
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            ),
            "SchedulingGated",
        ),
        (one(json!({"waiting": {"reason": "CrashLoopBackOff"}})), "CrashLoopBackOff"),
        (one(json!({"terminated": {"reason": "Error", "exitCode": 1}})), "Error"),
        (one(json!({"terminated": {"signal": 9, "exitCode": 137}})), "Signal:9"),
        (one(json!({"terminated": {"exitCode": 3}})), "ExitCode:3"),
    ] {
        assert_eq!(word(pod), expected);
    }
}

#[test]
fn the_first_container_decides_and_a_completed_one_yields_to_a_running_one() {
    let pod = |conditions: Value| {
        json!({"metadata": meta("p"), "spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "conditions": conditions,
            "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
                {"ready": true, "state": {"running": {}}}]}})
    };
    assert_eq!(word(pod(json!([{"type": "Ready", "status": "True"}]))), "Running");
    assert_eq!(word(pod(json!([]))), "NotReady");
    let both = json!({"metadata": meta("p"), "status": {"phase": "Running", "containerStatuses": [
        {"state": {"waiting": {"reason": "First"}}}, {"state": {"waiting": {"reason": "Second"}}}]}});
    assert_eq!(word(both), "First");
}

#[test]
fn init_containers_say_how_far_they_are() {
    let init = |statuses: Value| {
        json!({"metadata": meta("p"), "spec": {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}]},
            "status": {"phase": "Pending", "initContainerStatuses": statuses,
                "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}]}})
    };
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    for (statuses, expected) in [
        (json!([{"name": "i", "state": {"running": {}}}]), "Init:0/2"),
        (json!([done, {"name": "j", "state": {"waiting": {"reason": "PodInitializing"}}}]), "Init:1/2"),
        (json!([done, {"name": "j", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]), "Init:CrashLoopBackOff"),
        (json!([{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]), "Init:Error"),
        (json!([{"name": "i", "state": {"terminated": {"exitCode": 2}}}]), "Init:ExitCode:2"),
        (json!([{"name": "i", "state": {"terminated": {"exitCode": 137, "signal": 9}}}]), "Init:Signal:9"),
        (json!([done, {"name": "j", "state": {"terminated": {"exitCode": 0}}}]), "PodInitializing"),
    ] {
        assert_eq!(word(init(statuses)), expected);
    }
}

#[test]
fn sidecars_count_as_containers() {
    let pod = json!({"metadata": meta("p"),
        "spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}]},
        "status": {"phase": "Running",
            "initContainerStatuses": [
                {"name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}},
                {"name": "s", "restartCount": 2, "started": true, "ready": true, "state": {"running": {}}}],
            "containerStatuses": [{"name": "a", "ready": true, "restartCount": 1, "state": {"running": {}}}]}});
    let cells = cells("Pod", pod);
    assert_eq!(json!(cells[1..4]), json!(["2/2", "Running", "3"]));
}

#[test]
fn deletion_shows_unless_the_pod_is_finished() {
    let mut metadata = meta("p");
    metadata["deletionTimestamp"] = "2024-01-01T00:09:00Z".into();
    let pod = |status: Value| json!({"metadata": metadata, "spec": {"containers": [{}]}, "status": status});
    assert_eq!(word(pod(json!({"phase": "Running"}))), "Terminating");
    assert_eq!(word(pod(json!({"phase": "Running", "reason": "NodeLost"}))), "Unknown");
    assert_eq!(word(pod(json!({"phase": "Succeeded"}))), "Succeeded");
}

#[test]
fn finished_pods_carry_a_condition() {
    let pod = |phase: &str| row("Pod", &json!({"metadata": meta("p"), "status": {"phase": phase}}), NOW).conditions;
    let done = &pod("Succeeded")[0];
    assert_eq!((&done["type"], &done["status"], &done["reason"]), (&json!("Completed"), &json!("True"), &json!("Succeeded")));
    assert_eq!(pod("Failed")[0]["reason"], "Failed");
    assert_eq!(pod("Running"), Vec::<Value>::new());
}

#[test]
fn nodes_show_readiness_roles_and_addresses() {
    let labels = json!({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": "", "kubernetes.io/role": "db"});
    let node = json!({"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": true}, "status": {
        "nodeInfo": {"kubeletVersion": "v9.9", "osImage": "TestOS", "kernelVersion": "6.1", "architecture": "amd64", "containerRuntimeVersion": "proc://1"},
        "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}], "conditions": [{"type": "Ready", "status": "True"}]}});
    let expected = json!([
        "n",
        "Ready,SchedulingDisabled",
        "db,edge,worker",
        "<unknown>",
        "v9.9",
        "10.1.1.1",
        "<none>",
        "TestOS",
        "6.1 (amd64)",
        "proc://1"
    ]);
    assert_eq!(json!(cells("Node", node)), expected);
    let bare = json!(["n", "Unknown", "<none>", "10m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]);
    assert_eq!(json!(cells("Node", json!({"metadata": meta("n")}))), bare);
    let silent = json!({"metadata": meta("n"), "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(cells("Node", silent)[1], "NotReady");
}

#[test]
fn services_show_addresses_and_ports() {
    let service = |spec: Value, status: Value| cells("Service", json!({"metadata": meta("s"), "spec": spec, "status": status}));
    let spec = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "selector": {"b": "2", "a": "1"},
        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]});
    let expected = json!(["s", "ClusterIP", "10.0.0.1", "<none>", "80/TCP,53:30053/UDP", "10m", "a=1,b=2"]);
    assert_eq!(json!(service(spec, json!({}))), expected);
    let external = |spec: Value, ingress: Value| service(spec, json!({"loadBalancer": {"ingress": ingress}}))[3].clone();
    assert_eq!(external(json!({"type": "ExternalName", "externalName": "example.com"}), json!([])), "example.com");
    assert_eq!(external(json!({"type": "LoadBalancer"}), json!([])), "<pending>");
    let balanced =
        external(json!({"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}), json!([{"ip": "9.9.9.9"}, {"hostname": "h"}]));
    assert_eq!(balanced, "9.9.9.9,h,1.1.1.1");
    assert_eq!(external(json!({"type": "NodePort", "externalIPs": ["1.1.1.1", "2.2.2.2"]}), json!([])), "1.1.1.1,2.2.2.2");
    let headless = service(json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}), json!({}));
    assert_eq!(json!(headless[2..]), json!(["None", "<none>", "<none>", "10m", "<none>"]));
}

#[test]
fn small_kinds_have_their_cells() {
    for (kind, object, expected) in [
        (
            "ConfigMap",
            json!({"metadata": meta("a"), "data": {"x": "1", "y": "2"}, "binaryData": {"z": "AA=="}}),
            json!(["a", 3, "10m"]),
        ),
        ("Secret", json!({"metadata": meta("a"), "type": "Opaque", "data": {"x": ""}}), json!(["a", "Opaque", 1, "10m"])),
        ("Namespace", json!({"metadata": meta("a"), "status": {"phase": "Active"}}), json!(["a", "Active", "10m"])),
        ("ServiceAccount", json!({"metadata": meta("a")}), json!(["a", "10m"])),
        ("Lease", json!({"metadata": meta("a"), "spec": {"holderIdentity": "n1"}}), json!(["a", "n1", "10m"])),
        ("Lease", json!({"metadata": meta("a")}), json!(["a", "", "10m"])),
        ("CustomResourceDefinition", json!({"metadata": meta("a")}), json!(["a", "2024-01-01T00:00:00Z"])),
    ] {
        assert_eq!(json!(cells(kind, object)), expected);
    }
}

#[test]
fn endpoint_slices_show_three_of_many() {
    let slice = |addresses: &[&str], ports: Value| {
        let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
        cells("EndpointSlice", json!({"metadata": meta("e"), "addressType": "IPv4", "endpoints": endpoints, "ports": ports}))
    };
    let five = slice(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"], json!([{"port": 80}, {"port": 81}]));
    assert_eq!(json!(five), json!(["e", "IPv4", "80,81", "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more...", "10m"]));
    let ports = json!([{"port": 1}, {"name": "web"}, {"name": null}, {"port": 4}]);
    assert_eq!(json!(slice(&["10.0.0.1"], ports)[2..4]), json!(["1,web,* + 1 more...", "10.0.0.1"]));
    assert_eq!(json!(slice(&[], json!(null))[2..4]), json!(["<unset>", "<unset>"]));
}

#[test]
fn workloads_show_counts_and_their_template() {
    let selector = json!({"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "d", "operator": "DoesNotExist"}, {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "NotIn", "values": ["z"]}]});
    let template = json!({"spec": {"containers": [{"name": "one", "image": "i:1"}, {"name": "two", "image": "j:1"}]}});
    let workload = json!({"metadata": meta("d"), "spec": {"replicas": 3, "selector": selector, "template": template},
        "status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 1}});
    let text = "a in (x,y),b=c,!d,e,f notin (z)";
    assert_eq!(json!(cells("Deployment", workload.clone())), json!(["d", "2/3", 1, 1, "10m", "one,two", "i:1,j:1", text]));
    assert_eq!(json!(cells("ReplicaSet", workload)), json!(["d", 3, 3, 2, "10m", "one,two", "i:1,j:1", text]));
}

#[test]
fn events_of_both_groups_look_the_same() {
    let old = json!({"metadata": meta("e"), "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{c}"},
        "reason": "R", "message": " m\n", "type": "Warning", "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:09:00Z",
        "count": 3, "source": {"component": "c", "host": "h"}});
    let expected = json!(["60s", "Warning", "R", "pod/web", "spec.containers{c}", "c, h", "m", "10m", 3, "e"]);
    assert_eq!(json!(cells("Event", old)), expected);
    let new = json!({"metadata": meta("e"), "regarding": {"kind": "Pod", "name": "web"}, "reason": "R", "note": "n", "type": "Normal",
        "eventTime": "2024-01-01T00:08:00.000000Z", "reportingController": "k", "reportingInstance": "k-1"});
    assert_eq!(json!(cells("Event", new.clone())), json!(["2m", "Normal", "R", "pod/web", "", "k, k-1", "n", "2m", 1, "e"]));
    let mut series = new;
    series["series"] = json!({"count": 7, "lastObservedTime": "2024-01-01T00:09:30.000000Z"});
    let cells = cells("Event", series);
    assert_eq!((&cells[0], &cells[8]), (&json!("30s"), &json!(7)));
}

#[test]
fn wide_columns_come_last_and_names_are_marked() {
    for kind in ["Pod", "Node", "Service", "Deployment", "ReplicaSet"] {
        let priorities: Vec<i64> = columns(kind).iter().map(|column| column.priority).collect();
        assert!(priorities.is_sorted(), "{kind}");
        assert_eq!(json!(columns(kind)[0])["format"], "name");
    }
    let names: Vec<&str> = columns("Event").iter().map(|column| column.name.as_ref()).collect();
    assert_eq!(
        names,
        ["Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name"]
    );
    assert!(columns("Pod").iter().all(|column| !column.description.is_empty()));
}

#[test]
fn tables_carry_as_much_of_the_object_as_asked() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("a"), "data": {"x": "1"}});
    let make = |include: &str| {
        table("ConfigMap", [&object], json!({"resourceVersion": "7"}), "v1", Include::parse(include).unwrap(), NOW)
    };
    let shown = make("");
    assert_eq!((&shown["kind"], &shown["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(shown["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(shown["columnDefinitions"][1]["name"], "Data");
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta("a")});
    assert_eq!(shown["rows"], json!([{"cells": ["a", 1, "10m"], "object": partial}]));
    assert_eq!(make("Object")["rows"][0]["object"], object);
    assert_eq!(make("None")["rows"][0].get("object"), None);
    assert_eq!(Include::parse("Some"), None);
}

#[test]
fn later_tables_of_a_watch_repeat_no_columns() {
    let empty = Table::continued("v1beta1", Include::Metadata).finish(json!({}));
    assert_eq!((&empty["apiVersion"], &empty["columnDefinitions"]), (&json!("meta.k8s.io/v1beta1"), &json!([])));
}

#[test]
fn custom_resources_show_their_printer_columns_or_their_age() {
    let names = |columns: Vec<Column>| columns.into_iter().map(|column| column.name.into_owned()).collect::<Vec<String>>();
    assert_eq!(names(custom_columns(&[])), ["Name", "Age"]);
    let replicas = json!({"name": "Replicas", "type": "integer", "priority": 1, "jsonPath": ".spec.replicas"});
    let columns = custom_columns(std::slice::from_ref(&replicas));
    assert_eq!((columns[1].kind.as_ref(), columns[1].priority, columns[1].format.as_ref()), ("integer", 1, ""));
    assert_eq!(names(columns), ["Name", "Replicas"]);
}

#[test]
fn cells_of_printer_columns_have_the_type_of_their_column() {
    for (kind, value, expected) in [
        ("string", json!("a"), json!("a")),
        ("string", json!(3), json!("3")),
        ("string", json!({"a": [1]}), json!("{\"a\":[1]}")),
        ("integer", json!(3), json!(3)),
        ("integer", json!(3.7), json!(3)),
        ("integer", json!("3"), json!(null)),
        ("number", json!(3.7), json!(3.7)),
        ("boolean", json!(true), json!(true)),
        ("boolean", json!("true"), json!(null)),
        ("date", json!("2024-01-01T00:00:00Z"), json!("10m")),
        ("date", json!("soon"), json!("<invalid>")),
        ("string", json!(null), json!(null)),
    ] {
        assert_eq!(cell(kind, Some(&value), NOW), expected, "{kind} {value}");
    }
    assert_eq!(cell("string", None, NOW), Value::Null);
}

proptest! {
    #[test]
    fn any_object_has_a_row(micros: i64, then: i64, status in 0..6usize, text in "\\PC{0,8}") {
        prop_assert!(!since(Time::from_micros(micros), Time::from_micros(then)).is_empty());
        let odd = [json!(null), json!(7), json!([text]), json!({"phase": [1]}), json!({"containerStatuses": [7, {"state": 7}]}), json!(text)];
        for kind in ["Pod", "Node", "Service", "Event", "EndpointSlice", "Deployment", "Secret", "X"] {
            let object = json!({"metadata": odd[(status + 1) % 6], "status": odd[status], "spec": odd[(status + 2) % 6]});
            prop_assert_eq!(row(kind, &object, NOW).cells.len(), columns(kind).len());
        }
    }
}
