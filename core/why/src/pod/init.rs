//! Init containers and sidecars: what must be done before the main containers start.

use super::containers::ContainerRef;
use super::exits::{self, Exit};
use super::{Checked, Subject, probes, restarts};
use crate::answer::Finding;
use crate::chain::Step;
use crate::words;

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    if subject.pod.spec.init_containers.is_empty() || subject.pod.condition_true("Initialized") || subject.pod.terminal() {
        return Ok(Checked::Holds(if subject.pod.spec.init_containers.is_empty() { "none".to_owned() } else { String::new() }));
    }
    let units: Vec<ContainerRef<'_>> = subject.units().filter(|unit| unit.init).collect();
    let total = units.len();
    for (place, unit) in units.into_iter().enumerate() {
        let position = format!("{} of {total}", place + 1);
        if unit.spec.is_sidecar() {
            let started = unit.status.is_some_and(|status| status.started == Some(true));
            if started {
                continue;
            }
            if let Some(finding) = restarts::crashing(subject, unit) {
                return Ok(finding.into());
            }
            if let Some(finding) = probes::not_started(subject, unit)? {
                return Ok(finding.into());
            }
        } else {
            match unit.terminated() {
                Some(end) if end.exit_code == 0 => continue,
                _ => {}
            }
        }
        return Ok(not_done(subject, unit, &position).into());
    }
    Ok(Checked::Holds(String::new()))
}

fn not_done(subject: &Subject<'_>, unit: ContainerRef<'_>, position: &str) -> Finding {
    if let Some(running) = unit.status.and_then(|status| status.state.running.as_ref()) {
        let since = running.started_at;
        let age = since.map_or_else(String::new, |since| format!(" for {}", words::span(subject.now.since(since.0))));
        let again = if unit.restarts() > 0 {
            format!(", after {}", words::count(usize::try_from(unit.restarts()).unwrap_or(0), "restart"))
        } else {
            String::new()
        };
        let what = format!("{} ({position}) runs{age}{again}; the pod waits for its end", unit.title());
        let finding = Finding::new("InitRunning", subject.short(), what).seen_at(
            subject.short(),
            unit.field("state.running"),
            "running",
            since,
        );
        let finding = match unit.last_end() {
            Some(end) if end.exit_code != 0 => finding.seen_at(
                subject.short(),
                unit.field("lastState.terminated"),
                Exit::of(unit.spec, end).words,
                end.finished_at,
            ),
            _ => finding,
        };
        return finding.act("see what it does or waits for", subject.logs(unit.name(), false));
    }
    if let Some(end) = unit.last_end() {
        let exit = Exit::of(unit.spec, end);
        let restarts = unit.restarts();
        let again = match unit.waiting() {
            Some(("CrashLoopBackOff", _)) => format!(
                " and is tried again with growing pauses ({} so far)",
                words::count(usize::try_from(restarts).unwrap_or(0), "restart")
            ),
            _ => String::new(),
        };
        let what = format!("{} ({position}) {}{again}", unit.title(), exit.words);
        let mut finding = exits::finding(subject, unit, &exit, what);
        finding.cause = "InitFailed";
        return finding;
    }
    let reason = unit.waiting().map_or("", |(reason, _)| reason);
    let what = format!("{} ({position}) has not started yet", unit.title());
    Finding::new("InitWaiting", subject.short(), what)
        .seen(subject.short(), unit.field("state.waiting.reason"), reason)
        .act("wait a moment and ask again", subject.kubectl(&format!("get {} -w", subject.short())))
}
