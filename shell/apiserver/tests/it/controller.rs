//! A kube-rs `Controller`: every ConfigMap gets a Secret that it owns and that follows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::{Api, Client, Resource, ResourceExt};

use crate::clients::{configmap, configs, set, value};
use crate::plane::{PATIENCE, Plane, in_process};

async fn reconcile(source: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let secrets: Api<Secret> = Api::default_namespaced(client.as_ref().clone());
    let wanted = Secret {
        metadata: ObjectMeta {
            name: Some(source.name_any()),
            owner_references: source.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), ByteString(value(&source).to_string().into_bytes()))])),
        ..Secret::default()
    };
    match secrets.get_opt(&source.name_any()).await? {
        None => drop(secrets.create(&PostParams::default(), &wanted).await?),
        Some(found) if found.data != wanted.data => {
            let mut next = wanted;
            next.metadata.resource_version = found.metadata.resource_version;
            secrets.replace(&source.name_any(), &PostParams::default(), &next).await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

async fn a_controller_makes_the_world_follow(client: Client) {
    for (how, config) in configs() {
        let sources: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        let running = Controller::new(sources.clone(), config.clone())
            .owns(secrets.clone(), config)
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(5)), Arc::new(client.clone()))
            .for_each(|_| async {});
        let running = tokio::spawn(running);
        sources.create(&PostParams::default(), &configmap("one", 1)).await.unwrap();
        sources.create(&PostParams::default(), &configmap("two", 2)).await.unwrap();
        until_secrets(&secrets, how, &[("one", "1"), ("two", "2")]).await;
        set(&sources, "one", 10).await;
        secrets.delete("two", &DeleteParams::default()).await.unwrap();
        until_secrets(&secrets, how, &[("one", "10"), ("two", "2")]).await;
        // The collector does the rest.
        sources.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        until_secrets(&secrets, how, &[]).await;
        running.abort();
        let _ = running.await;
    }
}

async fn until_secrets(secrets: &Api<Secret>, how: &str, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let wait = async {
        loop {
            let list = secrets.list(&ListParams::default()).await.unwrap();
            let text = |secret: &Secret| {
                let value = secret.data.as_ref().and_then(|data| data.get("value"));
                value.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
            };
            if list.iter().map(|secret| (secret.name_any(), text(secret))).collect::<BTreeMap<_, _>>() == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{how}: never {expected:?}"));
}

#[tokio::test]
async fn a_controller_in_process_makes_the_world_follow() {
    let (_server, client) = in_process().await;
    a_controller_makes_the_world_follow(client).await;
}

#[tokio::test]
async fn a_controller_over_tls_makes_the_world_follow() {
    let plane = Plane::start();
    a_controller_makes_the_world_follow(plane.client().await).await;
}
