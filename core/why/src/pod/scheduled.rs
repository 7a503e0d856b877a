//! Whether a pod has a node, and why not.

use std::time::Duration;

use super::scheduling::{self, Reasons};
use super::{Checked, Owner, Subject};
use crate::answer::Finding;
use crate::chain::Step;
use crate::claim;
use crate::events::{self, Event};
use crate::words;

/// A scheduler that has not looked at a pod for this long does not.
const PATIENCE: Duration = Duration::from_secs(10);
const DEFAULT: &str = "default-scheduler";

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    let spec = &subject.pod.spec;
    if !spec.node_name.is_empty() {
        let after = subject.after_creation("PodScheduled").map_or_else(String::new, |after| format!(", {after}"));
        return Ok(Checked::Holds(format!("on node {}{after}", spec.node_name)));
    }
    if !spec.scheduling_gates.is_empty() {
        return Ok(gated(subject).into());
    }
    let condition = subject.pod.condition("PodScheduled").filter(|condition| condition.status == "False");
    let event = events::last(&subject.events, |event| event.reason == "FailedScheduling");
    let message = condition
        .map(|condition| condition.message.as_str())
        .filter(|message| !message.is_empty())
        .or(event.map(|event| event.message));
    let Some(message) = message else { return Ok(unseen(subject).into()) };
    let evidence = |finding: Finding| {
        let finding = match condition {
            Some(condition) => finding.seen_at(
                subject.short(),
                "status.conditions[PodScheduled]",
                format!("{}: {}", condition.reason, condition.message),
                condition.last_transition_time,
            ),
            None => finding,
        };
        if condition.is_some_and(|condition| condition.message == event.map_or("", |event| event.message)) {
            finding
        } else {
            finding.with(event.map(Event::evidence))
        }
    };
    let reasons = Reasons::of(message);
    if reasons.mentions_claims()
        && let Some((_, finding)) = claim::unbound(subject)?
    {
        return Ok(evidence(finding).into());
    }
    Ok(evidence(scheduling::explain(subject, &reasons)?).into())
}

fn gated(subject: &Subject<'_>) -> Finding {
    let names: Vec<&str> = subject.pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
    let what = format!("scheduling gates keep it from a node: {}", words::some(&names, 4));
    let command =
        subject.kubectl(&format!("patch {} --type=merge -p '{{\"spec\":{{\"schedulingGates\":null}}}}'", subject.short()));
    Finding::new("SchedulingGated", subject.short(), what)
        .seen_at(subject.short(), "spec.schedulingGates", words::some(&names, 4), subject.pod.metadata.creation_timestamp)
        .act("the controller that set them should take them away (a queue such as Kueue does when there is room)", "")
        .act("or take them away by hand", command)
}

fn unseen(subject: &Subject<'_>) -> Finding {
    let name = subject.pod.spec.scheduler_name.as_str();
    let age = subject.created().map_or(Duration::ZERO, |created| subject.now.since(created));
    let owner = Owner::of(&subject.pod);
    if !name.is_empty() && name != DEFAULT {
        let what = format!("scheduler {name:?} has not looked at it: nobody else assigns it to a node");
        return subject
            .blindly(Finding::new("NoScheduler", subject.short(), what))
            .seen_at(subject.short(), "spec.schedulerName", name, subject.pod.metadata.creation_timestamp)
            .act("start that scheduler, or correct the name", owner.edit());
    }
    let what = if age < PATIENCE {
        "it waits for the scheduler".to_owned()
    } else {
        format!("the scheduler has not looked at it for {}: it does not run, or is far behind", words::span(age))
    };
    subject
        .blindly(Finding::new(if age < PATIENCE { "WaitsForScheduler" } else { "NoScheduler" }, subject.short(), what))
        .seen_at(subject.short(), "status.conditions[PodScheduled]", "missing", subject.pod.metadata.creation_timestamp)
        .act("is there a scheduler, and who leads", "kubectl -n kube-system get lease kube-scheduler")
}
