//! Watch streams: what is there, then what changes, one JSON line each.

pub(crate) mod lines;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::json;
use api::status::Status;
use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prometheus_client::metrics::counter::Counter;
use registry::kind::ServedKind;
use registry::query::{self, WatchStart};
use registry::state::{Change, ChangeType, Snapshot, Stored};
use registry::watching::{self, Seen};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use crate::handlers::read::{metadata_only, outward, readable, render_table};
use crate::hub::{Matcher, Receiver};
use crate::listing::CHUNK;
use crate::negotiate::{Encoding, Form};
use crate::reply::{self, Body, Reply, push_object, type_prefix, typed};
use crate::request::Target;
use crate::server::{Call, Server};
use crate::streams::Place;

/// How often an idle watcher learns the revision, before jitter.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a watcher learns the revision once more.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// A watch without a timeout lasts this long at least, and at most twice that.
const DEFAULT_LIFE: Duration = Duration::from_secs(30 * 60);

/// No watch lasts longer than this, whatever its client asks for.
const LIFE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Events that follow each other within this time for each watcher of a resource are sent together: sending one to everybody costs both
/// sides about as much, and who is always busy with the last event is late for the next.
const GATHER_PER_WATCHER: Duration = Duration::from_micros(40);
/// No event waits longer than this for those after it.
const GATHER_MAX: Duration = Duration::from_millis(5);
/// Less than this is not worth a timer.
const GATHER_MIN: Duration = Duration::from_millis(1);

/// The place of one watch.
struct Slot {
    _place: Place,
    server: Server,
    resource: String,
    sent: Counter,
}

impl Slot {
    fn open(server: &Server, user: &str, resource: &str) -> Result<Slot, Status> {
        let place = server.0.watches.open(user)?;
        let sent = server.0.metrics.watch_opened(resource);
        Ok(Slot { _place: place, server: server.clone(), resource: resource.to_owned(), sent })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.server.0.metrics.watch_closed(&self.resource);
    }
}

/// Answers with a stream of events.
pub(crate) fn watch(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let mut query = query::watch_query(&call.parameters)?;
    if target.watch && !target.name.is_empty() {
        query.fields.requirements.push(("metadata.name".into(), target.name.clone(), true));
    }
    let matcher = crate::handlers::matcher(kind, query.labels, query.fields)?;
    let slot = Slot::open(server, &call.identity.user, &kind.resource.plural)?;
    let since = match query.start {
        WatchStart::After(revision) => Some(revision),
        WatchStart::Present | WatchStart::Streaming(_) => None,
    };
    let ahead = since.filter(|revision| *revision > server.0.hub.snapshot().revision);
    let resource_prefix = kind.resource.prefix("");
    let prefix = kind.resource.prefix(&target.namespace);
    let renderer = Renderer::new(server, kind, call);
    let Some(subscription) = server.0.hub.subscribe(&resource_prefix, &prefix, since, Arc::clone(&matcher)) else {
        let expired = Status::expired(format!("too old resource version: {}", since.unwrap_or(0)));
        return Ok(stream_reply(call, reply::full(line("ERROR", &expired.to_json()))));
    };
    let mut pending = VecDeque::new();
    match query.start {
        WatchStart::After(_) => pending.extend(subscription.backlog.into_iter().map(Pending::Change)),
        WatchStart::Present | WatchStart::Streaming(_) => {
            pending.extend(initial(&subscription.snapshot, &prefix, &matcher).map(Pending::Initial));
            if matches!(query.start, WatchStart::Streaming(_)) && query.bookmarks {
                pending.push_back(Pending::InitialEnd(subscription.snapshot.revision));
            }
        }
    }
    let mut rng = server.rng();
    let life = query.timeout_seconds.map_or_else(
        || DEFAULT_LIFE.mul_f64(1.0 + rng.fraction()),
        // A number of the client: not every one of them can be added to an instant.
        |seconds| Duration::from_secs(seconds).min(LIFE_MAX),
    );
    let started = Instant::now();
    let end = started + life;
    let bookmark_at =
        started + BOOKMARK_EVERY.mul_f64(1.0 + rng.fraction() / 4.0).min(life.saturating_sub(BOOKMARK_BEFORE_END));
    let stream = Stream {
        slot,
        renderer,
        matcher,
        pending,
        receiver: subscription.receiver,
        ahead,
        end,
        bookmark_at: if query.bookmarks { bookmark_at } else { end },
        timer: Box::pin(tokio::time::sleep_until(if query.bookmarks { bookmark_at } else { end })),
        last: subscription.snapshot.revision,
        sent: started,
    };
    let frames = futures::stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<_, std::io::Error>(Frame::data(bytes)), stream))
    });
    Ok(stream_reply(call, StreamBody::new(frames.fuse()).boxed_unsync()))
}

