//! When a failed sync is tried again: later each time, and not too many of all Services at once.

use std::time::Duration;

use machine::Time;

/// The delay of the first retry; Kubernetes.
const FIRST: Duration = Duration::from_secs(1);
/// The greatest delay; Kubernetes. A Service is never given up.
const LAST: Duration = Duration::from_secs(1000);
/// Retries of all Services that may happen at once; Kubernetes.
const BURST: i64 = 100;
/// The time after which one more may happen; ten each second, Kubernetes.
const REFILL_MICROS: i64 = 100_000;

/// Returns the delay before the next try after `failures` in a row.
pub fn backoff(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LAST)
}

/// What limits the retries of all Services together.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// When the bucket would be full again.
    full_at: Time,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket { full_at: Time::from_micros(i64::MIN) }
    }
}

impl Bucket {
    /// Takes one retry out of the bucket; returns how long it must wait for its turn.
    pub fn take(&mut self, now: Time) -> Duration {
        let refill = |count: i64| Duration::from_micros((count * REFILL_MICROS).unsigned_abs());
        self.full_at = self.full_at.max(now) + refill(1);
        self.full_at.since(now).saturating_sub(refill(BURST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_limit() {
        let seconds: Vec<u64> = [1, 2, 3, 10, 11, 12, 1000].map(|n| backoff(n).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 512, 1000, 1000, 1000]);
    }

    #[test]
    fn a_burst_goes_at_once_then_ten_each_second() {
        let (mut bucket, now) = (Bucket::default(), Time::from_secs(5));
        assert!((0..100).all(|_| bucket.take(now).is_zero()));
        assert_eq!(bucket.take(now), Duration::from_millis(100));
        assert_eq!(bucket.take(now), Duration::from_millis(200));
        assert_eq!(bucket.take(now + Duration::from_millis(300)), Duration::ZERO);
    }
}
