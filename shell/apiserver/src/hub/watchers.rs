//! Those who watch: a bounded queue each, and what happens to one that does not keep up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use registry::state::{Change, Stored};
use tokio::sync::mpsc;

use crate::metrics::Metrics;

/// The most events that wait for a slow watcher; past that its stream ends and the client resumes.
const WATCH_EVENTS_MAX: usize = 1_000;
/// The most bytes that wait for a slow watcher.
const WATCH_BYTES_MAX: usize = 4 << 20;
/// The most events that wait for the server's own controllers: the window of changes holds as many anyway.
const OWN_EVENTS_MAX: usize = 10_000;

/// Decides whether a watcher cares about an object.
pub(crate) type Matcher = Arc<dyn Fn(&Stored) -> bool + Send + Sync>;

/// Those who watch one resource.
#[derive(Default)]
pub(super) struct Watchers {
    list: Vec<Watcher>,
    /// One for each receiver that is left, and this one.
    count: Arc<()>,
}

impl Watchers {
    /// Adds a watcher of the keys below `prefix`; `internal`: it is the server's own.
    pub(super) fn add(&mut self, prefix: &str, internal: bool, matcher: Matcher) -> Receiver {
        let (sender, receiver) = mpsc::channel(if internal { OWN_EVENTS_MAX } else { WATCH_EVENTS_MAX });
        let queued = Arc::new(AtomicUsize::new(0));
        self.list.push(Watcher { prefix: prefix.to_owned(), internal, matcher, sender, queued: Arc::clone(&queued) });
        Receiver { inner: receiver, queued, count: Arc::clone(&self.count) }
    }

    /// Offers a change to all of them; those who are gone or too slow are forgotten.
    pub(super) fn offer(&mut self, change: &Arc<Change>, metrics: &Metrics) {
        self.list.retain(|watcher| watcher.offer(change, metrics));
    }
}

struct Watcher {
    prefix: String,
    /// The server's own; if it ever falls behind it starts over by itself.
    internal: bool,
    matcher: Matcher,
    sender: mpsc::Sender<Arc<Change>>,
    queued: Arc<AtomicUsize>,
}

impl Watcher {
    /// Offers a change; false: the watcher is gone or too slow.
    fn offer(&self, change: &Arc<Change>, metrics: &Metrics) -> bool {
        if self.sender.is_closed() {
            return false;
        }
        let cares = change.key.starts_with(&self.prefix)
            && ((self.matcher)(&change.object) || change.previous.as_ref().is_some_and(|previous| (self.matcher)(previous)));
        if !cares {
            return true;
        }
        let size = change.object.size();
        let queued = self.queued.load(Ordering::Relaxed);
        // One event always has room, however large: else its watchers would start over for ever.
        let full = !self.internal && queued > 0 && queued + size > WATCH_BYTES_MAX;
        if full || self.sender.try_send(Arc::clone(change)).is_err() {
            if !self.internal {
                metrics.watch_overflow();
            }
            return false;
        }
        self.queued.fetch_add(size, Ordering::Relaxed);
        true
    }
}

/// Receives changes and accounts for them.
pub(crate) struct Receiver {
    inner: mpsc::Receiver<Arc<Change>>,
    queued: Arc<AtomicUsize>,
    count: Arc<()>,
}

impl Receiver {
    /// Returns how many watch the resource.
    pub(crate) fn watchers(&self) -> usize {
        Arc::strong_count(&self.count) - 1
    }

    pub(crate) async fn recv(&mut self) -> Option<Arc<Change>> {
        let change = self.inner.recv().await?;
        Some(self.received(change))
    }

    /// Returns a change that has come already.
    pub(crate) fn try_recv(&mut self) -> Option<Arc<Change>> {
        let change = self.inner.try_recv().ok()?;
        Some(self.received(change))
    }

    fn received(&self, change: Arc<Change>) -> Arc<Change> {
        self.queued.fetch_sub(change.object.size(), Ordering::Relaxed);
        change
    }

    /// Returns whether everything that was sent has been received, and more can come.
    pub(crate) fn is_level(&self) -> bool {
        self.inner.is_empty() && !self.inner.is_closed()
    }
}
