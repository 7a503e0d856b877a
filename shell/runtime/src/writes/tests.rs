//! What is sent, and what answers mean.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::Body as HttpBody;
use http::{Request, Response};
use machine::Time;

/// What a server was sent.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    line: String,
    content_type: String,
    body: String,
}

/// Returns a writer to a server that gives these answers, one after the other, and what the server is sent.
fn writer(answers: Vec<(u16, Value)>) -> (Writer, Arc<Mutex<Vec<Sent>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (sent, next) = (Arc::clone(&seen), Arc::new(AtomicU32::new(0)));
    let service = tower::service_fn(move |request: Request<HttpBody>| {
        let (sent, next, answers) = (Arc::clone(&sent), Arc::clone(&next), answers.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
            sent.lock().unwrap().push(Sent {
                line: format!("{} {}", parts.method, parts.uri),
                content_type: parts.headers["content-type"].to_str().unwrap().to_owned(),
                body: String::from_utf8(body.to_vec()).unwrap(),
            });
            let (code, body) = answers[(next.fetch_add(1, Ordering::Relaxed) as usize).min(answers.len() - 1)].clone();
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(code).body(HttpBody::from(body.to_string().into_bytes())).unwrap(),
            )
        }
    });
    let clock = Clock::starting_at(Time::from_secs(1));
    (Writer::new(Client::new(service), clock, "lifesign-test", Metrics::default()), seen)
}

