//! Bounds: bodies, headers, watches per client, and watchers that do not keep up.

use bytes::Bytes;
use http_body_util::Full;
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::streams::{Next, Watch};
use crate::{LIFESIGN, PATIENCE};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_body_above_three_mebibytes_is_refused() {
    let plane = Plane::started(LIFESIGN);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = Client::new(&plane.kubeconfig(), protocol).unwrap();
        let body = Bytes::from(vec![b' '; (3 << 20) + 1]);
        let request = http::Request::post(CONFIGMAPS).header("content-type", "application/json");
        let answer = client.send(request.body(Full::new(body)).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 413, "{protocol:?}");
        let largest = json!({"metadata": {"generateName": "big-"}, "data": {"a": "x".repeat(900 << 10)}});
        assert_eq!(client.call("POST", CONFIGMAPS, &largest).await.unwrap().code, 201, "{protocol:?}: what is below goes");
    }
}

#[tokio::test]
async fn headers_above_the_limit_are_refused() {
    let plane = Plane::started(LIFESIGN);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = Client::new(&plane.kubeconfig(), protocol).unwrap();
        let large = "x".repeat(70 << 10);
        let request = http::Request::get("/version").header("x-large", large);
        let code = client.send(request.body(Full::default()).unwrap()).await.map(|answer| answer.status().as_u16());
        assert_eq!(code, Ok(431), "{protocol:?}");
        let usual = client.call_with("GET", "/version", &[("x-usual", &"x".repeat(8 << 10))], &Value::Null).await.unwrap();
        assert_eq!(usual.code, 200, "{protocol:?}");
    }
}

#[tokio::test]
async fn one_client_may_have_a_thousand_watches() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let path = format!("{CONFIGMAPS}?watch=1");
    let mut watches = Vec::new();
    for _ in 0..1_000 {
        watches.push(Watch::open(&client, &path).await);
    }
    assert_eq!(Watch::try_open(&client, &path).await.err(), Some(429));
    assert_eq!(client.call("GET", CONFIGMAPS, &Value::Null).await.unwrap().code, 200, "other requests are not concerned");
    let role = plane.folder().join("viewer");
    std::fs::write(&role, plane.command("kubeconfig").args(["--role", "viewer"]).output().unwrap().stdout).unwrap();
    let other = Client::new(&role, Protocol::Http2).unwrap();
    Watch::open(&other, &path).await;
    drop(watches.pop());
    // The place is free as soon as the server has seen the stream go.
    let again = async { while Watch::try_open(&client, &path).await.is_err() {} };
    tokio::time::timeout(PATIENCE, again).await.expect("the place becomes free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_read_is_cut_off() {
    let plane = Plane::started(LIFESIGN);
    let kubeconfig = plane.kubeconfig();
    let client = |protocol| Client::new(&kubeconfig, protocol).unwrap();
    let (slow_client, quick_client, writer) = (client(Protocol::Http2), client(Protocol::Http2), client(Protocol::Http2));
    let mut slow = Watch::open(&slow_client, &format!("{CONFIGMAPS}?watch=1")).await;
    let mut quick = Watch::open(&quick_client, &format!("{CONFIGMAPS}?watch=1")).await;
    let object = json!({"metadata": {"generateName": "large-"}, "data": {"a": "x".repeat(200 << 10)}});
    let count = 80;
    for _ in 0..count {
        assert_eq!(writer.call("POST", CONFIGMAPS, &object).await.unwrap().code, 201, "writers never wait for watchers");
        assert_eq!(quick.event().await.0, "ADDED");
    }
    assert!(metrics(&writer).await.contains("lifesign_watch_overflows_total 1\n"));
    let mut seen = 0;
    let end = loop {
        match slow.next().await {
            Next::Event(_) => seen += 1,
            end => break end,
        }
    };
    assert_eq!(end, Next::End, "it ends as any watch ends, so the client resumes");
    assert!(seen < count, "it was cut off after {seen}");
    // 4 MiB wait in the server, the rest is in the windows and buffers of the connection.
    assert!(slow.received < 10 << 20, "{} bytes were kept for it", slow.received);
}

async fn metrics(client: &Client) -> String {
    String::from_utf8_lossy(&client.call("GET", "/metrics", &Value::Null).await.unwrap().body).into_owned()
}
