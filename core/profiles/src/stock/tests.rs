use std::time::Duration;

use serde_json::json;

use super::*;

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn mirror(node: &str, words: &[&str]) -> MirrorPod {
    let pod = json!({"metadata": {"name": "x", "annotations": {MIRROR: "1"}}, "spec": {"nodeName": node,
        "containers": [{"name": words[0], "command": words}]}});
    serde_json::from_value(pod).unwrap()
}

#[test]
fn the_last_of_several_forms_of_an_argument_counts() {
    let words = command(&["kcm", "--node-monitor-grace-period=40s", "-v", "2", "--node-monitor-grace-period", "1m"]);
    assert_eq!(argument(&words, GRACE), Some("1m"));
    assert_eq!(argument(&words, "v"), Some("2"));
    assert_eq!(argument(&words, NOT_READY), None);
}

#[test]
fn what_no_argument_says_is_built_in_and_what_cannot_be_read_is_unknown() {
    let grace = |words: &[&str]| values_in_use(Component::ControllerManager, &command(words));
    assert_eq!(grace(&["kcm"]), Some(ComponentValues::ControllerManager { grace: BUILT_IN_GRACE }));
    assert_eq!(grace(&["kcm", "--node-monitor-grace-period=soon"]), None);
    let tolerations = values_in_use(Component::ApiServer, &command(&["kas", "--default-unreachable-toleration-seconds=60"]));
    assert_eq!(tolerations, Some(ComponentValues::ApiServer { not_ready_seconds: 300, unreachable_seconds: 60 }));
}

#[test]
fn only_mirrors_of_static_pods_count() {
    let mut pods = StaticPods::default();
    let mut pod = mirror("n1", &["kube-controller-manager", "--node-monitor-grace-period=2m0s"]);
    assert!(pods.take(&pod) && !pods.take(&pod), "news once");
    assert!(pods.take(&mirror("n2", &["kube-controller-manager"])));
    assert_eq!(pods.of(Component::ControllerManager).map(|(node, _)| node).collect::<Vec<_>>(), ["n1", "n2"]);
    assert!(pods.explicit(Component::ControllerManager).is_empty(), "they differ");
    assert!(pods.remove(&mirror("n2", &["kube-controller-manager"])));
    assert_eq!(pods.explicit(Component::ControllerManager), BTreeMap::from([(GRACE, "2m0s".to_owned())]));
    pod.metadata.annotations.clear();
    assert_eq!(pod.component(), None, "any pod may have a container of that name");
    assert!(pods.take_leader("n1_4711") && !pods.take_leader("n1_4712"));
    assert_eq!(pods.leader.as_deref(), Some("n1"));
}

#[test]
fn arguments_are_replaced_in_every_form_and_removed() {
    let mut manifest = json!({"spec": {"containers": [{"name": "kube-controller-manager",
        "command": ["kube-controller-manager", "--node-monitor-grace-period", "40s", "--v=2"],
        "args": ["--node-monitor-grace-period=50s"]}]}});
    let grace = ComponentValues::ControllerManager { grace: Duration::from_secs(120) };
    assert!(set_arguments(&mut manifest, Component::ControllerManager, grace.arguments()));
    let container = manifest["spec"]["containers"][0].clone();
    assert_eq!(container["command"], json!(["kube-controller-manager", "--v=2", "--node-monitor-grace-period=2m0s"]));
    assert_eq!(container["args"], json!([]));
    assert!(set_arguments(&mut manifest, Component::ControllerManager, []));
    assert_eq!(manifest["spec"]["containers"][0]["command"], json!(["kube-controller-manager", "--v=2"]));
    assert!(!set_arguments(&mut manifest, Component::ApiServer, []), "another component's");
}
