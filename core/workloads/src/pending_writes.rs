//! Requests under way: what each is for, and what must not be believed of their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Key;
use machine::BackOff;

use crate::WriteId;

/// The waits after failed requests.
pub(crate) const RETRY: BackOff = BackOff { first: Duration::from_millis(100), last: Duration::from_secs(30) };

/// Requests under way, by the object whose sync sent them.
#[derive(Clone, Debug)]
pub(crate) struct PendingWrites<P> {
    next: u64,
    /// What each is for, and how many lists had ended when it was sent.
    pending: BTreeMap<WriteId, (Key, P, u64)>,
    lists: u64,
    outstanding: BTreeMap<Key, usize>,
    /// Objects that were seen deleted while requests of a sync were under way: an answer that shows one of them is older.
    gone: BTreeMap<Key, BTreeSet<String>>,
}

impl<P> Default for PendingWrites<P> {
    fn default() -> PendingWrites<P> {
        PendingWrites { next: 0, lists: 0, pending: BTreeMap::new(), outstanding: BTreeMap::new(), gone: BTreeMap::new() }
    }
}

impl<P> PendingWrites<P> {
    /// Notes a request of the sync of `key`; returns its name.
    pub(crate) fn send(&mut self, key: &Key, purpose: P) -> WriteId {
        self.next += 1;
        let id = WriteId(self.next);
        self.pending.insert(id, (key.clone(), purpose, self.lists));
        *self.outstanding.entry(key.clone()).or_default() += 1;
        id
    }

    /// Notes that a list has ended: what it did not name is gone, also if an answer that comes later shows it.
    pub(crate) fn listed(&mut self) {
        self.lists += 1;
    }

    /// Takes an answer; returns what the request was for, and whether a list has ended since it was sent.
    pub(crate) fn answered(&mut self, id: WriteId) -> Option<(Key, P, bool)> {
        let (key, purpose, lists) = self.pending.remove(&id)?;
        if let Some(count) = self.outstanding.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.outstanding.remove(&key);
            }
        }
        Some((key, purpose, lists != self.lists))
    }

    /// Returns whether requests of the sync of `key` are under way.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.outstanding.contains_key(key)
    }

    /// Notes that an object which the sync of `key` may have made was seen deleted.
    pub(crate) fn seen_deleted(&mut self, key: &Key, uid: &str) {
        if self.is_busy(key) {
            self.gone.entry(key.clone()).or_default().insert(uid.to_owned());
        }
    }

    /// Returns whether an object of an answer is gone already.
    pub(crate) fn is_gone(&self, key: &Key, uid: &str) -> bool {
        self.gone.get(key).is_some_and(|gone| gone.contains(uid))
    }

    /// Ends the sync of `key`: no answer is awaited any more.
    pub(crate) fn ended(&mut self, key: &Key) {
        self.gone.remove(key);
    }
}
