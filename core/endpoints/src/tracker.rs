//! Own-write tracking of one Service: which events are echoes of own writes, and whether the cache shows them yet.
//!
//! A uid that was seen deleted is forgotten at once: a late answer for it must not make the cache look old for ever
//! (kubernetes/kubernetes#141592).

use std::collections::BTreeSet;

use crate::index::names::Names;

/// What this instance wrote, and what it knows to be gone.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    /// The generation of the last own write of each uid.
    written: Names<i64>,
    /// Own deletes that the cache has not shown yet.
    deleting: BTreeSet<String>,
    /// Seen deleted since the last sync began; answers and events for these mean nothing.
    gone: BTreeSet<String>,
}

impl Tracker {
    /// Notes the answer to an own create or update.
    pub fn wrote(&mut self, uid: &str, generation: i64) {
        if self.gone.contains(uid) {
            return;
        }
        match self.written.get_mut(uid) {
            Some(written) => *written = generation,
            None => drop(self.written.insert(uid.into(), generation)),
        }
    }

    /// Notes that an own delete is under way or done; events of the slice mean nothing from here on.
    pub fn deleting(&mut self, uid: &str) {
        if !self.gone.contains(uid) {
            self.written.remove(uid);
            self.deleting.insert(uid.to_owned());
        }
    }

    /// Notes that an own delete was refused: the slice is there, and what becomes of it matters again.
    pub fn delete_failed(&mut self, uid: &str) {
        self.deleting.remove(uid);
    }

    /// Notes a slice that was added or changed; returns whether its Service must be synced.
    pub fn observed(&mut self, uid: &str, generation: i64, deleting: bool) -> bool {
        if self.gone.contains(uid) {
            return false;
        }
        if deleting {
            return self.observed_delete(uid);
        }
        !self.deleting.contains(uid) && self.written.get(uid).is_none_or(|&written| generation > written)
    }

    /// Notes a slice that is gone, or as good as gone; returns whether its Service must be synced.
    pub fn observed_delete(&mut self, uid: &str) -> bool {
        if !self.gone.insert(uid.to_owned()) {
            return false;
        }
        self.written.remove(uid);
        !self.deleting.remove(uid)
    }

    /// Returns whether a slice was seen deleted, or is being deleted by this instance: nothing that is heard of it matters.
    pub fn is_done_with(&self, uid: &str) -> bool {
        self.gone.contains(uid) || self.deleting.contains(uid)
    }

    /// Notes that a sync begins: no answer can be outstanding, so nothing needs to be ignored any more.
    pub fn sync_started(&mut self) {
        self.gone.clear();
    }

    /// Notes that the slices were listed anew: what was being deleted and is not in the list is gone, without an event.
    pub fn relisted(&mut self) {
        self.deleting.clear();
    }

    /// Forgets a slice that belongs to somebody else now.
    pub fn forget(&mut self, uid: &str) {
        self.written.remove(uid);
        self.deleting.remove(uid);
    }

    /// Returns whether a cache with these slices (uid, generation, being deleted) lacks own writes.
    pub fn stale<'a>(&self, cache: impl IntoIterator<Item = (&'a str, i64, bool)>) -> bool {
        let mut missing: BTreeSet<&str> = self.written.iter().map(|(uid, _)| &**uid).collect();
        for (uid, generation, deleting) in cache {
            if self.deleting.contains(uid) && !deleting {
                return true;
            }
            if self.written.get(uid).is_some_and(|&written| generation < written) {
                return true;
            }
            missing.remove(uid);
        }
        !missing.is_empty()
    }
}
