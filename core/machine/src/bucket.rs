//! How often something may happen: a bucket of tokens that fills at a constant rate.

use std::time::Duration;

use crate::Time;

/// A bucket of tokens: so many at once, then one each `refill`.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    burst: u32,
    refill: Duration,
    /// When it would be full again.
    full_at: Time,
}

impl Bucket {
    /// Returns a full bucket.
    pub fn new(burst: u32, refill: Duration) -> Bucket {
        Bucket { burst, refill, full_at: Time::from_micros(i64::MIN) }
    }

    /// Returns a bucket that has so many tokens now.
    pub fn holding(tokens: u32, now: Time, burst: u32, refill: Duration) -> Bucket {
        Bucket { burst, refill, full_at: now + refill * burst.saturating_sub(tokens) }
    }

    /// Returns from when on there is a token.
    pub fn next_at(&self) -> Time {
        self.full_at - self.refill * self.burst.saturating_sub(1)
    }

    /// Takes a token; returns how long to wait for it.
    pub fn take(&mut self, now: Time) -> Duration {
        self.full_at = self.full_at.max(now) + self.refill;
        self.wait(now)
    }

    /// Takes a token if there is one now.
    pub fn try_take(&mut self, now: Time) -> bool {
        let free = self.full_at.max(now) + self.refill;
        let there = free.since(now) <= self.refill * self.burst;
        if there {
            self.full_at = free;
        }
        there
    }

    fn wait(&self, now: Time) -> Duration {
        self.full_at.since(now).saturating_sub(self.refill * self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_then_one_each_refill() {
        let (mut bucket, now) = (Bucket::new(100, Duration::from_millis(100)), Time::from_secs(5));
        assert!((0..100).all(|_| bucket.take(now).is_zero()));
        assert_eq!(bucket.take(now), Duration::from_millis(100));
        assert_eq!(bucket.take(now), Duration::from_millis(200));
        assert_eq!(bucket.take(now + Duration::from_millis(300)), Duration::ZERO);
    }

    #[test]
    fn what_is_not_there_is_not_taken() {
        let (mut bucket, now) = (Bucket::new(2, Duration::from_secs(1)), Time::from_secs(5));
        assert!(bucket.try_take(now) && bucket.try_take(now) && !bucket.try_take(now));
        assert!(!bucket.try_take(now + Duration::from_millis(999)));
        assert_eq!(bucket.next_at(), now + Duration::from_secs(1));
        assert!(bucket.try_take(now + Duration::from_secs(1)));
        assert!(!bucket.try_take(now + Duration::from_secs(1)));
    }
}
