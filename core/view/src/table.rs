//! Rows by key, each with the revision of its last change.

use std::collections::{BTreeMap, VecDeque};

use crate::delta::Changes;

/// Keys that went are remembered as long as this; who was away for longer gets everything anew.
const GONE_MAX: usize = 1_000;

/// Rows of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Table<R> {
    rows: BTreeMap<String, (u64, R)>,
    gone: VecDeque<(u64, String)>,
    /// The revision of the last key that went and is no longer remembered.
    forgotten: u64,
}

impl<R> Default for Table<R> {
    fn default() -> Table<R> {
        Table { rows: BTreeMap::new(), gone: VecDeque::new(), forgotten: 0 }
    }
}

impl<R: Clone + PartialEq> Table<R> {
    /// Puts a row; returns whether that changes anything.
    pub(crate) fn put(&mut self, revision: u64, key: &str, row: R) -> bool {
        if self.rows.get(key).is_some_and(|(_, known)| *known == row) {
            return false;
        }
        self.rows.insert(key.to_owned(), (revision, row));
        true
    }

    /// Takes a row away; returns whether it was there.
    pub(crate) fn remove(&mut self, revision: u64, key: &str) -> bool {
        if self.rows.remove(key).is_none() {
            return false;
        }
        if self.gone.len() == GONE_MAX
            && let Some((oldest, _)) = self.gone.pop_front()
        {
            self.forgotten = oldest;
        }
        self.gone.push_back((revision, key.to_owned()));
        true
    }

    /// Returns whether everything that went after a revision is still known.
    pub(crate) fn remembers(&self, since: u64) -> bool {
        self.forgotten <= since
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &R> {
        self.rows.values().map(|(_, row)| row)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&R> {
        self.rows.get(key).map(|(_, row)| row)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns what changed after a revision; `None`: everything.
    pub(crate) fn since(&self, since: Option<u64>) -> Changes<R> {
        let after = since.unwrap_or(0);
        let put = self.rows.values().filter(|(revision, _)| since.is_none() || *revision > after);
        let gone =
            self.gone.iter().filter(|(revision, key)| since.is_some() && *revision > after && !self.rows.contains_key(key));
        Changes { put: put.map(|(_, row)| row.clone()).collect(), gone: gone.map(|(_, key)| key.clone()).collect() }
    }
}
