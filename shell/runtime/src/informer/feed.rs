//! Listing and watching a collection for ever: text of objects out, across lost connections and forgotten revisions.
//!
//! Nothing here knows types: an object is its JSON text. So this is compiled once, whatever is watched.

use std::time::Duration;

use http_body_util::BodyExt;
use machine::BackOff;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::requests::{self, RequestError};

/// Objects that are asked for at a time.
const PAGE: usize = 500;
/// A page that takes longer is asked for again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// The server ends a watch after this time, and it is begun anew.
const WATCH_SECONDS: u64 = 290;
/// A watch of which nothing was heard for this long is dead: the server would have ended it.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// No event is as large as this.
const EVENT_MAX: usize = 64 << 20;
/// The waits after failures in a row. The longest bounds how late a kind that was missing is found.
const WAITS: BackOff = BackOff { first: Duration::from_millis(500), last: Duration::from_secs(30) };

/// What is watched.
pub(super) struct Feed {
    pub(super) client: Client,
    pub(super) kind: &'static str,
    /// The collection: `/api/v1/pods`.
    pub(super) path: String,
    /// A field selector; empty: everything.
    pub(super) fields: String,
}

/// Who takes what is heard.
pub(super) trait Sink: Send {
    fn list_begins(&mut self);
    /// Takes an object; returns its resourceVersion.
    fn apply(&mut self, text: &str) -> Option<String>;
    /// Takes a text if it is an object with a resourceVersion, which is returned; else nothing has happened.
    fn try_apply(&mut self, text: &str) -> Option<String>;
    fn delete(&mut self, text: &str) -> Option<String>;
    fn list_ends(&mut self);
    /// Returns whether nobody listens any more.
    fn is_over(&mut self) -> bool;
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: ListMeta,
}

/// Why a list or a watch ended.
enum WatchError {
    /// The revision is no longer known: everything must be listed again.
    Expired,
    Failed(RequestError),
}

impl From<RequestError> for WatchError {
    fn from(error: RequestError) -> WatchError {
        if error.code() == Some(410) { WatchError::Expired } else { WatchError::Failed(error) }
    }
}

fn broken(error: impl std::fmt::Display) -> WatchError {
    WatchError::Failed(RequestError::Connection(error.to_string()))
}

impl Feed {
    /// Goes on until nobody listens.
    pub(super) async fn run(self, mut sink: impl Sink) {
        let (mut version, mut failures) = (None::<String>, 0);
        let mut reported = String::new();
        while !sink.is_over() {
            let listing = version.is_none();
            let ended = match version.take() {
                None => self.list(&mut sink).await.map(|listed| version = Some(listed)),
                Some(since) => {
                    let mut last = since;
                    let ended = self.watch(&mut last, &mut sink).await;
                    if !matches!(ended, Err(WatchError::Expired)) {
                        version = Some(last);
                    }
                    ended
                }
            };
            match ended {
                Ok(()) => {
                    if listing && failures > 0 {
                        tracing::info!(kind = self.kind, "listed again");
                    }
                    (failures, reported) = (0, String::new());
                }
                Err(WatchError::Expired) if failures == 0 => failures = 1,
                Err(error) => {
                    failures += 1;
                    let text = match &error {
                        WatchError::Expired => "its revision is forgotten again and again".to_owned(),
                        WatchError::Failed(error) if listing && error.code() == Some(404) => {
                            format!("the API does not know this kind: its CustomResourceDefinition is missing ({error})")
                        }
                        WatchError::Failed(error) => error.to_string(),
                    };
                    // Once for each problem, not for each attempt.
                    if text == reported {
                        tracing::debug!(kind = self.kind, failures, error = text, "watch interrupted; trying again");
                    } else {
                        tracing::warn!(
                            kind = self.kind,
                            error = text,
                            "watch interrupted; trying again, waiting longer each time"
                        );
                        reported = text;
                    }
                    tokio::time::sleep(WAITS.after(failures)).await;
                }
            }
        }
    }

    fn uri(&self, query: &str) -> String {
        let fields = if self.fields.is_empty() { String::new() } else { format!("&fieldSelector={}", encode(&self.fields)) };
        format!("{}?{query}{fields}", self.path)
    }

    /// Lists everything; returns the revision.
    async fn list(&self, sink: &mut impl Sink) -> Result<String, WatchError> {
        let mut next = String::new();
        loop {
            let from = if next.is_empty() { String::new() } else { format!("&continue={}", encode(&next)) };
            let uri = self.uri(&format!("limit={PAGE}{from}"));
            let body = requests::read(&self.client, &uri, PAGE_TIMEOUT).await?;
            let list: List<'_> = serde_json::from_slice(&body).map_err(broken)?;
            if next.is_empty() {
                sink.list_begins();
            }
            for object in list.items.unwrap_or_default() {
                sink.apply(object.get());
            }
            next = list.metadata.next;
            if next.is_empty() {
                sink.list_ends();
                return Ok(list.metadata.resource_version);
            }
        }
    }

