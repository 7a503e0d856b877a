//! What updates keep, refuse and count.

use super::*;

fn stored(kind: Builtin) -> Value {
    create(kind, minimal(kind)).unwrap()
}

#[test]
fn the_object_keeps_its_status_and_the_status_its_object() {
    let old = stored(Builtin::Pod);
    let new = update(Builtin::Pod, Part::Main, &old, |pod| {
        pod["metadata"]["labels"] = json!({"x": "y"});
        pod["status"] = json!({"phase": "Running"});
    })
    .unwrap();
    assert_eq!((&new["status"]["phase"], &new["metadata"]["labels"]["x"]), (&json!("Pending"), &json!("y")));
    assert!(!generation_changes(Builtin::Pod, &new, &old));
    let new = update(Builtin::Pod, Part::Status, &old, |pod| {
        pod["spec"]["activeDeadlineSeconds"] = json!(77);
        pod["status"] = json!({"phase": "Running"});
    })
    .unwrap();
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(new["status"], json!({"phase": "Running", "qosClass": "BestEffort"}));
    let old = stored(Builtin::Node);
    let new = update(Builtin::Node, Part::Main, &old, |node| node["status"] = json!({"addresses": []})).unwrap();
    assert_eq!(new.get("status"), None);
}

#[test]
fn a_status_write_carries_the_metadata_that_its_kind_allows() {
    let write = |kind: Builtin| {
        let old = stored(kind);
        update(kind, Part::Status, &old, |object| {
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"});
            for (key, value) in [
                ("labels", json!({"l": "1"})),
                ("annotations", json!({"a": "1"})),
                ("finalizers", json!(["a/b"])),
                ("ownerReferences", json!([owner])),
            ] {
                object["metadata"][key] = value;
            }
        })
        .unwrap()["metadata"]
            .take()
    };
    let has = |meta: &Value| ["labels", "annotations", "finalizers", "ownerReferences"].map(|key| meta.get(key).is_some());
    assert_eq!(has(&write(Builtin::Pod)), [true, true, true, false]);
    assert_eq!(has(&write(Builtin::Node)), [true, true, true, false]);
    assert_eq!(has(&write(Builtin::Deployment)), [false, true, true, false]);
    assert_eq!(has(&write(Builtin::ReplicaSet)), [false, true, true, false]);
    assert_eq!(has(&write(Builtin::CustomResourceDefinition)), [false; 4]);
}

#[test]
fn a_pod_changes_its_image_and_little_else() {
    let mut pod = minimal(Builtin::Pod);
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 1}, "periodMilliseconds": 5});
    let old = create(Builtin::Pod, pod).unwrap();
    let new = update(Builtin::Pod, Part::Main, &old, |pod| pod["spec"]["containers"][0]["image"] = json!("i:2")).unwrap();
    assert!(generation_changes(Builtin::Pod, &new, &old));
    for (key, value) in [("periodSeconds", json!(1)), ("periodMilliseconds", json!(6)), ("periodMilliseconds", Value::Null)] {
        let change = |pod: &mut Value| pod["spec"]["containers"][0]["readinessProbe"][key] = value;
        let errors = update(Builtin::Pod, Part::Main, &old, change).unwrap_err();
        assert_eq!(places(&errors), [("spec", "Forbidden")]);
        assert!(errors[0].message().contains("pod updates may not change fields other than"));
    }
    let errors = update(Builtin::Pod, Part::Main, &old, |pod| pod["spec"]["nodeName"] = json!("x")).unwrap_err();
    assert_eq!(places(&errors), [("spec", "Forbidden")]);
}

#[test]
fn a_binding_sets_the_node_and_a_condition_together() {
    let old = stored(Builtin::Pod);
    let bind = |node: &str| {
        update(Builtin::Pod, Part::Binding, &old, |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
        })
    };
    let new = bind("n1").unwrap();
    assert_eq!((&new["spec"]["nodeName"], &new["status"]["conditions"][0]["status"]), (&json!("n1"), &json!("True")));
    assert_eq!(places(&bind("not a node").unwrap_err()), [("spec.nodeName", "Invalid")]);
}

#[test]
fn a_typed_client_may_write_back_what_it_read() {
    let mut pod = minimal(Builtin::Pod);
    pod["spec"]["hostNetwork"] = json!(false);
    pod["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": ""}]);
    pod["spec"]["containers"][0]["stdin"] = json!(false);
    let old = create(Builtin::Pod, pod).unwrap();
    let new = update(Builtin::Pod, Part::Main, &old, |pod| {
        for key in ["hostNetwork", "tolerations", "serviceAccount", "securityContext", "priority"] {
            pod["spec"].as_object_mut().unwrap().remove(key);
        }
        pod["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
    })
    .unwrap();
    assert_eq!(new, old);
}

#[test]
fn a_spec_from_before_a_rule_does_not_block_labels() {
    let mut old = stored(Builtin::Pod);
    old["spec"]["containers"][0]["name"] = json!("Old_Name");
    assert!(update(Builtin::Pod, Part::Main, &old, |pod| pod["metadata"]["labels"] = json!({"a": "b"})).is_ok());
}

