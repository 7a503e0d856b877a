//! Sending what cores want written: one way, one timeout, one meaning of every answer.
//!
//! Writes that are refused are said once, clearly, and then at most every few seconds, in the log and as an event of the object;
//! all of them are counted.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use api::write::{Body, Verb};
use api::{Write, WriteError, WriteFailure};
use http::Method;
use hyper::body::Bytes;
use machine::Bucket;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::client::Client;
use crate::clock::Clock;
use crate::events::Reports;
use crate::metrics::Metrics;
use crate::refusals::Refused;
use crate::requests::{self, RequestError};

/// A write that gets no answer in this time has failed; nobody knows whether it was done.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Writes of one writer that are under way at once: a burst is a first sync or a rollout.
const WRITES_MAX: usize = 32;
/// A server that says that it has too much to do is asked so many times in all.
const ATTEMPTS: u32 = 3;
/// The longest that a server may ask to wait.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Lines about writes that failed: so many at once, then one in a while.
const LINES: (u32, Duration) = (5, Duration::from_secs(10));

/// Writes in the name of one part of the plane; clones share its bounds.
#[derive(Clone)]
pub struct Writer(Arc<Inner>);

struct Inner {
    client: Client,
    clock: Clock,
    /// Who managedFields say it was.
    manager: String,
    permits: Semaphore,
    metrics: Metrics,
    lines: Mutex<Lines>,
    /// Who makes events of refusals; nobody for writers that write no events.
    reports: OnceLock<Reports>,
}

struct Lines {
    bucket: Bucket,
    suppressed: u64,
}

/// What the server answered to a write.
#[derive(Clone, Debug, Default)]
pub struct Answer(Bytes);

impl Answer {
    /// Reads the object that the server returned.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, WriteError> {
        serde_json::from_slice(&self.0).map_err(|error| {
            tracing::warn!(%error, "the answer to a write cannot be read");
            WriteError::Failed
        })
    }
}

impl Writer {
    /// Returns a writer; `manager` is who managedFields name, `lifesign-controllers`.
    pub fn new(client: Client, clock: Clock, manager: &str, metrics: Metrics) -> Writer {
        let lines = Mutex::new(Lines { bucket: Bucket::new(LINES.0, LINES.1), suppressed: 0 });
        let (permits, manager) = (Semaphore::new(WRITES_MAX), manager.to_owned());
        Writer(Arc::new(Inner { client, clock, manager, permits, metrics, lines, reports: OnceLock::new() }))
    }

    /// Tells from now on which writes are refused; the first to ask is told.
    pub(crate) fn report_to(&self, reports: Reports) {
        let _ = self.0.reports.set(reports);
    }

    /// Returns what the writer speaks through.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Sends a request when there is room for it, and returns what the server answered.
    pub async fn perform(&self, write: &Write) -> Result<Answer, WriteFailure> {
        let _permit = self.0.permits.acquire().await.expect("the semaphore is never closed");
        self.perform_with(&self.0.client, write, TIMEOUT).await
    }

