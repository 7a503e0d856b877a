//! A number or a text: ports, and quantities of a rollout.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number, or a text such as a port name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A text.
    String(String),
}

impl Default for IntOrString {
    fn default() -> IntOrString {
        IntOrString::Int(0)
    }
}

impl IntOrString {
    /// Returns the number, or the share of `total` if this is a percentage such as `25%`; another text counts as 0.
    pub fn of(&self, total: i64, rounding: Rounding) -> i64 {
        match self {
            IntOrString::Int(number) => *number,
            IntOrString::String(text) => {
                let percent: i64 = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or(0);
                let hundredths = total.saturating_mul(percent);
                match rounding {
                    Rounding::Up => hundredths.saturating_add(99).div_euclid(100),
                    Rounding::Down => hundredths.div_euclid(100),
                }
            }
        }
    }
}

/// Which way a share that is not a whole number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next whole number.
    Up,
    /// To the whole number before.
    Down,
}

impl fmt::Display for IntOrString {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => number.fmt(out),
            IntOrString::String(text) => text.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_as_asked() {
        let quarter = IntOrString::String("25%".into());
        assert_eq!((quarter.of(10, Rounding::Up), quarter.of(10, Rounding::Down)), (3, 2));
        assert_eq!((quarter.of(0, Rounding::Up), quarter.of(8, Rounding::Up)), (0, 2));
        assert_eq!(IntOrString::Int(3).of(10, Rounding::Up), 3);
        assert_eq!(IntOrString::String("many".into()).of(10, Rounding::Up), 0);
    }
}
