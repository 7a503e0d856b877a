//! HTTP scripts: cases that speak to an API server, step by step. The format is described in
//! `conformance/api-server/README.md`.

mod case;
mod events;
mod matching;
#[cfg(feature = "plane")]
mod remote;
mod variables;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use serde_json::{Value, json};

pub use case::{Case, Step};
use events::Watch;
use matching::{Expectation, check_reply};
#[cfg(feature = "plane")]
pub use remote::Clients;
use variables::Variables;

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The runner's own identity, which may do everything.
    Runner,
    /// Nobody.
    Nobody,
    /// Whoever this token belongs to.
    Token(String),
}

/// A request of a script.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body, perhaps empty.
    pub body: Bytes,
    /// Who asks.
    pub auth: Auth,
}

/// An answer, its body still unread.
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// Headers, repeated ones included.
    pub headers: Vec<(String, String)>,
    /// The body as it comes.
    pub body: BoxStream<'static, Result<Bytes, String>>,
}

/// A server that scripts speak to.
pub trait Server: Send + Sync {
    /// Sends a request.
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, String>>;
    /// Restarts the server on the same data, killed or stopped, with these gates changed.
    fn restart(&self, kill: bool, gates: BTreeMap<String, bool>) -> BoxFuture<'_, Result<(), String>>;
}

/// Why a case is not run yet, if that is so: the capability that it needs has not landed.
pub fn not_yet(_: &Case) -> Option<&'static str> {
    None
}

/// Runs a case; an error says which step failed and how.
pub async fn run(server: &dyn Server, case: &Case, unique: &str) -> Result<(), String> {
    let mut runner =
        Runner { server, variables: Variables::new(unique), watches: BTreeMap::new(), namespace: format!("ac-x{unique}") };
    let outcome = runner.case(case).await;
    runner.clean_up(case).await;
    outcome
}

struct Runner<'a> {
    server: &'a dyn Server,
    variables: Variables,
    watches: BTreeMap<String, Watch>,
    namespace: String,
}

/// An answer that was read whole.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }
}

impl Runner<'_> {
    async fn case(&mut self, case: &Case) -> Result<(), String> {
        if case.namespace {
            self.make_namespace().await?;
        }
        for (index, step) in case.steps.iter().enumerate() {
            self.step(step).await.map_err(|why| format!("step {}: {why}", index + 1))?;
        }
        Ok(())
    }

    /// Pods are refused until a namespace has its service account, so wait for that too.
    async fn make_namespace(&mut self) -> Result<(), String> {
        let made = self.call("POST", "/api/v1/namespaces", Some(json!({"metadata": {"name": self.namespace}}))).await?;
        if made.code != 201 {
            return Err(format!("cannot create the namespace: {} {}", made.code, made.text));
        }
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", self.namespace);
        let deadline = Instant::now() + Duration::from_secs(45);
        while self.call("GET", &account, None).await?.code != 200 {
            if Instant::now() > deadline {
                return Err("no default service account appeared".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Result<Reply, String> {
        let headers = vec![
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Accept".to_owned(), "application/json".to_owned()),
        ];
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        self.read(Request { method: method.into(), path: path.into(), headers, body, auth: Auth::Runner }).await
    }

    async fn read(&self, request: Request) -> Result<Reply, String> {
        let mut answer = self.server.send(request).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.body.next().await {
            bytes.extend_from_slice(&chunk?);
        }
        Ok(Reply { code: answer.code, headers: answer.headers, text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(seconds) = step.sleep {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            return Ok(());
        }
        if let Some(restart) = &step.restart {
            return self.server.restart(restart.kill, restart.gates.clone()).await;
        }
        let expected: Expectation = self.variables.typed(&step.expect)?;
        if let Some(name) = &step.events {
            let watch = self.watches.get_mut(name).ok_or_else(|| format!("script error: no watch {name:?} is open"))?;
            let seen = events::expect(watch, &expected).await?;
            return self.capture(step, &Value::Array(seen), &[]);
        }
        let given = step.given.as_ref().ok_or("script error: a step needs given, events, sleep or restart")?;
        let request = given.request(&self.variables)?;
        let shown = format!("{} {}", request.method, request.path);
        if let Some(name) = &given.watch {
            return self.open_watch(step, name, request, &expected).await.map_err(|why| format!("{shown}: {why}"));
        }
        let deadline = Instant::now() + Duration::from_secs_f64(step.poll.unwrap_or(0.0));
        loop {
            let reply = self.read(request.clone()).await.map_err(|why| format!("{shown}: {why}"))?;
            let errors = check_reply(&expected, &reply);
            if errors.is_empty() {
                return self.capture(step, &reply.json().unwrap_or(Value::Null), &reply.headers);
            }
            if Instant::now() >= deadline {
                return Err(format!("{shown}:\n  {}", errors.join("\n  ")));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn open_watch(&mut self, step: &Step, name: &str, request: Request, expected: &Expectation) -> Result<(), String> {
        let answer = self.server.send(request).await?;
        let head = Reply { code: answer.code, headers: answer.headers, text: String::new() };
        let errors = check_reply(&expected.head_only(), &head);
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        let mut watch = Watch::read(answer.body);
        let seen = if expected.wants_events() { events::expect(&mut watch, expected).await? } else { Vec::new() };
        self.watches.insert(name.to_owned(), watch);
        self.capture(step, &Value::Array(seen), &[])
    }

    fn capture(&mut self, step: &Step, document: &Value, headers: &[(String, String)]) -> Result<(), String> {
        for (name, place) in &step.capture {
            let place = self.variables.text(place)?;
            let value = match place.strip_prefix("header:") {
                Some(header) => {
                    let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(header));
                    Value::from(found.map(|(_, value)| value.clone()).unwrap_or_default())
                }
                None => variables::pointer(document, &place)
                    .cloned()
                    .ok_or_else(|| format!("cannot capture {name}: nothing at {place} in {document}"))?,
            };
            self.variables.set(name, value);
        }
        Ok(())
    }

    /// Best effort: finalizers are dropped, objects deleted without grace, the namespace deleted.
    async fn clean_up(&mut self, case: &Case) {
        self.watches.clear();
        for path in &case.cleanup {
            let Ok(path) = self.variables.text(path) else { continue };
            let request = Request {
                method: "PATCH".into(),
                path: path.clone(),
                headers: vec![("Content-Type".into(), "application/merge-patch+json".into())],
                body: json!({"metadata": {"finalizers": null}}).to_string().into(),
                auth: Auth::Runner,
            };
            let _ = self.read(request).await;
            let _ = self.call("DELETE", &path, Some(json!({"gracePeriodSeconds": 0}))).await;
        }
        if case.namespace {
            let _ = self.call("DELETE", &format!("/api/v1/namespaces/{}", self.namespace), None).await;
        }
    }
}

/// Decodes base64; a script that holds something else is wrong.
fn decode_base64(text: &str) -> Result<Bytes, String> {
    base64::engine::general_purpose::STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("script error: {error}"))
}
