//! Pods that have ended: refused by their node, evicted, out of time, failed, completed.

use super::containers::ContainerRef;
use super::exits::{self, Exit};
use super::{Checked, Owner, Subject};
use crate::answer::Finding;
use crate::words;

/// Returns why the node did not take a pod, if that is how it ended.
pub(super) fn refused_by_node(subject: &Subject<'_>) -> Option<Finding> {
    let status = &subject.pod.status;
    if status.phase != "Failed" {
        return None;
    }
    let reason = status.reason.as_str();
    let admission = reason.starts_with("OutOf")
        || [
            "NodeAffinity",
            "UnexpectedAdmissionError",
            "NodePorts",
            "HostPortConflict",
            "TaintToleration",
            "NodeName",
            "PodOSNotSupported",
            "PodOSSelectorNodeLabelDoesNotMatch",
            "InitContainerRestartPolicyForbidden",
            "AppArmor",
            "SysctlForbidden",
            "TopologyAffinityError",
            "VolumeAttachmentLimitExceeded",
        ]
        .contains(&reason);
    if !admission {
        return None;
    }
    let node = &subject.pod.spec.node_name;
    let what = format!("node {node} did not take it ({reason}): {}", status.message.trim());
    let owner = Owner::of(&subject.pod);
    let finding = Finding::new("RefusedByNode", subject.short(), what)
        .seen_at(subject.short(), "status.reason", reason, status.start_time)
        .seen(subject.short(), "status.message", status.message.clone());
    Some(if owner.short.starts_with("pod/") {
        finding.act("a pod that was refused never runs: delete it and make it again; without spec.nodeName the scheduler finds a node that fits", subject.kubectl(&format!("delete {}", subject.short())))
    } else {
        finding.act(
            format!("{} makes another pod; this one can be deleted", owner.short),
            subject.kubectl(&format!("delete {}", subject.short())),
        )
    })
}

/// Returns how a pod ended, if it has.
pub(super) fn check(subject: &Subject<'_>) -> Option<Checked> {
    let status = &subject.pod.status;
    match status.phase.as_str() {
        "Succeeded" => Some(Checked::Done(completed(subject))),
        "Failed" => Some(failed(subject).into()),
        _ => None,
    }
}

fn completed(subject: &Subject<'_>) -> String {
    let end = subject.units().filter_map(|unit| unit.last_end()?.finished_at).max();
    let start = subject.pod.status.start_time;
    let ran = match (start, end) {
        (Some(start), Some(end)) => format!(", after {}", words::span(end.0.since(start.0))),
        _ => String::new(),
    };
    format!(
        "completed {}{ran}: every container ended with exit code 0; a completed pod gets no traffic",
        words::when(subject.now, end)
    )
}

fn failed(subject: &Subject<'_>) -> Finding {
    let status = &subject.pod.status;
    let pod = subject.short();
    let owner = Owner::of(&subject.pod);
    let seen = |finding: Finding| {
        let finding = finding.seen(&pod, "status.phase", "Failed").seen(&pod, "status.reason", status.reason.clone());
        if status.message.is_empty() { finding } else { finding.seen(&pod, "status.message", status.message.clone()) }
    };
    let again = if owner.short.starts_with("pod/") {
        ("nobody makes it again: delete it and create it".to_owned(), subject.kubectl(&format!("delete {pod}")))
    } else {
        (format!("{} makes another pod; this one can be deleted", owner.short), subject.kubectl(&format!("delete {pod}")))
    };
    match status.reason.as_str() {
        "Evicted" => {
            let what = format!("it was evicted from {}: {}", subject.pod.spec.node_name, status.message.trim());
            let pressure =
                subject.pod.condition("DisruptionTarget").map(|condition| condition.reason.clone()).unwrap_or_default();
            let finding = seen(Finding::new("Evicted", &pod, what));
            let finding =
                if pressure.is_empty() { finding } else { finding.seen(&pod, "condition DisruptionTarget", pressure) };
            finding
                .act("give it requests near to what it uses, so that others are evicted first; a volume or emptyDir limit if it was storage", owner.edit())
                .act("how the node is now", format!("lifesign why node/{}", subject.pod.spec.node_name))
                .act(again.0, again.1)
        }
        "DeadlineExceeded" => {
            let seconds = subject.pod.spec.active_deadline_seconds.unwrap_or_default();
            let what = format!("it ran longer than its activeDeadlineSeconds ({seconds})");
            seen(Finding::new("DeadlineExceeded", &pod, what))
                .act("give it more time, or look at what it did", owner.edit())
                .act(again.0, again.1)
        }
        "Terminated" | "NodeShutdown" | "Shutdown" => {
            let what = format!("its node {} shut down: {}", subject.pod.spec.node_name, status.message.trim());
            seen(Finding::new("NodeShutdown", &pod, what)).act(again.0, again.1)
        }
        "Preempting" | "Preempted" => {
            let what = format!("it had to make room for a pod of higher priority: {}", status.message.trim());
            seen(Finding::new("Preempted", &pod, what)).act(again.0, again.1)
        }
        "NodeLost" => {
            let what = format!("its node {} was lost", subject.pod.spec.node_name);
            seen(Finding::new("NodeLost", &pod, what)).act(again.0, again.1)
        }
        _ => match bad_exit(subject) {
            Some((unit, exit)) => exits::ended(subject, unit, &exit).act(again.0, again.1),
            None => {
                let target = subject.pod.condition("DisruptionTarget");
                let why = if !status.message.is_empty() {
                    status.message.trim().to_owned()
                } else {
                    target.map_or_else(|| "nothing says why".to_owned(), |condition| condition.message.clone())
                };
                let what = format!("it has failed: {why}");
                seen(Finding::new("Failed", &pod, what)).act(again.0, again.1)
            }
        },
    }
}

/// Returns the container whose end made the pod fail.
fn bad_exit<'a>(subject: &'a Subject<'_>) -> Option<(ContainerRef<'a>, Exit)> {
    let bad = subject.units().filter_map(|unit| Some((unit, unit.terminated()?))).filter(|(_, end)| end.exit_code != 0);
    bad.min_by_key(|(_, end)| end.finished_at).map(|(unit, end)| (unit, Exit::of(unit.spec, end)))
}
