//! What holds for stored objects whatever the way they came: their size, the life of their definition, their addresses.

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::plane::{PATIENCE, in_process};

/// The largest object that is stored.
const OBJECT_MAX: usize = 3 << 19;

/// Asks and returns the code and the answer.
async fn call(client: &Client, method: &str, path: &str, type_: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", type_);
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let answer = client.send(request.body(bytes.into()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn json_call(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    call(client, method, path, "application/json", body).await
}

fn deployment(environment: &str) -> Value {
    let labels = json!({"app": "a"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": environment}]}],
        }}},
    })
}

#[tokio::test]
async fn an_object_above_the_limit_is_refused_whatever_the_way() {
    let (_server, client) = in_process().await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let one = "/apis/apps/v1/namespaces/default/deployments/a";
    let half = "x".repeat(OBJECT_MAX / 2);
    let whole = "x".repeat(OBJECT_MAX);
    assert_eq!(json_call(&client, "POST", all, &deployment(&whole)).await.0, 413);
    assert_eq!(json_call(&client, "POST", &format!("{all}?dryRun=All"), &deployment(&whole)).await.0, 413);
    assert_eq!(json_call(&client, "POST", all, &deployment(&half)).await.0, 201);
    assert_eq!(json_call(&client, "PUT", one, &deployment(&whole)).await.0, 413);
    // Each of these is far below the limit itself; what they make of the object is not.
    let more = json!([{"name": "F", "value": half}]);
    let spec = |env: &Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}}});
    let both = json!([{"name": "E", "value": half}, {"name": "F", "value": half}]);
    let environment = "/spec/template/spec/containers/0/env";
    let copied = json!([{"op": "copy", "from": format!("{environment}/0"), "path": format!("{environment}/-")}]);
    for (type_, patch) in [
        ("application/strategic-merge-patch+json", &spec(&more)),
        ("application/merge-patch+json", &spec(&both)),
        ("application/json-patch+json", &copied),
    ] {
        let (code, answer) = call(&client, "PATCH", one, type_, patch).await;
        assert_eq!((code, &answer["reason"]), (413, &json!("RequestEntityTooLarge")), "{type_}");
        assert!(answer["message"].as_str().unwrap().contains("1572864 bytes"), "{}", answer["message"]);
        assert_eq!(call(&client, "PATCH", &format!("{one}?dryRun=All"), type_, patch).await.0, 413, "{type_}, dry run");
    }
    let condition = json!({"status": {"conditions": [{"type": "X", "status": "True", "message": whole}]}});
    let status = format!("{one}/status");
    assert_eq!(call(&client, "PATCH", &status, "application/merge-patch+json", &condition).await.0, 413);
    let (_, stored) = json_call(&client, "GET", one, &Value::Null).await;
    assert_eq!(stored["metadata"]["generation"], 1, "nothing of it was stored");
    assert_eq!(json_call(&client, "DELETE", one, &Value::Null).await.0, 200);
}

