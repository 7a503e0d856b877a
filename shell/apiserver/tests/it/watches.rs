//! The bounds of watches and metrics, exactly: in process nothing but the server's own queue keeps events.

use std::time::Duration;

use apiserver::Server;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use registry::authz::Identity;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::Service;

use crate::plane::in_process;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(server: &Server, request: Request<Full<Bytes>>) -> apiserver::Reply {
    match server.service(Identity::internal("test")).call(request).await {
        Ok(reply) => reply,
        Err(never) => match never {},
    }
}

async fn metrics(server: &Server) -> String {
    let reply = send(server, Request::get("/metrics").body(Full::default()).unwrap()).await;
    String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn create(server: &Server, object: &Value) {
    let request = Request::post(CONFIGMAPS).header("content-type", "application/json");
    let reply = send(server, request.body(object.to_string().into()).unwrap()).await;
    assert_eq!(reply.status(), 201);
}

async fn watch(server: &Server) -> apiserver::Body {
    let request = Request::get(format!("{CONFIGMAPS}?watch=1&resourceVersion=1")).body(Full::default()).unwrap();
    send(server, request).await.into_body()
}

/// Reads a watch to its end and returns the names of what it showed.
async fn read_to_end(body: apiserver::Body) -> Vec<String> {
    let bytes = body.collect().await.unwrap().to_bytes();
    let event = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(event);
    lines.map(|event| event["object"]["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_watcher_that_does_not_read_keeps_a_thousand_events_and_no_more() {
    let (server, _) = in_process().await;
    let (slow, gone) = (watch(&server).await, watch(&server).await);
    drop(gone);
    for number in 0..1_100 {
        create(&server, &json!({"metadata": {"name": format!("c{number:04}")}})).await;
    }
    let names = read_to_end(slow).await;
    assert_eq!(names.len(), 1_000);
    assert_eq!((names[0].as_str(), names[999].as_str()), ("c0000", "c0999"), "the oldest, in order: the client resumes there");
    let text = metrics(&server).await;
    assert!(text.contains("lifesign_watch_overflows_total 1\n"), "a client that left is no overflow:\n{text}");
}

#[tokio::test]
async fn a_watcher_that_does_not_read_keeps_four_mebibytes_and_no_more() {
    let (server, _) = in_process().await;
    let slow = watch(&server).await;
    for number in 0..8 {
        let data = json!({"a": "x".repeat(900 << 10)});
        create(&server, &json!({"metadata": {"name": format!("c{number}")}, "data": data})).await;
    }
    assert_eq!(read_to_end(slow).await, ["c0", "c1", "c2", "c3"]);
}

/// Returns how many events came together next, and how long they were waited for.
async fn next_events(body: &mut apiserver::Body) -> (usize, Duration) {
    let begun = Instant::now();
    let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
    (bytes.iter().filter(|byte| **byte == b'\n').count(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn events_that_follow_soon_go_together_where_many_watch_and_at_once_where_few_do() {
    let (server, _) = in_process().await;
    let mut one = watch(&server).await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    for name in ["a", "b"] {
        create(&server, &named(name)).await;
        assert_eq!(next_events(&mut one).await, (1, Duration::ZERO), "nobody else watches");
    }
    let mut others = Vec::new();
    for _ in 0..49 {
        others.push(watch(&server).await);
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    create(&server, &named("c")).await;
    assert_eq!(next_events(&mut one).await, (1, Duration::ZERO), "the first after a pause");
    let begun = Instant::now();
    let (next, ()) = tokio::join!(next_events(&mut one), async {
        for name in ["d", "e", "f"] {
            create(&server, &named(name)).await;
        }
    });
    assert_eq!(next, (3, begun.elapsed()), "those after it together");
    assert!(next.1 >= Duration::from_millis(2) && next.1 <= Duration::from_millis(5), "{next:?}");
    drop(others);
    create(&server, &named("g")).await;
    assert_eq!(next_events(&mut one).await, (1, Duration::ZERO), "the others are gone");
}

#[tokio::test]
async fn paths_that_clients_invent_make_no_series() {
    let (server, _) = in_process().await;
    let series = |text: &str| text.lines().filter(|line| line.starts_with("apiserver_request_total")).count();
    let (mut before, methods) = (None, ["GET", "POST", "BREW"]);
    for number in 0..20 {
        for method in methods {
            let path = format!("/apis/group{number}/v{number}/namespaces/default/things/one/part{number}");
            let request = Request::builder().method(method).uri(path).body(Full::default()).unwrap();
            assert_eq!(send(&server, request).await.status(), 404);
            let known = format!("{CONFIGMAPS}/one/part{number}");
            send(&server, Request::builder().method(method).uri(known).body(Full::default()).unwrap()).await;
        }
        let count = series(&metrics(&server).await);
        // The first look at the metrics is itself counted by the second.
        if number > 1 {
            assert_eq!(before, Some(count));
        }
        before = Some(count);
    }
}
