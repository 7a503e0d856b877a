//! Durations as Kubernetes writes them: `40s`, `2m0s`, `1h30m`, `1.5s`.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration; write for example 500ms, 40s, 2m0s or 1h30m")]
pub struct DurationError(String);

/// Parses a duration; negative ones are refused, `0` needs no unit.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let bad = || DurationError(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_nanos: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(bad()),
        };
        nanos = nanos.checked_add(scaled(number, unit_nanos).ok_or_else(bad)?).ok_or_else(bad)?;
        rest = tail;
    }
    match u64::try_from(nanos) {
        Ok(nanos) if !text.is_empty() => Ok(Duration::from_nanos(nanos)),
        _ => Err(bad()),
    }
}

/// Returns `number` (digits with at most one point) times `unit_nanos`, rounded down.
fn scaled(number: &str, unit_nanos: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(unit_nanos)?.checked_add(part.checked_mul(unit_nanos)? / scale)
}

/// Formats a duration the way Go does: `40s`, `2m0s`, `1h0m0s`, `1.5s`, `200ms`, `0s`.
pub fn format(span: Duration) -> String {
    if span.is_zero() {
        return "0s".to_owned();
    }
    if span < Duration::from_secs(1) {
        let nanos = span.as_nanos();
        let (unit, scale) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{}{unit}", decimal(nanos, scale));
    }
    let seconds = span.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let tail = decimal(u128::from(seconds % 60) * 1_000_000_000 + u128::from(span.subsec_nanos()), 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{tail}s"),
        (0, _) => format!("{minutes}m{tail}s"),
        _ => format!("{hours}h{minutes}m{tail}s"),
    }
}

/// Returns `value / scale` as a decimal without trailing zeros; `scale` is a power of ten.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = scale.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_kubernetes() {
        for (text, millis) in
            [("40s", 40_000), ("2m0s", 120_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("250ms", 250), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "40", "-1s", "s", "1.2.3s", "1d", "1s ", ".s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_print_as_in_kubernetes() {
        for (millis, text) in
            [(40_000, "40s"), (120_000, "2m0s"), (300_000, "5m0s"), (3_600_000, "1h0m0s"), (1_500, "1.5s"), (200, "200ms")]
        {
            assert_eq!(format(Duration::from_millis(millis)), text);
        }
        assert_eq!(format(Duration::ZERO), "0s");
    }
}
