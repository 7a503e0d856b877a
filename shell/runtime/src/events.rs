//! Writing Kubernetes events: what cores want said, bounded, counted, never in the way.
//!
//! Repetitions of a note are one event whose count rises. The queue is bounded and notes that do not fit are counted and
//! dropped: saying something must never hold up doing something.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::{Note, ObjectReference, Timestamp};
use kube::Client;
use machine::Time;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Clock;

/// Notes that wait to be written; each is small, and a burst of a few hundred is a rollout.
const QUEUE: usize = 1_024;
/// Notes that are remembered to count repetitions.
const REMEMBERED: usize = 4_096;
/// Notes older than this are not worth writing any more.
const STALE_AFTER: Duration = Duration::from_secs(600);
/// One attempt to write an event may take this long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes notes and writes them as events.
#[derive(Clone)]
pub struct EventWriter {
    sender: mpsc::Sender<Said>,
    dropped: Arc<AtomicU64>,
    clock: Clock,
}

impl EventWriter {
    /// Starts the writer; it ends when every clone is gone. `component` is who says it, `host` where.
    pub fn start(client: Client, clock: Clock, component: &str, host: &str) -> EventWriter {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            client,
            clock: clock.clone(),
            component: component.to_owned(),
            host: host.to_owned(),
            known: BTreeMap::new(),
            serial: 0,
            dropped: Arc::clone(&dropped),
        };
        tokio::spawn(writer.run(receiver));
        EventWriter { sender, dropped, clock }
    }

    /// Takes a note; never waits.
    pub fn say(&self, note: Note) {
        self.say_times(note, 1);
    }

    /// Takes a note that stands for so many occurrences; never waits.
    pub fn say_times(&self, note: Note, times: u32) {
        if self.sender.try_send(Said { at: self.clock.now(), note, times: u64::from(times.max(1)) }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many notes could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A note that waits to be written.
struct Said {
    at: Time,
    note: Note,
    times: u64,
}

/// What makes two notes the same.
type Sameness = (ObjectReference, &'static str, String);

/// An event that was written.
struct Written {
    name: String,
    namespace: String,
    count: u64,
    last: Time,
}

struct Writer {
    client: Client,
    clock: Clock,
    component: String,
    host: String,
    known: BTreeMap<Sameness, Written>,
    serial: u64,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    async fn run(mut self, mut receiver: mpsc::Receiver<Said>) {
        while let Some(Said { at, note, times }) = receiver.recv().await {
            let mut pause = Duration::from_millis(200);
            loop {
                if self.clock.now().since(at) > STALE_AFTER {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                match tokio::time::timeout(WRITE_TIMEOUT, self.write(at, &note, times)).await {
                    Ok(Ok(())) => break,
                    Ok(Err(kube::Error::Api(status))) if status.code < 500 && status.code != 429 => {
                        tracing::debug!(reason = note.reason, error = %status.message, "event refused");
                        self.dropped.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    Ok(Err(_)) | Err(_) => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_secs(10));
                    }
                }
            }
        }
    }

    async fn write(&mut self, at: Time, note: &Note, times: u64) -> Result<(), kube::Error> {
        let sameness = (note.object.clone(), note.reason, note.message.clone());
        let stamp = Timestamp(at);
        if let Some(written) = self.known.get_mut(&sameness) {
            let patch = json!({"count": written.count + times, "lastTimestamp": stamp.to_string()});
            let path = format!("/api/v1/namespaces/{}/events/{}", written.namespace, written.name);
            match request(&self.client, http::Method::PATCH, &path, &patch).await {
                Err(kube::Error::Api(status)) if status.code == 404 => drop(self.known.remove(&sameness)),
                Err(error) => return Err(error),
                Ok(_) => {
                    written.count += times;
                    written.last = at;
                    return Ok(());
                }
            }
        }
        let namespace = if note.object.namespace.is_empty() { "default" } else { &note.object.namespace }.to_owned();
        self.serial += 1;
        let name = format!("{}.{:x}{:x}", note.object.name, at.as_micros(), self.serial);
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": note.object, "reason": note.reason, "message": note.message, "type": note.type_.name(),
            "source": {"component": self.component, "host": self.host},
            "reportingComponent": self.component, "reportingInstance": self.host,
            "firstTimestamp": stamp.to_string(), "lastTimestamp": stamp.to_string(), "count": times,
        });
        request(&self.client, http::Method::POST, &format!("/api/v1/namespaces/{namespace}/events"), &event).await?;
        self.remember(sameness, Written { name, namespace, count: times, last: at });
        Ok(())
    }

    fn remember(&mut self, sameness: Sameness, written: Written) {
        if self.known.len() >= REMEMBERED
            && let Some(oldest) =
                self.known.iter().min_by_key(|(_, written)| written.last).map(|(sameness, _)| sameness.clone())
        {
            self.known.remove(&oldest);
        }
        self.known.insert(sameness, written);
    }
}

/// Sends a JSON body; a PATCH is a merge patch.
pub async fn request(client: &Client, method: http::Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let content_type = if method == http::Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let bytes = serde_json::to_vec(body).expect("a JSON value serializes");
    let request =
        http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content_type).body(bytes);
    client.request(request.map_err(kube::Error::HttpError)?).await
}
