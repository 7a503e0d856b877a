//! `taint`, `cordon`, `drain`.

use super::Kubectl;

pub(crate) fn a_node_is_tainted_and_cordoned() {
    let kubectl = Kubectl::start();
    kubectl.ready_node("n1");
    let taints = || kubectl.run("get node n1 -o jsonpath={.spec.taints[*].key}");
    assert_eq!(taints(), "node.kubernetes.io/not-ready", "a new node is not ready until its controller says so");
    kubectl.run("taint node n1 node.kubernetes.io/not-ready:NoSchedule-");
    kubectl.run("taint node n1 use=games:NoSchedule");
    kubectl.run("taint node n1 use=chess:NoSchedule --overwrite");
    assert_eq!(
        kubectl.run("get node n1 -o jsonpath={.spec.taints}"),
        r#"[{"effect":"NoSchedule","key":"use","value":"chess"}]"#
    );
    kubectl.run("taint node n1 use-");
    assert_eq!(taints(), "");
    kubectl.run("cordon n1");
    assert_eq!(taints(), "");
    insta::assert_snapshot!(kubectl.table("get nodes"), @"
    NAME | STATUS | ROLES | AGE | VERSION
    n1 | Ready,SchedulingDisabled | worker | AGE | v1.36.0
    ");
    kubectl.run("uncordon n1");
    insta::assert_snapshot!(kubectl.table("get nodes"), @"
    NAME | STATUS | ROLES | AGE | VERSION
    n1 | Ready | worker | AGE | v1.36.0
    ");
}

pub(crate) fn drain_evicts_the_pods_of_a_node() {
    let kubectl = Kubectl::start();
    kubectl.ready_node("n1");
    kubectl.running_pod("web", "n1");
    kubectl.running_pod("far", "n2");
    let refused = kubectl.refused("drain n1");
    assert!(refused.contains("cannot delete Pods that declare no controller"), "{refused}");
    let output = kubectl.run("drain n1 --force --grace-period=0 --timeout=30s");
    assert!(output.contains("pod/web evicted") && output.ends_with("node/n1 drained\n"), "{output}");
    assert_eq!(kubectl.run("get pods -o name"), "pod/far\n");
    assert_eq!(kubectl.run("get node n1 -o jsonpath={.spec.unschedulable}"), "true");
}

pub(crate) fn drain_waits_for_pods_that_end_with_grace() {
    let kubectl = Kubectl::start();
    kubectl.ready_node("n1");
    kubectl.running_pod("web", "n1");
    let mut drain = kubectl.follow("drain n1 --force --timeout=30s");
    let mut pods = kubectl.follow("get pod web -w --output-watch-events");
    // The agent's part: the pod is seen to terminate, and then deleted for good.
    while !pods.next().contains("Terminating") {}
    kubectl.run("delete pod web --grace-period=0 --force");
    while drain.next() != "node/n1 drained" {}
}
