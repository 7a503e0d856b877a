//! Server-side apply as controllers written with kube-rs use it: `Patch::Apply` of typed objects, in process and over TLS.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::plane::{Plane, in_process};

/// Returns what a manager wants of the object.
fn wanted(data: &[(&str, &str)]) -> Value {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data})
}

/// Returns who has set what, by manager.
fn owners(object: &impl ResourceExt) -> BTreeMap<String, Value> {
    let entries = object.managed_fields().iter();
    entries.map(|entry| (entry.manager.clone().unwrap(), entry.fields_v1.clone().unwrap().0)).collect()
}

async fn two_controllers_share_an_object(client: Client) {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let apply = async |manager: &str, force: bool, data: &[(&str, &str)]| {
        let parameters = PatchParams { force, ..PatchParams::apply(manager) };
        api.patch("shared", &parameters, &Patch::Apply(wanted(data))).await
    };
    apply("one", false, &[("a", "1"), ("b", "1")]).await.unwrap();
    let both = apply("two", false, &[("b", "1"), ("c", "2")]).await.unwrap();
    let fields = |names: &[&str]| {
        let data: BTreeMap<String, Value> = names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        json!({ "f:data": data })
    };
    assert_eq!(
        owners(&both),
        BTreeMap::from([("one".to_owned(), fields(&["a", "b"])), ("two".to_owned(), fields(&["b", "c"]))])
    );

    let again = apply("two", false, &[("b", "1"), ("c", "2")]).await.unwrap();
    assert_eq!(again.resource_version(), both.resource_version(), "nothing new is not written");

    let kube::Error::Api(refused) = apply("two", false, &[("a", "2"), ("b", "1")]).await.unwrap_err() else {
        panic!("an answer of the server")
    };
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert!(refused.message.contains("conflict with \"one\": .data.a"), "{}", refused.message);

    let forced = apply("two", true, &[("a", "2"), ("b", "1")]).await.unwrap();
    let data = |object: &ConfigMap| object.data.clone().unwrap_or_default().into_iter().collect::<Vec<_>>();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(data(&forced), [pair("a", "2"), pair("b", "1")], "c is withdrawn");
    let left = apply("one", false, &[]).await.unwrap();
    assert_eq!(data(&left), [pair("a", "2"), pair("b", "1")], "what the other one owns as well stays");
    let gone = apply("two", false, &[]).await.unwrap();
    assert_eq!(data(&gone), []);

    // A typed object, its scale in other hands, and its status as a subresource.
    let api: Api<Deployment> = Api::default_namespaced(client);
    let container = json!({"name": "c", "image": "i:1"});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment: Deployment = serde_json::from_value(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}),
    )
    .unwrap();
    let made = api.patch("web", &PatchParams::apply("operator"), &Patch::Apply(&deployment)).await.unwrap();
    assert_eq!(made.spec.as_ref().and_then(|spec| spec.replicas), Some(1), "defaulted");
    assert!(owners(&made)["operator"]["f:spec"].get("f:replicas").is_none(), "a default has no owner");
    let scale = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}});
    api.patch("web", &PatchParams::apply("scaler"), &Patch::Apply(scale)).await.unwrap();
    let kept = api.patch("web", &PatchParams::apply("operator"), &Patch::Apply(&deployment)).await.unwrap();
    assert_eq!(kept.spec.and_then(|spec| spec.replicas), Some(3), "whoever says nothing of it takes nothing away");
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 3}});
    let warned = api.patch_status("web", &PatchParams::apply("status"), &Patch::Apply(status)).await.unwrap();
    let entry = warned.managed_fields().iter().find(|entry| entry.manager.as_deref() == Some("status")).unwrap();
    assert_eq!((entry.operation.as_deref(), entry.subresource.as_deref()), (Some("Apply"), Some("status")));
}

#[tokio::test]
async fn patch_apply_of_kube_works_in_process() {
    let (_server, client) = in_process().await;
    two_controllers_share_an_object(client).await;
}

#[tokio::test]
async fn patch_apply_of_kube_works_over_tls() {
    let plane = Plane::start();
    two_controllers_share_an_object(plane.client().await).await;
}
