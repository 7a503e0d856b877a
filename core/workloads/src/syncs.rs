//! What all controllers of this crate have in common: which lists were read, what is to be looked at, which requests are under way.

use api::{Key, Write};
use machine::{Time, WorkQueue};

use crate::lists::Lists;
use crate::pending_writes::PendingWrites;
use crate::{Effect, Watched};

/// The syncs of one controller; `P` says what a request is for.
#[derive(Clone, Debug)]
pub(crate) struct Syncs<P> {
    pub(crate) lists: Lists,
    pub(crate) queue: WorkQueue<Key>,
    pub(crate) writes: PendingWrites<P>,
}

/// What a request is for.
#[derive(Clone, Debug)]
pub(crate) struct Purpose<W> {
    /// The very object whose sync sent it.
    pub(crate) uid: String,
    pub(crate) what: W,
}

impl<P> Syncs<P> {
    /// Returns none, for a controller that watches some kinds and syncs so many objects at the same time.
    pub(crate) fn new(watched: &[Watched], at_once: usize) -> Syncs<P> {
        Syncs { lists: Lists::of(watched), queue: WorkQueue::new(at_once), writes: PendingWrites::default() }
    }

    /// Returns the next object to look at, once everything was listed.
    pub(crate) fn next(&mut self, now: Time) -> Option<Key> {
        if self.lists.complete() { self.queue.pop(now) } else { None }
    }

    /// Sends a request of the sync of `key`.
    pub(crate) fn send(&mut self, key: &Key, purpose: P, write: Write, effects: &mut Vec<Effect>) {
        let id = self.writes.send(key, purpose);
        self.queue.start(key);
        effects.push(Effect::Write(id, write));
    }

    /// Ends a sync, whose requests are all answered; the object is looked at again.
    pub(crate) fn end(&mut self, key: Key, now: Time) {
        self.writes.ended(&key);
        self.queue.finish(&key);
        self.queue.schedule(key, now);
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.queue.deadline().filter(|_| self.lists.complete())
    }
}
