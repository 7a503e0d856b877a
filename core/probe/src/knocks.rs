//! When waiting targets are knocked at: often enough to be ready when they listen, never so often that it costs the node.
//!
//! A knock is a bare connection to a target that refused an attempt. The interval grows with the number of targets that wait and
//! with the age of each: a port that is simply wrong is asked ever more rarely. Of all targets together no more than
//! [`PER_SECOND_MAX`] knocks are handed out in any second.
//!
//! Invariant: a target that was handed out is not handed out again before it is [`refused`](Knocks::refused).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use machine::Time;

/// The shortest time between two knocks at one target.
pub const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// A knock that is not answered by then is not refused either: something drops its packets.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// The most knocks of a node in any second.
pub const PER_SECOND_MAX: usize = 2_000;
/// What one more waiting target adds to the interval of each: all together stay within the limit of the node.
const SHARE: Duration = Duration::from_micros(500);
/// The interval is this part of the age of an instance.
const AGE_PART: u32 = 1_000;

/// Returns the time between two knocks at a target whose instance is this old, while so many targets wait.
pub fn interval(waiting: usize, age: Duration) -> Duration {
    let share = SHARE.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
    INTERVAL_MIN.max(share).max(age / AGE_PART)
}

/// The targets that wait on a node.
#[derive(Clone, Debug)]
pub struct Knocks<Key> {
    waiting: BTreeMap<Key, Target>,
    due: BTreeSet<(Time, Key)>,
    /// The last ones that were handed out.
    recent: VecDeque<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    started_at: Time,
    until: Time,
    /// `None`: it was handed out.
    next: Option<Time>,
}

impl<Key> Default for Knocks<Key> {
    fn default() -> Knocks<Key> {
        Knocks { waiting: BTreeMap::new(), due: BTreeSet::new(), recent: VecDeque::new() }
    }
}

impl<Key: Clone + Ord> Knocks<Key> {
    /// Begins to knock at a target whose attempt was refused at `from`, and goes on until `until`, exclusive.
    pub fn begin(&mut self, key: Key, started_at: Time, from: Time, until: Time) {
        self.stop(&key);
        self.waiting.insert(key.clone(), Target { started_at, until, next: None });
        self.arrange(from, key);
    }

    /// Ends it. Returns whether the target waited.
    pub fn stop(&mut self, key: &Key) -> bool {
        let Some(target) = self.waiting.remove(key) else { return false };
        if let Some(next) = target.next {
            self.due.remove(&(next, key.clone()));
        }
        true
    }

    /// Takes note that a knock was refused. Returns whether there will be another one.
    pub fn refused(&mut self, now: Time, key: &Key) -> bool {
        match self.waiting.get(key) {
            Some(target) if target.next.is_none() => self.arrange(now, key.clone()),
            Some(_) => true,
            None => false,
        }
    }

    /// Returns how many targets wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no target waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns when the next knock is due.
    pub fn deadline(&self) -> Option<Time> {
        let (due, _) = self.due.first()?;
        Some((*due).max(self.free_at()))
    }

    /// Takes out the next knock that is due.
    pub fn next(&mut self, now: Time) -> Option<Key> {
        while self.deadline()? <= now {
            let (_, key) = self.due.pop_first()?;
            let Some(target) = self.waiting.get_mut(&key) else { continue };
            // The next attempt comes first; it is not ours to begin.
            if now >= target.until {
                self.waiting.remove(&key);
                continue;
            }
            target.next = None;
            if self.recent.len() == PER_SECOND_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(now);
            return Some(key);
        }
        None
    }

    /// Returns from when on the limit of the node allows another knock.
    fn free_at(&self) -> Time {
        match self.recent.front() {
            Some(first) if self.recent.len() == PER_SECOND_MAX => *first + Duration::from_secs(1),
            _ => Time::from_micros(i64::MIN),
        }
    }

    /// Sets the next knock of a target; one that would not come in time is the last, and the target does not wait any more.
    fn arrange(&mut self, now: Time, key: Key) -> bool {
        let waiting = self.waiting.len();
        let Some(target) = self.waiting.get_mut(&key) else { return false };
        let next = now + interval(waiting, now.since(target.started_at));
        if next >= target.until {
            self.waiting.remove(&key);
            return false;
        }
        target.next = Some(next);
        self.due.insert((next, key));
        true
    }
}

#[cfg(test)]
mod tests;
