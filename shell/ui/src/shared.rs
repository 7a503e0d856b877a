//! The board that followers feed and viewers look at.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use machine::Time;
use runtime::Clock;
use tokio::sync::watch;
use view::{Board, Fact, Limits, Origin};

/// A board and who looks at it; clones share both.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    board: Mutex<Board>,
    clock: Clock,
    /// Counts facts, so that viewers know when to look again.
    changes: watch::Sender<u64>,
    viewers: watch::Sender<usize>,
    open: AtomicUsize,
    /// Since when the API does not answer, and what it says.
    unanswered: Mutex<Option<(Time, String)>>,
}

/// Somebody who looks; agents are asked only while there is one.
pub struct Viewer(Shared);

impl Shared {
    /// Returns an empty board.
    pub fn new(clock: Clock) -> Shared {
        Shared(Arc::new(Inner {
            board: Mutex::new(Board::new(Limits::default())),
            clock,
            changes: watch::Sender::new(0),
            viewers: watch::Sender::new(0),
            open: AtomicUsize::new(0),
            unanswered: Mutex::new(None),
        }))
    }

    /// Returns the instant.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Returns the board.
    pub fn board(&self) -> MutexGuard<'_, Board> {
        self.0.board.lock().expect("no code panics while it holds the board")
    }

    pub(crate) fn apply(&self, seen: Origin, fact: Fact) {
        let now = self.now();
        self.board().apply(now, seen, fact);
        self.0.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns what tells that something was applied.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Begins to look; `None`: too many do.
    pub fn view(&self, limit: usize) -> Option<Viewer> {
        let count = |open: usize| (open < limit).then_some(open + 1);
        let before = self.0.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).ok()?;
        self.0.viewers.send_replace(before + 1);
        Some(Viewer(self.clone()))
    }

    /// Waits until somebody looks.
    pub(crate) async fn viewed(&self) {
        // The sender is in here: it cannot be gone.
        let _ = self.0.viewers.subscribe().wait_for(|viewers| *viewers > 0).await;
    }

    pub(crate) fn set_unanswered(&self, error: Option<String>) {
        let mut known = self.0.unanswered.lock().expect("no code panics while it holds this");
        *known = error.map(|error| (known.as_ref().map_or_else(|| self.now(), |(since, _)| *since), error));
    }

    /// Returns since when the API does not answer, and why.
    pub fn unanswered(&self) -> Option<(Time, String)> {
        self.0.unanswered.lock().expect("no code panics while it holds this").clone()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let inner = &self.0.0;
        let before = inner.open.fetch_sub(1, Ordering::Relaxed);
        inner.viewers.send_replace(before - 1);
    }
}
