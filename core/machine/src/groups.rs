//! Sets by key, without empty ones.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// Sets by key; a key without members is not kept.
#[derive(Clone, Debug)]
pub struct Groups<K, V>(BTreeMap<K, BTreeSet<V>>);

impl<K, V> Default for Groups<K, V> {
    fn default() -> Groups<K, V> {
        Groups(BTreeMap::new())
    }
}

impl<K: Ord + Clone, V: Ord + Clone> Groups<K, V> {
    /// Returns the members of a key, in order.
    pub fn get<'a, Q: Ord + ?Sized>(&'a self, key: &Q) -> impl Iterator<Item = &'a V> + use<'a, K, V, Q>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }

    /// Returns how many members a key has.
    pub fn count(&self, key: &K) -> usize {
        self.0.get(key).map_or(0, BTreeSet::len)
    }

    /// Returns the keys that have members.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    /// Puts a member where it is not yet.
    pub fn insert(&mut self, key: &K, member: &V) {
        self.0.entry(key.clone()).or_default().insert(member.clone());
    }

    /// Takes a member away.
    pub fn remove(&mut self, key: &K, member: &V) {
        if let Some(members) = self.0.get_mut(key) {
            members.remove(member);
            if members.is_empty() {
                self.0.remove(key);
            }
        }
    }

    /// Moves a member from the keys `before` to the keys `after`.
    pub fn replace(&mut self, member: &V, before: &BTreeSet<K>, after: &BTreeSet<K>) {
        before.difference(after).for_each(|key| self.remove(key, member));
        after.difference(before).for_each(|key| self.insert(key, member));
    }
}
