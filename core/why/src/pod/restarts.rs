//! Containers that run, crash, were killed, were restarted.

use std::time::Duration;

use super::containers::ContainerRef;
use super::exits::{self, Exit};
use super::{Checked, Owner, Subject, ended, probes};
use crate::answer::{Finding, instant};
use crate::chain::Step;
use crate::events::{self, Event};
use crate::words;

/// A container that has run this long since its last end is no longer in a crash loop: the kubelet forgets its back-off then.
const SETTLED_AFTER: Duration = Duration::from_secs(600);

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    if let Some(done) = ended::check(subject) {
        return Ok(done);
    }
    for unit in subject.lasting() {
        if let Some(finding) = crashing(subject, unit) {
            return Ok(finding.into());
        }
    }
    for unit in subject.lasting() {
        if let Some(finding) = not_running(subject, unit) {
            return Ok(finding.into());
        }
    }
    let since = subject.lasting().filter_map(|unit| unit.status?.state.running.as_ref()?.started_at).max();
    Ok(Checked::Holds(format!(
        "{}, since {}",
        words::count(subject.lasting().count(), "container"),
        words::when(subject.now, since)
    )))
}

fn not_running(subject: &Subject<'_>, unit: ContainerRef<'_>) -> Option<Finding> {
    if unit.status.is_some_and(|status| status.state.running.is_some()) {
        return None;
    }
    if let Some(end) = unit.terminated() {
        let exit = Exit::of(unit.spec, end);
        if end.exit_code == 0 {
            let what = format!(
                "{} has ended with exit code 0 and is not restarted (restartPolicy {}); a pod with an ended container is not ready",
                unit.title(),
                subject.pod.spec.restart_policy
            );
            return Some(exits::finding(subject, unit, &exit, what));
        }
        return Some(exits::ended(subject, unit, &exit));
    }
    let (reason, message) = unit.waiting().unwrap_or(("no status", ""));
    let what = if message.is_empty() {
        format!("{} does not run yet: {reason}", unit.title())
    } else {
        format!("{} does not run: {reason}: {message}", unit.title())
    };
    let event = events::last(&subject.events, |event| event.warning && event.about(unit.name())).map(Event::evidence);
    Some(
        subject
            .blindly(Finding::new("NotRunning", subject.short(), what))
            .seen(subject.short(), unit.field("state.waiting.reason"), reason)
            .with(event)
            .act("what its node says of it", subject.kubectl(&format!("describe {}", subject.short()))),
    )
}

/// Returns why a container crashes, or was restarted lately.
pub(super) fn crashing(subject: &Subject<'_>, unit: ContainerRef<'_>) -> Option<Finding> {
    let status = unit.status?;
    let looping = unit.waiting().is_some_and(|(reason, _)| reason == "CrashLoopBackOff");
    let restarting = subject.pod.spec.restart_policy != "Never"
        && unit.terminated().is_some_and(|end| end.exit_code != 0 || subject.pod.spec.restart_policy != "OnFailure");
    let end = unit.last_end()?;
    let recently = instant(end.finished_at).is_some_and(|at| subject.now.since(at) < SETTLED_AFTER);
    let restarted = status.restart_count > 0 && recently;
    if !(looping || restarting || restarted) {
        return None;
    }
    let exit = Exit::of(unit.spec, end);
    let restarts = words::count(usize::try_from(status.restart_count).unwrap_or(0), "restart");
    let now_runs = status.state.running.is_some();
    let prefix = if looping {
        format!("{} is in a crash loop ({restarts})", unit.title())
    } else if now_runs {
        format!(
            "{} was restarted {} ({restarts})",
            unit.title(),
            end.finished_at.map_or_else(String::new, |at| words::ago(subject.now, at.0))
        )
    } else {
        format!("{} has ended and is about to be restarted ({restarts})", unit.title())
    };
    if let Some(finding) = killed(subject, unit, &prefix) {
        return Some(finding);
    }
    let finding = exits::finding(subject, unit, &exit, format!("{prefix}: it {}", exit.words));
    Some(match unit.waiting() {
        Some(("CrashLoopBackOff", message)) if !message.is_empty() => {
            finding.seen(subject.short(), unit.field("state.waiting"), format!("CrashLoopBackOff: {message}"))
        }
        _ => finding,
    })
}

