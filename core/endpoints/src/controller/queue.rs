//! Services that wait for their sync, by the time they are due.

use std::collections::{BTreeMap, BTreeSet};

use machine::Time;

use crate::index::ServiceKey;

/// Services and when they are due. An earlier time replaces a later one, never the other way round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    due: BTreeMap<ServiceKey, Time>,
    order: BTreeSet<(Time, ServiceKey)>,
}

impl Queue {
    pub(crate) fn add(&mut self, key: ServiceKey, at: Time) {
        match self.due.get(&key) {
            Some(&earlier) if earlier <= at => return,
            Some(&later) => {
                self.order.remove(&(later, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
    }

    pub(crate) fn remove(&mut self, key: &ServiceKey) {
        if let Some(at) = self.due.remove(key) {
            self.order.remove(&(at, key.clone()));
        }
    }

    /// Returns when the first Service is due.
    pub(crate) fn first(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes the first Service if it is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<ServiceKey> {
        let (at, key) = self.order.pop_first()?;
        if at > now {
            self.order.insert((at, key));
            return None;
        }
        self.due.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_due_time_wins() {
        let key = |name: &str| ServiceKey { namespace: "default".into(), name: name.into() };
        let mut queue = Queue::default();
        queue.add(key("a"), Time::from_secs(5));
        queue.add(key("a"), Time::from_secs(9));
        queue.add(key("b"), Time::from_secs(7));
        queue.add(key("b"), Time::from_secs(6));
        assert_eq!(queue.first(), Some(Time::from_secs(5)));
        assert_eq!(queue.pop(Time::from_secs(4)), None);
        assert_eq!(queue.pop(Time::from_secs(9)), Some(key("a")));
        assert_eq!(queue.pop(Time::from_secs(9)), Some(key("b")));
        assert_eq!(queue.first(), None);
        queue.add(key("a"), Time::from_secs(1));
        queue.remove(&key("a"));
        assert_eq!(queue.pop(Time::from_secs(9)), None);
    }
}