    /// Sends a request at once through a client that may have a connection of its own, with a time of its own: for what must not
    /// wait for others.
    pub async fn perform_with(&self, client: &Client, write: &Write, within: Duration) -> Result<Answer, WriteFailure> {
        let mut attempt = 1;
        let began = std::time::Instant::now();
        let sent = loop {
            let sent = self.send(client, write, within).await;
            match sent.as_ref().err().and_then(asked_to_wait) {
                Some(wait) if attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(wait).await;
                }
                _ => break sent,
            }
        };
        let outcome = sent.map(Answer).map_err(|error| (failure(&error), error));
        let result = outcome.as_ref().err().map_or("ok", |(failure, _)| failure.error.word());
        self.0.metrics.wrote(write.kind, write.verb.name(), result);
        tracing::trace!(target: "hop", kind = write.kind, name = write.name, took_us = began.elapsed().as_micros(), "write");
        outcome.map_err(|(failure, error)| {
            self.record(write, failure.error, &error);
            failure
        })
    }

    async fn send(&self, client: &Client, write: &Write, within: Duration) -> Result<Bytes, RequestError> {
        let (method, content_type, body) = match &write.verb {
            Verb::Create(body) => (Method::POST, requests::JSON, bytes(body)),
            Verb::Update(body) => (Method::PUT, requests::JSON, bytes(body)),
            Verb::Merge(patch) => (Method::PATCH, "application/merge-patch+json", text(patch)),
            Verb::Strategic(patch) => (Method::PATCH, "application/strategic-merge-patch+json", text(patch)),
            Verb::Delete { uid, grace_seconds } => (Method::DELETE, requests::JSON, text(&options(uid, *grace_seconds))),
        };
        let path = match &write.verb {
            Verb::Create(_) if write.subresource.is_empty() => write.collection(),
            _ => write.path(),
        };
        let uri = if method == Method::DELETE { path } else { format!("{path}?fieldManager={}", self.0.manager) };
        requests::send(client, method, &uri, content_type, body, within).await
    }

    /// Says that a write has failed, unless that is part of the game or was said too often of late.
    fn record(&self, write: &Write, failed: WriteError, error: &RequestError) {
        let object =
            if write.namespace.is_empty() { write.name.clone() } else { format!("{}/{}", write.namespace, write.name) };
        let (kind, verb) = (write.kind, write.verb.name());
        if matches!(failed, WriteError::NotFound | WriteError::AlreadyExists | WriteError::Conflict) {
            tracing::debug!(kind, object, verb, %error, "write not done");
            return;
        }
        let mut lines = self.0.lines.lock().expect("no code panics while it holds the lines");
        if !lines.bucket.try_take(self.0.clock.now()) {
            lines.suppressed += 1;
            tracing::debug!(kind, object, verb, %error, "write failed");
            return;
        }
        let suppressed = std::mem::take(&mut lines.suppressed);
        drop(lines);
        let advice = match failed {
            WriteError::Denied => "write refused: the credentials may not do this; grant the right, nothing is done without it",
            WriteError::Invalid => "write refused: the server does not accept the content",
            WriteError::NamespaceTerminating => "write refused: the namespace is being deleted",
            _ => "write failed; it is tried again",
        };
        tracing::warn!(kind, object, verb, suppressed, %error, "{advice}");
        // A server that does not answer or has too much to do would not take an event either.
        if let (Some(reports), RequestError::Refused(refusal)) = (self.0.reports.get(), error)
            && refusal.code != 429
            && failed != WriteError::NamespaceTerminating
            && let Some(refused) = Refused::new(write, &error.to_string())
        {
            reports.record(self.0.clock.now(), refused);
        }
    }
}

fn text(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value serializes")
}

fn bytes(body: &Body) -> Vec<u8> {
    match body {
        Body::Json(value) => text(value),
        Body::Encoded(bytes) => bytes.to_vec(),
    }
}

fn options(uid: &str, grace_seconds: Option<i64>) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if !uid.is_empty() {
        options["preconditions"] = json!({"uid": uid});
    }
    if let Some(seconds) = grace_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    options
}

/// Returns how long a server asks to wait that did nothing because it has too much to do.
fn asked_to_wait(error: &RequestError) -> Option<Duration> {
    let RequestError::Refused(refusal) = error else { return None };
    let asked = refusal.details.as_ref().and_then(|details| details.retry_after_seconds).map(Duration::from_secs);
    (refusal.code == 429).then(|| asked.unwrap_or(Duration::from_secs(1)).min(WAIT_MAX))
}

/// Returns what an error means to a core.
fn failure(error: &RequestError) -> WriteFailure {
    let terminating = |refusal: &requests::Refusal| {
        refusal.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == "NamespaceTerminating")
    };
    let meaning = match error {
        RequestError::Refused(refusal) if terminating(refusal) => WriteError::NamespaceTerminating,
        RequestError::Refused(refusal) => match (refusal.code, refusal.reason.as_str()) {
            (404, _) => WriteError::NotFound,
            (409, "AlreadyExists") => WriteError::AlreadyExists,
            (409, _) => WriteError::Conflict,
            (401 | 403, _) => WriteError::Denied,
            (400 | 413 | 415 | 422, _) => WriteError::Invalid,
            _ => WriteError::Failed,
        },
        _ => WriteError::Failed,
    };
    WriteFailure { error: meaning, message: error.to_string() }
}

#[cfg(test)]
mod tests;