/// Returns that a probe had the container killed, if it was so.
fn killed(subject: &Subject<'_>, unit: ContainerRef<'_>, prefix: &str) -> Option<Finding> {
    let end = unit.last_end()?;
    if end.reason == "OOMKilled" {
        return None;
    }
    let (started, finished) = (instant(end.started_at), instant(end.finished_at));
    let kill = events::last(&subject.events, |event| {
        event.reason == "Killing" && event.about(unit.name()) && event.message.contains("probe") && event.since(started)
    })?;
    let startup = kill.message.contains("startup probe");
    let (word, cause) = if startup { ("Startup", "KilledByStartupProbe") } else { ("Liveness", "KilledByLivenessProbe") };
    let probe = if startup { unit.spec.startup_probe.as_ref() } else { unit.spec.liveness_probe.as_ref() };
    // Only what was said before the kill led to it; events have whole seconds.
    let before = |event: &Event<'_>| match (event.at, finished) {
        (Some(at), Some(finished)) => at.0 <= finished + Duration::from_secs(1) || event.count > 1,
        _ => true,
    };
    let reported = events::last(&subject.events, |event| {
        event.reason == "Unhealthy" && event.message.starts_with(word) && event.about(unit.name()) && before(event)
    });
    let shown = reported.map_or_else(String::new, |event| format!(": {}", probes::stripped(event.message)));
    let ran = match (started, finished) {
        (Some(start), Some(finish)) => format!(", {} after its start", words::span(finish.since(start))),
        _ => String::new(),
    };
    let what = format!("{prefix}: its {} probe failed and had it killed{ran}{shown}", word.to_lowercase());
    let owner = Owner::of(&subject.pod);
    let mut finding = Finding::new(cause, subject.short(), what)
        .with([kill.evidence()])
        .with(reported.map(Event::evidence))
        .seen_at(subject.short(), unit.field("lastState.terminated"), format!("exit code {}", end.exit_code), end.finished_at);
    let Some(probe) = probe else { return Some(finding) };
    let plan = probes::plan(probe, if startup { api::ProbeType::Startup } else { api::ProbeType::Liveness });
    finding = finding.seen(
        subject.short(),
        unit.spec_field(if startup { "startupProbe" } else { "livenessProbe" }),
        format!("{} {}", probes::target_of(subject, unit, probe), plan.say()),
    );
    if let Some(named) = probes::undeclared_port(unit, probe) {
        finding = finding.act(named, owner.edit());
    }
    let finding = if startup {
        let threshold = plan.timing.failure_threshold.saturating_mul(3);
        finding.act(
            format!(
                "if it only starts slowly, give it {} instead of {}",
                words::span(plan.period.saturating_mul(threshold)),
                words::span(plan.acts_after())
            ),
            owner.patch(
                serde_json::json!({"containers": [{"name": unit.name(), "startupProbe": {"failureThreshold": threshold}}]}),
            ),
        )
    } else if unit.spec.startup_probe.is_none() && ran_shortly(started, finished, plan.acts_after()) {
        finding.act(
            "if it only starts slowly, a startupProbe with the same target holds the liveness probe back until it answers",
            owner.edit(),
        )
    } else {
        finding
    };
    Some(finding.act("the log of the instance that was killed", subject.logs(unit.name(), true)))
}

/// Returns whether an instance lived hardly longer than its first failures took: it never answered.
fn ran_shortly(started: Option<machine::Time>, finished: Option<machine::Time>, acts_after: Duration) -> bool {
    match (started, finished) {
        (Some(start), Some(finish)) => finish.since(start) <= acts_after * 2 + Duration::from_secs(60),
        _ => false,
    }
}

/// Returns how often containers were restarted and how the last one ended, if any was.
pub(super) fn summary(subject: &Subject<'_>) -> Option<String> {
    let total: i64 = subject.lasting().map(|unit| unit.restarts()).sum();
    let (unit, end) =
        subject.lasting().filter_map(|unit| Some((unit, unit.last_end()?))).max_by_key(|(_, end)| end.finished_at)?;
    let exit = Exit::of(unit.spec, end);
    let when = words::when(subject.now, end.finished_at);
    Some(format!(
        "{}, the last {when}: {} {}",
        words::count(usize::try_from(total).unwrap_or(0), "restart"),
        unit.title(),
        exit.words
    ))
}
