//! Exec probes: a command in the container.

use std::time::Duration;

use api::pod::ExecAction;
use probe::outcome::{self, ExecAnswer, ExecEnd, Report, Tries};
use processes::container::Running;
use processes::exec::{Ended, ExecError, ExecResult};
use rustix::io::Errno;
use tokio::time::Instant;

use super::errno;

/// The exec probe of a worker, for one instance of its container.
#[derive(Clone, Debug)]
pub struct ExecProbe {
    command: Vec<String>,
}

impl ExecProbe {
    /// Prepares the probe of a container instance: `$(NAME)` is what the instance has in its environment.
    pub fn new(action: &ExecAction, container: &Running) -> ExecProbe {
        let env = &container.spec().env;
        ExecProbe { command: outcome::expand(&action.command, |name| env.get(name).map(String::as_str)) }
    }

    /// Carries out one attempt.
    pub async fn run(&self, container: &Running, timeout: Duration) -> Report {
        let until = Instant::now() + timeout;
        let mut tries = Tries::default();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let report = outcome::exec(self.try_once(container, left).await, timeout);
            if !tries.again(&report) || left.is_zero() {
                return report;
            }
        }
    }

    async fn try_once(&self, container: &Running, timeout: Duration) -> ExecAnswer {
        let mut answer = answer(container.exec(&self.command, timeout).await);
        // Killed together with its container: that says nothing about the container's health.
        if answer.end == ExecEnd::Signaled(9) && !container.is_running() {
            answer.end = ExecEnd::ContainerGone;
        }
        answer
    }
}

fn answer(result: ExecResult) -> ExecAnswer {
    let nothing = |end| ExecAnswer { end, stdout: Vec::new(), stderr: Vec::new() };
    match result {
        Ok(output) => {
            let end = match output.ended {
                Ended::Exit(code) => ExecEnd::Exited(code),
                Ended::Signal(signal) => ExecEnd::Signaled(signal),
                Ended::TimedOut { lag } => ExecEnd::TimedOut { lag },
            };
            ExecAnswer { end, stdout: output.stdout, stderr: output.stderr }
        }
        Err(ExecError::ContainerGone) => nothing(ExecEnd::ContainerGone),
        Err(ExecError::Spawn(error)) => {
            // A text with a zero byte has no number: the kernel would call it invalid.
            let number = error.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error);
            nothing(ExecEnd::SpawnFailed(errno::name(number)))
        }
    }
}
