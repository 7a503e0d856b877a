//! An informer against a server of a few lines, on a paused clock.

use std::collections::VecDeque;
use std::time::Duration;

use api::Pod;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::Body;

/// What the server answers to a request, in turn.
enum Reply {
    Status(u16, Value),
    /// Lines of a watch, after which it stays open or ends.
    Lines(Vec<Value>, bool),
}

/// The requests of an informer, and what they are answered with.
#[derive(Clone, Default)]
struct Server {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<(tokio::time::Instant, String)>>>,
}

impl Server {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Server {
        Server { replies: Arc::new(Mutex::new(replies.into_iter().collect())), ..Server::default() }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let asked = (tokio::time::Instant::now(), request.uri().to_string());
                server.requests.lock().unwrap().push(asked);
                let reply = server.replies.lock().unwrap().pop_front();
                let (code, body) = match reply {
                    Some(Reply::Status(code, body)) => {
                        (code, Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync())
                    }
                    Some(Reply::Lines(lines, open)) => {
                        // What happens later is told later: by then the followers have taken what was listed.
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                        // Cut at odd places, as a connection does.
                        let parts: Vec<Bytes> = text.into_bytes().chunks(37).map(Bytes::copy_from_slice).collect();
                        let parts = futures::stream::iter(
                            parts.into_iter().map(|part| Ok::<_, std::io::Error>(hyper::body::Frame::data(part))),
                        );
                        let end: futures::stream::BoxStream<'static, _> =
                            if open { Box::pin(futures::stream::pending()) } else { Box::pin(futures::stream::empty()) };
                        (200, http_body_util::StreamBody::new(futures::StreamExt::chain(parts, end)).boxed_unsync())
                    }
                    None => return std::future::pending().await,
                };
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service)
    }

    fn asked(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(_, uri)| uri.clone()).collect()
    }
}

fn pod(name: &str, uid: &str, version: u64, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "d", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"nodeName": node, "unknown": {"kept": true}, "containers": []},
    })
}

fn list(version: u64, next: &str, items: &[Value]) -> Reply {
    Reply::Status(200, json!({"metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": items}))
}

fn event(type_: &str, object: Value) -> Value {
    json!({"type": type_, "object": object})
}

async fn take(events: &mut Events<Pod>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let shown = |object: &Obj<Pod>| format!("{}@{}", object.metadata.uid, object.metadata.resource_version);
        let Ok(seen) = tokio::time::timeout(Duration::from_secs(600), events.next()).await else {
            all.push("nothing".to_owned());
            return all;
        };
        all.push(match seen {
            WatchEvent::ListBegins => "begins".to_owned(),
            WatchEvent::Synced => "synced".to_owned(),
            WatchEvent::Applied(object) => format!("+{}", shown(&object)),
            WatchEvent::Deleted(object) => format!("-{}", shown(&object)),
        });
    }
    all
}

