//! Regular expressions as Go reads them, run by the `regex` crate.
//!
//! Both engines are linear and share almost all syntax. The differences are translated here: Go's `\d`, `\w` and `\s` know
//! ASCII only, `[`, `&`, `~` and `-` inside a class are characters and not operators, a `{` that opens no repetition is a
//! character, and `\Q...\E` quotes.

use regex::{Regex, RegexBuilder};

/// The most memory that one compiled expression may take.
const SIZE_MAX: usize = 4 << 20;

/// The most often that a part of an expression may be repeated by counts, those of the groups around it multiplied; as Go.
const REPEAT_MAX: usize = 1_000;

/// Compiles an expression in Go's syntax; the error says what is wrong with it.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    if measure(pattern).repeats > REPEAT_MAX {
        return Err(format!("invalid repeat count: a part is repeated more than {REPEAT_MAX} times"));
    }
    RegexBuilder::new(&translate(pattern)).size_limit(SIZE_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the expression is too large".to_owned(),
        other => other.to_string().lines().last().unwrap_or_default().to_owned(),
    })
}

/// Returns about how large an expression becomes when its counted repetitions are written out.
pub(super) fn size(pattern: &str) -> usize {
    measure(pattern).size
}

/// A part of an expression: a character, a class, a group.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    size: usize,
    /// How often the most repeated part inside of it is repeated.
    repeats: usize,
}

/// Measures an expression; one that is malformed gets some result, and is refused by who compiles it.
fn measure(pattern: &str) -> Part {
    let one = Part { size: 1, repeats: 1 };
    let mut groups = vec![Part { size: 0, repeats: 1 }];
    let mut last = Part::default();
    let mut rest = pattern;
    let mut scratch = String::new();
    while let Some(here) = rest.chars().next() {
        let mut taken = here.len_utf8();
        // What came before is complete unless a repetition follows.
        if here != '{' || !opens_repetition(rest) {
            let group = groups.last_mut().expect("the outermost group is never closed");
            *group = Part { size: group.size.saturating_add(last.size), repeats: group.repeats.max(last.repeats) };
            last = one;
        }
        match here {
            '\\' => taken = escape(rest, false, &mut scratch),
            '[' => taken = class(rest, &mut scratch),
            '(' => {
                groups.push(Part { size: 1, repeats: 1 });
                last = Part::default();
            }
            ')' if groups.len() > 1 => last = groups.pop().expect("there are two"),
            '{' if opens_repetition(rest) => {
                let end = rest.find('}').expect("a repetition is closed");
                let times = rest[1..end].split(',').map(|count| if count.is_empty() { Some(0) } else { count.parse().ok() });
                let times = times.map(|count| count.unwrap_or(usize::MAX)).max().unwrap_or(1).max(1);
                last = Part { size: last.size.saturating_mul(times), repeats: last.repeats.max(1).saturating_mul(times) };
                taken = end + 1;
            }
            _ => {}
        }
        scratch.clear();
        rest = &rest[taken..];
    }
    groups.push(last);
    groups.into_iter().fold(Part::default(), |all, part| Part {
        size: all.size.saturating_add(part.size),
        repeats: all.repeats.max(part.repeats),
    })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(here) = rest.chars().next() {
        let mut taken = here.len_utf8();
        match here {
            '\\' => taken = escape(rest, false, &mut out),
            '[' => taken = class(rest, &mut out),
            '{' if !opens_repetition(rest) => out.push_str("\\{"),
            other => out.push(other),
        }
        rest = &rest[taken..];
    }
    out
}

/// Writes what stands for the class at the start of `pattern` and returns its length.
fn class(pattern: &str, out: &mut String) -> usize {
    let negated = pattern[1..].starts_with('^');
    out.push_str(if negated { "[^" } else { "[" });
    let mut at = if negated { 2 } else { 1 };
    let mut first = true;
    while at < pattern.len() && (first || !pattern[at..].starts_with(']')) {
        at += class_item(&pattern[at..], out);
        // A dash between two characters is a range, a dash at the end is a dash.
        if pattern[at..].starts_with('-') && !pattern[at..].starts_with("-]") && at + 1 < pattern.len() {
            out.push('-');
            at += 1;
            at += class_item(&pattern[at..], out);
        }
        first = false;
    }
    if pattern[at..].starts_with(']') {
        out.push(']');
        at += 1;
    }
    at
}

