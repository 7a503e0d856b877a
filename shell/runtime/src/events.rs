//! Writing Kubernetes events: what cores want said, bounded, counted, never in the way.
//!
//! Repetitions of an event are one event whose count rises. The queue is bounded and events that do not fit are counted and
//! dropped: saying something must never hold up doing something. Writes that were refused are told the same way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::{Event, ObjectReference, Timestamp, Verb, Write, WriteError, WriteFailure};
use machine::{BackOff, Time};
use serde_json::json;
use tokio::sync::mpsc;

use crate::refusals::Refused;
use crate::{Clock, Writer};

/// Events that wait to be written; each is small, and a burst of a few hundred is a rollout.
const QUEUE: usize = 1_024;
/// Events that are remembered to count repetitions.
const REMEMBERED: usize = 4_096;
/// Events older than this are not worth writing any more.
const STALE_AFTER: Duration = Duration::from_secs(600);
/// The waits after events that could not be written.
const RETRY: BackOff = BackOff { first: Duration::from_millis(200), last: Duration::from_secs(10) };

/// Takes events and writes them as events.
#[derive(Clone)]
pub struct EventWriter {
    sender: mpsc::Sender<PendingEvent>,
    dropped: Arc<AtomicU64>,
    clock: Clock,
}

impl EventWriter {
    /// Starts the writer; it ends when every clone is gone. `component` is who says it, `host` where.
    ///
    /// Writes of `writer` that are refused become events as well.
    pub fn start(writer: Writer, clock: Clock, component: &str, host: &str) -> EventWriter {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        writer.report_to(Reports { sender: sender.downgrade(), dropped: Arc::clone(&dropped) });
        let task = Task {
            writer,
            clock: clock.clone(),
            component: component.to_owned(),
            host: host.to_owned(),
            known: BTreeMap::new(),
            serial: 0,
            dropped: Arc::clone(&dropped),
        };
        tokio::spawn(task.run(receiver));
        EventWriter { sender, dropped, clock }
    }

    /// Takes an event; never waits.
    pub fn record(&self, event: Event) {
        self.record_times(event, 1);
    }

    /// Takes an event that stands for so many occurrences; never waits.
    pub fn record_times(&self, event: Event, times: u32) {
        let pending = PendingEvent { at: self.clock.now(), content: Content::Event(event), times: u64::from(times.max(1)) };
        if self.sender.try_send(pending).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many events could not be written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Where a [`Writer`] tells which of its writes were refused; does not keep the events from ending.
pub(crate) struct Reports {
    sender: mpsc::WeakSender<PendingEvent>,
    dropped: Arc<AtomicU64>,
}

impl Reports {
    /// Takes a refusal; never waits.
    pub(crate) fn record(&self, at: Time, refused: Refused) {
        let Some(sender) = self.sender.upgrade() else { return };
        if sender.try_send(PendingEvent { at, content: Content::Refused(refused), times: 1 }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An event that waits to be written.
struct PendingEvent {
    at: Time,
    content: Content,
    times: u64,
}

enum Content {
    Event(Event),
    Refused(Refused),
}

/// What makes two events the same.
type EventKey = (ObjectReference, &'static str, String);

/// An event that was written.
struct Written {
    name: String,
    namespace: String,
    count: u64,
    last: Time,
}

struct Task {
    writer: Writer,
    clock: Clock,
    component: String,
    host: String,
    known: BTreeMap<EventKey, Written>,
    serial: u64,
    dropped: Arc<AtomicU64>,
}

impl Task {
    async fn run(mut self, mut receiver: mpsc::Receiver<PendingEvent>) {
        while let Some(PendingEvent { at, content, times }) = receiver.recv().await {
            let event = match content {
                Content::Event(event) => Some(event),
                Content::Refused(refused) => refused.event(self.writer.client()).await,
            };
            let Some(event) = event else { continue };
            let mut failures = 0;
            loop {
                if self.clock.now().since(at) > STALE_AFTER {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                match self.write(at, &event, times).await {
                    Ok(()) => break,
                    Err(WriteFailure { error: WriteError::Failed, .. }) => {
                        failures += 1;
                        tokio::time::sleep(RETRY.after(failures)).await;
                    }
                    Err(_) => {
                        self.dropped.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                }
            }
        }
    }

    async fn write(&mut self, at: Time, event: &Event, times: u64) -> Result<(), WriteFailure> {
        let key = (event.object.clone(), event.reason, event.message.clone());
        let stamp = Timestamp(at);
        if let Some(written) = self.known.get_mut(&key) {
            let patch = json!({"count": written.count + times, "lastTimestamp": stamp.to_string()});
            let write = event_write(&written.namespace, &written.name, Verb::Merge(patch));
            match self.writer.perform(&write).await {
                Err(WriteFailure { error: WriteError::NotFound, .. }) => drop(self.known.remove(&key)),
                Err(error) => return Err(error),
                Ok(_) => {
                    written.count += times;
                    written.last = at;
                    return Ok(());
                }
            }
        }
        let namespace = if event.object.namespace.is_empty() { "default" } else { &event.object.namespace }.to_owned();
        self.serial += 1;
        let name = format!("{}.{:x}{:x}", event.object.name, at.as_micros(), self.serial);
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": event.object, "reason": event.reason, "message": event.message, "type": event.type_.name(),
            "source": {"component": self.component, "host": self.host},
            "reportingComponent": self.component, "reportingInstance": self.host,
            "firstTimestamp": stamp.to_string(), "lastTimestamp": stamp.to_string(), "count": times,
        });
        self.writer.perform(&event_write(&namespace, &name, Verb::Create(event.into()))).await?;
        self.remember(key, Written { name, namespace, count: times, last: at });
        Ok(())
    }

    fn remember(&mut self, key: EventKey, written: Written) {
        if self.known.len() >= REMEMBERED
            && let Some(oldest) = self.known.iter().min_by_key(|(_, written)| written.last).map(|(key, _)| key.clone())
        {
            self.known.remove(&oldest);
        }
        self.known.insert(key, written);
    }
}

fn event_write(namespace: &str, name: &str, verb: Verb) -> Write {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Write { id: 0, group: "", version: "v1", kind: "Event", plural: "events", namespace, name, subresource: "", verb }
}
