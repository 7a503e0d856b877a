//! One object in detail.

use machine::Time;
use view::{Delta, NodeRow, PodRow, ServiceRow, StartStep, StepName};

use super::screen::{Line, Span};
use super::table::{age, plain, strip_of, word};
use super::{Tab, Top};

/// Returns the lines about what is open.
pub(super) fn lines(top: &Top, seen: &Delta, key: &str, now: Time, width: usize) -> Vec<Line> {
    let found = match top.tab {
        Tab::Pods => seen.pods.put.iter().find(|row| row.key == key).map(|row| pod(top, seen, row, now, width)),
        Tab::Services => seen.services.put.iter().find(|row| row.key == key).map(|row| service(top, row)),
        Tab::Nodes => seen.nodes.put.iter().find(|row| row.key == key).map(|row| node(top, row, now)),
        Tab::Events => seen.events.put.iter().find(|row| row.key == key).map(|row| {
            let about = format!("{} {}", row.kind, row.object);
            vec![title(top, &row.reason), Line::from(plain(&about)), Line::default(), Line::from(plain(&row.message))]
        }),
    };
    found.unwrap_or_else(|| vec![Line::from(format!("{} is gone", plain(key)))])
}

fn title(top: &Top, text: &str) -> Line {
    Line::from(Span::styled(plain(text), top.bold()))
}

fn pod(top: &Top, seen: &Delta, row: &PodRow, now: Time, width: usize) -> Vec<Line> {
    let mut lines = vec![title(top, &format!("pod {}: {} {}", row.key, word(row.state), row.reason))];
    if !row.message.is_empty() {
        lines.push(Line::from(plain(&row.message)));
    }
    let facts = [row.node.as_str(), row.address.as_str(), row.owner.as_str(), &row.services.join(" ")];
    lines.push(Line::from(facts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("  ")));
    if row.steps.len() > 1 {
        lines.extend([Line::default(), title(top, "Start"), Line::from(waterfall(&row.steps))]);
    }
    if !row.probes.is_empty() {
        lines.extend([Line::default(), title(top, "Probes")]);
    }
    for probe in &row.probes {
        lines.push(Line::from(plain(&format!(
            "{} of {}: {}, every {} ms",
            probe.probe, probe.container, probe.asks, probe.period_ms
        ))));
        let strip = strip_of(top, seen, &probe.key, width.saturating_sub(4));
        lines.push(if strip.spans.is_empty() {
            Line::from("  no agent of Lifesign tells its attempts")
        } else {
            indented(strip)
        });
        let last = seen.strips.put.iter().find(|strip| strip.key == probe.key).and_then(|strip| strip.attempts.last());
        if let Some(last) = last.filter(|attempt| !attempt.message.is_empty()) {
            lines.push(Line::from(format!("  {}", plain(&last.message))));
        }
    }
    lines.extend([Line::default(), title(top, "Containers")]);
    for container in &row.containers {
        let ready = if container.ready { "ready" } else { "not ready" };
        let text = format!(
            "{}: {} {} {ready}, {} restarts {}",
            container.name, container.state, container.reason, container.restarts, container.last_end
        );
        lines.push(Line::from(plain(&text)));
    }
    lines.extend([Line::default(), title(top, "Conditions")]);
    for condition in &row.conditions {
        let since = age(now, condition.since);
        lines.push(Line::from(plain(&format!(
            "{} {} {since} {} {}",
            condition.type_, condition.status, condition.reason, condition.message
        ))));
    }
    let own = seen.events.put.iter().filter(|event| event.kind == "Pod" && event.object == row.key);
    let mut own: Vec<_> = own.collect();
    own.sort_by_key(|event| -event.at);
    if !own.is_empty() {
        lines.extend([Line::default(), title(top, "Events")]);
    }
    for event in own.into_iter().take(20) {
        lines.push(Line::from(plain(&format!("{:>4} {} {}", age(now, event.at), event.reason, event.message))));
    }
    lines
}

fn indented(strip: Line) -> Line {
    let mut spans = vec![Span::raw("  ")];
    spans.extend(strip.spans);
    Line::from(spans)
}

const fn step_word(step: StepName) -> &'static str {
    match step {
        StepName::Created => "created",
        StepName::Scheduled => "scheduled",
        StepName::Started => "started",
        StepName::Listened => "listened",
        StepName::Probed => "probed",
        StepName::Ready => "ready",
        StepName::InSlice => "in slice",
    }
}

/// Returns the steps of a start, each with the time from the first one; exact ones if there are any.
fn waterfall(steps: &[StartStep]) -> String {
    let exact: Vec<&StartStep> = steps.iter().filter(|step| step.exact).collect();
    let mut used = if exact.len() > 1 { exact } else { steps.iter().collect() };
    used.sort_by_key(|step| step.at);
    let Some(first) = used.first().map(|step| step.at) else { return String::new() };
    let part = |step: &&StartStep| {
        let after_us = step.at - first;
        match (after_us, step.exact) {
            (0, _) => step_word(step.step).to_owned(),
            (_, true) => format!("{} +{} ms", step_word(step.step), after_us / 1_000),
            (_, false) => format!("{} +{} s", step_word(step.step), after_us / 1_000_000),
        }
    };
    used.iter().map(part).collect::<Vec<_>>().join("  ")
}

fn service(top: &Top, row: &ServiceRow) -> Vec<Line> {
    let mut lines = vec![title(top, &format!("service {}", row.key))];
    lines.push(Line::from(format!("{} {} {}", row.type_, row.cluster_ip, row.ports.join(", "))));
    lines.push(Line::default());
    for endpoint in &row.endpoints {
        let words = [
            if endpoint.ready { "ready" } else { "not ready" },
            if endpoint.serving { "serving" } else { "" },
            if endpoint.terminating { "terminating" } else { "" },
        ];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        lines.push(Line::from(format!("{:<32} {:<16} {}", endpoint.name, endpoint.address, words.join(", "))));
    }
    lines
}

fn node(top: &Top, row: &NodeRow, now: Time) -> Vec<Line> {
    let assumed = if row.grace_known { "" } else { " (assumed)" };
    vec![
        title(top, &format!("node {}", row.key)),
        Line::from(plain(&format!("Ready {} {} {}", row.ready, row.reason, row.message))),
        Line::from(format!(
            "heartbeat {} ago, every {} ms, grace {} ms{assumed}",
            age(now, row.heartbeat_at),
            row.interval_ms,
            row.grace_ms
        )),
        Line::from(format!("{} of {} pods ready", row.pods_ready, row.pods)),
        Line::from(format!("taints {}", if row.taints.is_empty() { "none".to_owned() } else { row.taints.join(" ") })),
    ]
}
