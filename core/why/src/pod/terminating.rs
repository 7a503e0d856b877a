//! Whether a pod is on its way out, and what holds it.

use std::time::Duration;

use super::{Checked, Subject};
use crate::answer::{Finding, instant};
use crate::chain::Step;
use crate::node;
use crate::words;

/// A deletion that is late by less than this is under way.
const LATE_AFTER: Duration = Duration::from_secs(15);

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    let meta = &subject.pod.metadata;
    let Some(deadline) = meta.deletion_timestamp else {
        return Ok(Checked::Holds(format!("created {}", words::when(subject.now, meta.creation_timestamp))));
    };
    let grace = Duration::from_secs(u64::try_from(meta.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0));
    let asked = deadline.0 - grace;
    let pod = subject.short();
    let finding = |cause, what: String| {
        Finding::new(cause, &pod, what).seen_at(
            &pod,
            "metadata.deletionTimestamp",
            format!("grace {}", words::span(grace)),
            meta.deletion_timestamp,
        )
    };
    let late = subject.now.since(deadline.0);
    let stopped = subject.units().all(|unit| unit.status.is_none_or(|status| status.state.running.is_none()));
    let ago = words::ago(subject.now, asked);
    if !meta.finalizers.is_empty() && (stopped || subject.pod.terminal()) {
        let names = words::some(&meta.finalizers, 4);
        let what = format!("it was deleted {ago} and its containers have stopped; finalizers hold it: {names}");
        let command = subject.kubectl(&format!("patch {pod} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"));
        return Ok(finding("Finalizers", what)
            .seen(&pod, "metadata.finalizers", names)
            .act("look at the controller that owns the finalizer: it should take it away when it has cleaned up", "")
            .act("if that controller is gone for good, take the finalizers away; what it should clean up stays behind", command)
            .into());
    }
    if late > LATE_AFTER && !subject.pod.spec.node_name.is_empty() {
        if let node::Life::Broken(problem) =
            node::for_pod(subject.now, subject.facts, &subject.pod.spec.node_name, &subject.pod)?
        {
            let what = format!("it was deleted {ago}, and its node cannot say that it has stopped: {}", problem.what);
            let force = subject.kubectl(&format!("delete {pod} --grace-period=0 --force"));
            return Ok(finding("TerminatingOnLostNode", what)
                .with(problem.evidence)
                .act(
                    "bring the node back, or delete it if the machine is gone: kubectl delete node",
                    format!("lifesign why node/{}", subject.pod.spec.node_name),
                )
                .act("only if the machine is certainly off: a process that still runs there would go on unseen", force)
                .into());
        }
        let what = format!("it was deleted {ago} and should have been gone {} ago", words::span(late));
        let mut late_one = finding("TerminatingLate", what);
        if let Some(event) =
            crate::events::last(&subject.events, |event| event.warning || event.reason.starts_with("FailedKill"))
        {
            late_one = late_one.with([event.evidence()]);
        }
        return Ok(late_one
            .seen(&pod, "containers still running", running(subject))
            .act("the events of the pod say what its node tries", subject.kubectl(&format!("describe {pod}")))
            .into());
    }
    let what = if subject.now > deadline.0 {
        format!("it was deleted {ago} and is about to go")
    } else {
        format!("it was deleted {ago}; it has until {} ({}) to stop", deadline, words::ago(subject.now, deadline.0))
    };
    let what =
        if meta.finalizers.is_empty() { what } else { format!("{what}; finalizers: {}", words::some(&meta.finalizers, 4)) };
    let started = instant(subject.pod.status.start_time).map_or_else(String::new, |_| running(subject));
    Ok(finding("Terminating", what)
        .seen(&pod, "containers still running", started)
        .act("nothing: a deleted pod gets no new traffic; its owner, if it has one, makes another", subject.kubectl("get pods"))
        .into())
}

fn running(subject: &Subject<'_>) -> String {
    let names: Vec<&str> = subject
        .units()
        .filter(|unit| unit.status.is_some_and(|status| status.state.running.is_some()))
        .map(|unit| unit.name())
        .collect();
    if names.is_empty() { "none".to_owned() } else { words::some(&names, 5) }
}
