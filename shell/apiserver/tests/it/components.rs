//! What components of Kubernetes find: the server's own Service and certificate, kinds that nobody here acts on, reviews.

use apiserver::Role;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::node_role::two_nodes;
use crate::plane::Plane;
use crate::raw::Raw;

const JSON: &str = "application/json";

fn stateful_set() -> Value {
    json!({"metadata": {"name": "db"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "serviceName": "db",
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    }})
}

#[tokio::test]
async fn kinds_that_nobody_acts_on_are_listed_and_refused() {
    let (_plane, admin, _) = two_nodes().await;
    for path in [
        "/apis/apps/v1/statefulsets",
        "/apis/storage.k8s.io/v1/csinodes",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/api/v1/replicationcontrollers",
        "/apis/autoscaling/v2/horizontalpodautoscalers",
    ] {
        let (code, text) = admin.send(Method::GET, path, &[], "").await;
        assert_eq!(code, StatusCode::OK, "{path}: {text}");
    }
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let (code, text) = admin.send(Method::POST, sets, &[("content-type", JSON)], &stateful_set().to_string()).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert!(text.contains("--external-controllers"), "{text}");
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}).to_string();
    let path = "/api/v1/namespaces/default/resourcequotas";
    let (code, text) = admin.send(Method::POST, path, &[("content-type", JSON)], &quota).await;
    assert!(code == StatusCode::FORBIDDEN && text.contains("does not enforce"), "{text}");
    let template = json!({"metadata": {"name": "t"}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let path = "/api/v1/namespaces/default/podtemplates";
    assert_eq!(admin.code(Method::POST, path, JSON, &template).await, StatusCode::CREATED, "it is only data");
}

#[tokio::test]
async fn reviews_answer_as_the_check_of_a_request_would() {
    let (_plane, admin, node) = two_nodes().await;
    let ask = |user: &str, group: &str, attributes: Value| {
        json!({"spec": {"user": user, "groups": [group], "resourceAttributes": attributes}}).to_string()
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let secret = json!({"verb": "get", "resource": "secrets", "namespace": "default", "name": "nobody-refers-to-it"});
    for (user, group, attributes, allowed) in [
        ("root", "system:masters", secret.clone(), true),
        ("system:node:n1", "system:nodes", secret.clone(), false),
        ("system:node:n1", "system:nodes", json!({"verb": "get", "resource": "nodes", "name": "n1"}), true),
        ("system:node:n1", "system:nodes", json!({"verb": "create", "resource": "nodes", "name": "n1"}), true),
        ("system:node:n1", "system:nodes", json!({"verb": "create", "resource": "nodes", "name": "n2"}), false),
        ("system:node:n1", "system:nodes", json!({"verb": "get", "resource": "pods"}), false),
        ("jane", "devs", json!({"verb": "get", "resource": "pods", "namespace": "default"}), false),
        ("c", "lifesign:controllers", json!({"verb": "*", "resource": "*", "group": "*"}), false),
        ("c", "lifesign:controllers", json!({"verb": "*", "resource": "pods"}), true),
        ("v", "lifesign:viewers", json!({"verb": "get", "resource": "*"}), false),
        ("root", "system:masters", json!({"verb": "*", "resource": "*", "group": "*"}), true),
    ] {
        let body = ask(user, group, attributes);
        let (code, text) = admin.send(Method::POST, path, &[("content-type", JSON)], &body).await;
        assert_eq!(code, StatusCode::CREATED, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"]["allowed"], allowed, "{user}: {text}");
    }
    let own = json!({"spec": {"resourceAttributes": secret}}).to_string();
    let own_path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (_, text) = node.send(Method::POST, own_path, &[("content-type", JSON)], &own).await;
    assert!(text.contains("\"allowed\":false"), "{text}");
    let nobody = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
    assert_eq!(
        admin.send(Method::POST, path, &[("content-type", JSON)], &nobody).await.0,
        StatusCode::UNPROCESSABLE_ENTITY,
        "about nobody"
    );
}

#[tokio::test]
async fn a_token_is_known_by_a_review() {
    let (plane, admin, _) = two_nodes().await;
    let ask_token = async |spec: Value| {
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let body = json!({"spec": spec}).to_string();
        let (code, text) = admin.send(Method::POST, path, &[("content-type", JSON)], &body).await;
        assert_eq!(code, StatusCode::CREATED, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["status"]["token"].as_str().unwrap().to_owned()
    };
    let token = ask_token(json!({})).await;
    let review = async |token: &str, audiences: Value| {
        let body = json!({"spec": {"token": token, "audiences": audiences}}).to_string();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (code, text) = admin.send(Method::POST, path, &[("content-type", JSON)], &body).await;
        assert_eq!(code, StatusCode::CREATED, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["status"].take()
    };
    let known = review(&token, json!([])).await;
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["user"]["username"], "system:serviceaccount:default:default");
    let id = known["user"]["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(id.starts_with("JTI="), "{known}");
    assert_eq!(review("nonsense", json!([])).await["authenticated"], false);
    assert_eq!(review(&token, json!(["vault"])).await["authenticated"], false, "it is for the API server");
    let vault = ask_token(json!({"audiences": ["vault", "bank"]})).await;
    assert_eq!(review(&vault, json!([])).await["authenticated"], false, "it is not for the API server");
    let known = review(&vault, json!(["bank", "shop"])).await;
    assert_eq!((&known["authenticated"], &known["audiences"]), (&json!(true), &json!(["bank"])), "{known}");
    let own = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let stranger = Raw::connect(plane.address(), None).await;
    let with = async |token: &str| {
        let bearer = format!("Bearer {token}");
        stranger.send(Method::POST, own, &[("content-type", JSON), ("authorization", &bearer)], "{}").await.0
    };
    assert_eq!((with(&token).await, with(&vault).await), (StatusCode::CREATED, StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn paths_are_served_to_those_to_whom_a_review_promises_them() {
    let (_plane, admin, _) = two_nodes().await;
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (group, served) in
        [("system:masters", 7), ("lifesign:controllers", 6), ("lifesign:viewers", 6), ("system:nodes", 4), ("devs", 4)]
    {
        let somebody = [("impersonate-user", "somebody"), ("impersonate-group", group), ("content-type", JSON)];
        let mut count = 0;
        for path in ["/api", "/apis/apps/v1", "/openapi/v3", "/version", "/metrics", "/configz", "/debug/backup"] {
            let (code, text) = admin.send(Method::GET, path, &somebody, "").await;
            assert!(matches!(code, StatusCode::OK | StatusCode::FORBIDDEN), "{group} {path}: {code} {text}");
            let ask = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": path}}}).to_string();
            let (_, answer) = admin.send(Method::POST, review, &somebody, &ask).await;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["status"]["allowed"], code == StatusCode::OK, "{group} {path}");
            count += usize::from(code == StatusCode::OK);
        }
        assert_eq!(count, served, "{group}");
        let unknown = admin.send(Method::GET, "/apifoo", &somebody, "").await.0;
        let expected = if group == "system:masters" { StatusCode::NOT_FOUND } else { StatusCode::FORBIDDEN };
        assert_eq!(unknown, expected, "{group}");
    }
}

#[tokio::test]
async fn a_pod_has_the_priority_of_its_class() {
    let plane = Plane::with_external_controllers();
    let admin = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Admin))).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    admin.create(classes, &json!({"metadata": {"name": "polite"}, "value": 7, "preemptionPolicy": "Never"})).await;
    let create = async |name: &str, class: &str| {
        let spec = json!({"priorityClassName": class, "containers": [{"name": "c", "image": "i:1"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec}).to_string();
        admin.send(Method::POST, "/api/v1/namespaces/default/pods", &[("content-type", JSON)], &pod).await
    };
    for (name, class, priority, policy) in [
        ("a", "polite", 7, "Never"),
        ("b", "system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        ("c", "", 0, "PreemptLowerPriority"),
    ] {
        let (code, text) = create(name, class).await;
        assert_eq!(code, StatusCode::CREATED, "{text}");
        let pod: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]), (&json!(priority), &json!(policy)), "{name}");
    }
    let (code, text) = create("d", "missing").await;
    assert!(code == StatusCode::FORBIDDEN && text.contains("no PriorityClass with name missing was found"), "{text}");
    let (code, text) = admin.send(Method::GET, &format!("{classes}/system-cluster-critical"), &[], "").await;
    assert!(code == StatusCode::OK && text.contains("2000000000"), "{text}");
    let reserved = json!({"metadata": {"name": "system-mine"}, "value": 1});
    assert_eq!(admin.code(Method::POST, classes, JSON, &reserved).await, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_node_gets_tokens_for_its_own_pods_alone() {
    let (_plane, _, node) = two_nodes().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let body = json!({"spec": {}}).to_string();
    assert_eq!(node.send(Method::POST, path, &[("content-type", JSON)], &body).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn version_2_of_openapi_has_every_kind() {
    let (_plane, admin, _) = two_nodes().await;
    let (code, text) = admin.send(Method::GET, "/openapi/v2", &[], "").await;
    assert_eq!(code, StatusCode::OK);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["swagger"], "2.0");
    for name in
        ["io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.StatefulSet", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"]
    {
        assert!(document["definitions"].get(name).is_some(), "{name}");
    }
}