/// Writes one character or one named class inside brackets and returns its length.
fn class_item(rest: &str, out: &mut String) -> usize {
    if rest.starts_with('\\') {
        return escape(rest, true, out);
    }
    if let Some(end) = rest.find(":]").filter(|_| rest.starts_with("[:"))
        && rest[2..end].chars().all(|c| c == '^' || c.is_ascii_lowercase())
    {
        out.push_str(&rest[..end + 2]);
        return end + 2;
    }
    let Some(item) = rest.chars().next() else { return 0 };
    if matches!(item, '[' | ']' | '&' | '~' | '-' | '^') {
        out.push('\\');
    }
    out.push(item);
    item.len_utf8()
}

/// Writes what stands for the escape at the start of `rest` and returns its length.
fn escape(rest: &str, class: bool, out: &mut String) -> usize {
    let Some(escaped) = rest[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let ascii = match (escaped, class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('D', _) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\x0C\\r ]",
        ('s', true) => "\\t\\n\\x0C\\r ",
        ('S', _) => "[^\\t\\n\\x0C\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('B', false) => "(?:\\B)",
        ('<', _) => "<",
        ('>', _) => ">",
        ('Q', _) => {
            let quoted = &rest[2..];
            let end = quoted.find("\\E");
            out.push_str(&regex::escape(&quoted[..end.unwrap_or(quoted.len())]));
            return 2 + end.map_or(quoted.len(), |end| end + 2);
        }
        // The braces of `\p{L}` and `\x{41}` are no repetition.
        ('p' | 'P' | 'x', _) if rest[2..].starts_with('{') => {
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            out.push_str(&rest[..end]);
            return end;
        }
        _ => {
            out.push('\\');
            out.push(escaped);
            return 1 + escaped.len_utf8();
        }
    };
    out.push_str(ascii);
    2
}

/// Returns whether the `{` at the start of `rest` opens `{n}`, `{n,}` or `{n,m}`.
fn opens_repetition(rest: &str) -> bool {
    let Some(end) = rest.find('}') else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match rest[1..end].split_once(',') {
        Some((low, high)) => !low.is_empty() && digits(low) && digits(high),
        None => end > 1 && digits(&rest[1..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_go_means() {
        let cases = [
            (r"^\d+$", "12", "١٢"),
            (r"^[\w-]+$", "a-b_9", "ä"),
            (r"^\s$", " ", "\u{a0}"),
            (r"^[a-z[]+$", "a[", "a]"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[^]a]+$", "bc", "]"),
            (r"^[&&]+$", "&", "a"),
            (r"^[+--]+$", "+,-", "a"),
            (r"^[a-]+$", "a-", "b"),
            (r"^[-a]+$", "a-", "b"),
            (r"^[\w.-]+$", "a.-", "a/"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^a{2}$", "aa", "a"),
            (r"^{x}$", "{x}", "x"),
            (r"^\Qa.b\E+$", "a.bb", "axb"),
            (r"^[[:alpha:]]+$", "ab", "a1"),
            (r"^\<\>\/$", "<>/", "</"),
            (r"(?i)^abc$", "aBC", "abd"),
            (r"^\p{L}+$", "äb", "1"),
            (r"^[\pL\x{31}]+$", "äb1", "2"),
            (r"^(?P<n>a|b)$", "b", "c"),
        ];
        for (pattern, good, bad) in cases {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(regex.is_match(good), "{pattern} matches {good}");
            assert!(!regex.is_match(bad), "{pattern} does not match {bad}");
        }
    }

    #[test]
    fn a_bad_expression_says_why() {
        for pattern in ["(", "[a", r"\", r"a{2,1}", "(?=a)", r"\1"] {
            assert!(!compile(pattern).expect_err(pattern).is_empty());
        }
        let wide = "[^a]".repeat(1_000);
        assert_eq!(compile(&format!("({wide}){{1000}}")).unwrap_err(), "the expression is too large");
    }

    #[test]
    fn counted_repetitions_are_bounded_as_in_go() {
        for pattern in ["a{1000}", "a{2,1000}", "(a{10}b){100}", "(a{30}|b{1000})c{1000}", r"\{2000}", "[{]2000}", "x{,2000}"] {
            assert!(compile(pattern).is_ok(), "{pattern}: {:?}", compile(pattern));
        }
        for pattern in [
            "a{1001}",
            "a{1,1001}",
            "a{1001,}",
            "(a{100}b){11}",
            "((a{10}){10}){11}",
            "(?:a{1000}){2}",
            "a{99999999999999999999}",
        ] {
            assert!(compile(pattern).unwrap_err().starts_with("invalid repeat count"), "{pattern}");
        }
        assert!(size("(ab){500}") >= 1_000 && size(&"a".repeat(50)) <= 60);
    }
}
