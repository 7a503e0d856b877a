//! What the demo prints: lines that stay, and on a terminal one that changes.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::logging::has_colour;

/// Where the demo prints.
pub(super) struct Screen {
    /// Whether a line may change.
    live: bool,
    colour: bool,
}

impl Screen {
    /// Returns stdout.
    pub(super) fn new() -> Screen {
        let out = std::io::stdout();
        Screen { live: out.is_terminal(), colour: has_colour(&out) }
    }

    /// Prints the beginning of a scene.
    pub(super) fn heading(&self, number: u8, text: &str) {
        let (on, off) = if self.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        self.text(&format!("\n{on}{number}. {text}{off}"));
    }

    /// Prints a line that stays.
    pub(super) fn text(&self, text: &str) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        write(&format!("{clear}{text}\n"));
    }

    /// Prints a line of a scene that stays.
    pub(super) fn line(&self, text: &str) {
        self.text(&format!("   {text}"));
    }

    /// Prints a line that the next one replaces; without a terminal there is none.
    pub(super) fn status(&self, text: &str) {
        if self.live {
            let width = 100;
            let shown: String = text.chars().take(width).collect();
            write(&format!("\r\x1b[K{}{shown}", if text.is_empty() { "" } else { "   " }));
        }
    }
}

/// A reader that has gone away is no reason to leave a plane running.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns a span for people: milliseconds below a second.
pub(super) fn span(span: Duration) -> String {
    match span {
        span if span < Duration::from_millis(10) => format!("{:.1} ms", span.as_secs_f64() * 1e3),
        span if span < Duration::from_secs(1) => format!("{:.0} ms", span.as_secs_f64() * 1e3),
        span => format!("{:.1} s", span.as_secs_f64()),
    }
}

/// Returns the median and the worst of some spans.
pub(super) fn spread(spans: &mut [Duration]) -> Option<(Duration, Duration)> {
    spans.sort_unstable();
    Some((*spans.get(spans.len().checked_sub(1)? / 2)?, *spans.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_at_a_glance() {
        let texts = [1_234, 45_678, 999_000, 1_250_000].map(|micros| span(Duration::from_micros(micros)));
        assert_eq!(texts, ["1.2 ms", "46 ms", "999 ms", "1.2 s"]);
    }

    #[test]
    fn the_median_is_one_of_the_spans() {
        let of = |millis: &[u64]| {
            let mut spans: Vec<Duration> = millis.iter().map(|millis| Duration::from_millis(*millis)).collect();
            spread(&mut spans).map(|(median, worst)| (median.as_millis(), worst.as_millis()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[9]), Some((9, 9)));
        assert_eq!(of(&[9, 1, 5, 7]), Some((5, 9)));
    }
}
