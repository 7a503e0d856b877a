//! Deployments through the real binary: `kubectl` as on any cluster, real processes behind a Service.

use serde_json::{Value, json};

use crate::Up;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Returns whether all that a Deployment wants is there, by its own status.
fn is_rolled_out(deployment: &Value) -> bool {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let wanted = spec["replicas"].as_i64();
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| status[*field].as_i64() == wanted)
}

/// A Deployment of servers that are ready as soon as they listen, and gone as soon as they are asked.
fn web(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 3,
                    "containers": [{
                        "name": "server", "image": "local", "command": ["lifesign", "serve", "--port", "8080"],
                        "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1, "periodMilliseconds": -800},
                    }],
                },
            },
        },
    })
}

impl Up {
    fn create_deployment(&self, deployment: &Value) -> Value {
        let (code, answer) = self.call("POST", DEPLOYMENTS, deployment);
        assert_eq!(code, 201, "{answer}");
        self.wait_for(DEPLOYMENTS, "web", "rolled out", is_rolled_out)
    }

    fn items(&self, collection: &str) -> Vec<Value> {
        self.get(collection)["items"].as_array().cloned().unwrap_or_default()
    }
}

#[test]
fn a_deployment_rolls_from_one_template_to_the_next_and_back() {
    let up = Up::start();
    up.create_deployment(&web(3));
    let before: Vec<Value> = up.items(PODS).iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    let env = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    let (code, answer) = up.call("PATCH", &format!("{DEPLOYMENTS}/web"), &env);
    assert_eq!(code, 200, "{answer}");
    let rolled = up.wait_for(DEPLOYMENTS, "web", "rolled out", |deployment| {
        is_rolled_out(deployment) && deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    });
    let progressing = crate::condition(&rolled, "Progressing").expect("a condition");
    assert_eq!((&progressing["status"], &progressing["reason"]), (&json!("True"), &json!("NewReplicaSetAvailable")));
    let running = up.items(PODS).into_iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none());
    let after: Vec<Value> = running.map(|pod| pod["metadata"]["uid"].clone()).collect();
    assert!(after.len() == 3 && after.iter().all(|uid| !before.contains(uid)), "{before:?} {after:?}");
    assert_eq!(up.items(SETS).len(), 2);
    up.call("DELETE", &format!("{DEPLOYMENTS}/web"), &json!({"propagationPolicy": "Background"}));
    up.wait_gone(DEPLOYMENTS, "web");
    for pod in up.items(PODS) {
        up.wait_gone(PODS, pod["metadata"]["name"].as_str().expect("a name"));
    }
    assert_eq!(up.items(SETS), Vec::<Value>::new());
}

#[test]
fn a_rolling_update_of_ten_pods_loses_no_request() {
    // With LIFESIGN_ROLL_PLAIN as it was before probe-on-listen: docs/benchmarks.md has both.
    let plain = std::env::var_os("LIFESIGN_ROLL_PLAIN").is_some();
    let up = if plain { Up::start_with(&["--feature-gates=ProbeOnListen=false"]) } else { Up::start() };
    let address = up.create_service("web");
    let mut deployment = web(10);
    deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"port": 8080}, "periodSeconds": 1});
    up.create_deployment(&deployment);
    let ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
    up.wait_for_slice("web", "complete", |all| all.iter().filter(|endpoint| ready(endpoint)).count() == 10);
    let began = std::time::Instant::now();
    let (sent, failed) = testkit::load::while_done(address, || {
        let note = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
        assert_eq!(up.call("PATCH", &format!("{DEPLOYMENTS}/web"), &note).0, 200);
        up.wait_for(DEPLOYMENTS, "web", "rolled out", |deployment| {
            is_rolled_out(deployment) && deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        });
    });
    eprintln!("rolled 10 pods in {:?} under {sent} requests", began.elapsed());
    assert_eq!(failed, 0, "of {sent}");
}

#[test]
fn an_eviction_respects_the_budget_and_a_taint_does_not() {
    let up = Up::start();
    up.create_deployment(&web(2));
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    assert_eq!(up.call("POST", BUDGETS, &budget).0, 201);
    up.wait_for(BUDGETS, "web", "counted", |budget| {
        budget["status"]["disruptionsAllowed"] == 1 && budget["status"]["currentHealthy"] == 2
    });
    // The node takes no pods, so the evicted one stays unreplaced and the budget is used up.
    let node = up.get("/api/v1/nodes")["items"][0]["metadata"]["name"].as_str().expect("a node").to_owned();
    let (code, answer) = up.call("PATCH", &format!("/api/v1/nodes/{node}"), &json!({"spec": {"unschedulable": true}}));
    assert_eq!(code, 200, "{answer}");
    let pods: Vec<String> =
        up.items(PODS).iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect();
    let evict = |pod: &str| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}});
        up.call("POST", &format!("{PODS}/{pod}/eviction"), &eviction)
    };
    assert_eq!(evict(&pods[0]).0, 201);
    let (code, refused) = evict(&pods[1]);
    assert_eq!((code, &refused["reason"]), (429, &json!("TooManyRequests")), "{refused}");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget", "{refused}");
    up.wait_gone(PODS, &pods[0]);
    up.wait_for(BUDGETS, "web", "used up", |budget| {
        budget["status"]["currentHealthy"] == 1 && budget["status"]["disruptionsAllowed"] == 0
    });
    let (code, refused) = evict(&pods[1]);
    let why = "The disruption budget web needs 1 healthy pods and has 1 currently";
    assert_eq!((code, &refused["details"]["causes"][0]["message"]), (429, &json!(why)), "{refused}");
    // A taint is not an eviction through the API: it takes the pod whatever the budget says.
    let taint = json!({"spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}});
    assert_eq!(up.call("PATCH", &format!("/api/v1/nodes/{node}"), &taint).0, 200);
    up.wait_gone(PODS, &pods[1]);
}

#[test]
fn what_a_process_cannot_have_is_told_in_the_answer_and_in_an_event() {
    let up = Up::start();
    let mut pod = crate::server("odd", &[]);
    pod["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080, "hostPort": 18080}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let answer = up.runtime.block_on(up.client.call_with("POST", PODS, &[("content-type", "application/json")], &pod));
    let answer = answer.expect("an answer");
    assert_eq!(answer.code, 201);
    let warnings: Vec<String> =
        answer.headers.get_all("warning").iter().map(|text| text.to_str().expect("a text").to_owned()).collect();
    let warned = |field: &str| warnings.iter().any(|warning| warning.contains(field));
    assert!(warned("spec.containers[0].ports[0].hostPort") && warned("$LIFESIGN_VOLUMES/data"), "{warnings:?}");
    up.wait_ready("odd");
    let events = "/api/v1/namespaces/default/events?watch=true&fieldSelector=involvedObject.name%3Dodd";
    let found = up.patiently(up.follow(events, |_, event| {
        event["type"] == "Warning" && event["message"].as_str().is_some_and(|text| text.contains("hostPort"))
    }));
    assert!(found.is_some(), "an event tells it too; log:\n{}", up.plane.log());
}
