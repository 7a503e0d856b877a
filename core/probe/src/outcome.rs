//! What an attempt amounts to.
//!
//! What the container or its spec causes is a failure and counts; what the node or the agent causes is an error and is
//! discarded. Everything that is not named as an error is a failure.

mod command;
mod network;

use std::borrow::Cow;
use std::time::Duration;

pub use command::{ExecAnswer, ExecEnd, exec, expand, refused_by_runtime};
pub use network::{GrpcAnswer, grpc, port_number, resolve_port, tcp};

/// The most bytes that are kept of what a target says.
pub const OUTPUT_BYTES_MAX: usize = 10_240;
/// How often an attempt is begun in all when the node or the agent gets in the way.
const TRIES_MAX: u8 = 3;

/// What an attempt amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The target is fine.
    Success,
    /// The target is fine, but somebody should have a look.
    Warning,
    /// The target is not fine, or did not answer in time.
    Failure,
    /// The target said that it does not know.
    Unknown,
    /// The attempt could not be carried out; says nothing about the target.
    Error,
}

impl Outcome {
    /// Returns what the outcome counts as; `None`: it does not count.
    pub const fn succeeded(self) -> Option<bool> {
        match self {
            Outcome::Success | Outcome::Warning => Some(true),
            Outcome::Failure | Outcome::Unknown => Some(false),
            Outcome::Error => None,
        }
    }
}

/// Why an error is held against nobody (a metric label, with `stale` for outcomes that came too late).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discarded {
    /// The agent itself was too slow to judge.
    AgentLag,
    /// The node lacked descriptors, ports, memory or processes.
    Resource,
    /// The runtime was away, or the container was gone or had no address yet.
    Runtime,
}

impl Discarded {
    /// Returns the label.
    pub const fn name(self) -> &'static str {
        match self {
            Discarded::AgentLag => "agent_lag",
            Discarded::Resource => "resource",
            Discarded::Runtime => "runtime",
        }
    }
}

/// What a target said, kept for markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TargetOutput {
    /// Nothing.
    #[default]
    Nothing,
    /// A command, apart; each at most [`OUTPUT_BYTES_MAX`].
    Command {
        /// Its output.
        stdout: Vec<u8>,
        /// Its complaints.
        stderr: Vec<u8>,
    },
    /// An HTTP server.
    Http {
        /// The status code.
        status: u16,
        /// What was kept of the body.
        body: Vec<u8>,
    },
    /// A gRPC health service.
    Grpc(Box<str>),
}

/// The outcome of an attempt, with what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it amounts to.
    pub outcome: Outcome,
    /// For people: what an event says after `probe failed: `; empty for a success.
    pub message: String,
    /// For an error: whose fault it was.
    pub discarded: Option<Discarded>,
    /// The connection was refused before a byte was sent: nobody listens, and asking cost the target nothing.
    pub refused: bool,
    /// What the target said.
    pub output: TargetOutput,
}

impl Report {
    /// Returns a success that says nothing.
    pub fn success() -> Report {
        Report {
            outcome: Outcome::Success,
            message: String::new(),
            discarded: None,
            refused: false,
            output: TargetOutput::Nothing,
        }
    }

    /// Returns a success that deserves a look.
    pub fn warning(message: impl Into<String>) -> Report {
        Report { outcome: Outcome::Warning, message: message.into(), ..Report::success() }
    }

    /// Returns a failure.
    pub fn failure(message: impl Into<String>) -> Report {
        Report { outcome: Outcome::Failure, message: message.into(), ..Report::success() }
    }

    /// Returns an error.
    pub fn error(reason: Discarded, message: impl Into<String>) -> Report {
        Report { outcome: Outcome::Error, message: message.into(), discarded: Some(reason), ..Report::success() }
    }

    /// Returns this report with what was asked in its message, unless it is a success: whoever reads an event does not know that by
    /// heart. `hint` is what to look at when nobody listens there.
    #[must_use]
    pub fn naming(mut self, target: &str, hint: &str) -> Report {
        if self.outcome.succeeded() == Some(true) {
            return self;
        }
        self.message = match (self.refused, hint) {
            (true, "") => format!("{target}: connection refused"),
            (true, hint) => format!("{target}: connection refused; {hint}"),
            (false, _) => format!("{target}: {}", self.message),
        };
        self
    }

