//! How long to wait after failures in a row: twice as long each time, up to a limit.

use std::time::Duration;

/// The waits after failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub last: Duration,
}

impl BackOff {
    /// Returns how long to wait after so many failures in a row; none needs no wait.
    pub fn after(self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            _ => self.first.saturating_mul(1 << (failures - 1).min(30)).min(self.last),
        }
    }
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures(u32);

impl Failures {
    /// Counts one more failure and returns how long to wait after it.
    pub fn next(&mut self, waits: BackOff) -> Duration {
        self.0 = self.0.saturating_add(1);
        waits.after(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit() {
        let waits = BackOff { first: Duration::from_secs(1), last: Duration::from_secs(1000) };
        let seconds = [0, 1, 2, 3, 10, 11, 12, u32::MAX].map(|failures| waits.after(failures).as_secs());
        assert_eq!(seconds, [0, 1, 2, 4, 512, 1000, 1000, 1000]);
        let mut failures = Failures::default();
        assert_eq!([(); 4].map(|()| failures.next(waits).as_secs()), [1, 2, 4, 8]);
    }
}
