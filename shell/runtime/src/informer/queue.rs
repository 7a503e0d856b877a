//! What a follower has not taken yet: in order, one entry per object, so that a slow follower costs no more than the objects.
//!
//! Of an object only the latest state matters. If a follower is behind, a newer state takes the place of the older one; that
//! another object of the same name was there before is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Any;

/// What is told, without the type.
pub(super) enum QueuedChange {
    ListBegins,
    Applied(Any),
    Deleted(Any),
    Synced,
}

enum Entry {
    ListBegins,
    Object(Arc<str>),
    Synced,
}

/// What is to be told of one object: that the one before is gone, then how it is now.
#[derive(Default)]
struct Pending {
    deleted: Option<Any>,
    applied: Option<Any>,
}

#[derive(Default)]
pub(super) struct Queue {
    order: VecDeque<Entry>,
    pending: HashMap<Arc<str>, Pending>,
    waker: Option<Waker>,
    closed: bool,
}

impl Queue {
    pub(super) fn list_begins(&mut self) {
        // An end that nobody has seen is no end any more.
        self.order.retain(|entry| !matches!(entry, Entry::Synced | Entry::ListBegins));
        self.push(Entry::ListBegins);
    }

    pub(super) fn synced(&mut self) {
        self.push(Entry::Synced);
    }

    pub(super) fn apply(&mut self, key: &Arc<str>, object: &Any) {
        self.pending(key).applied = Some(Arc::clone(object));
    }

    pub(super) fn delete(&mut self, key: &Arc<str>, object: &Any) {
        let pending = self.pending(key);
        pending.applied = None;
        // If the one before is still to be told as gone, the follower never heard of this one.
        pending.deleted.get_or_insert_with(|| Arc::clone(object));
    }

    fn pending(&mut self, key: &Arc<str>) -> &mut Pending {
        if !self.pending.contains_key(key) {
            self.push(Entry::Object(Arc::clone(key)));
            self.pending.insert(Arc::clone(key), Pending::default());
        }
        self.pending.get_mut(key).expect("it was just put there")
    }

    fn push(&mut self, entry: Entry) {
        self.order.push_back(entry);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The follower is gone.
    pub(super) fn close(&mut self) {
        *self = Queue { closed: true, ..Queue::default() };
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<QueuedChange> {
        match self.order.pop_front() {
            Some(Entry::ListBegins) => Poll::Ready(QueuedChange::ListBegins),
            Some(Entry::Synced) => Poll::Ready(QueuedChange::Synced),
            Some(Entry::Object(key)) => {
                let mut pending = self.pending.remove(&key).expect("what is in order is pending");
                let Some(deleted) = pending.deleted.take() else {
                    return Poll::Ready(QueuedChange::Applied(pending.applied.expect("one of both is there")));
                };
                if pending.applied.is_some() {
                    self.order.push_front(Entry::Object(Arc::clone(&key)));
                    self.pending.insert(key, pending);
                }
                Poll::Ready(QueuedChange::Deleted(deleted))
            }
            None => {
                self.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(queue: &mut Queue) -> Vec<String> {
        let mut context = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        while let Poll::Ready(reported) = queue.poll(&mut context) {
            let text = |object: Any| *object.downcast_ref::<&str>().unwrap();
            all.push(match reported {
                QueuedChange::ListBegins => "begins".to_owned(),
                QueuedChange::Synced => "synced".to_owned(),
                QueuedChange::Applied(object) => format!("+{}", text(object)),
                QueuedChange::Deleted(object) => format!("-{}", text(object)),
            });
        }
        all
    }

    fn object(text: &'static str) -> Any {
        Arc::new(text)
    }

    #[test]
    fn who_keeps_up_is_told_everything_in_order() {
        let mut queue = Queue::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        queue.list_begins();
        queue.apply(&a, &object("a1"));
        queue.apply(&b, &object("b1"));
        queue.synced();
        assert_eq!(take(&mut queue), ["begins", "+a1", "+b1", "synced"]);
        queue.apply(&a, &object("a2"));
        assert_eq!(take(&mut queue), ["+a2"]);
        queue.delete(&a, &object("a2"));
        assert_eq!(take(&mut queue), ["-a2"]);
    }

    #[test]
    fn who_is_behind_is_told_the_latest_state_and_what_was_replaced() {
        let mut queue = Queue::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        queue.apply(&a, &object("a1"));
        queue.apply(&b, &object("b1"));
        queue.apply(&a, &object("a2"));
        assert_eq!(take(&mut queue), ["+a2", "+b1"]);
        for _ in 0..1000 {
            queue.delete(&a, &object("old"));
            queue.apply(&a, &object("other"));
        }
        assert_eq!(queue.order.len(), 1, "bounded by the objects");
        assert_eq!(take(&mut queue), ["-old", "+other"]);
        for _ in 0..1000 {
            queue.list_begins();
            queue.apply(&b, &object("b2"));
            queue.synced();
        }
        assert_eq!(take(&mut queue), ["+b2", "begins", "synced"]);
    }
}