#[tokio::test(start_paused = true)]
async fn everything_is_told_to_all_and_parsed_once() {
    let server = Server::new([
        list(5, "more", &[pod("a", "ua", 1, "n")]),
        list(5, "", &[pod("b", "ub", 2, "m")]),
        Reply::Lines(vec![event("MODIFIED", pod("a", "ua", 6, "n")), event("DELETED", pod("b", "ub", 9, "m"))], true),
    ]);
    let mut registry = prometheus_client::registry::Registry::default();
    let informers = Informers::whole::<Pod>(server.client(), Metrics::register(&mut registry));
    let mut all = informers.follow::<Pod>();
    let mut some = informers.follow_where::<Pod>("spec.nodeName=n".to_owned(), |pod| pod.spec.node_name == "n");
    assert_eq!(take(&mut all, 6).await, ["begins", "+ua@1", "+ub@2", "synced", "+ua@6", "-ub@9"]);
    // This one was behind, so of `a` it is told the latest state alone.
    assert_eq!(take(&mut some, 3).await, ["begins", "+ua@6", "synced"]);
    let mut late = informers.follow::<Pod>();
    assert_eq!(take(&mut late, 3).await, ["begins", "+ua@6", "synced"]);
    assert_eq!(server.asked().len(), 3, "{:?}", server.asked());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("lifesign_informer_events_total{kind=\"Pod\"} 4"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_text_is_kept_for_those_who_ask_and_unknown_fields_with_it() {
    let replies = || [list(5, "", &[pod("a", "ua", 1, "n")])];
    let mut with = Informers::new(Server::new(replies()).client(), Metrics::default()).with_text::<Pod>().follow::<Pod>();
    let mut without = Informers::new(Server::new(replies()).client(), Metrics::default()).follow::<Pod>();
    for (events, kept) in [(&mut with, json!(true)), (&mut without, Value::Null)] {
        let object = loop {
            if let WatchEvent::Applied(object) = events.next().await {
                break object;
            }
        };
        assert_eq!(object.json()["spec"]["unknown"]["kept"], kept);
    }
}

#[tokio::test(start_paused = true)]
async fn what_vanished_or_was_replaced_while_nobody_watched_is_told_as_deleted() {
    let expired = event("ERROR", json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}));
    let server = Server::new([
        list(5, "", &[pod("a", "ua", 1, "n"), pod("b", "ub", 2, "n"), pod("c", "uc", 3, "n")]),
        Reply::Lines(vec![expired], true),
        list(20, "", &[pod("a", "ua", 1, "n"), pod("b", "new", 15, "n")]),
        Reply::Lines(vec![event("ADDED", pod("d", "ud", 21, "n"))], true),
    ]);
    let mut events = Informers::new(server.client(), Metrics::default()).follow::<Pod>();
    assert_eq!(take(&mut events, 5).await, ["begins", "+ua@1", "+ub@2", "+uc@3", "synced"]);
    let after = take(&mut events, 7).await;
    assert_eq!(after, ["begins", "+ua@1", "-ub@2", "+new@15", "-uc@3", "synced", "+ud@21"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_ended() {
    let server = Server::new([
        list(5, "", &[]),
        Reply::Lines(vec![event("ADDED", pod("a", "ua", 6, "n"))], false),
        Reply::Status(500, json!({"code": 500, "reason": "InternalError", "message": "broken"})),
        Reply::Lines(vec![event("BOOKMARK", json!({"kind": "Pod", "metadata": {"resourceVersion": "90"}}))], false),
        Reply::Lines(vec![event("DELETED", pod("a", "ua", 91, "n"))], true),
    ]);
    let mut events =
        Informers::new(server.client(), Metrics::default()).follow_in::<Pod>(Scope::fields("spec.nodeName=n".into()));
    assert_eq!(take(&mut events, 4).await, ["begins", "synced", "+ua@6", "-ua@91"]);
    let asked = server.asked();
    assert_eq!(asked[0], "/api/v1/pods?limit=500&fieldSelector=spec.nodeName%3Dn");
    let since: Vec<&str> = asked[1..].iter().map(|uri| uri.split("resourceVersion=").nth(1).unwrap()).collect();
    let since: Vec<&str> = since.iter().map(|rest| rest.split('&').next().unwrap()).collect();
    assert_eq!(since, ["5", "6", "6", "90"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_missing_is_asked_for_less_and_less_often_and_found_when_it_appears() {
    let missing = || Reply::Status(404, json!({"code": 404, "reason": "NotFound", "message": "the server could not find it"}));
    let server = Server::new((0..9).map(|_| missing()).chain([list(5, "", &[pod("a", "ua", 1, "n")])]));
    let mut events = Informers::new(server.client(), Metrics::default()).follow::<Pod>();
    assert_eq!(take(&mut events, 3).await, ["begins", "+ua@1", "synced"]);
    let times: Vec<tokio::time::Instant> = server.requests.lock().unwrap().iter().map(|(at, _)| *at).collect();
    let waits: Vec<Duration> = times.windows(2).take(9).map(|pair| pair[1] - pair[0]).collect();
    let millis: Vec<u128> = waits.iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_left_out_and_the_others_are_told() {
    let broken =
        json!({"metadata": {"name": "x", "namespace": "d", "uid": "ux", "resourceVersion": "7"}, "spec": {"nodeName": 5}});
    let server = Server::new([
        list(5, "", &[broken.clone(), pod("a", "ua", 1, "n")]),
        Reply::Lines(vec![event("MODIFIED", broken)], false),
        Reply::Lines(vec![event("MODIFIED", pod("a", "ua", 8, "n"))], true),
    ]);
    let mut events = Informers::new(server.client(), Metrics::default()).follow::<Pod>();
    assert_eq!(take(&mut events, 4).await, ["begins", "+ua@1", "synced", "+ua@8"]);
    assert!(server.asked()[2].contains("resourceVersion=7"), "{:?}", server.asked());
}

#[tokio::test(start_paused = true)]
async fn an_informer_ends_with_its_last_follower() {
    let server = Server::new([list(5, "", &[]), Reply::Lines(vec![], true), list(6, "", &[]), Reply::Lines(vec![], true)]);
    let informers = Informers::new(server.client(), Metrics::default());
    let mut first = informers.follow::<Pod>();
    take(&mut first, 2).await;
    drop(first);
    let mut second = informers.follow::<Pod>();
    assert_eq!(take(&mut second, 2).await, ["begins", "synced"]);
    assert!(server.asked().iter().filter(|uri| uri.contains("limit=")).count() == 2, "{:?}", server.asked());
}
