//! Amounts of resources: `500m`, `1Gi`, `2`, `1e3`.
//!
//! An amount is an exact number of billionths. It remembers the family of its suffix, so that it prints in the same one:
//! without fraction, with the largest suffix that loses nothing (`1024Mi` is `1Gi`, `0.5` is `500m`).

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Billionths in one.
const NANOS: i128 = 1_000_000_000;
/// Powers of 1000 from 10^-9 on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Powers of 1024 from 1024^0 on.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount of a resource. Comparison is by value: `1Gi` equals `1024Mi`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The family of suffixes in which an amount was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    #[default]
    DecimalSi,
    DecimalExponent,
    BinarySi,
}

/// A text that is not an amount; the texts are those of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// A suffix that does not exist.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// A number that is too large.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::DecimalSi };

    /// Returns a whole amount, printed with decimal suffixes.
    pub fn from_whole(amount: i64) -> Quantity {
        Quantity { nanos: i128::from(amount) * NANOS, format: Format::DecimalSi }
    }

    /// Parses an amount. What is finer than a billionth is rounded away from zero.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Format);
        }
        let (nanos, format) = match Suffix::parse(suffix)? {
            Suffix::Binary(power) => (binary(whole, fraction, power), Format::BinarySi),
            Suffix::Decimal(power, format) => (decimal(whole, fraction, power)?, format),
        };
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Returns whether it is nothing.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns whether it is less than nothing.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns the amount in whole units, rounded away from zero, at most what an `i64` holds.
    pub fn whole(self) -> i64 {
        saturated(div_away(self.nanos, NANOS))
    }

    /// Returns the amount in thousandths, rounded away from zero, at most what an `i64` holds.
    pub fn milli(self) -> i64 {
        saturated(div_away(self.nanos, NANOS / 1_000))
    }
}

enum Suffix {
    /// Times 2 to this power.
    Binary(u32),
    /// Times 10 to this power.
    Decimal(i32, Format),
}

impl Suffix {
    fn parse(text: &str) -> Result<Suffix, QuantityError> {
        if let Some(place) = DECIMAL.iter().position(|known| *known == text) {
            return Ok(Suffix::Decimal(3 * (place as i32 - 3), Format::DecimalSi));
        }
        if let Some(place) = BINARY.iter().position(|known| *known == text) {
            return Ok(Suffix::Binary(10 * place as u32));
        }
        if let Some(exponent) = text.strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                // An exponent that an i32 does not hold is beyond every bound below anyway.
                let limit = if exponent.starts_with('-') { -1_000_000 } else { 1_000_000 };
                let power = exponent.parse::<i32>().unwrap_or(limit).clamp(-1_000_000, 1_000_000);
                return Ok(Suffix::Decimal(power, Format::DecimalExponent));
            }
        }
        let letters = text.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let sign = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        let shaped = sign.bytes().all(|b| b.is_ascii_digit());
        Err(if shaped { QuantityError::Suffix } else { QuantityError::Format })
    }
}

/// Returns the number that some digits are, with as many as an `i128` surely holds, how many were cut off, and whether
/// any of those was not zero.
fn number(digits: &str) -> (i128, usize, bool) {
    let digits = digits.trim_start_matches('0');
    let (kept, cut) = digits.split_at(digits.len().min(38));
    let value = kept.bytes().fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    (value, cut.len(), cut.bytes().any(|digit| digit != b'0'))
}

/// Returns billionths of `whole.fraction` times 10 to `power`, rounded up.
fn decimal(whole: &str, fraction: &str, power: i32) -> Result<i128, QuantityError> {
    let (value, cut, more) = number(&format!("{whole}{fraction}"));
    if value == 0 {
        return Ok(0);
    }
    let length = |text: usize| i64::try_from(text).unwrap_or(i64::MAX / 4);
    let power = i64::from(power) + 9 - length(fraction.len()) + length(cut);
    let scale = |power: u64| u32::try_from(power).ok().and_then(|power| 10i128.checked_pow(power));
    if power >= 0 {
        return scale(power.unsigned_abs()).and_then(|scale| value.checked_mul(scale)).ok_or(QuantityError::Numeric);
    }
    Ok(match scale(power.unsigned_abs()) {
        Some(scale) => value / scale + i128::from(value % scale != 0 || more),
        None => 1,
    })
}

