//! A queue of things to look at, each at most once, with a bound on how many requests are under way.

use std::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// Things to look at, by instant.
#[derive(Clone, Debug, Default)]
pub struct WorkQueue<K> {
    due: BTreeMap<K, Time>,
    queue: BTreeSet<(Time, K)>,
    in_flight: BTreeSet<K>,
    limit: usize,
}

impl<K: Ord + Clone + Default> WorkQueue<K> {
    /// Returns a queue that lets so many requests be under way at once.
    pub fn new(limit: usize) -> WorkQueue<K> {
        WorkQueue { limit, ..WorkQueue::default() }
    }

    /// Asks for a look at `key` at `at`, or earlier if that was asked before.
    pub fn schedule(&mut self, key: K, at: Time) {
        if let Some(known) = self.due.get(&key) {
            if *known <= at {
                return;
            }
            self.queue.remove(&(*known, key.clone()));
        }
        self.due.insert(key.clone(), at);
        // While a request is under way, the look waits for its end.
        if !self.in_flight.contains(&key) {
            self.queue.insert((at, key));
        }
    }

    /// Takes the first thing that is due, unless too many requests are under way.
    pub fn pop(&mut self, now: Time) -> Option<K> {
        if self.in_flight.len() >= self.limit || self.queue.first()?.0 > now {
            return None;
        }
        let (_, key) = self.queue.pop_first()?;
        self.due.remove(&key);
        Some(key)
    }

    /// A request for `key` is under way.
    pub fn start(&mut self, key: &K) {
        if let Some(due) = self.due.get(key) {
            self.queue.remove(&(*due, key.clone()));
        }
        self.in_flight.insert(key.clone());
    }

    /// The request for `key` has ended.
    pub fn finish(&mut self, key: &K) {
        self.in_flight.remove(key);
        if let Some(due) = self.due.get(key) {
            self.queue.insert((*due, key.clone()));
        }
    }

    /// Returns whether a request for `key` is under way.
    pub fn is_busy(&self, key: &K) -> bool {
        self.in_flight.contains(key)
    }

    /// Returns when the next thing is due, if it could be acted upon.
    pub fn deadline(&self) -> Option<Time> {
        self.queue.first().filter(|_| self.in_flight.len() < self.limit).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_under_way_waits_and_the_earliest_wish_counts() {
        let mut queue = WorkQueue::new(1);
        let at = Time::from_millis;
        queue.schedule("a".to_owned(), at(10));
        queue.schedule("a".to_owned(), at(5));
        queue.schedule("a".to_owned(), at(20));
        assert_eq!(queue.deadline(), Some(at(5)));
        assert_eq!(queue.pop(at(4)), None);
        assert_eq!(queue.pop(at(5)).as_deref(), Some("a"));
        queue.start(&"a".to_owned());
        queue.schedule("a".to_owned(), at(6));
        queue.schedule("b".to_owned(), at(6));
        assert_eq!((queue.pop(at(9)), queue.deadline()), (None, None));
        queue.finish(&"a".to_owned());
        assert_eq!(queue.pop(at(9)).as_deref(), Some("a"));
    }
}
