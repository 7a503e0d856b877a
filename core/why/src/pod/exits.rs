//! What the end of a container means.

use api::pod::{Container, ContainerTerminated};

use super::containers::ContainerRef;
use super::{Owner, Subject};
use crate::answer::Finding;
use crate::words;

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) cause: &'static str,
    /// After "the container".
    pub(super) words: String,
    /// What to do about it.
    advice: &'static str,
}

const SIGNALS: [(i64, &str, &str); 10] = [
    (1, "SIGHUP", "something told it to hang up"),
    (2, "SIGINT", "something interrupted it"),
    (3, "SIGQUIT", "something told it to quit"),
    (
        4,
        "SIGILL",
        "the program has an instruction that this processor does not know: is the image built for this architecture?",
    ),
    (6, "SIGABRT", "the program gave up on itself: an assertion or a failed allocation"),
    (7, "SIGBUS", "the program used memory that it does not have: a truncated file or a full disk behind a mapping"),
    (8, "SIGFPE", "the program divided by zero or alike"),
    (
        9,
        "SIGKILL",
        "somebody killed it: its node after the grace ended, a failed liveness probe, or the kernel for lack of memory on the node",
    ),
    (11, "SIGSEGV", "the program used memory that is not its own: a bug of it or of a native library"),
    (15, "SIGTERM", "somebody asked it to stop: its node, after a failed liveness probe or at a deletion, or something inside"),
];

impl Exit {
    pub(super) fn of(spec: &Container, end: &ContainerTerminated) -> Exit {
        let message = end.message.trim();
        let exit = |cause, words: String, advice| Exit { cause, words, advice };
        let code = end.exit_code;
        match end.reason.as_str() {
            "OOMKilled" => {
                let limit = spec.resources.limits.get("memory");
                let limit = limit.map_or_else(
                    || "without a memory limit of its own".to_owned(),
                    |limit| format!("at its memory limit of {limit}"),
                );
                return exit(
                    "OOMKilled",
                    format!("was killed by the kernel for lack of memory, {limit} (exit code {code})"),
                    "raise resources.limits.memory, or make the program use less",
                );
            }
            "StartError" | "ContainerCannotRun" => {
                return exit(
                    "CannotStart",
                    format!("could not be started: {message}"),
                    "correct command, args, workingDir or the image: what should be run is not there or may not be run",
                );
            }
            "ContainerStatusUnknown" => {
                return exit(
                    "ContainerStatusUnknown",
                    "was lost: its node cannot say how it ended".to_owned(),
                    "look at the node: it was restarted, or lost its state",
                );
            }
            "DeadlineExceeded" => return exit("DeadlineExceeded", "ran out of time".to_owned(), "give it more time"),
            _ => {}
        }
        let signal = end.signal.filter(|signal| *signal > 0).or_else(|| (129..=159).contains(&code).then_some(code - 128));
        if let Some((number, name, meaning)) = signal.and_then(|number| SIGNALS.iter().find(|(known, ..)| *known == number)) {
            return exit(
                "Signal",
                format!("was ended by {name} (exit code {}): {meaning}", 128 + number),
                "look at the log of the instance that ended, and at who sends the signal",
            );
        }
        match code {
            0 => exit(
                "Completed",
                "ended by itself with exit code 0, as if its work were done".to_owned(),
                "a container of a pod that is restarted always must keep running: start a server in the foreground, or use a Job",
            ),
            126 => exit(
                "NotExecutable",
                "ended with exit code 126: what it should run is not executable".to_owned(),
                "correct the command, or the mode of the file in the image",
            ),
            127 => exit(
                "CommandNotFound",
                "ended with exit code 127: what it should run was not found".to_owned(),
                "correct the command or PATH, or use an image that has it",
            ),
            _ => {
                let shown = if message.is_empty() { String::new() } else { format!("; its last words: {message}") };
                exit("ExitCode", format!("ended with exit code {code}{shown}"), "the log of the instance that ended says why")
            }
        }
    }

    /// Returns whether the program was never run.
    pub(super) fn cannot_start(&self) -> bool {
        self.cause == "CannotStart"
    }
}

/// Says how a container ended.
pub(super) fn ended(subject: &Subject<'_>, unit: ContainerRef<'_>, exit: &Exit) -> Finding {
    finding(subject, unit, exit, format!("{} {}", unit.title(), exit.words))
}

/// Says how a container ended, in other words.
pub(super) fn finding(subject: &Subject<'_>, unit: ContainerRef<'_>, exit: &Exit, what: String) -> Finding {
    let owner = Owner::of(&subject.pod);
    let mut finding = Finding::new(exit.cause, subject.short(), what);
    if let Some(end) = unit.last_end() {
        let last = unit.terminated().is_none();
        let field = unit.field(if last { "lastState.terminated" } else { "state.terminated" });
        let reason = if end.reason.is_empty() { "no reason" } else { &end.reason };
        let ran = match (end.started_at, end.finished_at) {
            (Some(start), Some(finish)) => format!(", ran {}", words::span(finish.0.since(start.0))),
            _ => String::new(),
        };
        finding =
            finding.seen_at(subject.short(), field, format!("{reason}, exit code {}{ran}", end.exit_code), end.finished_at);
        if !end.message.trim().is_empty() {
            finding = finding.seen(subject.short(), unit.field("terminated.message"), end.message.trim());
        }
    }
    let previous = unit.terminated().is_none();
    let finding = if exit.cannot_start() {
        finding
    } else {
        finding.act(format!("{}:", exit.advice), subject.logs(unit.name(), previous))
    };
    match exit.cause {
        "OOMKilled" => {
            let (field, twice) = doubled(unit.spec);
            finding.act(
                format!("{}, in {}", field, owner.short),
                owner.patch(
                    serde_json::json!({"containers": [{"name": unit.name(), "resources": {"limits": {"memory": twice}}}]}),
                ),
            )
        }
        "CannotStart" => finding.act(format!("{} ({})", exit.advice, owner.path(&unit.spec_field("command"))), owner.edit()),
        _ => finding,
    }
}

/// Returns twice the memory limit of a container.
fn doubled(spec: &Container) -> (String, String) {
    match spec.resources.limits.get("memory") {
        Some(limit) => {
            let bytes = limit.whole().saturating_mul(2);
            let twice = if bytes % (1 << 20) == 0 { format!("{}Mi", bytes >> 20) } else { bytes.to_string() };
            (format!("or raise the limit, for example to {twice}"), twice)
        }
        None => ("or give it a memory limit and request of its own".to_owned(), "256Mi".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_above_128_are_signals() {
        let of = |code, reason: &str| {
            let end = ContainerTerminated { exit_code: code, reason: reason.to_owned(), ..ContainerTerminated::default() };
            let exit = Exit::of(&Container::default(), &end);
            (exit.cause, exit.words)
        };
        assert!(of(139, "Error").1.contains("SIGSEGV"));
        assert!(of(137, "Error").1.contains("SIGKILL"));
        assert_eq!(of(137, "OOMKilled").0, "OOMKilled");
        assert_eq!(of(255, "Error"), ("ExitCode", "ended with exit code 255".to_owned()));
        assert_eq!(of(0, "Completed").0, "Completed");
        assert_eq!(of(127, "Error").0, "CommandNotFound");
    }
}