/// Returns billionths of `whole.fraction` times 2 to `power`, rounded up, at most 2^63 - 1 units.
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let most = i128::from(i64::MAX) * NANOS;
    let (units, cut, _) = number(whole);
    let units = if cut > 0 { i128::from(i64::MAX) } else { units.min(i128::from(i64::MAX)) << power };
    // 18 digits of a fraction are finer than a billionth even of 2^60 only in what rounding covers.
    let kept = &fraction[..fraction.len().min(18)];
    let more = fraction[kept.len()..].bytes().any(|digit| digit != b'0');
    let (part, ..) = number(kept);
    let part = part << power;
    let parts = if kept.len() <= 9 {
        part * 10i128.pow(9 - kept.len() as u32)
    } else {
        let scale = 10i128.pow(kept.len() as u32 - 9);
        part / scale + i128::from(part % scale != 0 || more)
    };
    units.min(i128::from(i64::MAX)).saturating_mul(NANOS).saturating_add(parts).min(most)
}

fn div_away(value: i128, by: i128) -> i128 {
    value / by + if value % by == 0 { 0 } else { value.signum() }
}

fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The canonical form.
impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return out.write_str("0");
        }
        if self.format == Format::BinarySi && self.nanos % NANOS == 0 && self.nanos.abs() >= 1024 * NANOS {
            let (mut units, mut place) = (self.nanos / NANOS, 0);
            while units % 1024 == 0 && place + 1 < BINARY.len() {
                (units, place) = (units / 1024, place + 1);
            }
            return write!(out, "{units}{}", BINARY[place]);
        }
        let (mut units, mut power) = (self.nanos, -9);
        while units % 1000 == 0 {
            (units, power) = (units / 1000, power + 3);
        }
        match usize::try_from(power / 3 + 3).ok().and_then(|place| DECIMAL.get(place)) {
            Some(suffix) if self.format != Format::DecimalExponent => write!(out, "{units}{suffix}"),
            _ if power == 0 => write!(out, "{units}"),
            _ => write!(out, "{units}e{power}"),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// The sum, in the format of the left unless that is zero; saturates.
impl Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), format }
    }
}

/// The difference, in the format of the left unless that is zero; saturates.
impl Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_sub(other.nanos), format }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From a text or a number.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        Quantity::parse(text.trim()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).map_or_else(|error| format!("{text}: {error}"), |quantity| quantity.to_string())
    }

    #[test]
    fn the_canonical_form_has_no_fraction_and_the_largest_suffix() {
        for (text, form) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("1000", "1k"),
            ("1100", "1100"),
            ("010", "10"),
            ("+4", "4"),
            ("-1500m", "-1500m"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e-1", "1200e-3"),
            ("100e0", "100"),
            ("1000E", "1e21"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("1.2345", "1234500u"),
            ("0.9n", "1n"),
            ("0.0000000001", "1n"),
            ("-0.1n", "-1n"),
            ("8Ei", "9223372036854775807"),
            ("1e-40", "1e-9"),
            ("18446744073709551616", "18446744073709551616"),
            ("1.0000000000000000000000000000000000000000001", "1000000001n"),
        ] {
            assert_eq!(canonical(text), form, "{text}");
        }
    }

    #[test]
    fn what_is_not_an_amount_is_refused() {
        for text in ["", "-", ".", "abc", "1 Gi", "1Gi ", "1.2.3", "--1", "1e3.5", "1é"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Format), "{text}");
        }
        for text in ["1Ki3", "1mm", "1e", "1e+", "1GiM", "1KM"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Suffix), "{text}");
        }
        assert_eq!(Quantity::parse("1e99"), Err(QuantityError::Numeric));
    }

    #[test]
    fn amounts_compare_by_value_and_add_up() {
        let of = |text| Quantity::parse(text).unwrap();
        assert_eq!(of("1Gi"), of("1024Mi"));
        assert!(of("999m") < of("1"));
        assert_eq!((of("1500m") + of("500m")).to_string(), "2");
        assert_eq!((of("0") + of("512Mi") + of("512Mi")).to_string(), "1Gi");
        assert_eq!((of("1") - of("250m")).to_string(), "750m");
        assert_eq!((of("1500m").whole(), of("1500m").milli(), of("-1500m").whole()), (2, 1500, -2));
        assert_eq!(Quantity::from_whole(3).to_string(), "3");
    }

    proptest! {
        #[test]
        fn printing_keeps_the_value(sign in "[+-]?", number in "[0-9]{1,10}(\\.[0-9]{0,9})?", suffix in "(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|e-?[0-9])") {
            let quantity = Quantity::parse(&format!("{sign}{number}{suffix}")).unwrap();
            let printed = quantity.to_string();
            let again = Quantity::parse(&printed).unwrap();
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), printed);
        }

        #[test]
        fn any_text_is_an_answer(text in "\\PC{0,60}", number in "[-+0-9.eEKMGTPinum]{0,60}") {
            let _ = Quantity::parse(&text).map(|quantity| quantity.to_string());
            let _ = Quantity::parse(&number).map(|quantity| (quantity.to_string(), quantity.milli(), quantity.whole()));
        }
    }
}
