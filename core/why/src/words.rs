//! How spans, instants and amounts are said, and which words are nearly the same.

use std::time::Duration;

use api::Timestamp;
use machine::Time;

/// Returns a span as people say it: two units at most.
pub(crate) fn span(span: Duration) -> String {
    let millis = span.as_millis();
    let seconds = span.as_secs();
    match seconds {
        0 if millis > 0 => format!("{millis}ms"),
        0..120 => format!("{seconds}s"),
        120..7_200 => two(seconds / 60, "m", seconds % 60, "s"),
        7_200..172_800 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}

/// Returns how long ago an instant was.
pub(crate) fn ago(now: Time, at: Time) -> String {
    if at > now + Duration::from_secs(1) {
        return format!("in {}", span(at.since(now)));
    }
    match now.since(at).as_secs() {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", span(Duration::from_secs(seconds))),
    }
}

/// Returns an instant with its age.
pub(crate) fn when(now: Time, at: Option<Timestamp>) -> String {
    at.map_or_else(|| "at an unknown time".to_owned(), |at| format!("{at} ({})", ago(now, at.0)))
}

/// Returns `1 pod`, `2 pods`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Joins at most a few words; says how many are left out.
pub(crate) fn some<S: AsRef<str>>(words: &[S], max: usize) -> String {
    let shown: Vec<&str> = words.iter().take(max).map(AsRef::as_ref).collect();
    let rest = words.len().saturating_sub(max);
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
}

/// Returns labels as a selector: `a=b,c=d`.
pub(crate) fn selector<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs: Vec<String> = labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// Returns whether two words differ by a slip of the pen: case, a separator, at most two letters, or one begins the other.
pub(crate) fn alike(left: &str, right: &str) -> bool {
    let plain = |word: &str| word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (plain(left), plain(right));
    if a.is_empty() || b.is_empty() || left == right {
        return false;
    }
    // A short word has few letters to spare: `a` is not a slip of `b`.
    let allowed = match a.len().min(b.len()) {
        0..3 => 0,
        3..5 => 1,
        _ => 2,
    };
    distance(&a, &b) <= allowed || (a.len().min(b.len()) >= 3 && (a.starts_with(&b) || b.starts_with(&a)))
}

/// Returns how many letters must be changed, swapped with the next, put in or taken out.
fn distance(a: &[char], b: &[char]) -> usize {
    // Names are short: a quadratic table is nothing. Longer texts are not compared.
    if a.len() > 253 || b.len() > 253 {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// Returns what stands between the first pair of double quotes.
pub(crate) fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(
            [shown(0), shown(119), shown(120), shown(125), shown(7_260), shown(180_000)],
            ["0s", "119s", "2m", "2m5s", "2h1m", "2d2h"]
        );
        assert_eq!(span(Duration::from_millis(250)), "250ms");
        assert_eq!(ago(Time::from_secs(100), Time::from_secs(40)), "60s ago");
        assert_eq!(ago(Time::from_secs(100), Time::from_secs(140)), "in 40s");
    }

    #[test]
    fn slips_are_alike_and_other_words_are_not() {
        for (a, b) in [
            ("web", "wbe"),
            ("frontend", "front-end"),
            ("api", "API"),
            ("payments", "payment"),
            ("http", "https"),
            ("web", "web-server"),
        ] {
            assert!(alike(a, b), "{a} {b}");
        }
        for (a, b) in [("web", "db"), ("a", "b"), ("web", "web"), ("v1", "v2"), ("frontend", "backend")] {
            assert!(!alike(a, b), "{a} {b}");
        }
    }
}
