//! The one stream of a page: lines of JSON, the first of which says who we are, then everything, then what is new.
//!
//! A browser that is slow gets fewer and larger lines, never a queue: the next line is made when the last one was taken.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use machine::Time;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use view::Delta;

use super::Site;
use crate::shared::{Shared, Viewer};

/// Pages that are open at once.
const VIEWERS_MAX: usize = 16;
/// The shortest time between two lines: eyes are not faster.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest: who hears nothing for longer knows that something is wrong.
const SILENCE: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    delta: Delta,
    /// Since when the API does not answer, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    unanswered: Option<(i64, String)>,
}

struct State {
    shared: Shared,
    changes: watch::Receiver<u64>,
    since: Option<u64>,
    hello: Option<Bytes>,
    /// Agents are asked as long as this is there.
    _viewer: Viewer,
}

/// Returns the lines; `None`: too many pages are open.
pub(super) fn lines(site: &Site, since: Option<u64>) -> Option<impl Stream<Item = Bytes> + use<>> {
    let viewer = site.shared.view(VIEWERS_MAX)?;
    let config = &site.config;
    let hello = json!({"instance": site.instance, "cluster": config.cluster, "version": config.version});
    let state = State {
        shared: site.shared.clone(),
        changes: site.shared.changes(),
        since,
        hello: Some(Bytes::from(format!("{hello}\n"))),
        _viewer: viewer,
    };
    Some(futures::stream::unfold((state, false), next))
}

async fn next((mut state, waits): (State, bool)) -> Option<(Bytes, (State, bool))> {
    if let Some(hello) = state.hello.take() {
        return Some((hello, (state, false)));
    }
    if waits {
        tokio::time::sleep(PAUSE).await;
        let _ = tokio::time::timeout(SILENCE - PAUSE, state.changes.changed()).await;
    }
    state.changes.mark_unchanged();
    let (shared, since) = (state.shared.clone(), state.since);
    // Everything of a large cluster takes longer than a worker of probes and heartbeats may be busy.
    let made = tokio::task::spawn_blocking(move || line(&shared, since)).await;
    let (revision, line) = made.ok()?;
    state.since = Some(revision);
    Some((line, (state, true)))
}

fn line(shared: &Shared, since: Option<u64>) -> (u64, Bytes) {
    let delta = shared.board().delta(shared.now(), since);
    let unanswered = shared.unanswered().map(|(since, why): (Time, String)| (since.as_millis(), why));
    let line = Line { delta, unanswered };
    let mut text = serde_json::to_vec(&line).expect("rows are JSON");
    text.push(b'\n');
    (line.delta.revision, Bytes::from(text))
}
