//! Commands: what their end means, and how their arguments are expanded.

use std::borrow::Cow;
use std::time::Duration;

use super::{Discarded, OUTPUT_BYTES_MAX, Report, Site, TargetOutput, errno_report, late};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEnd {
    /// By itself.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// It could not be started; the name of the errno, for example `ENOENT`.
    SpawnFailed(Cow<'static, str>),
    /// The container runtime did not answer.
    RuntimeUnreachable,
    /// The container is not there any more; its end decides, not the probe.
    ContainerGone,
    /// The time was up; everything that the command started has been killed and reaped, so that hanging probes do not pile up.
    TimedOut {
        /// How much later than asked for the agent itself woke up meanwhile.
        lag: Duration,
    },
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecAnswer {
    /// How it ended.
    pub end: ExecEnd,
    /// The beginning of its output; more than [`OUTPUT_BYTES_MAX`] is cut.
    pub stdout: Vec<u8>,
    /// The beginning of its complaints; more than [`OUTPUT_BYTES_MAX`] is cut.
    pub stderr: Vec<u8>,
}

/// Judges a command.
pub fn exec(answer: ExecAnswer, timeout: Duration) -> Report {
    let ExecAnswer { end, mut stdout, mut stderr } = answer;
    stdout.truncate(OUTPUT_BYTES_MAX);
    stderr.truncate(OUTPUT_BYTES_MAX);
    let failure = |how: String, stdout: Vec<u8>, stderr: Vec<u8>| {
        let output = joined(&stdout, &stderr);
        Report::failure(if output.is_empty() { how } else { output }).with(TargetOutput::Command { stdout, stderr })
    };
    match end {
        ExecEnd::Exited(0) => {
            stderr.truncate(OUTPUT_BYTES_MAX - stdout.len());
            Report::success().with(TargetOutput::Command { stdout, stderr })
        }
        ExecEnd::Exited(code) => failure(format!("command terminated with exit code {code}"), stdout, stderr),
        ExecEnd::Signaled(signal) => failure(format!("command was killed by signal {signal}"), stdout, stderr),
        ExecEnd::SpawnFailed(errno) => errno_report(&errno, Site::Spawn, "the command could not be started"),
        ExecEnd::RuntimeUnreachable => Report::error(Discarded::Runtime, "the container runtime does not answer"),
        ExecEnd::ContainerGone => Report::error(Discarded::Runtime, "the container is gone"),
        ExecEnd::TimedOut { lag } => late("command timed out", timeout, lag),
    }
}

/// Judges a command that a container runtime would not run, by the status code of gRPC and by its words: runtimes say in words alone
/// whether it was the command or the container that was not there.
pub fn refused_by_runtime(code: u32, message: &str, timeout: Duration) -> Report {
    const DEADLINE_EXCEEDED: u32 = 4;
    const NOT_FOUND: u32 = 5;
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let end = if says(&["executable file not found", "no such file or directory"]) {
        ExecEnd::SpawnFailed("ENOENT".into())
    } else if says(&["permission denied"]) {
        ExecEnd::SpawnFailed("EACCES".into())
    } else if says(&["exec format error"]) {
        ExecEnd::SpawnFailed("ENOEXEC".into())
    } else if code == NOT_FOUND || says(&["CONTAINER_EXITED", "not running", "stopped state", "deleted state"]) {
        ExecEnd::ContainerGone
    } else if code == DEADLINE_EXCEEDED {
        ExecEnd::TimedOut { lag: Duration::ZERO }
    } else {
        return Report::error(Discarded::Runtime, format!("the container runtime refuses the command: {message}"));
    };
    exec(ExecAnswer { end, stdout: Vec::new(), stderr: Vec::new() }, timeout)
}

/// Returns stdout then stderr as text, within one limit.
fn joined(stdout: &[u8], stderr: &[u8]) -> String {
    let kept = stderr.len().min(OUTPUT_BYTES_MAX - stdout.len());
    let mut text = String::from_utf8_lossy(stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&stderr[..kept]));
    text
}

/// Expands `$(NAME)` in the arguments of a command; `$$` is `$`, and what the environment does not know stays.
pub fn expand<'env>(command: &[String], env: impl Fn(&str) -> Option<&'env str>) -> Vec<String> {
    command.iter().map(|argument| expand_argument(argument, &env)).collect()
}

fn expand_argument<'env>(argument: &str, env: &impl Fn(&str) -> Option<&'env str>) -> String {
    let mut out = String::with_capacity(argument.len());
    let mut rest = argument;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match env(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&rest[at..rest.len() - tail.len()]),
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}
