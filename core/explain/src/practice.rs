//! Findings about how probes are used: slow starts, hooks, Jobs, rollouts, commands that say nothing, the annotation.

use api::field::Path;
use api::{HandlerKind, ProbeType, json};
use serde_json::{Map, Value};

use crate::findings::{Findings, span};
use crate::report::Severity;
use crate::workloads::{Read, Subject};

/// Programs that start in less are common; slower ones are not rare.
const SLOW_START_MS: u64 = 30_000;
/// `terminationGracePeriodSeconds` where it is absent; Kubernetes default.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// `progressDeadlineSeconds` of a Deployment where it is absent; Kubernetes default.
const DEFAULT_DEADLINE_SECONDS: i64 = 600;

/// Judges one container.
pub(super) fn container(subject: &Subject<'_>, spec: &Value, found: &mut Findings) {
    slow_start(subject, found);
    prestop(subject, spec, found);
    for read in &subject.probes {
        every_second(read, found);
        cannot_fail(read, found);
        one_word(read, found);
        asks_the_node(read, spec, found);
    }
}

fn slow_start(subject: &Subject<'_>, found: &mut Findings) {
    let (Some(liveness), None) = (subject.probe(ProbeType::Liveness), subject.probe(ProbeType::Startup)) else { return };
    let budget = liveness.times.never_up().from_ms;
    // A delay is a guess of its own, with a finding of its own. A command may look at something that is there at once.
    if liveness.times.delay_ms > 0 || budget >= SLOW_START_MS || HandlerKind::of(liveness.value) == Some(HandlerKind::Exec) {
        return;
    }
    let answer = match budget {
        0 => "the first attempt".to_owned(),
        budget => format!("within {}", span(budget)),
    };
    let text = format!(
        "without startup probe or delay liveness counts from the start on: a container that does not answer {answer} is killed, \
         and again and again if its start takes longer"
    );
    found.add(Severity::Info, "liveness-without-startup", &liveness.path, text, "add a startupProbe that asks the same");
}

/// Returns how long a preStop hook waits, if that can be read from it.
pub(super) fn prestop_seconds(container: &Value) -> Option<i64> {
    if let Some(seconds) = json::int(container, &["lifecycle", "preStop", "sleep", "seconds"]) {
        return Some(seconds);
    }
    let command: Vec<&str> =
        json::items(container, &["lifecycle", "preStop", "exec", "command"]).iter().filter_map(Value::as_str).collect();
    let words: Vec<&str> = match command.as_slice() {
        [shell, "-c", script] if shell.ends_with("sh") => {
            script.split([' ', ';', '&']).filter(|word| !word.is_empty()).collect()
        }
        plain => plain.to_vec(),
    };
    let at = words.iter().position(|word| *word == "sleep" || word.ends_with("/sleep"))?;
    words.get(at + 1)?.trim_end_matches('s').parse().ok()
}

fn prestop(subject: &Subject<'_>, spec: &Value, found: &mut Findings) {
    let Some(seconds) = prestop_seconds(subject.value) else { return };
    let grace = json::int(spec, &["terminationGracePeriodSeconds"]).unwrap_or(DEFAULT_GRACE_SECONDS);
    if seconds < grace {
        return;
    }
    let text = format!(
        "preStop waits {seconds}s and the whole grace is {grace}s: the container is killed without the chance to end by itself"
    );
    let advice = "make terminationGracePeriodSeconds longer than the hook and the end of the program together";
    found.add(Severity::Warning, "prestop-exceeds-grace", subject.path.child("lifecycle").child("preStop"), text, advice);
}

fn every_second(read: &Read<'_>, found: &mut Findings) {
    let lasting = read.type_ != ProbeType::Startup;
    if !lasting || HandlerKind::of(read.value) != Some(HandlerKind::Exec) || read.times.period_after_success_ms > 1_000 {
        return;
    }
    let text = format!("a process is started every {} as long as the container runs", span(read.times.period_after_success_ms));
    found.add(Severity::Info, "exec-every-second", &read.path, text, "ask less often, or by httpGet, tcpSocket or grpc");
}