#[tokio::test(start_paused = true)]
async fn writes_go_to_their_place_in_the_name_of_their_manager() {
    let (writer, sent) = writer(vec![(200, json!({"metadata": {"name": "p"}}))]);
    let writes = [
        Write::to::<api::Pod>("ns", "p", Verb::Strategic(json!({"status": {}}))).status(),
        Write::to::<api::Lease>("ns", "l", Verb::Create(json!({"a": 1}).into())),
        Write { subresource: "binding", ..Write::to::<api::Pod>("ns", "p", Verb::Create(json!({}).into())) },
        Write::to::<api::EndpointSlice>("ns", "s", Verb::Update(Body::Encoded(Arc::new(b"{}".to_vec())))),
        Write::to::<api::Node>("", "n", Verb::Delete { uid: "u".into(), grace_seconds: Some(0) }),
    ];
    for write in &writes {
        writer.perform(write).await.unwrap();
    }
    let sent = sent.lock().unwrap();
    let lines: Vec<&str> = sent.iter().map(|sent| sent.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "PATCH /api/v1/namespaces/ns/pods/p/status?fieldManager=lifesign-test",
            "POST /apis/coordination.k8s.io/v1/namespaces/ns/leases?fieldManager=lifesign-test",
            "POST /api/v1/namespaces/ns/pods/p/binding?fieldManager=lifesign-test",
            "PUT /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/s?fieldManager=lifesign-test",
            "DELETE /api/v1/nodes/n",
        ]
    );
    assert_eq!(sent[0].content_type, "application/strategic-merge-patch+json");
    let deletion: Value = serde_json::from_str(&sent[4].body).unwrap();
    assert_eq!((&deletion["preconditions"]["uid"], &deletion["gracePeriodSeconds"]), (&json!("u"), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn every_refusal_has_one_meaning() {
    let cases = [
        (404, "NotFound", WriteError::NotFound),
        (409, "AlreadyExists", WriteError::AlreadyExists),
        (409, "Conflict", WriteError::Conflict),
        (401, "Unauthorized", WriteError::Denied),
        (403, "Forbidden", WriteError::Denied),
        (422, "Invalid", WriteError::Invalid),
        (400, "BadRequest", WriteError::Invalid),
        (500, "InternalError", WriteError::Failed),
        (503, "ServiceUnavailable", WriteError::Failed),
    ];
    for (code, reason, meaning) in cases {
        let (writer, _) = writer(vec![(code, json!({"kind": "Status", "code": code, "reason": reason, "message": "why"}))]);
        let failure = writer.perform(&Write::to::<api::Pod>("d", "p", Verb::Merge(json!({})))).await.unwrap_err();
        assert_eq!((failure.error, failure.message), (meaning, format!("why ({code} {reason})")));
    }
    let status = json!({"code": 403, "reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
    let (writer, _) = writer(vec![(403, status)]);
    let failure = writer.perform(&Write::to::<api::Pod>("d", "p", Verb::Merge(json!({})))).await.unwrap_err();
    assert_eq!(failure.error, WriteError::NamespaceTerminating);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says_so() {
    let busy = (429, json!({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 2}}));
    let begun = tokio::time::Instant::now();
    let (once, sent) = writer(vec![busy.clone(), (200, json!({}))]);
    let write = Write::to::<api::Pod>("d", "p", Verb::Merge(json!({})));
    once.perform(&write).await.unwrap();
    assert_eq!((sent.lock().unwrap().len(), begun.elapsed()), (2, Duration::from_secs(2)));
    let (always, sent) = writer(vec![busy]);
    assert_eq!(always.perform(&write).await.unwrap_err().error, WriteError::Failed);
    assert_eq!(sent.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_does_not_hold_anybody_up() {
    let service =
        tower::service_fn(|_: Request<HttpBody>| std::future::pending::<Result<Response<HttpBody>, std::io::Error>>());
    let clock = Clock::starting_at(Time::from_secs(1));
    let writer = Writer::new(Client::new(service), clock, "lifesign-test", Metrics::default());
    let begun = tokio::time::Instant::now();
    let write = Write::to::<api::Pod>("d", "p", Verb::Merge(json!({})));
    let failure = writer.perform(&write).await.unwrap_err();
    assert_eq!((failure.error, begun.elapsed()), (WriteError::Failed, TIMEOUT));
}

/// Waits until the server was sent so many requests, and returns them.
async fn all_sent(sent: &Mutex<Vec<Sent>>, count: usize) -> Vec<Sent> {
    for _ in 0..1_000 {
        if sent.lock().unwrap().len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    sent.lock().unwrap().clone()
}

const FORBIDDEN: u16 = 403;

fn forbidden() -> (u16, Value) {
    (FORBIDDEN, json!({"kind": "Status", "code": FORBIDDEN, "reason": "Forbidden", "message": "you may not"}))
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_becomes_an_event_of_the_object() {
    let found = (200, json!({"metadata": {"name": "p", "uid": "u1"}}));
    let made = (201, json!({}));
    let (writer, sent) = writer(vec![forbidden(), found.clone(), made.clone(), forbidden(), found, made]);
    let events = crate::EventWriter::start(writer.clone(), Clock::starting_at(Time::from_secs(1)), "test", "host");
    let write = Write::to::<api::Pod>("d", "p", Verb::Merge(json!({}))).status();
    assert_eq!(writer.perform(&write).await.unwrap_err().error, WriteError::Denied);
    let first = all_sent(&sent, 3).await;
    assert_eq!(first[1].line, "GET /api/v1/namespaces/d/pods/p");
    assert_eq!(first[2].line, "POST /api/v1/namespaces/d/events?fieldManager=lifesign-test");
    let event: Value = serde_json::from_str(&first[2].body).unwrap();
    assert_eq!(event["involvedObject"], json!({"apiVersion": "v1", "kind": "Pod", "namespace": "d", "name": "p", "uid": "u1"}));
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("WriteRefused")));
    assert_eq!(event["message"], "cannot patch Pod \"p\": you may not (403 Forbidden)");
    // The same again is counted, not written again.
    writer.perform(&write).await.unwrap_err();
    let second = all_sent(&sent, 6).await;
    assert!(second[5].line.starts_with("PATCH /api/v1/namespaces/d/events/p."), "{}", second[5].line);
    assert_eq!(serde_json::from_str::<Value>(&second[5].body).unwrap()["count"], 2);
    assert_eq!(events.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_creation_becomes_an_event_of_the_owner() {
    let (writer, sent) = writer(vec![forbidden(), (201, json!({}))]);
    let _events = crate::EventWriter::start(writer.clone(), Clock::starting_at(Time::from_secs(1)), "test", "host");
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u2", "controller": true});
    let pod = json!({"metadata": {"generateName": "r-", "ownerReferences": [owner]}});
    writer.perform(&Write::to::<api::Pod>("d", "", Verb::Create(pod.into()))).await.unwrap_err();
    let sent = all_sent(&sent, 2).await;
    let event: Value = serde_json::from_str(&sent[1].body).unwrap();
    let object = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "d", "name": "r", "uid": "u2"});
    assert_eq!((&event["involvedObject"], sent.len()), (&object, 2), "{event}");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_events_does_not_go_round_in_circles() {
    let (writer, sent) = writer(vec![forbidden(), (200, json!({"metadata": {"uid": "u"}})), forbidden()]);
    let events = crate::EventWriter::start(writer.clone(), Clock::starting_at(Time::from_secs(1)), "test", "host");
    writer.perform(&Write::to::<api::Node>("", "n", Verb::Merge(json!({})))).await.unwrap_err();
    assert_eq!(all_sent(&sent, 4).await.len(), 3, "the change, the object, one event");
    assert_eq!(events.dropped(), 1);
}
