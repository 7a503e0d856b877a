//! Instants as cores see them.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// An instant: microseconds since the Unix epoch on the clock of the shell that drives the core.
///
/// The shell's clock follows the monotonic clock and never goes backwards, so differences between two instants are true
/// spans. Arithmetic saturates: no input can make a core panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The Unix epoch; the natural start of virtual time.
    pub const ZERO: Time = Time(0);
    /// Later than every other instant.
    pub const MAX: Time = Time(i64::MAX);

    /// Returns the instant `micros` microseconds after the epoch.
    #[inline]
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Returns the instant `millis` milliseconds after the epoch.
    #[inline]
    pub const fn from_millis(millis: i64) -> Time {
        Time(millis.saturating_mul(1_000))
    }

    /// Returns the instant `seconds` seconds after the epoch.
    #[inline]
    pub const fn from_secs(seconds: i64) -> Time {
        Time(seconds.saturating_mul(1_000_000))
    }

    /// Returns the microseconds since the epoch.
    #[inline]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the whole milliseconds since the epoch, rounded down.
    #[inline]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Returns the whole seconds since the epoch, rounded down.
    #[inline]
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the span since `earlier`, zero if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }

    /// Returns this instant with everything below a whole second cut off, as API timestamps have it.
    #[inline]
    pub const fn floor_second(self) -> Time {
        Time(self.0 - self.0.rem_euclid(1_000_000))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    #[inline]
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Seconds with microseconds, for logs and test output.
impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:06}", self.as_secs(), self.0.rem_euclid(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_never_go_negative() {
        assert_eq!(Time::from_secs(1).since(Time::from_secs(2)), Duration::ZERO);
        assert_eq!(Time::from_secs(2).since(Time::from_secs(1)), Duration::from_secs(1));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX + Duration::MAX, Time::MAX);
        assert_eq!(Time::from_micros(i64::MIN) - Duration::from_secs(1), Time::from_micros(i64::MIN));
    }

    #[test]
    fn seconds_are_cut_towards_the_past() {
        assert_eq!(Time::from_millis(1_999).floor_second(), Time::from_secs(1));
        assert_eq!(Time::from_millis(-1).floor_second(), Time::from_secs(-1));
    }
}