/// Words by which a script may end before its last command, or fail because of an earlier one.
const ENDS: [&str; 8] = ["exit", "set", "exec", "kill", "trap", "return", "if", "case"];

/// Returns whether a command always succeeds.
pub(super) fn always_succeeds(command: &[&str]) -> bool {
    let base = |program: &str| program.rsplit('/').next().unwrap_or(program).to_owned();
    match command {
        [] => false,
        [shell, "-c", script, ..] if ["sh", "bash", "ash", "dash"].contains(&base(shell).as_str()) => {
            let script = script.trim().trim_end_matches(';').trim();
            let (before, last) = script.rsplit_once([';', '\n']).unwrap_or(("", script));
            let (before, last) = (before.trim(), last.trim());
            let mut words = before
                .split(|c: char| !c.is_ascii_alphanumeric())
                .chain(last.strip_suffix("exit 0").unwrap_or(last).split(' '));
            if words.any(|word| ENDS.contains(&word)) {
                return false;
            }
            ["true", ":", "exit 0"].contains(&last)
                || (last.ends_with("|| true") || last.ends_with("||true") || last.ends_with("|| exit 0"))
                || (last.starts_with("echo ") && !last.contains(['&', '|', '$', '`', '<', '>']))
        }
        [program, ..] => ["true", "echo"].contains(&base(program).as_str()),
    }
}

/// Finds a command line in one word: nobody takes it apart.
fn one_word(read: &Read<'_>, found: &mut Findings) {
    let [program] = json::items(read.value, &["exec", "command"]) else { return };
    let Some(program) = program.as_str().filter(|program| program.trim().contains([' ', '|', ';'])) else { return };
    let text = format!("no shell takes {program:?} apart: it is the name of one program, which is not there");
    let path = read.path.child("exec").child("command");
    let advice = "give each word as an item of its own, or run it by [sh, -c, ...]";
    found.add(Severity::Error, "command-in-one-word", path, text, advice);
}

/// Finds a probe that asks the node instead of the container.
fn asks_the_node(read: &Read<'_>, spec: &Value, found: &mut Findings) {
    let Some(handler) = HandlerKind::of(read.value) else { return };
    let host = json::text(read.value, &[handler.field(), "host"]);
    if !["localhost", "127.0.0.1", "::1"].contains(&host) || json::boolean(spec, &["hostNetwork"]) == Some(true) {
        return;
    }
    let text = format!("probes are sent by the node, so {host:?} is the node and not the container");
    let path = read.path.child(handler.field()).child("host");
    found.add(Severity::Warning, "host-is-the-node", path, text, "leave host away: the address of the pod is asked");
}

fn cannot_fail(read: &Read<'_>, found: &mut Findings) {
    let command: Vec<&str> = json::items(read.value, &["exec", "command"]).iter().filter_map(Value::as_str).collect();
    if !always_succeeds(&command) {
        return;
    }
    let then = match read.type_ {
        ProbeType::Readiness => "the container counts as ready whatever its program does",
        ProbeType::Liveness => "it never restarts the container, and costs a process per attempt",
        ProbeType::Startup => "it holds nothing back",
    };
    let text = format!("the command always succeeds: {then}");
    found.add(
        Severity::Warning,
        "cannot-fail",
        &read.path,
        text,
        "ask something that the program answers, or remove the probe",
    );
}

