//! A watcher lives through restarts of the server: it goes on where it was, without a new list, each change once.

use std::pin::pin;

use futures::{FutureExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use crate::clients::{configmap, configs, set, value};
use crate::plane::{PATIENCE, Plane, not_started};
use registry::authz::Identity;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// Retries a write until it is acknowledged; it is the same however often it is done.
async fn set_through(api: &Api<ConfigMap>, number: u64) {
    let change = serde_json::json!({"data": {"value": number.to_string()}});
    let patch = kube::api::Patch::Merge(change);
    let write = async { while api.patch("counter", &kube::api::PatchParams::default(), &patch).await.is_err() {} };
    tokio::time::timeout(PATIENCE, write).await.expect("the server comes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_goes_on_after_a_restart_without_loss_or_repetition() {
    for (how, config) in configs() {
        for kill in [false, true] {
            let mut plane = Plane::start();
            let api: Api<ConfigMap> = Api::default_namespaced(plane.client().await);
            api.create(&PostParams::default(), &configmap("counter", 0)).await.unwrap();
            let (seen, mut events) = tokio::sync::mpsc::unbounded_channel();
            let (watched, config) = (api.clone(), config.clone());
            let watching = tokio::spawn(async move {
                let mut stream = pin!(watcher(watched, config).default_backoff());
                loop {
                    let word = match stream.try_next().await {
                        Ok(Some(Event::Init)) => "init".to_owned(),
                        Ok(Some(Event::InitApply(object) | Event::Apply(object))) => value(&object).to_string(),
                        Ok(Some(Event::InitDone)) => "done".to_owned(),
                        Ok(Some(Event::Delete(object))) => format!("-{}", object.name_any()),
                        Ok(None) => return,
                        Err(_) => continue, // it says that it lost the server, and tries again
                    };
                    if seen.send(word).is_err() {
                        return;
                    }
                }
            });
            // It has its list before anything changes; what follows are changes alone.
            for word in ["init", "0", "done"] {
                let next = tokio::time::timeout(PATIENCE, events.recv()).await.expect("the first list comes");
                assert_eq!(next.as_deref(), Some(word), "{how}, kill {kill}");
            }
            let mut expected = Vec::new();
            let mut number = 0;
            for _ in 0..3 {
                for _ in 0..5 {
                    number += 1;
                    set_through(&api, number).await;
                    expected.push(number.to_string());
                }
                let returned = tokio::task::spawn_blocking(move || {
                    plane.restart(kill);
                    plane
                });
                plane = returned.await.unwrap();
                // Written before the watcher is back: it must come from the history.
                number += 1;
                set_through(&api, number).await;
                expected.push(number.to_string());
            }
            let mut got = Vec::new();
            while got.len() < expected.len() {
                let word = tokio::time::timeout(PATIENCE, events.recv()).await;
                got.push(word.unwrap_or_else(|_| panic!("{how}, kill {kill}: only {got:?}")).expect("it goes on"));
            }
            assert_eq!(got, expected, "{how}, kill {kill}");
            set(&api, "counter", 1_000).await;
            let next = tokio::time::timeout(PATIENCE, events.recv()).await.expect("in time");
            assert_eq!(next, Some("1000".to_owned()), "{how}, kill {kill}: nothing was repeated");
            watching.abort();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_list_are_of_one_moment_also_across_a_restart() {
    let mut plane = Plane::start();
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client().await);
    for number in 0..6 {
        api.create(&PostParams::default(), &configmap(&format!("c{number}"), 1)).await.unwrap();
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    set(&api, "c4", 2).await;
    api.create(&PostParams::default(), &configmap("c9", 1)).await.unwrap();
    let plane = tokio::task::spawn_blocking(move || {
        plane.restart(true);
        plane
    });
    let plane = plane.await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(plane.client().await);
    let token = first.metadata.continue_.clone().unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<(String, u64)> = rest.iter().map(|object| (object.name_any(), value(object))).collect();
    assert_eq!(names, [("c2".to_owned(), 1), ("c3".to_owned(), 1), ("c4".to_owned(), 1), ("c5".to_owned(), 1)]);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
}

#[tokio::test]
async fn a_server_is_ready_before_a_namespace_that_goes_is_empty() {
    let (server, client) = not_started();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let large = Namespace {
        metadata: kube::api::ObjectMeta { name: Some("large".into()), ..Default::default() },
        ..Default::default()
    };
    namespaces.create(&PostParams::default(), &large).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client, "large");
    for number in 0..100 {
        api.create(&PostParams::default(), &configmap(&format!("c{number}"), 1)).await.unwrap();
    }
    namespaces.delete("large", &kube::api::DeleteParams::default()).await.unwrap();
    server.start(&[], CancellationToken::new()).await.unwrap();
    // There is one thread: what the server does while it serves has not begun before this waits for anything.
    let request = http::Request::get("/api/v1/namespaces/large/configmaps/c99").body(kube::client::Body::empty()).unwrap();
    let answer =
        server.service(Identity::internal("test")).call(request).now_or_never().expect("a read waits for nothing").unwrap();
    assert_eq!(answer.status(), 200, "nobody has waited until it is gone");
    let gone = async {
        while namespaces.get_opt("large").await.unwrap().is_some() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the namespace goes");
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}
