//! How commands fail: a kind that decides the exit code, a message, and what to do about it.

use std::fmt::Display;
use std::process::ExitCode;

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The answer is no.
    No,
    /// The command line or the configuration is wrong.
    Usage,
    /// An API cannot be reached.
    Unreachable,
    /// A mistake of ours, or of the machine.
    Bug,
}

impl Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    fn new(kind: FailureKind, message: impl Display) -> Failure {
        Failure { kind, message: message.to_string(), hint: None }
    }

    /// The answer is no: exit 1.
    pub(crate) fn no(message: impl Display) -> Failure {
        Failure::new(FailureKind::No, message)
    }

    /// The command line or the configuration is wrong: exit 2.
    pub(crate) fn usage(message: impl Display) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// An API cannot be reached: exit 3.
    pub(crate) fn unreachable(message: impl Display) -> Failure {
        Failure::new(FailureKind::Unreachable, message)
    }

    /// A mistake of ours or of the machine: exit 70.
    pub(crate) fn bug(message: impl Display) -> Failure {
        Failure::new(FailureKind::Bug, message)
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl Display) -> Failure {
        self.hint = Some(hint.to_string());
        self
    }

    /// Adds what the message is about.
    pub(crate) fn about(self, subject: impl Display) -> Failure {
        Failure { message: format!("{subject}: {}", self.message), ..self }
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("error: {}", self.message);
        if let Some(hint) = self.hint {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(match self.kind {
            FailureKind::No => 1,
            FailureKind::Usage => 2,
            FailureKind::Unreachable => 3,
            FailureKind::Bug => 70,
        })
    }
}