fn stream_reply(call: &Call, body: Body) -> Reply {
    let content_type = if call.encoding == Encoding::Yaml { "application/yaml" } else { "application/json" };
    reply::long_running(reply::reply(StatusCode::OK, content_type, body))
}

fn initial<'a>(snapshot: &'a Snapshot, prefix: &'a str, matcher: &'a Matcher) -> impl Iterator<Item = Arc<Stored>> + 'a {
    snapshot.range(prefix, None).filter(|(_, stored)| matcher(stored)).map(|(_, stored)| Arc::clone(stored))
}

enum Pending {
    Initial(Arc<Stored>),
    InitialEnd(u64),
    Change(Arc<Change>),
}

/// One watch stream.
struct Stream {
    slot: Slot,
    renderer: Renderer,
    matcher: Matcher,
    pending: VecDeque<Pending>,
    receiver: Receiver,
    /// Changes up to this revision are passed over: the client is ahead of us.
    ahead: Option<u64>,
    end: Instant,
    /// The end, if there are no more bookmarks.
    bookmark_at: Instant,
    /// The next of both; kept, because setting one up costs more than an event.
    timer: Pin<Box<Sleep>>,
    /// The revision that the client has reached.
    last: u64,
    /// When it was sent something.
    sent: Instant,
}

impl Stream {
    /// Returns the next bytes to send: all events that are there, up to a chunk. `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if Instant::now() >= self.end {
            return None;
        }
        let mut out = Chunk::default();
        loop {
            while out.len() < CHUNK
                && let Some(pending) = self.pending.pop_front().or_else(|| self.receiver.try_recv().map(Pending::Change))
            {
                self.render(&pending, &mut out);
            }
            if out.len() > 0 {
                self.sent = Instant::now();
                return Some(out.into_bytes());
            }
            tokio::select! {
                biased;
                change = self.receiver.recv() => {
                    self.pending.push_back(Pending::Change(change?));
                    self.gather().await;
                }
                () = &mut self.timer => {
                    if self.bookmark_at >= self.end {
                        return None;
                    }
                    if let Some(bookmark) = self.bookmark() {
                        self.timer.as_mut().reset(self.bookmark_at);
                        return Some(bookmark);
                    }
                }
            }
        }
    }

    /// Waits for more if the last event went out a moment ago; the first one after a pause goes at once.
    async fn gather(&self) {
        let pace = gather_for(self.receiver.watchers());
        if self.sent.elapsed() < pace {
            tokio::time::sleep_until(self.sent + pace).await;
        }
    }

    fn render(&mut self, pending: &Pending, out: &mut Chunk) {
        match pending {
            // What is there was written at some time: hardly anybody else reads it just now.
            Pending::Initial(stored) => self.renderer.event(ChangeType::Added, stored, None, false, out),
            Pending::InitialEnd(revision) => out.push(self.renderer.bookmark(*revision, true)),
            Pending::Change(change) => {
                self.last = self.last.max(change.revision);
                if self.ahead.is_some_and(|ahead| change.revision <= ahead) {
                    return;
                }
                let Some(Seen { type_, object, at }) = watching::seen(change, |stored| (self.matcher)(stored)) else { return };
                let since = self.slot.server.0.clock.now().since(change.at);
                self.slot.server.0.metrics.watch_event(&self.slot.sent, since);
                self.renderer.event(type_, &object, at, true, out);
            }
        }
    }

    /// A bookmark carries the revision of the store: everything up to it was delivered, or did not concern this watcher.
    /// `None`: something has come meanwhile, which goes first.
    fn bookmark(&mut self) -> Option<Bytes> {
        let hub = &self.slot.server.0.hub;
        // A revision becomes visible together with its place in our queue. So the revision is read first, and if the queue
        // is empty after that, all of it was delivered. A client that resumes from the bookmark misses nothing.
        let revision = self.last.max(hub.snapshot().revision);
        if !self.receiver.is_level() {
            return None;
        }
        let regular = Instant::now() + BOOKMARK_EVERY;
        let last_chance = self.end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(self.end);
        self.bookmark_at = if regular < last_chance {
            regular
        } else if self.bookmark_at < last_chance {
            last_chance
        } else {
            self.end
        };
        Some(self.renderer.bookmark(revision, false))
    }
}

/// Returns how soon after one event the next is sent, by the number of watchers.
fn gather_for(watchers: usize) -> Duration {
    let watchers = u32::try_from(watchers).unwrap_or(u32::MAX);
    let pace = GATHER_PER_WATCHER.saturating_mul(watchers).min(GATHER_MAX);
    if pace < GATHER_MIN { Duration::ZERO } else { pace }
}

