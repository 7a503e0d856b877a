//! Watches of a script: a task reads lines, expectations take them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;

use super::matching::{Expectation, matches};

/// An open watch.
pub(crate) struct Watch {
    events: mpsc::UnboundedReceiver<Value>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a watch said next.
enum Next {
    Event(Value),
    Ended,
    Nothing,
}

impl Watch {
    pub(crate) fn read(mut body: BoxStream<'static, Result<Bytes, String>>) -> Watch {
        // Unbounded on purpose: the scripts are short, and nothing may be lost to a slow expectation.
        let (sender, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut buffer: Vec<u8> = Vec::new();
            while let Some(Ok(chunk)) = body.next().await {
                buffer.extend_from_slice(&chunk);
                while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    if let Ok(event) = serde_json::from_slice(&line)
                        && sender.send(event).is_err()
                    {
                        return;
                    }
                }
            }
        });
        Watch { events, task }
    }

    async fn next(&mut self, deadline: Instant, bookmarks: bool) -> Next {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left.max(Duration::from_millis(1)), self.events.recv()).await {
                Err(_) => return Next::Nothing,
                Ok(None) => return Next::Ended,
                Ok(Some(event)) if !bookmarks && is_plain_bookmark(&event) => {}
                Ok(Some(event)) => return Next::Event(event),
            }
        }
    }
}

fn is_plain_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"].is_null()
}

/// Takes the expected events; returns them as they came.
pub(crate) async fn expect(watch: &mut Watch, expected: &Expectation) -> Result<Vec<Value>, String> {
    let wanted = expected.events.clone().unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs_f64(expected.within.unwrap_or(15.0));
    let mut got: Vec<Value> = Vec::new();
    while got.len() < wanted.len() {
        match watch.next(deadline, expected.bookmarks).await {
            Next::Event(event) => {
                let fits = matches(&wanted[got.len()], Some(&event), "").is_empty();
                if fits || !expected.skipping {
                    got.push(event);
                }
            }
            Next::Ended => return Err(format!("stream ended after {} of {} events; got {got:?}", got.len(), wanted.len())),
            Next::Nothing => return Err(format!("timeout after {} of {} events; got {got:?}", got.len(), wanted.len())),
        }
    }
    let errors: Vec<String> = if expected.unordered {
        let mut rest = got.clone();
        let take = |wanted: &Value, rest: &mut Vec<Value>| match rest
            .iter()
            .position(|event| matches(wanted, Some(event), "").is_empty())
        {
            Some(at) => drop(rest.remove(at)),
            None => rest.push(Value::Null), // makes the lengths differ
        };
        wanted.iter().for_each(|wanted| take(wanted, &mut rest));
        if rest.is_empty() { Vec::new() } else { vec![format!("events do not match in any order: {got:?}")] }
    } else {
        let each = wanted.iter().zip(&got).enumerate();
        each.flat_map(|(index, (wanted, event))| matches(wanted, Some(event), &format!("/events/{index}"))).collect()
    };
    if !errors.is_empty() {
        return Err(errors.join("\n  "));
    }
    after(watch, expected, deadline).await?;
    Ok(got)
}

/// Checks what must follow: silence, or the end of the stream.
async fn after(watch: &mut Watch, expected: &Expectation, deadline: Instant) -> Result<(), String> {
    if let Some(quiet) = expected.quiet {
        match watch.next(Instant::now() + Duration::from_secs_f64(quiet), expected.bookmarks).await {
            Next::Nothing => {}
            Next::Ended => return Err("expected silence, got the end of the stream".to_owned()),
            Next::Event(event) => return Err(format!("expected silence, got {event}")),
        }
    }
    if expected.closed {
        match watch.next(deadline, expected.bookmarks).await {
            Next::Ended => {}
            Next::Nothing => return Err("expected the end of the stream, got nothing".to_owned()),
            Next::Event(event) => return Err(format!("expected the end of the stream, got {event}")),
        }
    }
    Ok(())
}
