//! Rows of the lists.

use std::time::Duration;

use crossterm::style::Color;
use machine::Time;
use view::{Attempt, AttemptResult, Delta, EventRow, NodeRow, PodRow, PodState, ServiceRow, chances_left};

use super::screen::{Line, Span, Style, Width};
use super::{Order, Tab, Top};

/// Titles, widths, and the columns of every row.
pub(super) type Rows = (Vec<&'static str>, Vec<Width>, Vec<Vec<Line>>);

/// Returns the keys of the rows that are listed, in order.
pub(super) fn keys(top: &Top, seen: &Delta) -> Vec<String> {
    match top.tab {
        Tab::Pods => pods(top, seen).into_iter().map(|row| row.key.clone()).collect(),
        Tab::Services => services(top, seen).into_iter().map(|row| row.key.clone()).collect(),
        Tab::Nodes => nodes(top, seen).into_iter().map(|row| row.key.clone()).collect(),
        Tab::Events => events(top, seen).into_iter().map(|row| row.key.clone()).collect(),
    }
}

/// Returns titles, widths and rows.
pub(super) fn rows(top: &Top, seen: &Delta, now: Time, width: usize) -> Rows {
    match top.tab {
        Tab::Pods => pod_rows(top, seen, now, width),
        Tab::Services => service_rows(top, seen),
        Tab::Nodes => node_rows(top, seen, now),
        Tab::Events => event_rows(top, seen, now),
    }
}

fn pods<'a>(top: &Top, seen: &'a Delta) -> Vec<&'a PodRow> {
    let good = |row: &&PodRow| top.matches(&[&row.key, &row.node, &row.owner, &row.reason, word(row.state)]);
    let mut rows: Vec<&PodRow> = seen.pods.put.iter().filter(good).collect();
    match top.order {
        Order::Problems => rows.sort_by_key(|row| (row.state, &row.key)),
        Order::Name => rows.sort_by_key(|row| &row.key),
        Order::Newest => rows.sort_by_key(|row| (-row.created_at, &row.key)),
        Order::Restarts => rows.sort_by_key(|row| (-row.restarts, &row.key)),
    }
    rows
}

fn services<'a>(top: &Top, seen: &'a Delta) -> Vec<&'a ServiceRow> {
    seen.services.put.iter().filter(|row| top.matches(&[&row.key, &row.cluster_ip])).collect()
}

fn nodes<'a>(top: &Top, seen: &'a Delta) -> Vec<&'a NodeRow> {
    seen.nodes.put.iter().filter(|row| top.matches(&[&row.key, &row.reason])).collect()
}

fn events<'a>(top: &Top, seen: &'a Delta) -> Vec<&'a EventRow> {
    let good = |row: &&EventRow| top.matches(&[&row.reason, &row.object, &row.message, &row.kind]);
    let mut rows: Vec<&EventRow> = seen.events.put.iter().filter(good).collect();
    rows.sort_by_key(|row| (-row.at, &row.key));
    rows
}

pub(super) const fn word(state: PodState) -> &'static str {
    match state {
        PodState::Failed => "Failed",
        PodState::NotReady => "NotReady",
        PodState::Pending => "Pending",
        PodState::Terminating => "Terminating",
        PodState::Ready => "Ready",
        PodState::Succeeded => "Succeeded",
    }
}

const fn colour(state: PodState) -> Color {
    match state {
        PodState::Failed => Color::DarkRed,
        PodState::NotReady => Color::DarkYellow,
        PodState::Pending => Color::DarkCyan,
        PodState::Terminating => Color::DarkMagenta,
        PodState::Ready | PodState::Succeeded => Color::DarkGreen,
    }
}

fn pod_rows(top: &Top, seen: &Delta, now: Time, width: usize) -> Rows {
    // What is left beside the columns of a fixed width goes to names and strips.
    let strip = width.saturating_sub(64).clamp(16, 60);
    let name = width.saturating_sub(strip + 18 + 8 + 5 + 4).max(20);
    let row = |pod: &PodRow| {
        let reason = if pod.reason.is_empty() { word(pod.state) } else { &pod.reason };
        let probe = pod.probes.iter().find(|probe| probe.probe == "Readiness").or(pod.probes.first());
        let attempts = probe.map(|probe| strip_of(top, seen, &probe.key, strip)).unwrap_or_default();
        let since = if pod.since > 0 { pod.since } else { pod.created_at };
        vec![
            Line::from(Span::styled(reason.to_owned(), top.tone(colour(pod.state)))),
            Line::from(shortened(&pod.key, name)),
            attempts,
            Line::from(pod.restarts.to_string()),
            Line::from(age(now, since)),
        ]
    };
    let widths = [Width::Fixed(18), Width::AtLeast(20), Width::Fixed(strip), Width::Fixed(8), Width::Fixed(5)];
    (vec!["STATE", "POD", "ATTEMPTS", "RESTARTS", "FOR"], widths.into(), pods(top, seen).into_iter().map(row).collect())
}

