//! Timestamps of the API: RFC 3339 in UTC.

use std::fmt;

use machine::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant as the API writes it.
///
/// Reading accepts any RFC 3339 text with up to nine fractional digits, of which six are kept. Writing is whole seconds
/// (`Time` of Kubernetes); [`micro`](Timestamp::micro) writes six digits (`MicroTime`, as Leases have it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub Time);

/// A text that is not a timestamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 timestamp such as 2026-01-31T08:00:00Z")]
pub struct TimestampError(String);

impl Timestamp {
    /// Parses RFC 3339.
    pub fn parse(text: &str) -> Result<Timestamp, TimestampError> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| TimestampError(text.to_owned()))?;
        Ok(Timestamp(Time::from_micros(parsed.as_microsecond())))
    }

    /// Returns the text with six fractional digits: `2026-01-31T08:00:00.000000Z`.
    pub fn micro(self) -> String {
        let time = self.0;
        let seconds = self.to_string();
        format!("{}.{:06}Z", seconds.trim_end_matches('Z'), time.as_micros().rem_euclid(1_000_000))
    }

    /// Returns the text with as many fractional digits as it needs, at most six.
    pub fn shortest(self) -> String {
        match self.0.as_micros().rem_euclid(1_000_000) {
            0 => self.to_string(),
            _ => format!("{}Z", self.micro().trim_end_matches('Z').trim_end_matches('0')),
        }
    }
}

/// Whole seconds: `2026-01-31T08:00:00Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Outside the years that RFC 3339 can write, the nearest one stands in: printing must not fail.
        let seconds = self.0.as_secs().clamp(-62_167_219_200, 253_402_207_200);
        let stamp = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(out, "{stamp}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_keep_six_digits() {
        let stamp = Timestamp::parse("2031-05-01T12:00:05.1234567Z").unwrap();
        assert_eq!(stamp.to_string(), "2031-05-01T12:00:05Z");
        assert_eq!(stamp.micro(), "2031-05-01T12:00:05.123456Z");
        assert_eq!(stamp.shortest(), "2031-05-01T12:00:05.123456Z");
        assert_eq!(Timestamp::parse("2031-05-01T12:00:05.5Z").unwrap().shortest(), "2031-05-01T12:00:05.5Z");
        assert_eq!(Timestamp::parse("2031-05-01T14:00:05+02:00").unwrap().to_string(), "2031-05-01T12:00:05Z");
        assert!(Timestamp::parse("yesterday").is_err());
    }

    #[test]
    fn printing_never_fails() {
        for micros in [i64::MIN, -1, 0, i64::MAX] {
            assert!(!Timestamp(Time::from_micros(micros)).micro().is_empty());
        }
    }
}
