//! Deployments as people drive them, on `lifesign up`.

use serde_json::Value;

use crate::{Kubectl, On};

/// Makes a Deployment of this many servers.
fn deploy_web(kubectl: &Kubectl, replicas: usize) {
    let (image, command) = kubectl.web_server();
    kubectl.run(&format!("create deployment web --image={image} -- {command}"));
    assert!(status(kubectl).contains("successfully rolled out"));
    assert!(kubectl.run(&format!("scale deployment/web --replicas={replicas}")).contains("scaled"));
    status(kubectl);
}

fn status(kubectl: &Kubectl) -> String {
    kubectl.run("rollout status deployment/web --timeout=120s")
}

fn web(kubectl: &Kubectl) -> Value {
    serde_json::from_str(&kubectl.run("get deployment web -o json")).unwrap()
}

fn revision(deployment: &Value) -> &Value {
    &deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
}

pub(crate) fn a_deployment_is_changed_rolled_back_paused_and_exposed(on: On) {
    let kubectl = Kubectl::whole(on);
    deploy_web(&kubectl, 3);
    kubectl.run("wait --for=condition=Available deployment/web --timeout=120s");
    assert!(kubectl.run("get deployment web").contains("3/3"));

    kubectl.run("set env deployment/web COLOR=blue");
    status(&kubectl);
    kubectl.run("rollout restart deployment/web");
    status(&kubectl);
    let history = kubectl.run("rollout history deployment/web");
    let revisions: Vec<&str> = history.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(revisions, ["1", "2", "3"], "{history}");
    assert!(kubectl.run("rollout undo deployment/web --to-revision=1").contains("rolled back"));
    status(&kubectl);
    let first = web(&kubectl);
    assert_eq!(first["spec"]["template"]["spec"]["containers"][0].get("env"), None, "{first:#}");
    assert_eq!(revision(&first), "4");

    kubectl.run("rollout pause deployment/web");
    kubectl.run("set env deployment/web COLOR=red");
    kubectl.run("wait deployment/web --timeout=120s --for=jsonpath={.status.conditions[?(@.type==\"Progressing\")].reason}=DeploymentPaused");
    kubectl.run(&format!(
        "wait deployment/web --timeout=120s --for=jsonpath={{.status.observedGeneration}}={}",
        web(&kubectl)["metadata"]["generation"]
    ));
    assert_eq!(revision(&web(&kubectl)), "4", "nothing is rolled out");
    kubectl.run("rollout resume deployment/web");
    status(&kubectl);
    assert!(kubectl.run("expose deployment/web --port=80 --target-port=8080").contains("exposed"));
    assert!(kubectl.run("describe deployment web").contains("ScalingReplicaSet"), "events are told");
    kubectl.run("delete deployment web --timeout=120s");
}

pub(crate) fn a_drain_goes_on_when_the_budget_allows_it(on: On) {
    // It takes the node away from everybody.
    let kubectl = Kubectl::alone(on);
    deploy_web(&kubectl, 2);
    // The pods of this test, of all that are on the node.
    kubectl.run(&format!(
        "patch deployment web -p {{\"spec\":{{\"template\":{{\"metadata\":{{\"labels\":{{\"of\":\"{}\"}}}}}}}}}}",
        kubectl.namespace()
    ));
    status(&kubectl);
    kubectl.run("create poddisruptionbudget web --selector=app=web --min-available=1");
    kubectl.run("wait pdb/web --timeout=120s --for=jsonpath={.status.currentHealthy}=2");
    let node = kubectl.run("get nodes -o jsonpath={.items[0].metadata.name}");
    let drain = format!("drain {node} --pod-selector=of={}", kubectl.namespace());
    // The node takes no more pods: the one that replaces the first waits, so the second may not go.
    let refused = kubectl.refused(&format!("{drain} --timeout=2s"));
    assert!(refused.contains("would violate the pod's disruption budget"), "{refused}");
    kubectl.run("wait pdb/web --timeout=120s --for=jsonpath={.status.disruptionsAllowed}=0");
    let running = || kubectl.run("get pods --field-selector=status.phase=Running -o name").lines().count();
    assert_eq!(running(), 1);
    let mut drain = kubectl.follow(&format!("{drain} --timeout=120s"));
    while !drain.next().starts_with(&format!("evicting pod {}/web-", kubectl.namespace())) {}
    kubectl.run("patch pdb web --type=merge -p {\"spec\":{\"minAvailable\":0}}");
    while drain.next() != format!("node/{node} drained") {}
    assert_eq!(running(), 0);
}