/// Lines that are sent together. One alone is not copied.
#[derive(Default)]
struct Chunk {
    only: Bytes,
    several: BytesMut,
}

impl Chunk {
    fn len(&self) -> usize {
        self.only.len() + self.several.len()
    }

    fn push(&mut self, line: Bytes) {
        if self.len() == 0 {
            self.only = line;
        } else {
            self.buffer().extend_from_slice(&line);
        }
    }

    /// Returns where lines are appended.
    fn buffer(&mut self) -> &mut BytesMut {
        self.several.extend_from_slice(&std::mem::take(&mut self.only));
        &mut self.several
    }

    fn into_bytes(self) -> Bytes {
        if self.several.is_empty() { self.only } else { self.several.freeze() }
    }
}

/// Turns events into lines in the form that the client wants.
struct Renderer {
    server: Server,
    kind: Arc<ServedKind>,
    call: Call,
    prefix: Arc<str>,
    /// A table shows its columns once.
    columns_sent: bool,
}

impl Renderer {
    fn new(server: &Server, kind: &Arc<ServedKind>, call: &Call) -> Renderer {
        let call = Call {
            method: call.method.clone(),
            parameters: call.parameters.clone(),
            headers: http::HeaderMap::new(),
            body: Bytes::new(),
            identity: registry::authz::Identity::default(),
            encoding: call.encoding,
            form: call.form,
            upgrade: None,
        };
        Renderer { server: server.clone(), kind: Arc::clone(kind), prefix: type_prefix(kind).into(), call, columns_sent: false }
    }

    /// `latest`: many watchers may get this line now.
    fn event(&mut self, type_: ChangeType, stored: &Stored, at: Option<u64>, latest: bool, out: &mut Chunk) {
        let plain = self.call.form == Form::Whole && at.is_none() && !self.kind.is_shown_otherwise();
        if plain && latest {
            let name = lines::Name { revision: stored.revision, type_, prefix: Arc::clone(&self.prefix) };
            let render = || {
                let mut line = BytesMut::new();
                self.put_plain(type_, stored, &mut line);
                line.freeze()
            };
            return out.push(self.server.0.lines.get(&name, render));
        }
        if plain {
            return self.put_plain(type_, stored, out.buffer());
        }
        let mut object = readable(self.call.form, stored);
        if let Some(revision) = at {
            json::object_mut(&mut object, &["metadata"]).insert("resourceVersion".into(), revision.to_string().into());
        }
        out.push(line(event_name(type_), &self.shown(object)));
    }

    /// Appends the line of an object as it is stored.
    fn put_plain(&self, type_: ChangeType, stored: &Stored, out: &mut BytesMut) {
        out.reserve(stored.size() + self.prefix.len() + 40);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(event_name(type_).as_bytes());
        out.put_slice(b"\",\"object\":");
        push_object(out, &self.prefix, stored);
        out.put_slice(b"}\n");
    }

    fn shown(&mut self, object: Value) -> Value {
        match self.call.form {
            Form::Table(version) => {
                let revision = json::text(&object, &["metadata", "resourceVersion"]).to_owned();
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = json!({"resourceVersion": revision});
                render_table(&self.server, &self.kind, &self.call, version, &[object], metadata, columns)
            }
            Form::Metadata(version) => metadata_only(version, &object),
            Form::Whole | Form::Aggregated(_) => typed(&self.kind, outward(&self.kind, object)),
        }
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.call.form {
            Form::Metadata(version) => {
                json!({"apiVersion": format!("meta.k8s.io/{version}"), "kind": "PartialObjectMetadata", "metadata": metadata})
            }
            Form::Table(version) => {
                let row = json!({"cells": [], "object": {
                    "apiVersion": format!("meta.k8s.io/{version}"), "kind": "PartialObjectMetadata", "metadata": metadata,
                }});
                json!({
                    "apiVersion": format!("meta.k8s.io/{version}"), "kind": "Table", "columnDefinitions": [],
                    "metadata": {"resourceVersion": revision.to_string()}, "rows": [row],
                })
            }
            Form::Whole | Form::Aggregated(_) => typed(&self.kind, json!({"metadata": metadata})),
        };
        line("BOOKMARK", &object)
    }
}

fn event_name(type_: ChangeType) -> &'static str {
    match type_ {
        ChangeType::Added => "ADDED",
        ChangeType::Modified => "MODIFIED",
        ChangeType::Deleted => "DELETED",
    }
}

fn line(type_: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").into()
}
