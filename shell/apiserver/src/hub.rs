//! The hub: the state, the one writer, and those who watch.
//!
//! Handlers prepare a write against a snapshot and hand it over; the writer takes all that wait, commits them as one
//! batch, and only then shows them to readers and watchers. Nothing that is not on disk is ever visible.

mod watchers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use api::status::Status;
use registry::recent::Recent;
use registry::state::{Answer, Change, Current, Refused, RegistryState, Snapshot, Stored, WindowLimits, Write};
use runtime::Clock;
use tokio::sync::{mpsc, oneshot, watch};

use crate::metrics::Metrics;
use crate::store::{Fallback, Room, Store, StoreError};
use watchers::Watchers;
pub(crate) use watchers::{Matcher, Receiver};

/// The most writes that share a transaction.
const BATCH_WRITES: usize = 256;
/// What all keys begin with.
const EVERYTHING: &str = "/";
/// How long after a commit found no room the next write that needs some is tried.
const FULL_RETRY: Duration = Duration::from_secs(2);
/// The most writes that wait for the writer; past that handlers wait in line themselves.
const QUEUE_WRITES: usize = 4 * BATCH_WRITES;

/// The state, the one writer, and those who watch.
#[derive(Clone)]
pub(crate) struct Hub(Arc<Inner>);

struct Inner {
    shared: Mutex<Shared>,
    submit: Submit,
    clock: Clock,
    revision: watch::Sender<u64>,
    failed: AtomicBool,
    failure: watch::Sender<Option<String>>,
    /// Why the disk takes no more than deletions, and since when; tried again from time to time.
    full: watch::Sender<Option<Full>>,
    fallback: Option<Fallback>,
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
struct Full {
    why: String,
    tried: Instant,
}

struct Shared {
    state: RegistryState,
    /// What was written last, parsed.
    recent: Recent,
    /// By what their keys begin with: `/<group>/<resource>/`, or `/` for everything.
    watchers: BTreeMap<String, Watchers>,
}

enum Submit {
    /// A thread of its own does the disk work.
    Thread(mpsc::Sender<Pending>),
    /// The caller does it: for stores without a disk, so that virtual time can be used.
    Inline(Mutex<Box<dyn Store>>),
}

struct Pending {
    /// `None`: only find out whether the disk has room again.
    write: Option<Write>,
    answer: oneshot::Sender<Result<Answer, Status>>,
}

/// A watcher's end: the state it starts from, what happened since, and what will.
pub(crate) struct Subscription {
    /// The present when it began.
    pub(crate) snapshot: Snapshot,
    /// The changes between the revision that was asked for and the present.
    pub(crate) backlog: Vec<Arc<Change>>,
    /// The changes from then on; ends when the watcher was too slow.
    pub(crate) receiver: Receiver,
}

impl Hub {
    /// Returns a hub whose writer is a thread of its own.
    pub(crate) fn threaded(mut store: Box<dyn Store>, clock: Clock, metrics: Arc<Metrics>) -> Result<Hub, StoreError> {
        let state = store.load(WindowLimits::default())?;
        let fallback = store.fallback();
        metrics.fallbacks(store.fallbacks());
        let (sender, receiver) = mpsc::channel(QUEUE_WRITES);
        let hub = Hub::new(state, Submit::Thread(sender), fallback, clock, metrics);
        let weak = Arc::downgrade(&hub.0);
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_loop(&weak, store, receiver))
            .map_err(|error| StoreError::Failed(format!("cannot start the writer: {error}")))?;
        Ok(hub)
    }

    /// Returns a hub whose callers do the disk work themselves.
    pub(crate) fn inline(mut store: Box<dyn Store>, clock: Clock, metrics: Arc<Metrics>) -> Result<Hub, StoreError> {
        let state = store.load(WindowLimits::default())?;
        let fallback = store.fallback();
        Ok(Hub::new(state, Submit::Inline(Mutex::new(store)), fallback, clock, metrics))
    }

    fn new(state: RegistryState, submit: Submit, fallback: Option<Fallback>, clock: Clock, metrics: Arc<Metrics>) -> Hub {
        let revision = watch::Sender::new(state.revision());
        let shared = Mutex::new(Shared { state, recent: Recent::default(), watchers: BTreeMap::new() });
        Hub(Arc::new(Inner {
            shared,
            submit,
            clock,
            revision,
            failed: AtomicBool::new(false),
            failure: watch::Sender::new(None),
            full: watch::Sender::new(None),
            fallback,
            metrics,
        }))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.shared.lock().expect("no code panics while it holds the state")
    }

