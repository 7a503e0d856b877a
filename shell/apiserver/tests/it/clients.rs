//! kube-rs `watcher` and `reflector`, with lists and with streaming lists, in process and over TLS.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher as watch};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::plane::{PATIENCE, Plane, in_process};

pub(crate) fn configmap(name: &str, value: u64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_string())])),
        ..ConfigMap::default()
    }
}

pub(crate) fn value(object: &ConfigMap) -> u64 {
    object.data.as_ref().and_then(|data| data.get("value")?.parse().ok()).unwrap_or(0)
}

pub(crate) async fn set(api: &Api<ConfigMap>, name: &str, value: u64) {
    let change = json!({"data": {"value": value.to_string()}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

/// Both ways to begin.
pub(crate) fn configs() -> [(&'static str, watcher::Config); 2] {
    [("list", watcher::Config::default()), ("streaming list", watcher::Config::default().streaming_lists())]
}

/// Waits for the next event and writes it as a word.
pub(crate) async fn next(events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin)) -> String {
    let event = tokio::time::timeout(PATIENCE, events.try_next()).await.expect("an event in time").unwrap();
    match event.expect("a watcher never ends") {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("has {}={}", object.name_any(), value(&object)),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("{}={}", object.name_any(), value(&object)),
        Event::Delete(object) => format!("-{}", object.name_any()),
    }
}

async fn a_watcher_sees_the_present_and_every_change(client: Client) {
    for (how, config) in configs() {
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        api.create(&PostParams::default(), &configmap("b", 1)).await.unwrap();
        api.create(&PostParams::default(), &configmap("a", 1)).await.unwrap();
        let mut events = pin!(watch(api.clone(), config));
        for expected in ["init", "has a=1", "has b=1", "done"] {
            assert_eq!(next(&mut events).await, expected, "{how}");
        }
        set(&api, "a", 2).await;
        set(&api, "a", 2).await; // changes nothing, so nobody hears of it
        api.delete("b", &DeleteParams::default()).await.unwrap();
        api.create(&PostParams::default(), &configmap("c", 7)).await.unwrap();
        for expected in ["a=2", "-b", "c=7"] {
            assert_eq!(next(&mut events).await, expected, "{how}");
        }
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        for expected in ["-a", "-c"] {
            assert_eq!(next(&mut events).await, expected, "{how}");
        }
    }
}

#[tokio::test]
async fn a_watcher_in_process_sees_the_present_and_every_change() {
    let (_server, client) = in_process().await;
    a_watcher_sees_the_present_and_every_change(client).await;
}

#[tokio::test]
async fn a_watcher_over_tls_sees_the_present_and_every_change() {
    let plane = Plane::start();
    a_watcher_sees_the_present_and_every_change(plane.client().await).await;
}

#[tokio::test]
async fn a_watcher_reads_long_lists_page_by_page() {
    let (_server, client) = in_process().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for number in 0..25 {
        api.create(&PostParams::default(), &configmap(&format!("c{number:02}"), number)).await.unwrap();
    }
    let mut events = pin!(watch(api.clone(), watcher::Config::default().page_size(10)));
    assert_eq!(next(&mut events).await, "init");
    for number in 0..25 {
        assert_eq!(next(&mut events).await, format!("has c{number:02}={number}"));
    }
    assert_eq!(next(&mut events).await, "done");
}

#[tokio::test]
async fn a_selecting_watcher_sees_objects_come_and_go() {
    let (_server, client) = in_process().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    api.create(&PostParams::default(), &configmap("a", 1)).await.unwrap();
    for (how, config) in configs() {
        let mut events = pin!(watch(api.clone(), config.labels("tier=gold")));
        assert_eq!((next(&mut events).await, next(&mut events).await), ("init".into(), "done".into()), "{how}");
        let label = |tier: Option<&str>| json!({"metadata": {"labels": {"tier": tier}}});
        api.patch("a", &PatchParams::default(), &Patch::Merge(label(Some("gold")))).await.unwrap();
        assert_eq!(next(&mut events).await, "a=1", "{how}");
        api.patch("a", &PatchParams::default(), &Patch::Merge(label(None))).await.unwrap();
        assert_eq!(next(&mut events).await, "-a", "{how}");
    }
}

#[tokio::test]
async fn a_reflector_mirrors_the_server() {
    let plane = Plane::start();
    for (how, config) in configs() {
        let api: Api<ConfigMap> = Api::default_namespaced(plane.client().await);
        api.create(&PostParams::default(), &configmap("a", 1)).await.unwrap();
        let (reader, writer) = reflector::store();
        let stream = reflector(writer, watch(api.clone(), config)).default_backoff().touched_objects();
        let mirroring = tokio::spawn(stream.for_each(|_| async {}));
        tokio::time::timeout(PATIENCE, reader.wait_until_ready()).await.expect("in time").unwrap();
        for number in 0..20 {
            let name = format!("c{}", number % 7);
            if api.create(&PostParams::default(), &configmap(&name, number)).await.is_err() {
                if number % 3 == 0 {
                    api.delete(&name, &DeleteParams::default()).await.unwrap();
                } else {
                    set(&api, &name, number).await;
                }
            }
        }
        api.create(&PostParams::default(), &configmap("last", 1)).await.unwrap();
        let mirror = |objects: Vec<ConfigMap>| -> BTreeMap<String, (u64, Option<String>)> {
            objects.into_iter().map(|object| (object.name_any(), (value(&object), object.resource_version()))).collect()
        };
        let expected = mirror(api.list(&ListParams::default()).await.unwrap().items);
        let level = async {
            while !reader.state().iter().any(|object| object.name_any() == "last") {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, level).await.expect("the last change arrives");
        assert_eq!(mirror(reader.state().iter().map(|object| (**object).clone()).collect()), expected, "{how}");
        mirroring.abort();
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    }
}
