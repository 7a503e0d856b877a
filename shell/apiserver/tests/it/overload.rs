//! Clients that send without end, ask without reading, or connect without asking: they use up their own share.

use std::io::ErrorKind;
use std::time::Duration;

use apiserver::Role;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::plane::{PATIENCE, Plane};
use crate::raw::{Raw, Sent};

/// The most requests of one identity, as the server has it.
const REQUESTS_OF_ONE: usize = 400;
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{what} takes for ever"))
}

fn empty() -> Sent {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync()
}

fn endless() -> Sent {
    let chunks = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some((Ok(Frame::data(Bytes::from_static(&[b'x'; 16 << 10]))), ()))
    });
    StreamBody::new(chunks).boxed_unsync()
}

fn get(path: &str) -> Request<Sent> {
    Request::get(format!("https://localhost{path}")).body(empty()).unwrap()
}

#[tokio::test]
async fn open_routes_are_answered_without_a_look_at_the_body() {
    let plane = Plane::start();
    let stranger = Raw::connect(plane.address(), None).await;
    for (path, code) in [("/version", 200), ("/livez", 200), ("/readyz", 200), ("/healthz", 200), (CONFIGMAPS, 401)] {
        for method in [Method::GET, Method::POST] {
            let uri = format!("https://localhost{path}");
            let request = Request::builder().method(method.clone()).uri(uri).body(endless()).unwrap();
            let answer = in_time("a body that nobody reads", stranger.open(request)).await.unwrap();
            assert_eq!(answer.status(), code, "{method} {path}");
        }
    }
    // Who may not write is told before his body is read.
    let viewer = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Viewer))).await;
    let request = Request::post(format!("https://localhost{CONFIGMAPS}")).body(endless()).unwrap();
    assert_eq!(in_time("a body that is in vain", viewer.open(request)).await.unwrap().status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_so_that_its_sender_sees_it() {
    let plane = Plane::start();
    let admin = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Admin))).await;
    for length in [3 << 20, 5 << 20, 20 << 20] {
        let text = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(length)}}).to_string();
        let type_ = [("content-type", "application/json")];
        let (code, text) = in_time("a large body", admin.send(Method::POST, CONFIGMAPS, &type_, &text)).await;
        assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
        assert!(text.contains("RequestEntityTooLarge"), "{text}");
    }
    let request = Request::post(format!("https://localhost{CONFIGMAPS}")).body(endless()).unwrap();
    assert_eq!(in_time("an endless body", admin.open(request)).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(admin.send(Method::GET, "/livez", &[], "").await.1, "ok", "the connection goes on");
}

#[tokio::test]
async fn who_does_not_read_its_answers_uses_up_its_own_share() {
    let plane = Plane::start();
    let admin = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Admin))).await;
    for n in 0..20 {
        admin.create(CONFIGMAPS, &json!({"metadata": {"name": format!("c{n}")}, "data": {"k": "x".repeat(500_000)}})).await;
    }
    let viewer = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Viewer))).await;
    let mut unread = Vec::new();
    let refused = in_time("the limit", async {
        loop {
            let answer = viewer.open(get(CONFIGMAPS)).await.unwrap();
            if answer.status() != StatusCode::OK {
                return answer;
            }
            unread.push(answer);
        }
    })
    .await;
    assert_eq!((refused.status(), unread.len()), (StatusCode::TOO_MANY_REQUESTS, REQUESTS_OF_ONE));
    assert!(refused.headers().contains_key("retry-after"));
    // Everybody else goes on, and the same identity may still ask for health; on this connection nothing fits any more.
    let viewer = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Viewer))).await;
    assert_eq!(admin.send(Method::GET, "/api/v1/namespaces/default/configmaps/c0", &[], "").await.0, StatusCode::OK);
    assert_eq!(viewer.send(Method::GET, "/livez", &[], "").await.1, "ok");
    // Answers that are given up make room.
    drop(unread);
    let (_, text) = in_time("room again", async {
        loop {
            let (code, text) = viewer.send(Method::GET, CONFIGMAPS, &[], "").await;
            if code == StatusCode::OK {
                return (code, text);
            }
        }
    })
    .await;
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(20), "and a list that is read is whole");
}

#[tokio::test]
async fn an_administrator_gets_in_however_many_strangers_there_are() {
    let plane = Plane::start();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(files / 8).unwrap_or(usize::MAX).min(500);
    let mut strangers = Vec::new();
    for _ in 0..most + 50 {
        strangers.push(TcpStream::connect(plane.address()).await.unwrap());
    }
    let admin = in_time("the handshake", Raw::connect(plane.address(), Some(&plane.credentials(&Role::Admin)))).await;
    assert_eq!(in_time("the answer", admin.send(Method::GET, "/api/v1/nodes", &[], "")).await.0, StatusCode::OK);
    // Those that were there longest had to go, and only those.
    let mut byte = [0];
    for stranger in &mut strangers[..50] {
        let read = in_time("the end of an old connection", stranger.read(&mut byte)).await;
        assert!(matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    }
    let newest = strangers.last().unwrap();
    assert_eq!(newest.try_read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
}