/// Judges what the kind says beside its template.
pub(super) fn workload(kind: &str, object: &Value, subjects: &[Subject<'_>], served: impl Fn() -> bool, found: &mut Findings) {
    if matches!(kind, "Job" | "CronJob") && !served() {
        for read in subjects.iter().filter_map(|subject| subject.probe(ProbeType::Readiness)) {
            let text = "no Service of the given files leads to this Job: if none does, the probe only costs attempts";
            found.add(Severity::Info, "readiness-on-job", &read.path, text, "remove it");
        }
    }
    if kind != "Deployment" {
        return;
    }
    let deadline = json::int(object, &["spec", "progressDeadlineSeconds"]).unwrap_or(DEFAULT_DEADLINE_SECONDS);
    let Ok(deadline_ms) = u64::try_from(deadline.saturating_mul(1_000)) else { return };
    let min_ready = json::int(object, &["spec", "minReadySeconds"]).unwrap_or(0).max(0).unsigned_abs().saturating_mul(1_000);
    for subject in subjects {
        let earliest = subject.start().ready().earliest_ms.saturating_add(min_ready);
        if earliest >= deadline_ms {
            let text = format!(
                "a pod is ready {} after its start at the earliest, and the rollout counts as failed after {}",
                span(earliest),
                span(deadline_ms)
            );
            let advice = "make progressDeadlineSeconds longer, or the delays shorter";
            found.add(Severity::Warning, "deadline-before-ready", Path::new("spec.progressDeadlineSeconds"), text, advice);
        }
    }
}

/// Judges the annotation by which a readiness probe moves to the agent, as the webhook does; returns the probes that move, by container.
pub(super) fn annotation(pod: &Value, prefix: &str, found: &mut Findings) -> Map<String, Value> {
    let mutation = match admission::mutate(pod) {
        Ok(mutation) => mutation,
        Err(errors) => {
            for error in errors {
                let path = format!("{prefix}{}", error.path);
                let advice = "the webhook of `lifesign install` refuses the pod";
                found.add(Severity::Error, "annotation-invalid", path, error.message(), advice);
            }
            return Map::new();
        }
    };
    let written = |operation: &Value| {
        let moves = json::text(operation, &["path"]).ends_with(&admission::MOVED_PROBES.replace('/', "~1"));
        moves.then(|| json::text(operation, &["value"]).to_owned())
    };
    let before = json::text(pod, &["metadata", "annotations", admission::MOVED_PROBES]);
    let text = mutation.patch.iter().find_map(written).unwrap_or_else(|| before.to_owned());
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_that_say_nothing_are_known() {
        for command in [
            &["true"][..],
            &["/bin/true"],
            &["sh", "-c", "exit 0"],
            &["/bin/sh", "-c", "curl -f x || true"],
            &["sh", "-c", "echo ok"],
            &["echo"],
            &["sh", "-c", "curl x; echo done"],
        ] {
            assert!(always_succeeds(command), "{command:?}");
        }
        for command in [
            &["cat", "/tmp/ok"][..],
            &["sh", "-c", "curl -f localhost"],
            &["sh", "-c", "test -f x && echo ok"],
            &["pg_isready"],
            &["sh", "-c", "set -e; curl -f localhost; echo ok"],
            &["sh", "-c", "test -f /tmp/ok || exit 1; echo ok"],
            &["sh", "-c", "if ! curl -f localhost; then exit 1; fi\ntrue"],
            &["sh", "-c", "test -f x || exit 1 || true"],
            // There is no such program.
            &[":"],
            &[],
        ] {
            assert!(!always_succeeds(command), "{command:?}");
        }
    }

    #[test]
    fn sleeps_of_hooks_are_read() {
        let hook = |value: Value| prestop_seconds(&json!({"lifecycle": {"preStop": value}}));
        assert_eq!(hook(json!({"sleep": {"seconds": 5}})), Some(5));
        assert_eq!(hook(json!({"exec": {"command": ["/bin/sleep", "15"]}})), Some(15));
        assert_eq!(hook(json!({"exec": {"command": ["sh", "-c", "sleep 20; nginx -s quit"]}})), Some(20));
        assert_eq!(hook(json!({"exec": {"command": ["nginx", "-s", "quit"]}})), None);
    }
}