/// Returns the last attempts of a probe: a block for each, the taller the longer it took; `x`: it failed.
pub(super) fn strip_of(top: &Top, seen: &Delta, key: &str, width: usize) -> Line {
    let Some(strip) = seen.strips.put.iter().find(|strip| strip.key == key) else { return Line::default() };
    let first = strip.attempts.len().saturating_sub(width);
    let sign = |attempt: &Attempt| {
        let (text, style): (String, Style) = match attempt.outcome {
            AttemptResult::Success => (block(attempt.took).to_string(), top.tone(Color::DarkGreen)),
            AttemptResult::Warning => (block(attempt.took).to_string(), top.tone(Color::DarkYellow)),
            AttemptResult::Failure => ("x".to_owned(), top.tone(Color::DarkRed)),
            AttemptResult::Unknown => ("?".to_owned(), top.dim()),
        };
        Span::styled(text, style)
    };
    match strip.attempts.len() {
        0 if strip.knocking => Line::from("waits until it listens"),
        _ => Line::from(strip.attempts[first..].iter().map(sign).collect::<Vec<_>>()),
    }
}

/// Below a millisecond the lowest, from a second on the highest.
fn block(took: Duration) -> char {
    const BLOCKS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    let level = [1, 3, 10, 30, 100, 1_000].iter().filter(|limit| took.as_millis() >= **limit).count();
    BLOCKS[level]
}

fn service_rows(top: &Top, seen: &Delta) -> Rows {
    let row = |service: &ServiceRow| {
        let tone = if service.ready > 0 { top.tone(Color::DarkGreen) } else { top.tone(Color::DarkRed) };
        vec![
            Line::from(service.key.clone()),
            Line::from(Span::styled(service.ready.to_string(), tone)),
            Line::from(service.draining.to_string()),
            Line::from(service.not_ready.to_string()),
            Line::from(format!("{} {}", service.cluster_ip, service.ports.join(","))),
        ]
    };
    let widths = [Width::AtLeast(24), Width::Fixed(5), Width::Fixed(8), Width::Fixed(9), Width::AtLeast(26)];
    let titles = vec!["SERVICE", "READY", "DRAINING", "NOT READY", "ADDRESS"];
    (titles, widths.into(), services(top, seen).into_iter().map(row).collect())
}

fn node_rows(top: &Top, seen: &Delta, now: Time) -> Rows {
    let row = |node: &NodeRow| {
        let (state, tone) = match node.ready.as_str() {
            "True" => ("Ready".to_owned(), Color::DarkGreen),
            "" => ("no status".to_owned(), Color::DarkCyan),
            _ => (if node.reason.is_empty() { "NotReady".to_owned() } else { node.reason.clone() }, Color::DarkRed),
        };
        let assumed = if node.grace_known { "" } else { "?" };
        vec![
            Line::from(Span::styled(state, top.tone(tone))),
            Line::from(node.key.clone()),
            Line::from(age(now, node.heartbeat_at)),
            Line::from(format!("{}s{assumed}", node.grace_ms / 1_000)),
            Line::from(chances_left(node, now).to_string()),
            Line::from(format!("{}/{}", node.pods_ready, node.pods)),
            Line::from(node.taints.join(" ")),
        ]
    };
    let widths = [
        Width::Fixed(18),
        Width::AtLeast(16),
        Width::Fixed(9),
        Width::Fixed(6),
        Width::Fixed(7),
        Width::Fixed(8),
        Width::AtLeast(8),
    ];
    let titles = vec!["STATE", "NODE", "HEARTBEAT", "GRACE", "CHANCES", "PODS", "TAINTS"];
    (titles, widths.into(), nodes(top, seen).into_iter().map(row).collect())
}

fn event_rows(top: &Top, seen: &Delta, now: Time) -> Rows {
    let row = |event: &EventRow| {
        let tone = if event.warning { top.tone(Color::DarkYellow) } else { Style::default() };
        let times = if event.count > 1 { format!("{} x{}", event.reason, event.count) } else { event.reason.clone() };
        vec![
            Line::from(age(now, event.at)),
            Line::from(Span::styled(times, tone)),
            Line::from(shortened(&event.object, 24)),
            Line::from(plain(&event.message)),
        ]
    };
    let widths = [Width::Fixed(5), Width::Fixed(18), Width::Fixed(24), Width::AtLeast(20)];
    (vec!["AGE", "REASON", "OBJECT", "MESSAGE"], widths.into(), events(top, seen).into_iter().map(row).collect())
}

/// Returns a text of users on one line; what would move the cursor is shown as what it is.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Returns a name that fits: what tells pods of one owner apart is at its end, so the middle goes.
pub(super) fn shortened(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let head = (room / 2).saturating_sub(1);
    let tail = length.saturating_sub(room.saturating_sub(head + 1));
    name.chars().take(head).chain(['…']).chain(name.chars().skip(tail)).collect()
}

/// Returns an age, short.
pub(super) fn age(now: Time, at_ms: i64) -> String {
    if at_ms <= 0 {
        return "-".to_owned();
    }
    let seconds = now.since(Time::from_millis(at_ms)).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
