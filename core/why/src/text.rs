//! The answer as text: what fits a screen.

use machine::Time;

use crate::answer::{Answer, Link, State, Verdict};
use crate::words;

/// More lines than this do not fit a screen.
const LINES_MAX: usize = 40;
/// What is longer is cut: `-o json` has it whole.
const VALUE_MAX: usize = 300;
/// More evidence than this is for `-o json`.
const EVIDENCE_MAX: usize = 8;
const ACTIONS_MAX: usize = 4;

/// Renders an answer: one line if all is well, else at most [`LINES_MAX`] lines.
pub fn render(answer: &Answer, now: Time) -> String {
    let mut lines = vec![one_line(&answer.headline, 2 * VALUE_MAX)];
    if answer.verdict == Verdict::Healthy {
        return finish(lines);
    }
    let width = answer.links.iter().map(|link| link.name.len()).max().unwrap_or(0);
    let shown = answer.links.iter().filter(|link| link.state != State::NotReached);
    lines.extend(shown.map(|link| row(link, width)));
    let rest: Vec<&str> = answer.links.iter().filter(|link| link.state == State::NotReached).map(|link| link.name).collect();
    if !rest.is_empty() {
        lines.push(format!("  not reached: {}", rest.join(", ")));
    }
    if let Some(finding) = &answer.finding {
        if !finding.evidence.is_empty() {
            lines.push("evidence:".to_owned());
        }
        for seen in finding.evidence.iter().take(EVIDENCE_MAX) {
            let field = if seen.field.is_empty() { String::new() } else { format!(" {}", seen.field) };
            let at = seen.at.map(|at| format!(" [{at}, {}]", words::ago(now, at.0))).unwrap_or_default();
            lines.push(format!("  {}{field}: {}{at}", seen.object, one_line(&seen.value, VALUE_MAX)));
        }
        if !finding.actions.is_empty() {
            lines.push("what to do:".to_owned());
        }
        for action in finding.actions.iter().take(ACTIONS_MAX) {
            lines.push(format!("  - {}", one_line(&action.say, VALUE_MAX)));
            if !action.command.is_empty() {
                // A cut command would be a wrong one.
                lines.push(format!("    {}", action.command.replace('\n', " ")));
            }
        }
    }
    finish(lines)
}

fn row(link: &Link, width: usize) -> String {
    let state = match link.state {
        State::Ok => "ok",
        State::Broken => "BROKEN",
        State::Unknown => "unknown",
        State::NotReached => "not reached",
    };
    let line = format!("  {:width$}  {state:7}  {}", link.name, one_line(&link.note, VALUE_MAX / 2));
    line.trim_end().to_owned()
}

fn finish(mut lines: Vec<String>) -> String {
    lines.truncate(LINES_MAX);
    lines.push(String::new());
    lines.join("\n")
}

/// Returns a text in one line: line breaks and control characters become spaces, what is too long is cut.
fn one_line(text: &str, max: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if clean.chars().count() <= max { clean } else { clean.chars().take(max - 3).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_stays_in_its_line() {
        assert_eq!(one_line("a\n\tb\u{1b}[31m", 20), "a b [31m");
        assert_eq!(one_line(&"x".repeat(50), 10), "xxxxxxx...");
    }
}
