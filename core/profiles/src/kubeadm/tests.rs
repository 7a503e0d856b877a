use super::*;

fn configuration(value: Value) -> Configuration {
    Configuration { text: format!("{value:#} # as somebody wrote it"), value }
}

fn grace(text: &str) -> Arguments {
    Arguments::Ours(BTreeMap::from([("node-monitor-grace-period", text.to_owned())]))
}

#[test]
fn what_was_there_before_is_remembered_first_and_is_there_again_as_text() {
    let original = configuration(json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "clusterName": "x",
        "controllerManager": {"extraArgs": [{"name": "node-monitor-grace-period", "value": "55s"}]}}));
    let ours = |component| if component == Component::ControllerManager { grace("2m0s") } else { Arguments::Theirs };
    let mut kubeadm = Kubeadm { now: original.clone(), original: None };
    assert_eq!(kubeadm.plan(|_| Arguments::Theirs), KubeadmPlan::default(), "nothing of ours");
    assert_eq!(kubeadm.plan(ours), KubeadmPlan { change: None, original: Some(original.text.clone()) });
    kubeadm.original = Some(original.clone());
    let KubeadmPlan { change: Some(KubeadmChange::Value(changed)), original: Some(kept) } = kubeadm.plan(ours) else {
        panic!("it is changed")
    };
    assert_eq!(kept, original.text);
    assert_eq!(changed["controllerManager"]["extraArgs"], json!([{"name": "node-monitor-grace-period", "value": "2m0s"}]));
    kubeadm.now = configuration(changed);
    assert_eq!(kubeadm.plan(ours).change, None, "it is so already");
    assert_eq!(kubeadm.plan(|_| Arguments::Unknown), KubeadmPlan { change: None, original: Some(original.text.clone()) });
    let back = KubeadmPlan { change: Some(KubeadmChange::Text(original.text.clone())), original: Some(original.text.clone()) };
    assert_eq!(kubeadm.plan(|_| Arguments::Theirs), back);
    kubeadm.now = original;
    assert_eq!(kubeadm.plan(|_| Arguments::Theirs), KubeadmPlan::default(), "and forgotten");
}

#[test]
fn what_somebody_has_edited_meanwhile_stays_and_only_the_arguments_go() {
    let original =
        configuration(json!({"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}, "kubernetesVersion": "v1.36.1"}));
    let now = configuration(json!({"kubernetesVersion": "v1.36.4", "controllerManager": {"extraArgs": [
        {"name": "node-monitor-grace-period", "value": "2m0s"}]}, "apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}}));
    let kubeadm = Kubeadm { now, original: Some(original.clone()) };
    let plan = kubeadm.plan(|_| Arguments::Theirs);
    let Some(KubeadmChange::Value(changed)) = plan.change else { panic!("it is changed") };
    assert_eq!(
        changed,
        json!({"kubernetesVersion": "v1.36.4", "controllerManager": {},
        "apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}})
    );
    let kubeadm = Kubeadm { now: configuration(changed), original: Some(original) };
    assert_eq!(kubeadm.plan(|_| Arguments::Theirs), KubeadmPlan::default());
}

#[test]
fn kubeadm_remembers_the_arguments_in_the_form_of_its_version() {
    let arguments = BTreeMap::from([("node-monitor-grace-period", "2m0s".to_owned())]);
    let kcm = Component::ControllerManager;
    let list =
        json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "controllerManager": {"extraArgs": [{"name": "v", "value": "2"}]}});
    let changed = with_arguments(&list, kcm, &arguments).unwrap();
    let both = json!([{"name": "v", "value": "2"}, {"name": "node-monitor-grace-period", "value": "2m0s"}]);
    assert_eq!(changed["controllerManager"]["extraArgs"], both);
    assert_eq!(with_arguments(&changed, kcm, &arguments), None, "it is so already");
    assert_eq!(with_arguments(&changed, kcm, &BTreeMap::new()), Some(list));
    let map = json!({"apiVersion": "kubeadm.k8s.io/v1beta3", "apiServer": {}});
    let changed = with_arguments(
        &map,
        Component::ApiServer,
        &BTreeMap::from([("default-not-ready-toleration-seconds", "60".to_owned())]),
    )
    .unwrap();
    assert_eq!(changed["apiServer"]["extraArgs"], json!({"default-not-ready-toleration-seconds": "60"}));
    assert_eq!(with_arguments(&changed, Component::ApiServer, &BTreeMap::new()), Some(map));
    assert_eq!(with_arguments(&json!({}), kcm, &BTreeMap::new()), None);
}
