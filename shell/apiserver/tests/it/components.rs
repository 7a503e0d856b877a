//! What components of Kubernetes find: the server's own Service and certificate, kinds that nobody here acts on, reviews.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::node_role::two_nodes;

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
        ("jane", "devs", json!({"verb": "get", "resource": "pods", "namespace": "default"}), false),
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
    let (_plane, admin, _) = two_nodes().await;
    let request = json!({"spec": {}}).to_string();
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, text) = admin.send(Method::POST, path, &[("content-type", JSON)], &request).await;
    assert_eq!(code, StatusCode::CREATED, "{text}");
    let token = serde_json::from_str::<Value>(&text).unwrap()["status"]["token"].as_str().unwrap().to_owned();
    let review = async |token: &str| {
        let body = json!({"spec": {"token": token}}).to_string();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (code, text) = admin.send(Method::POST, path, &[("content-type", JSON)], &body).await;
        assert_eq!(code, StatusCode::CREATED, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["status"].take()
    };
    let known = review(&token).await;
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["user"]["username"], "system:serviceaccount:default:default");
    assert_eq!(review("nonsense").await["authenticated"], false);
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
