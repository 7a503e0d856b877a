//! How far the lists of the watched kinds are, and what a list did not name.

use std::collections::{BTreeMap, BTreeSet};

use api::Key;

use crate::Watched;

/// The lists of the watched kinds.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    lists: BTreeMap<Watched, List>,
}

#[derive(Clone, Debug, Default)]
struct List {
    /// It was read to its end once.
    read: bool,
    /// What was named since the list that is being read began.
    named: Option<BTreeSet<Key>>,
}

impl Lists {
    pub(crate) fn of(kinds: &[Watched]) -> Lists {
        Lists { lists: kinds.iter().map(|kind| (*kind, List::default())).collect() }
    }

    /// Returns whether every kind was listed once.
    pub(crate) fn complete(&self) -> bool {
        self.lists.values().all(|list| list.read)
    }

    pub(crate) fn started(&mut self, kind: Watched) {
        if let Some(list) = self.lists.get_mut(&kind) {
            list.named = Some(BTreeSet::new());
        }
    }

    /// Notes that an object is there.
    pub(crate) fn name(&mut self, kind: Watched, key: &Key) {
        if let Some(named) = self.lists.get_mut(&kind).and_then(|list| list.named.as_mut()) {
            named.insert(key.clone());
        }
    }

    /// Ends a list; returns which of the known objects it did not name.
    pub(crate) fn ended<'a>(&mut self, kind: Watched, known: impl Iterator<Item = &'a Key>) -> Vec<Key> {
        let Some(list) = self.lists.get_mut(&kind) else { return Vec::new() };
        list.read = true;
        let Some(named) = list.named.take() else { return Vec::new() };
        known.filter(|key| !named.contains(key)).cloned().collect()
    }
}