#[test]
fn a_deployment_counts_its_spec_and_annotations() {
    let old = stored(Builtin::Deployment);
    let counted = |change: fn(&mut Value)| {
        let new = update(Builtin::Deployment, Part::Main, &old, change).unwrap();
        generation_changes(Builtin::Deployment, &new, &old)
    };
    assert!(counted(|object| object["spec"]["minReadySeconds"] = json!(3)));
    assert!(!counted(|object| object["spec"]["minReadySeconds"] = json!(0)));
    assert!(!counted(|object| object["metadata"]["labels"] = json!({"x": "y"})));
    assert!(counted(|object| object["metadata"]["annotations"] = json!({"x": "y"})));
    assert!(!counted(|object| object["status"] = json!({"replicas": 1})));
}

#[test]
fn erased_sub_second_fields_are_told() {
    let mut deployment = minimal(Builtin::Deployment);
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 1, "periodMilliseconds": -500});
    deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe;
    let old = create(Builtin::Deployment, deployment).unwrap();
    let new = update(Builtin::Deployment, Part::Main, &old, |object| {
        let probe = &mut object["spec"]["template"]["spec"]["containers"][0]["readinessProbe"];
        probe.as_object_mut().unwrap().remove("periodMilliseconds");
    })
    .unwrap();
    let expected = "sub-second probe fields removed: spec.template.spec.containers[0].readinessProbe.periodMilliseconds";
    assert_eq!(warnings(Builtin::Deployment, &new, Some(&old), &context()), [expected]);
}

#[test]
fn stored_fields_outlive_their_gate() {
    let mut deployment = minimal(Builtin::Deployment);
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 1, "periodMilliseconds": -500});
    deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe;
    let old = create(Builtin::Deployment, deployment).unwrap();
    let gates = FeatureGates::default().with(Gate::SubSecondProbes, false);
    let off = Context { gates: &gates, ..context() };
    let field = |object: &Value| {
        json::int(&object["spec"]["template"]["spec"]["containers"][0]["readinessProbe"], &["periodMilliseconds"])
    };
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["periodMilliseconds"] = json!(-400);
    let changed = update_with(Builtin::Deployment, Part::Main, new.clone(), &old, &off).unwrap();
    assert_eq!(field(&changed), Some(-400));
    new["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["periodMilliseconds"] = Value::Null;
    let removed = update_with(Builtin::Deployment, Part::Main, new, &changed, &off).unwrap();
    assert_eq!(field(&removed), None);
    let back = update_with(Builtin::Deployment, Part::Main, changed, &removed, &off).unwrap();
    assert_eq!(field(&back), None);
}

#[test]
fn a_service_keeps_its_address() {
    let mut old = stored(Builtin::Service);
    service::set_cluster_ip(&mut old, "127.96.0.9");
    let put = json!({"metadata": old["metadata"], "spec": {"ports": [{"port": 81}]}});
    let new = update_with(Builtin::Service, Part::Main, put, &old, &context()).unwrap();
    assert_eq!(service::cluster_ip(&new), Some("127.96.0.9"));
    let errors = update(Builtin::Service, Part::Main, &old, |service| {
        service["spec"]["clusterIP"] = json!("None");
        service["spec"]["clusterIPs"] = json!(["None"]);
    })
    .unwrap_err();
    assert_eq!(places(&errors), [("spec.clusterIPs[0]", "Invalid")]);
    let errors = update(Builtin::Service, Part::Main, &old, |service| service["spec"]["clusterIP"] = json!("127.96.0.10"));
    assert_eq!(places(&errors.unwrap_err()), [("spec.clusterIPs[0]", "Invalid")]);
}

#[test]
fn only_finalize_changes_the_finalizers_of_a_namespace() {
    let old = stored(Builtin::Namespace);
    let drop_all = |namespace: &mut Value| {
        namespace["spec"]["finalizers"] = json!([]);
        namespace["metadata"]["annotations"] = json!({"a": "b"});
        namespace["status"] = json!({"phase": "Gone"});
    };
    let new = update(Builtin::Namespace, Part::Main, &old, drop_all).unwrap();
    assert_eq!(new["spec"]["finalizers"], json!(["kubernetes"]));
    let new = update(Builtin::Namespace, Part::Finalize, &old, drop_all).unwrap();
    assert_eq!(new["spec"]["finalizers"], json!([]));
    assert_eq!((new["metadata"].get("annotations"), &new["status"]["phase"]), (None, &json!("Active")));
}

#[test]
fn a_secret_keeps_its_type() {
    let secret = json!({"metadata": {"name": "s"}, "type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}});
    let old = create(Builtin::Secret, secret).unwrap();
    let put = json!({"metadata": old["metadata"], "data": {"username": "dQ=="}});
    assert_eq!(update_with(Builtin::Secret, Part::Main, put, &old, &context()).unwrap(), old);
    let errors = update(Builtin::Secret, Part::Main, &old, |secret| secret["type"] = json!("Opaque")).unwrap_err();
    assert_eq!(places(&errors), [("type", "Invalid")]);
}

#[test]
fn an_immutable_config_map_says_no_once() {
    let old = create(Builtin::ConfigMap, json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "v"}})).unwrap();
    let errors = update(Builtin::ConfigMap, Part::Main, &old, |map| map["data"]["k"] = json!("w")).unwrap_err();
    assert_eq!(places(&errors), [("data", "Forbidden")]);
}