    /// Watches until the server ends it; `version` is that of the last event.
    async fn watch(&self, version: &mut String, sink: &mut impl Sink) -> Result<(), WatchError> {
        let query =
            format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}", encode(version));
        let mut body = requests::open(&self.client, &self.uri(&query), PAGE_TIMEOUT).await?;
        let mut rest: Vec<u8> = Vec::new();
        while !sink.is_over() {
            let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
                Err(_) => return Err(broken("nothing was heard for too long")),
                Ok(None) => return Ok(()),
                Ok(Some(frame)) => frame.map_err(broken)?,
            };
            let Ok(data) = frame.into_data() else { continue };
            let mut data = &*data;
            while let Some(end) = data.iter().position(|byte| *byte == b'\n') {
                let line = &data[..end];
                data = &data[end + 1..];
                if rest.is_empty() {
                    take(line, version, sink)?;
                } else {
                    rest.extend_from_slice(line);
                    take(&rest, version, sink)?;
                    rest.clear();
                }
            }
            if rest.len() + data.len() > EVENT_MAX {
                return Err(broken("an event is too large"));
            }
            rest.extend_from_slice(data);
        }
        Ok(())
    }
}

/// Returns the text of an object that is new or another, if the line begins as those of all servers do: then it need not be looked
/// for, and a large object is read once and not twice. What follows the object, if anything does, makes it unreadable.
fn changed(line: &[u8]) -> Option<&str> {
    let heads = [b"{\"type\":\"MODIFIED\",\"object\":".as_slice(), b"{\"type\":\"ADDED\",\"object\":".as_slice()];
    let rest = heads.into_iter().find_map(|head| line.strip_prefix(head))?;
    std::str::from_utf8(rest.strip_suffix(b"}")?).ok()
}

/// Takes one event.
fn take(line: &[u8], version: &mut String, sink: &mut impl Sink) -> Result<(), WatchError> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    if let Some(seen) = changed(line).and_then(|text| sink.try_apply(text)) {
        *version = seen;
        return Ok(());
    }
    let event: Event<'_> = serde_json::from_slice(line).map_err(broken)?;
    let seen = match event.type_ {
        "ADDED" | "MODIFIED" => sink.apply(event.object.get()),
        "DELETED" => sink.delete(event.object.get()),
        "BOOKMARK" => {
            serde_json::from_str::<Bookmark>(event.object.get()).ok().map(|bookmark| bookmark.metadata.resource_version)
        }
        "ERROR" => return Err(RequestError::from_status(event.object.get().as_bytes(), 500).into()),
        _ => None,
    };
    if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
        *version = seen;
    }
    Ok(())
}

/// Encodes a value of a query.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what it was given; an object is a JSON value.
    #[derive(Default)]
    struct Recorder(Vec<String>);

    impl Sink for Recorder {
        fn list_begins(&mut self) {}
        fn apply(&mut self, text: &str) -> Option<String> {
            self.0.push(format!("looked for {text}"));
            Some("1".to_owned())
        }
        fn try_apply(&mut self, text: &str) -> Option<String> {
            serde_json::from_str::<serde_json::Value>(text).ok()?;
            self.0.push(format!("found {text}"));
            Some("2".to_owned())
        }
        fn delete(&mut self, text: &str) -> Option<String> {
            self.0.push(format!("deleted {text}"));
            None
        }
        fn list_ends(&mut self) {}
        fn is_over(&mut self) -> bool {
            false
        }
    }

    #[test]
    fn an_object_is_found_wherever_it_stands() {
        let mut recorder = Recorder::default();
        let mut take = |line: &str| {
            let mut version = String::new();
            take(line.as_bytes(), &mut version, &mut recorder).map(|()| version).map_err(drop)
        };
        assert_eq!(take(r#"{"type":"MODIFIED","object":{"a":"}"}}"#), Ok("2".to_owned()));
        assert_eq!(take(r#"{"type":"ADDED","object":{}}"#), Ok("2".to_owned()));
        assert_eq!(take(r#"{"type":"ADDED","object":{},"more":{}}"#), Ok("1".to_owned()));
        assert_eq!(take(r#"{"object":{"b":1},"type":"MODIFIED"}"#), Ok("1".to_owned()));
        assert_eq!(take(r#"{"type":"DELETED","object":{}}"#), Ok(String::new()));
        assert_eq!(take(r#"{"type":"MODIFIED","object":{"a":}}"#), Err(()));
        let expected = [r#"found {"a":"}"}"#, "found {}", "looked for {}", r#"looked for {"b":1}"#, "deleted {}"];
        assert_eq!(recorder.0, expected);
    }
}
