//! When the status is written: at once after a quiet time, else merged; again after a failure; never two writes at once.
//!
//! A change of readiness decides about traffic, so it does not wait for the window that another change has opened: a container that
//! listens right after its start is ready right then. A pod that flaps is merged all the same.

use machine::{Failures, Rng, Time};

use crate::settings::{RESTORE_INTERVAL, RETRY_WRITE, WRITE_WINDOW};

/// When the status of one pod is written.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// There is something to write.
    wanted: bool,
    /// What is to be written changes whether the pod is ready.
    urgent: bool,
    under_way: bool,
    last: Option<Time>,
    last_urgent: Option<Time>,
    retry_at: Option<Time>,
    /// When what somebody else wrote is put right, and when that was done last.
    restore_at: Option<Time>,
    restored: Option<Time>,
    failures: Failures,
    rng: Rng,
}

impl Writer {
    pub(crate) fn new(rng: Rng) -> Writer {
        Writer {
            wanted: false,
            urgent: false,
            under_way: false,
            last: None,
            last_urgent: None,
            retry_at: None,
            restore_at: None,
            restored: None,
            failures: Failures::default(),
            rng,
        }
    }

    /// Sets whether what is known differs from what was sent, and whether it does so in readiness.
    pub(crate) fn want(&mut self, wanted: bool, urgent: bool) {
        (self.wanted, self.urgent) = (wanted, wanted && urgent);
    }

    /// Sets whether the API shows something else than what was sent: it is sent again at once, but not for ever and ever if
    /// somebody insists.
    pub(crate) fn restore(&mut self, now: Time, wanted: bool) {
        let earliest = self.restored.map_or(now, |at| (at + RESTORE_INTERVAL).max(now));
        self.restore_at = wanted.then(|| self.restore_at.unwrap_or(earliest));
    }

    /// Returns whether a write is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Returns whether the API has everything, as far as we know.
    pub(crate) fn is_settled(&self) -> bool {
        !self.wanted && !self.under_way && self.retry_at.is_none()
    }

    /// Returns whether a write is to begin now; if so, it has begun.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if due {
            if self.restore_at.take().is_some_and(|at| at <= now) {
                self.restored = Some(now);
            }
            if std::mem::take(&mut self.urgent) {
                self.last_urgent = Some(now);
            }
            (self.wanted, self.under_way, self.last, self.retry_at) = (false, true, Some(now), None);
        }
        due
    }

    /// Takes the end of a write; `again`: it failed and is to be repeated.
    pub(crate) fn ended(&mut self, now: Time, again: bool) {
        self.under_way = false;
        if again {
            let wait = self.failures.next(RETRY_WRITE);
            // Between half of it and all of it, so that the pods of a node do not fall into step.
            self.retry_at = Some(now + wait / 2 + (wait / 2).mul_f64(self.rng.fraction()));
        } else {
            self.failures = Failures::default();
        }
    }

    /// Returns when the next write begins, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match (self.under_way, self.retry_at) {
            (true, _) => None,
            // The latest state goes out with the retry, not before: the server is in trouble.
            (false, Some(at)) => Some(at),
            (false, None) => {
                let last = if self.urgent { self.last_urgent } else { self.last };
                let change = self.wanted.then(|| last.map_or(Time::ZERO, |last| last + WRITE_WINDOW));
                change.into_iter().chain(self.restore_at).min()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn the_first_change_is_written_at_once_and_later_ones_together() {
        let mut writer = Writer::new(Rng::new(1));
        assert!(!writer.begin(at(1_000)), "nothing to write");
        writer.want(true, false);
        assert!(writer.begin(at(1_000)));
        writer.ended(at(1_005), false);
        for ms in [1_010, 1_020, 1_090] {
            writer.want(true, false);
            assert!(!writer.begin(at(ms)));
            assert_eq!(writer.deadline(), Some(at(1_100)));
        }
        assert!(writer.begin(at(1_100)));
        writer.ended(at(1_101), false);
        assert!(writer.is_settled());
        writer.want(true, false);
        assert!(writer.begin(at(1_201)), "quiet since the last write");
    }

    #[test]
    fn a_change_of_readiness_waits_for_no_window_but_that_of_another() {
        let mut writer = Writer::new(Rng::new(1));
        writer.want(true, false);
        assert!(writer.begin(at(0)), "it runs");
        writer.ended(at(1), false);
        writer.want(true, true);
        assert!(writer.begin(at(20)), "it is ready");
        writer.want(true, true);
        assert!(!writer.begin(at(22)), "one at a time");
        writer.ended(at(23), false);
        assert_eq!(writer.deadline(), Some(at(120)), "it flaps");
        writer.want(true, false);
        assert_eq!(writer.deadline(), Some(at(120)));
        assert!(writer.begin(at(120)));
        writer.ended(at(121), false);
        writer.want(true, true);
        assert!(writer.begin(at(121)));
    }

    #[test]
    fn only_one_write_is_under_way() {
        let mut writer = Writer::new(Rng::new(1));
        writer.want(true, false);
        assert!(writer.begin(at(0)));
        writer.want(true, false);
        assert!(!writer.begin(at(5_000)));
        assert_eq!(writer.deadline(), None);
        writer.ended(at(5_000), false);
        assert!(writer.begin(at(5_000)));
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_ten_seconds() {
        let mut writer = Writer::new(Rng::new(7));
        let (mut now, mut waits) = (at(0), Vec::new());
        writer.want(true, false);
        for _ in 0..9 {
            assert!(writer.begin(now));
            writer.ended(now, true);
            assert!(!writer.is_settled());
            let next = writer.deadline().unwrap();
            waits.push(i64::try_from(next.since(now).as_millis()).unwrap());
            now = next;
        }
        for (wait, most) in waits.iter().zip([200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]) {
            assert!((most / 2..=most).contains(wait), "{waits:?}");
        }
        writer.begin(now);
        writer.ended(now, false);
        assert!(writer.is_settled());
    }
}
