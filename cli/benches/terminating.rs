//! How long does an EndpointSlice lag behind a pod that is deleted?
//!
//! The real binary runs pods of one Service. Each is deleted in turn; this client watches pods and slices over two connections
//! and takes its own clock for both. `terminating`: from the moment the DELETE is sent to the slice that says so. `gone`: from
//! the DELETED event of the pod to the slice without it. Run with `cargo bench -p lifesign --bench terminating -- PODS`.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// When something was first seen, by pod and what.
type Seen = Arc<Mutex<BTreeMap<(String, &'static str), Instant>>>;

fn main() {
    let pods = std::env::args().find_map(|text| text.parse::<usize>().ok()).unwrap_or(30);
    let plane = {
        let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
        plane.start().unwrap();
        plane
    };
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(measure(&plane, pods));
}

async fn measure(plane: &Plane, count: usize) {
    let client = || Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let seen = Seen::default();
    tokio::spawn(watch(client(), PODS, Arc::clone(&seen), see_pod));
    tokio::spawn(watch(client(), SLICES, Arc::clone(&seen), see_slice));
    let admin = client();
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080}]}});
    assert_eq!(admin.call("POST", "/api/v1/namespaces/default/services", &service).await.unwrap().code, 201);
    let names: Vec<String> = (0..count).map(|index| format!("web-{index}")).collect();
    for name in &names {
        let container = json!({
            "name": "web", "image": "none", "command": ["lifesign", "serve", "--port", "8080", "--drain", "300ms"],
            "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1, "periodMilliseconds": -800},
        });
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [container]}});
        assert_eq!(admin.call("POST", PODS, &pod).await.unwrap().code, 201);
    }
    for name in &names {
        wait(&seen, name, "ready").await;
    }
    let mut sent = BTreeMap::new();
    for name in &names {
        sent.insert(name.clone(), Instant::now());
        assert_eq!(admin.call("DELETE", &format!("{PODS}/{name}"), &Value::Null).await.unwrap().code, 200);
        wait(&seen, name, "gone from the slice").await;
        wait(&seen, name, "gone").await;
    }
    let seen = seen.lock().unwrap();
    let at = |name: &String, what| seen[&(name.clone(), what)];
    let terminating = names.iter().map(|name| at(name, "terminating") - sent[name]).collect();
    let gone = names.iter().map(|name| at(name, "gone from the slice").saturating_duration_since(at(name, "gone"))).collect();
    report("terminating", terminating);
    report("gone", gone);
}

fn report(what: &str, mut spans: Vec<Duration>) {
    spans.sort();
    let at = |share: usize| spans[(spans.len() * share / 100).min(spans.len() - 1)].as_secs_f64() * 1e3;
    println!("{what:>12}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms, {} pods", at(50), at(99), at(100), spans.len());
}

async fn wait(seen: &Seen, name: &str, what: &'static str) {
    let key = (name.to_owned(), what);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !seen.lock().unwrap().contains_key(&key) {
        assert!(Instant::now() < deadline, "{name} is never {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn note(seen: &Seen, name: &str, what: &'static str) {
    seen.lock().unwrap().entry((name.to_owned(), what)).or_insert_with(Instant::now);
}

fn see_pod(seen: &Seen, type_: &str, pod: &Value) {
    if type_ == "DELETED" {
        note(seen, pod["metadata"]["name"].as_str().unwrap(), "gone");
    }
}

fn see_slice(seen: &Seen, _: &str, slice: &Value) {
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    let mut there = Vec::new();
    for endpoint in &endpoints {
        let Some(name) = endpoint["targetRef"]["name"].as_str() else { continue };
        there.push(name.to_owned());
        if endpoint["conditions"]["ready"] == true {
            note(seen, name, "ready");
        }
        if endpoint["conditions"]["terminating"] == true {
            note(seen, name, "terminating");
        }
    }
    let known: Vec<String> =
        seen.lock().unwrap().keys().filter(|(_, what)| *what == "ready").map(|(name, _)| name.clone()).collect();
    for name in known.iter().filter(|name| !there.contains(name)) {
        note(seen, name, "gone from the slice");
    }
}

/// Follows a collection for ever.
async fn watch(client: Client, path: &str, seen: Seen, see: fn(&Seen, &str, &Value)) {
    let request = http::Request::get(format!("{path}?watch=true")).body(Full::new(Bytes::new())).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    let mut buffer = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(frame.data_ref().unwrap());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            see(&seen, event["type"].as_str().unwrap_or_default(), &event["object"]);
        }
    }
}
