//! `taint`, `cordon`, `drain`.

use crate::{Kubectl, On};

pub(crate) fn a_node_is_tainted_and_cordoned(on: On) {
    let kubectl = Kubectl::start(on);
    let n1 = kubectl.ready_node("n1");
    let taints = || kubectl.run(&format!("get node {n1} -o jsonpath={{.spec.taints[*].key}}"));
    // A controller has the taint of a new node removed, once it has seen the condition. Where there is none, the test does it.
    if kubectl.plane().is_some() {
        kubectl.run(&format!("taint node {n1} node.kubernetes.io/not-ready:NoSchedule-"));
    }
    let deadline = std::time::Instant::now() + crate::PATIENCE;
    while taints() != "test" {
        assert!(std::time::Instant::now() < deadline, "{}", taints());
    }
    kubectl.run(&format!("taint node {n1} test-"));
    assert_eq!(taints(), "");
    kubectl.run(&format!("taint node {n1} use=games:NoSchedule"));
    kubectl.run(&format!("taint node {n1} use=chess:NoSchedule --overwrite"));
    assert_eq!(
        kubectl.run(&format!("get node {n1} -o jsonpath={{.spec.taints}}")),
        r#"[{"effect":"NoSchedule","key":"use","value":"chess"}]"#
    );
    kubectl.run(&format!("taint node {n1} use-"));
    assert_eq!(taints(), "");
    kubectl.run(&format!("cordon {n1}"));
    // A controller taints it, not the server.
    assert!(kubectl.plane().is_none() || taints().is_empty());
    insta::assert_snapshot!(kubectl.table(&format!("get node {n1}")), @"
    NAME | STATUS | ROLES | AGE | VERSION
    n1 | Ready,SchedulingDisabled | worker | AGE | v1.36.0
    ");
    kubectl.run(&format!("uncordon {n1}"));
    insta::assert_snapshot!(kubectl.table(&format!("get node {n1}")), @"
    NAME | STATUS | ROLES | AGE | VERSION
    n1 | Ready | worker | AGE | v1.36.0
    ");
}

pub(crate) fn drain_evicts_the_pods_of_a_node(on: On) {
    let kubectl = Kubectl::start(on);
    let n1 = kubectl.ready_node("n1");
    kubectl.running_pod("web", "n1");
    kubectl.running_pod("far", "n2");
    let refused = kubectl.refused(&format!("drain {n1}"));
    assert!(refused.contains("cannot delete Pods that declare no controller"), "{refused}");
    let output = kubectl.run(&format!("drain {n1} --force --grace-period=0 --timeout=120s"));
    assert!(output.contains("pod/web evicted") && output.ends_with(&format!("node/{n1} drained\n")), "{output}");
    assert_eq!(kubectl.run("get pods -o name"), "pod/far\n");
    assert_eq!(kubectl.run(&format!("get node {n1} -o jsonpath={{.spec.unschedulable}}")), "true");
}

pub(crate) fn drain_waits_for_pods_that_end_with_grace(on: On) {
    let kubectl = Kubectl::start(on);
    let n1 = kubectl.ready_node("n1");
    kubectl.running_pod("web", "n1");
    let mut drain = kubectl.follow(&format!("drain {n1} --force --timeout=120s"));
    let mut pods = kubectl.follow("get pod web -w --output-watch-events");
    // The agent's part: the pod is seen to terminate, and then deleted for good.
    while !pods.next().contains("Terminating") {}
    kubectl.run("delete pod web --grace-period=0 --force");
    while drain.next() != format!("node/{n1} drained") {}
}
