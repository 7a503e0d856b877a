//! Who may ask an endpoint that others than this machine reach: the API of the cluster says whose a token is (TokenReview) and what its
//! owner may (SubjectAccessReview), as it does for the endpoint of a kubelet.
//!
//! Rights are those that a kubelet asks for: `nodes/metrics` for metrics, `nodes/proxy` for the rest, of this node. An answer holds for a
//! few seconds, so that a scraper costs no requests of its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use ring::digest::{SHA256, digest};
use runtime::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

/// An API that does not answer by then does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer holds; what was taken away from somebody is denied so much later.
const HOLDS: Duration = Duration::from_secs(10);
/// Answers that are kept; more tokens than that at once are strangers trying.
const KEPT: usize = 256;

/// Answers by the hash of a token and what is asked for, with when they came.
type Known = HashMap<(Vec<u8>, &'static str), (Instant, Verdict)>;

/// Asks the API who may.
pub(crate) struct Reviewer {
    client: Client,
    node: String,
    known: Mutex<Known>,
}

/// What became of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may be answered.
    Allowed,
    /// Nobody knows who asks.
    Unknown,
    /// Known, but without the right.
    Denied,
    /// The API does not say.
    Unanswered,
}

impl Verdict {
    /// Returns the answer to a request that may not be answered.
    pub(super) fn refusal(self) -> Option<(StatusCode, &'static str)> {
        match self {
            Verdict::Allowed => None,
            Verdict::Unknown => Some((StatusCode::UNAUTHORIZED, "a bearer token that the cluster knows is needed\n")),
            Verdict::Denied => {
                Some((StatusCode::FORBIDDEN, "get on nodes/metrics is needed for metrics, on nodes/proxy for the rest\n"))
            }
            Verdict::Unanswered => Some((StatusCode::SERVICE_UNAVAILABLE, "the API of the cluster does not say who may\n")),
        }
    }
}

impl Reviewer {
    pub(crate) fn new(client: Client, node: &str) -> Reviewer {
        Reviewer { client, node: node.to_owned(), known: Mutex::default() }
    }

    /// Returns whether whoever sent these headers may read what lies at a path.
    pub(super) async fn judge(&self, headers: &HeaderMap, path: &str) -> Verdict {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = given.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim) else {
            return Verdict::Unknown;
        };
        let wanted = if path == "/metrics" || path.starts_with("/metrics/") { "metrics" } else { "proxy" };
        let key = (digest(&SHA256, token.as_bytes()).as_ref().to_vec(), wanted);
        if let Some((at, verdict)) = self.known().get(&key)
            && at.elapsed() < HOLDS
        {
            return *verdict;
        }
        let verdict = self.ask(token, wanted).await;
        if verdict != Verdict::Unanswered {
            let mut known = self.known();
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(key, (Instant::now(), verdict));
        }
        verdict
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str, subresource: &str) -> Verdict {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let Some(answer) = self.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await else {
            return Verdict::Unanswered;
        };
        if answer["status"]["authenticated"] != true {
            return Verdict::Unknown;
        }
        let user = &answer["status"]["user"];
        let mut spec = json!({"user": user["username"], "resourceAttributes":
            {"verb": "get", "version": "v1", "resource": "nodes", "subresource": subresource, "name": self.node}});
        for member in ["uid", "groups", "extra"] {
            if !user[member].is_null() {
                spec[member] = user[member].clone();
            }
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        match self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await {
            None => Verdict::Unanswered,
            Some(answer) if answer["status"]["allowed"] == true => Verdict::Allowed,
            Some(_) => Verdict::Denied,
        }
    }

    async fn post(&self, path: &str, review: &Value) -> Option<Value> {
        match tokio::time::timeout(TIMEOUT, runtime::request(&self.client, Method::POST, path, review)).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                tracing::warn!(%error, path, "cannot find out who may ask this endpoint");
                None
            }
            Err(_) => {
                tracing::warn!(path, "cannot find out who may ask this endpoint in time");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use runtime::Body;

    /// An API that knows two tokens, one of which may read metrics; it counts what it is asked.
    fn reviewer(asked: &Arc<AtomicUsize>) -> Reviewer {
        let asked = Arc::clone(asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let spec = serde_json::from_slice::<Value>(&body).unwrap()["spec"].take();
                let answer = match path.rsplit('/').next().unwrap() {
                    "tokenreviews" => {
                        let known = ["good", "weak"].contains(&spec["token"].as_str().unwrap());
                        json!({"status": {"authenticated": known, "user": {"username": spec["token"], "groups": ["g"]}}})
                    }
                    _ => {
                        let asks = &spec["resourceAttributes"];
                        assert_eq!(
                            (&asks["name"], &asks["verb"], &spec["groups"]),
                            (&json!("n1"), &json!("get"), &json!(["g"]))
                        );
                        json!({"status": {"allowed": spec["user"] == "good" && asks["subresource"] == "metrics"}})
                    }
                };
                Ok::<_, Infallible>(Response::builder().status(201).body(Body::from(answer.to_string().into_bytes())).unwrap())
            }
        });
        Reviewer::new(Client::new(service), "n1")
    }

    fn with(token: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
    }

    #[tokio::test]
    async fn a_token_must_be_known_and_its_owner_have_the_right_of_the_path() {
        let asked = Arc::default();
        let reviewer = reviewer(&asked);
        assert_eq!(reviewer.judge(&HeaderMap::new(), "/metrics").await, Verdict::Unknown);
        assert_eq!(asked.load(Ordering::Relaxed), 0, "without a token nobody is asked");
        assert_eq!(reviewer.judge(&with("odd"), "/metrics").await, Verdict::Unknown);
        assert_eq!(reviewer.judge(&with("weak"), "/metrics").await, Verdict::Denied);
        assert_eq!(reviewer.judge(&with("good"), "/metrics/probes").await, Verdict::Allowed);
        assert_eq!(reviewer.judge(&with("good"), "/debug/probes").await, Verdict::Denied);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_a_few_seconds() {
        let asked = Arc::default();
        let reviewer = reviewer(&asked);
        for _ in 0..20 {
            assert_eq!(reviewer.judge(&with("good"), "/metrics").await, Verdict::Allowed);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        tokio::time::advance(HOLDS).await;
        reviewer.judge(&with("good"), "/metrics").await;
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn an_api_that_does_not_answer_lets_nobody_in() {
        let service = tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(std::io::Error::other("away")) });
        let reviewer = Reviewer::new(Client::new(service), "n1");
        let verdict = reviewer.judge(&with("good"), "/metrics").await;
        assert_eq!(verdict.refusal().unwrap().0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
