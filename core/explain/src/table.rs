//! A report for people: per container when it is ready, a table of its probes, a timeline; then what was found.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Options;
use crate::findings::span;
use crate::report::{Action, Container, Finding, Probe, Report, Severity, Workload};
use crate::timeline::{LEGEND, timeline};
use crate::times::Ready;
use crate::{kubelet, patch};

const HEAD: [&str; 7] = ["PROBE", "HANDLER", "DELAY", "PERIOD", "TIMEOUT", "OK/FAIL", "WHAT IT DOES"];

/// How a report is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Sentences are wrapped here.
    pub width: usize,
    /// Whether severities are coloured.
    pub colour: bool,
    /// Whether findings show their patches.
    pub patches: bool,
}

/// Names of folded objects that are shown.
const NAMED: usize = 5;

/// Returns the report as text: the verdict first, objects that differ in nothing but their names once.
pub fn table(report: &Report, options: &Options, look: Look) -> String {
    let mut text = verdict(report);
    let listens = options.listens_ms();
    for alike in folded(report) {
        let workload = alike[0];
        let _ = writeln!(text, "{} {}", plain(&workload.kind), heading(&alike));
        for shown in &workload.containers {
            container(&mut text, shown, listens, look.width);
        }
        findings(&mut text, workload, look);
        text.push('\n');
    }
    if report.workloads.iter().any(|workload| workload.containers.iter().any(|container| !container.probes.is_empty())) {
        let scene = match listens {
            Some(listens) => format!("timelines: the container answers from {} on", span(listens)),
            None => "timelines: the container answers at once".to_owned(),
        };
        let source = match options.kubelet {
            true => "times are those of Lifesign's agent where nothing else is said",
            false => "times are those of Lifesign's agent; --kubelet shows those of a stock kubelet beside them",
        };
        let _ = writeln!(text, "{scene}\n{LEGEND}\n{source}");
    }
    skipped(&mut text, report, look.width);
    text
}

/// Says what was left out: by kind, and by name where there are few.
fn skipped(text: &mut String, report: &Report, width: usize) {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skipped in &report.skipped {
        kinds.entry(&skipped.kind).or_default().push(&skipped.name);
    }
    let kind = |(kind, names): (&str, Vec<&str>)| match names.len() {
        ..=3 => names.iter().map(|name| format!("{kind} {name}")).collect::<Vec<_>>().join(", "),
        count => format!("{count} of kind {kind}"),
    };
    if !kinds.is_empty() {
        let all: Vec<String> = kinds.into_iter().map(kind).collect();
        wrap(text, "", &format!("skipped, without a pod template: {}", all.join(", ")), width);
    }
}

/// Returns how many findings there are, of which severity; nothing if there is nothing to judge.
fn verdict(report: &Report) -> String {
    if report.workloads.is_empty() {
        return String::new();
    }
    let count = |severity| report.findings().filter(|finding| finding.severity == severity).count();
    let some = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Info, "info")];
    let words: Vec<String> =
        some.into_iter().map(|(severity, word)| (count(severity), word)).filter(|(count, _)| *count > 0).map(plural).collect();
    let found = if words.is_empty() { "nothing found".to_owned() } else { words.join(", ") };
    format!("{found} in {}\n\n", plural((report.workloads.len(), "object")))
}

fn plural((count, word): (usize, &str)) -> String {
    format!("{count} {word}{}", if count == 1 || word == "info" { "" } else { "s" })
}

/// Returns the workloads, those together that are alike.
fn folded(report: &Report) -> Vec<Vec<&Workload>> {
    let mut all: Vec<Vec<&Workload>> = Vec::new();
    // Whatever is alike has the same key; few of those with one key are not.
    let mut seen: BTreeMap<(&str, Option<&str>, usize, usize), Vec<usize>> = BTreeMap::new();
    for workload in &report.workloads {
        let first = workload.containers.first().map(|container| container.name.as_str());
        let key = (workload.kind.as_str(), first, workload.containers.len(), workload.findings.len());
        let candidates = seen.entry(key).or_default();
        match candidates.iter().find(|index| is_like(all[**index][0], workload)) {
            Some(index) => all[*index].push(workload),
            None => {
                candidates.push(all.len());
                all.push(vec![workload]);
            }
        }
    }
    all
}