fn gadgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.x.test"},
        "spec": {
            "group": "x.test", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn gadget(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "x.test/v1", "kind": "Gadget", "metadata": {"name": name, "finalizers": finalizers}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.x.test";
const GADGETS: &str = "/apis/x.test/v1/namespaces/default/gadgets";

/// Asks until the answer is as it should be.
async fn eventually(client: &Client, path: &str, what: &str, right: impl Fn(u16, &Value) -> bool) -> Value {
    let asking = async {
        loop {
            let (code, answer) = json_call(client, "GET", path, &Value::Null).await;
            if right(code, &answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{what}"))
}

async fn define(client: &Client) {
    assert_eq!(json_call(client, "POST", DEFINITIONS, &gadgets()).await.0, 201);
    eventually(client, GADGETS, "the definition is served", |code, _| code == 200).await;
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects_first() {
    let (_server, client) = in_process().await;
    define(&client).await;
    for number in 0..100 {
        assert_eq!(json_call(&client, "POST", GADGETS, &gadget(&format!("g{number}"), &[])).await.0, 201);
    }
    assert_eq!(json_call(&client, "POST", GADGETS, &gadget("held", &["x.test/hold"])).await.0, 201);
    let (code, marked) = json_call(&client, "DELETE", DEFINITION, &Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let list = eventually(&client, GADGETS, "all but one go", |code, list| {
        code == 200 && list["items"].as_array().is_some_and(|items| items.len() == 1)
    });
    assert_eq!(list.await["items"][0]["metadata"]["name"], "held");
    eventually(&client, DEFINITION, "the definition says what it waits for", |_, definition| {
        let conditions = definition["status"]["conditions"].as_array().unwrap();
        let terminating = conditions.iter().find(|condition| condition["type"] == "Terminating").unwrap();
        terminating["status"] == "True"
            && terminating["message"]
                .as_str()
                .unwrap()
                .contains("1 objects wait for their finalizers: default/held [x.test/hold]")
    })
    .await;
    let (code, answer) = json_call(&client, "POST", GADGETS, &gadget("late", &[])).await;
    assert_eq!((code, &answer["message"]), (405, &json!("create not allowed while custom resource definition is terminating")));
    let freed = json!({"metadata": {"finalizers": null}});
    let held = format!("{GADGETS}/held");
    assert_eq!(call(&client, "PATCH", &held, "application/merge-patch+json", &freed).await.0, 200);
    eventually(&client, DEFINITION, "the definition goes", |code, _| code == 404).await;
    define(&client).await;
    let (_, list) = json_call(&client, "GET", GADGETS, &Value::Null).await;
    assert_eq!(list["items"], json!([]), "nothing comes back with the next definition of that name");
}

#[tokio::test]
async fn objects_of_a_version_that_is_not_served_any_more_go_with_their_definition() {
    let (_server, client) = in_process().await;
    define(&client).await;
    assert_eq!(json_call(&client, "POST", GADGETS, &gadget("a", &[])).await.0, 201);
    let unserved = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
    assert_eq!(call(&client, "PATCH", DEFINITION, "application/json-patch+json", &unserved).await.0, 200);
    eventually(&client, GADGETS, "the version is not served", |code, _| code == 404).await;
    assert_eq!(json_call(&client, "DELETE", DEFINITION, &Value::Null).await.0, 200);
    eventually(&client, DEFINITION, "the definition goes", |code, _| code == 404).await;
    define(&client).await;
    let (_, list) = json_call(&client, "GET", GADGETS, &Value::Null).await;
    assert_eq!(list["items"], json!([]));
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": spec});
    if service["spec"].get("ports").is_none() {
        service["spec"]["ports"] = json!([{"port": 80}]);
    }
    service
}

#[tokio::test]
async fn an_address_or_port_of_another_or_out_of_range_is_refused() {
    let (_server, client) = in_process().await;
    for outside in ["127.0.0.1", "0.0.0.0", "8.8.8.8", "127.96.0.0", "127.96.0.255"] {
        let (code, answer) = json_call(&client, "POST", SERVICES, &service("a", json!({"clusterIP": outside}))).await;
        assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{outside}");
        assert_eq!(answer["details"]["causes"][0]["field"], "spec.clusterIPs", "{outside}");
    }
    let wanted = service("a", json!({"clusterIP": "127.96.0.9"}));
    let (code, dry) = json_call(&client, "POST", &format!("{SERVICES}?dryRun=All"), &service("a", json!({}))).await;
    assert_eq!((code, &dry["spec"]["clusterIP"]), (201, &json!("127.96.0.1")), "a dry run shows what it would get");
    assert_eq!(json_call(&client, "POST", SERVICES, &wanted).await.0, 201);
    let (code, answer) = json_call(&client, "POST", SERVICES, &service("b", json!({"clusterIP": "127.96.0.9"}))).await;
    assert_eq!(code, 422);
    assert!(answer["message"].as_str().unwrap().contains("provided IP is already allocated"), "{}", answer["message"]);
    let port = |number: i64| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]});
    assert_eq!(json_call(&client, "POST", SERVICES, &service("n", port(30_500))).await.0, 201);
    let (code, answer) = json_call(&client, "POST", SERVICES, &service("b", port(30_500))).await;
    assert_eq!((code, &answer["details"]["causes"][0]["field"]), (422, &json!("spec.ports[0].nodePort")));
    assert_eq!(json_call(&client, "POST", SERVICES, &service("b", port(80))).await.0, 422);
    // The same through an update.
    assert_eq!(json_call(&client, "POST", SERVICES, &service("c", json!({}))).await.0, 201);
    let place = format!("{SERVICES}/c");
    let (code, answer) = call(&client, "PATCH", &place, "application/merge-patch+json", &json!({"spec": port(30_500)})).await;
    assert_eq!(code, 422, "{answer}");
    let grown = json!({"spec": {"type": "NodePort"}});
    let (code, changed) = call(&client, "PATCH", &place, "application/merge-patch+json", &grown).await;
    assert_eq!((code, &changed["spec"]["ports"][0]["nodePort"]), (200, &json!(30_000)), "another type gets what it needs");
    assert_eq!(json_call(&client, "DELETE", &format!("{SERVICES}/a"), &Value::Null).await.0, 200);
    assert_eq!(json_call(&client, "POST", SERVICES, &service("b", json!({"clusterIP": "127.96.0.9"}))).await.0, 201);
}

#[tokio::test]
async fn of_many_who_ask_for_one_address_at_once_one_gets_it() {
    let (_server, client) = in_process().await;
    let asking = (0..20).map(|number| {
        let client = client.clone();
        let explicit = service(&format!("e{number}"), json!({"clusterIP": "127.96.0.3"}));
        let any = service(&format!("a{number}"), json!({}));
        tokio::spawn(async move {
            let first = json_call(&client, "POST", SERVICES, &explicit).await.0;
            (first, json_call(&client, "POST", SERVICES, &any).await)
        })
    });
    let mut addresses = std::collections::BTreeSet::new();
    let mut explicit = Vec::new();
    for asked in futures::future::join_all(asking).await {
        let (first, (code, answer)) = asked.unwrap();
        explicit.push(first);
        assert_eq!(code, 201, "{answer}");
        assert!(addresses.insert(answer["spec"]["clusterIP"].to_string()), "{} twice", answer["spec"]["clusterIP"]);
    }
    explicit.sort_unstable();
    assert_eq!((explicit[0], &explicit[1..]), (201, &[422; 19][..]));
    assert!(!addresses.contains("\"127.96.0.3\""));
}

#[tokio::test]
async fn a_list_whose_state_is_gone_goes_on_with_the_present_one() {
    let (_server, client) = in_process().await;
    let all = "/api/v1/namespaces/default/podtemplates";
    let template = |name: &str, text: &str| {
        let spec = json!({"containers": [{"name": "c", "image": "i", "args": [text]}]});
        json!({"metadata": {"name": name}, "template": {"spec": spec}})
    };
    for name in ["a", "b", "d"] {
        assert_eq!(json_call(&client, "POST", all, &template(name, "")).await.0, 201);
    }
    let (_, first) = json_call(&client, "GET", &format!("{all}?limit=1"), &Value::Null).await;
    let next = |token: &Value| format!("{all}?limit=1&continue={}", token.as_str().unwrap().replace('=', "%3D"));
    let token = &first["metadata"]["continue"];
    assert_eq!(json_call(&client, "GET", &next(token), &Value::Null).await.0, 200);
    // More than all history that is kept.
    let large = "x".repeat(1 << 20);
    assert_eq!(json_call(&client, "POST", all, &template("c", "")).await.0, 201);
    for round in 0..80 {
        let text = format!("{round}{large}");
        assert_eq!(json_call(&client, "PUT", &format!("{all}/d"), &template("d", &text)).await.0, 200);
    }
    let (code, refused) = json_call(&client, "GET", &next(token), &Value::Null).await;
    assert_eq!((code, &refused["reason"]), (410, &json!("Expired")));
    let mut names = Vec::new();
    let (mut token, mut revisions) = (refused["metadata"]["continue"].clone(), Vec::new());
    while token.is_string() {
        let (code, page) = json_call(&client, "GET", &next(&token), &Value::Null).await;
        assert_eq!(code, 200, "{page}");
        names.push(page["items"][0]["metadata"]["name"].clone());
        revisions.push(page["metadata"]["resourceVersion"].clone());
        token = page["metadata"]["continue"].clone();
    }
    assert_eq!(names, ["b", "c", "d"]);
    // From there on the pages are of one state again, a later one.
    assert!(revisions[0] != first["metadata"]["resourceVersion"] && revisions.iter().all(|one| *one == revisions[0]));
}