    /// Returns the present.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared().state.snapshot()
    }

    /// Returns a stored object as a write begins from it.
    pub(crate) fn current<'a>(&self, stored: &'a Arc<Stored>) -> Current<'a> {
        let parsed = self.shared().recent.get(stored);
        parsed.map_or_else(|| Current::new(stored), |parsed| Current::parsed(stored, parsed))
    }

    /// Returns the objects as they were at a revision, if that is still known.
    pub(crate) fn snapshot_at(&self, revision: u64) -> Option<Snapshot> {
        self.shared().state.snapshot_at(revision)
    }

    /// Waits until the store has reached a revision.
    pub(crate) async fn reached(&self, revision: u64) {
        let mut revisions = self.0.revision.subscribe();
        // The sender lives as long as the hub, which we hold.
        let _ = revisions.wait_for(|current| *current >= revision).await;
    }

    /// Returns whether the disk has failed; then nothing can be written any more.
    pub(crate) fn failed(&self) -> bool {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// Returns why the disk takes nothing but deletions, if so.
    pub(crate) fn full(&self) -> Option<String> {
        self.0.full.borrow().as_ref().map(|full| full.why.clone())
    }

    /// Returns what was lost when the store was opened.
    pub(crate) fn fallback(&self) -> Option<Fallback> {
        self.0.fallback
    }

    /// Finds out from time to time whether a full disk has room again; runs for ever.
    pub(crate) async fn watch_room(&self) {
        let mut full = self.0.full.subscribe();
        loop {
            // The sender lives as long as the hub, which we hold.
            let _ = full.wait_for(Option::is_some).await;
            tokio::time::sleep(FULL_RETRY).await;
            // The answer changes what `full` says.
            let _ = self.submit(None).await;
        }
    }

    /// Says that the server cannot go on.
    pub(crate) fn give_up(&self, why: String) {
        self.0.failure.send_replace(Some(why));
    }

    /// Waits until the disk fails or something gives up, and returns why.
    pub(crate) async fn failure(&self) -> String {
        let mut failure = self.0.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// Commits one write and returns its answer once it is on disk.
    pub(crate) async fn commit(&self, write: Write) -> Result<Answer, Status> {
        self.submit(Some(write)).await
    }

    async fn submit(&self, write: Option<Write>) -> Result<Answer, Status> {
        if self.failed() {
            return Err(Status::unavailable("the store has failed; nothing can be written until the server is restarted"));
        }
        match &self.0.submit {
            Submit::Inline(store) => {
                let mut store = store.lock().expect("no code panics while it holds the store");
                let mut answers = self.0.commit_batch(store.as_mut(), write.into_iter().collect());
                answers.pop().unwrap_or(Ok(Err(Refused::Missing)))
            }
            Submit::Thread(sender) => {
                let (answer, answered) = oneshot::channel();
                let gone = || Status::unavailable("the server is shutting down");
                sender.send(Pending { write, answer }).await.map_err(|_| gone())?;
                answered.await.map_err(|_| gone())?
            }
        }
    }

    /// Returns what committing a write now would answer, and commits nothing.
    pub(crate) fn rehearse(&self, write: Write) -> Answer {
        let now = self.0.clock.now();
        self.snapshot().stage(now, vec![write]).answers.pop().expect("one answer per write")
    }

    /// Registers a watcher of the keys below `prefix` (which begins with `resource_prefix`), and returns what has happened
    /// after `since`; `None` if that is no longer known.
    pub(crate) fn subscribe(
        &self,
        resource_prefix: &str,
        prefix: &str,
        since: Option<u64>,
        matcher: Matcher,
    ) -> Option<Subscription> {
        let internal = resource_prefix == EVERYTHING;
        let mut shared = self.shared();
        let backlog = match since {
            None => Vec::new(),
            Some(revision) => {
                let changes = shared.state.changes_after(revision)?;
                changes.filter(|change| change.key.starts_with(prefix)).cloned().collect()
            }
        };
        let snapshot = shared.state.snapshot();
        let receiver = shared.watchers.entry(resource_prefix.to_owned()).or_default().add(prefix, internal, matcher);
        Some(Subscription { snapshot, backlog, receiver })
    }

    /// Registers a watcher of everything, for the server's own controllers.
    pub(crate) fn subscribe_all(&self) -> Subscription {
        self.subscribe(EVERYTHING, EVERYTHING, None, Arc::new(|_| true)).expect("nothing of the past was asked for")
    }

    /// Ends every watch stream, so that clients resume elsewhere or later.
    pub(crate) fn end_watches(&self) {
        self.shared().watchers.clear();
    }
}

impl Inner {
    /// Commits a batch. On a full disk each deletion is committed by itself, with what was set aside for that, and the others
    /// are told.
    fn commit_batch(&self, store: &mut dyn Store, writes: Vec<Write>) -> Vec<Result<Answer, Status>> {
        let count = writes.len();
        let deletions: Vec<Option<Write>> = writes.iter().map(|write| write.deletes().then(|| write.clone())).collect();
        let wait = self.full.borrow().as_ref().is_some_and(|full| full.tried.elapsed() < FULL_RETRY);
        if !wait {
            match self.commit_with(store, writes, Room::Free) {
                Ok(answers) => {
                    if self.full.borrow().is_some() {
                        self.full.send_replace(None);
                        tracing::info!("the disk has room again");
                    }
                    return answers.into_iter().map(Ok).collect();
                }
                Err(StoreError::Full(_)) => {}
                Err(error) => return self.fail(&error, count),
            }
        }
        deletions.into_iter().map(|deletion| self.commit_deletion(store, deletion)).collect()
    }

    fn commit_deletion(&self, store: &mut dyn Store, deletion: Option<Write>) -> Result<Answer, Status> {
        let refused = || {
            let why = self.full.borrow().as_ref().map(|full| full.why.clone()).unwrap_or_default();
            Status::unavailable(why)
        };
        match self.commit_with(store, vec![deletion.ok_or_else(refused)?], Room::Reserve) {
            Ok(mut answers) => Ok(answers.pop().expect("one answer per write")),
            Err(StoreError::Full(_)) => Err(refused()),
            Err(error) => self.fail(&error, 1).pop().expect("one answer per write"),
        }
    }

    /// Stages a batch, commits it and shows it to everybody, or does nothing at all.
    fn commit_with(&self, store: &mut dyn Store, writes: Vec<Write>, room: Room) -> Result<Vec<Answer>, StoreError> {
        // Nobody else publishes, so what is staged holds without the lock: readers do not wait for it.
        let (snapshot, floor) = {
            let shared = self.shared.lock().expect("no code panics while it holds the state");
            (shared.state.snapshot(), shared.state.floor())
        };
        let staged = snapshot.stage(self.clock.now(), writes);
        // Without changes nothing needs to be written, unless it is to find out whether it could be.
        if !staged.changes.is_empty() || self.full.borrow().is_some() {
            let started = Instant::now();
            store.commit(&staged.changes, floor, room).inspect_err(|error| self.note_full(error))?;
            let took = started.elapsed();
            tracing::trace!(target: "hop", changes = staged.changes.len(), took_us = took.as_micros(), "commit");
            self.metrics.committed(staged.changes.len(), took, store.bytes());
        }
        let (next, changes, answers, parsed) = staged.into_parts();
        let revision = next.revision;
        let _gone = {
            let mut shared = self.shared.lock().expect("no code panics while it holds the state");
            shared.state.publish(next, &changes);
            let gone = shared.recent.keep(parsed);
            for change in &changes {
                shared.deliver(change, &self.metrics);
            }
            gone
        };
        self.metrics.revision(revision);
        self.revision.send_replace(revision);
        Ok(answers)
    }

    fn note_full(&self, error: &StoreError) {
        if !matches!(error, StoreError::Full(_)) {
            return;
        }
        let why = error.to_string();
        if self.full.send_replace(Some(Full { why, tried: Instant::now() })).is_none() {
            tracing::error!(%error, "nothing but deletions can be written");
        }
    }

    /// A failed commit is final: retrying an fsync can report success for data that was lost.
    fn fail(&self, error: &StoreError, count: usize) -> Vec<Result<Answer, Status>> {
        tracing::error!(%error, "the store failed; stopping");
        self.failed.store(true, Ordering::Relaxed);
        self.failure.send_replace(Some(error.to_string()));
        (0..count).map(|_| Err(Status::internal(error.to_string()))).collect()
    }
}

impl Shared {
    fn deliver(&mut self, change: &Arc<Change>, metrics: &Metrics) {
        // `/<group>/<resource>/`: up to the third slash.
        let resource = change.key.match_indices('/').nth(2).map_or(change.key.as_ref(), |(at, _)| &change.key[..=at]);
        for prefix in [resource, EVERYTHING] {
            let Some(watchers) = self.watchers.get_mut(prefix) else { continue };
            watchers.offer(change, metrics);
        }
    }
}

/// Takes all waiting writes, commits them as one batch, answers, repeats; ends with the hub.
fn write_loop(inner: &std::sync::Weak<Inner>, mut store: Box<dyn Store>, mut queue: mpsc::Receiver<Pending>) {
    while let Some(first) = queue.blocking_recv() {
        let Some(inner) = inner.upgrade() else { return };
        let mut writes = Vec::new();
        let mut waiting = Vec::new();
        let mut next = Some(first);
        while let Some(Pending { write, answer }) = next {
            if let Some(write) = write {
                writes.push(write);
                waiting.push(answer);
            }
            next = if writes.len() < BATCH_WRITES { queue.try_recv().ok() } else { None };
        }
        let answers = inner.commit_batch(store.as_mut(), writes);
        for (answer, waiting) in answers.into_iter().zip(waiting) {
            // A client that went away does not take its write with it.
            let _ = waiting.send(answer);
        }
    }
}