/// Returns whether two workloads differ in nothing but their names.
fn is_like(one: &Workload, other: &Workload) -> bool {
    // What is said of one may contain its own name, in quotes.
    let text = |workload: &Workload, finding: &Finding| finding.text.replace(&format!("{:?}", workload.name), "");
    let same = |(left, right): (&Finding, &Finding)| {
        left.id == right.id
            && left.path == right.path
            && left.patch == right.patch
            && (left.text == right.text || text(one, left) == text(other, right))
    };
    one.containers == other.containers && one.findings.iter().zip(&other.findings).all(same)
}

fn heading(alike: &[&Workload]) -> String {
    let first = alike[0];
    let one_namespace = alike.iter().all(|workload| workload.namespace == first.namespace);
    let name = |(index, workload): (usize, &&Workload)| match one_namespace && index > 0 {
        true => plain(&workload.name),
        false => plain(&format!("{}/{}", workload.namespace, workload.name)),
    };
    let names: Vec<String> = alike.iter().take(NAMED).enumerate().map(name).collect();
    match alike.len() {
        1 => names.join(", "),
        count if count <= NAMED => format!("{} ({count} alike)", names.join(", ")),
        count => format!("{} and {} more ({count} alike)", names.join(", "), count - NAMED),
    }
}

fn container(text: &mut String, shown: &Container, listens: Option<u64>, width: usize) {
    let role = if shown.sidecar { "sidecar" } else { "container" };
    let _ = writeln!(text, "\n  {role} {}", plain(&shown.name));
    if let Some(ready) = &shown.ready {
        for sentence in sentences(shown, ready, listens) {
            wrap(text, "    ", &sentence, width);
        }
    }
    if shown.probes.is_empty() {
        return;
    }
    text.push('\n');
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(shown.probes.iter().map(row));
    columns(text, &rows, width);
    let compared = kubelet::rows(shown);
    if !compared.is_empty() {
        text.push('\n');
        columns(text, &compared, width);
    }
    let lines = timeline(shown, listens, width.saturating_sub(4));
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
}

fn sentences(shown: &Container, ready: &Ready, listens: Option<u64>) -> Vec<String> {
    let mut described = Vec::new();
    if shown.refused {
        return vec!["a probe of it is refused, so nothing is said of when it is ready".to_owned()];
    }
    described.push(match (ready.lag_worst_ms, shown.probes.is_empty()) {
        (0, true) => "no probes: ready the moment it runs, never restarted by a probe".to_owned(),
        (0, false) => "ready the moment it runs: neither startup nor readiness probe".to_owned(),
        _ => format!("ready {}", readiness(shown, ready)),
    });
    if shown.moved {
        described.push("its readiness probe is run by `lifesign agent --cluster`, as an annotation of the pod says".to_owned());
    }
    if let Some(listens) = listens {
        described.push(match shown.ready_at_ms {
            Some(at) if at < listens => {
                format!("listening after {}, it is ready at {}: too early", span(listens), span(at))
            }
            Some(at) => format!("listening after {}, it is ready at {}", span(listens), span(at)),
            None => format!("listening after {}, it is killed before it is ready", span(listens)),
        });
    }
    match shown.budget_ms {
        Some(0) => described.push("killed at the first attempt unless it answers from its start on".to_owned()),
        Some(budget) => described.push(format!("killed unless it answers within {} of its start", span(budget))),
        None => {}
    }
    if let Some(without) = &shown.ready_without_sub_second {
        described.push(format!("with SubSecondProbes off: ready {}", readiness(shown, without)));
    }
    described
}

fn readiness(shown: &Container, ready: &Ready) -> String {
    let waits = |probe: &&Probe| !matches!(probe.action, Action::Kill { .. }) || probe.failing.is_none();
    let delayed = shown.probes.iter().filter(waits).any(|probe| probe.times.delay_ms > 0);
    let over = if delayed { " and the delay is over" } else { "" };
    let (earliest, lag, worst) = (span(ready.earliest_ms), span(ready.lag_ms), span(ready.lag_worst_ms));
    match ready.lag_on_listen_ms {
        Some(knocked) => format!(
            "{earliest} after its start at the earliest, about {} after it listens{over}, at most {lag} after it answers if it \
             listened before ({worst} if attempts hang)",
            span(knocked)
        ),
        None => {
            format!(
                "{earliest} after its start at the earliest, at most {lag} after it answers{over} ({worst} if attempts hang)"
            )
        }
    }
}