    /// Returns a number that stands for why the attempt did not succeed: it changes when the cause does, and not with every other
    /// word of a talkative target.
    pub(crate) fn cause(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.outcome, self.refused, self.discarded).hash(&mut hasher);
        match &self.output {
            TargetOutput::Nothing if self.refused => {}
            TargetOutput::Nothing => self.message.hash(&mut hasher),
            // What a command prints may have a time in it.
            TargetOutput::Command { .. } => {}
            TargetOutput::Http { status, .. } => status.hash(&mut hasher),
            TargetOutput::Grpc(status) => status.hash(&mut hasher),
        }
        hasher.finish()
    }

    /// Returns this report with what the target said.
    fn with(self, output: TargetOutput) -> Report {
        Report { output, ..self }
    }

    /// Returns the message of a marker's state: what the target said, else why there is no answer.
    pub fn marker_message(&self) -> String {
        let succeeded = self.outcome.succeeded() == Some(true);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match &self.output {
            TargetOutput::Nothing => self.message.clone(),
            TargetOutput::Command { stdout, stderr } if succeeded || stderr.is_empty() => text(stdout),
            TargetOutput::Command { stderr, .. } => text(stderr),
            TargetOutput::Http { body, .. } if succeeded => text(body),
            TargetOutput::Http { status, .. } => format!("HTTP {status}"),
            TargetOutput::Grpc(status) => status.to_string(),
        }
    }
}

/// Counts how often an attempt was begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tries(u8);

impl Tries {
    /// Returns whether the attempt is to be begun again at once: the node got in the way, and not for the third time.
    ///
    /// The one timeout of the attempt goes on. When the agent was too slow there is no time left to try again.
    pub fn again(&mut self, report: &Report) -> bool {
        self.0 += 1;
        self.0 < TRIES_MAX && matches!(report.discarded, Some(Discarded::Resource | Discarded::Runtime))
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A system call of the agent failed; the name, for example `ECONNREFUSED`.
    Errno(Cow<'static, str>),
    /// The host name has no address.
    NameNotFound,
    /// TLS or the protocol failed, in words.
    Protocol(String),
    /// The time was up; `lag`: how much later than asked for the agent itself woke up meanwhile.
    TimedOut {
        /// The worst of it.
        lag: Duration,
    },
    /// The pod has no address yet.
    NoPodIp,
}

/// Where a system call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Site {
    Network,
    Spawn,
}

/// Returns whether the node, not the target, is the reason of an errno.
fn is_node_errno(name: &str, site: Site) -> bool {
    match name {
        "EMFILE" | "ENFILE" | "ENOBUFS" | "ENOMEM" | "EADDRNOTAVAIL" => true,
        "EAGAIN" => site == Site::Spawn,
        _ => false,
    }
}

fn errno_report(name: &str, site: Site, what: &str) -> Report {
    let words = match name {
        "ECONNREFUSED" => "connection refused",
        "ECONNRESET" => "connection reset by peer",
        "EHOSTUNREACH" => "no route to host",
        "ENETUNREACH" => "network is unreachable",
        "EMFILE" | "ENFILE" => "too many open files",
        "ENOBUFS" => "no buffer space available",
        "ENOMEM" => "cannot allocate memory",
        "EADDRNOTAVAIL" => "cannot assign requested address",
        "EAGAIN" => "resource temporarily unavailable",
        "ENOENT" => "no such file or directory",
        "EACCES" => "permission denied",
        "ENOEXEC" => "exec format error",
        _ => "system error",
    };
    let message = format!("{what}: {words} ({name})");
    if is_node_errno(name, site) { Report::error(Discarded::Resource, message) } else { Report::failure(message) }
}

/// Judges a timeout: from half of it on, the agent's own lag makes it nobody's fault.
pub fn timed_out(timeout: Duration, lag: Duration) -> Report {
    late("timed out", timeout, lag)
}

fn late(what: &str, timeout: Duration, lag: Duration) -> Report {
    if lag.saturating_mul(2) >= timeout {
        let message = format!("{what} while the agent itself was {}ms late", lag.as_millis());
        return Report::error(Discarded::AgentLag, message);
    }
    Report::failure(format!("{what} after {}ms", timeout.as_millis()))
}

/// Judges a network attempt that got no answer.
pub fn unanswered(cause: &Cause, timeout: Duration) -> Report {
    match cause {
        Cause::Errno(name) => Report { refused: name == "ECONNREFUSED", ..errno_report(name, Site::Network, "connect") },
        Cause::NameNotFound => Report::failure("host name not found"),
        Cause::Protocol(text) => Report::failure(text.clone()),
        Cause::TimedOut { lag } => timed_out(timeout, *lag),
        Cause::NoPodIp => Report::error(Discarded::Runtime, "the pod has no address yet"),
    }
}

#[cfg(test)]
mod tests;