fn row(probe: &Probe) -> [String; 7] {
    let times = &probe.times;
    let period = match times.period_after_success_ms {
        // A startup probe rests after Success.
        same if same == times.period_ms || probe.failing.is_none() => span(times.period_ms),
        slow => format!("{}, then {}", span(times.period_ms), span(slow)),
    };
    [
        plain(&probe.name),
        if probe.handler.is_empty() { "-".to_owned() } else { probe.handler.clone() },
        span(times.delay_ms),
        period,
        span(times.timeout_ms),
        format!("{}/{}", times.success_threshold, times.failure_threshold),
        effect(probe),
    ]
}

fn effect(probe: &Probe) -> String {
    let mut described = match probe.action {
        Action::RemoveEndpoint => "leaves endpoints".to_owned(),
        Action::Kill { .. } => "stops it".to_owned(),
        Action::Mark => "marks Failed".to_owned(),
    };
    match (probe.failing, probe.never_up) {
        (Some(after), _) => {
            let _ = write!(described, " {} to {} after it fails", span(after.from_ms), span(after.to_ms));
        }
        (None, Some(never)) => {
            let _ = write!(described, " {} to {} after start if never up", span(never.from_ms), span(never.to_ms));
        }
        (None, None) => {}
    }
    match (probe.action, probe.recovering) {
        (Action::Kill { grace_ms, restart }, _) => {
            let then = if restart { "restarted" } else { "not started again, gone" };
            let _ = write!(described, ", {then} within {} more", span(grace_ms));
        }
        (_, Some(back)) => {
            let _ = write!(described, ", back within {} of being well ({} if it hangs)", span(back.from_ms), span(back.to_ms));
        }
        _ => {}
    }
    described
}

/// Writes rows in aligned columns; the last one is wrapped.
fn columns<const N: usize>(text: &mut String, rows: &[[String; N]], width: usize) {
    let mut widths = [0; N];
    for row in rows {
        for (wide, cell) in widths.iter_mut().zip(row) {
            *wide = (*wide).max(cell.chars().count());
        }
    }
    let last = N - 1;
    let indent: usize = 4 + widths[..last].iter().map(|wide| wide + 2).sum::<usize>();
    for row in rows {
        let mut line = "    ".to_owned();
        for (cell, wide) in row[..last].iter().zip(widths) {
            let _ = write!(line, "{cell:wide$}  ");
        }
        // A sentence needs some room even if a name is very long.
        let mut lines = wrapped(&row[last], width.saturating_sub(indent).max(30)).into_iter();
        let _ = writeln!(text, "{line}{}", lines.next().unwrap_or_default());
        for more in lines {
            let _ = writeln!(text, "{:indent$}{more}", "");
        }
    }
}

fn findings(text: &mut String, workload: &Workload, look: Look) {
    let Look { width, colour, patches } = look;
    if workload.findings.is_empty() {
        text.push_str("\n  nothing found\n");
        return;
    }
    for Finding { severity, id, path, place, text: described, advice, patch } in &workload.findings {
        let (begin, end) = if colour { (colour_of(*severity), "\u{1b}[0m") } else { ("", "") };
        let _ = writeln!(text, "\n  {begin}{severity:7}{end} {id}: {}", plain(path));
        if let Some(place) = place {
            let _ = writeln!(text, "          {}", plain(place));
        }
        wrap(text, "          ", described, width);
        if !advice.is_empty() {
            wrap(text, "          ", &format!("-> {advice}"), width);
        }
        for line in
            patch.iter().filter(|_| patches).flat_map(|patch| patch::yaml(patch).lines().map(str::to_owned).collect::<Vec<_>>())
        {
            let _ = writeln!(text, "          | {}", plain(&line));
        }
    }
}

fn colour_of(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "\u{1b}[31m",
        Severity::Warning => "\u{1b}[33m",
        Severity::Info => "\u{1b}[36m",
    }
}

/// Returns a text of users on one line; what would move the cursor or change colours is shown as a mark.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

fn wrap(text: &mut String, indent: &str, sentence: &str, width: usize) {
    for line in wrapped(sentence, width.saturating_sub(indent.len()).max(30)) {
        let _ = writeln!(text, "{indent}{line}");
    }
}

fn wrapped(sentence: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split_whitespace().map(plain) {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(&word);
            }
            None => lines.push(word),
        }
    }
    lines
}
