//! Commands in a container: exec probes and lifecycle hooks.
//!
//! A command gets the container's environment, working directory and user, a process group of its own and no standard input.
//! It ends with its first process: what it left in the background lives on as part of the container (a `postStart` hook may
//! mean that) and dies with it at the latest. At the timeout everything that the command started is killed before the
//! result is given, whatever session it opened and whoever its parent is by then, so that nothing piles up.
//!
//! To start a process takes a look at the disk and a fork, and may take long on a busy machine: a thread of its own does it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::lag::Deadline;
use crate::procfs;
use crate::shim;
use crate::signals;
use crate::state::{COMMAND_MARKER, ContainerSpec, wall};

/// Bytes of output that are kept; the kubelet's `maxRespBodyLength`.
pub const OUTPUT_MAX: usize = 10 * 1024;

/// How a command went.
pub type ExecResult = Result<ExecOutput, ExecError>;

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The operating system refused.
    #[error("cannot run the command")]
    Spawn(#[source] io::Error),
    /// The container has ended; nothing is run in it any more.
    #[error("the container has ended")]
    ContainerGone,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutput {
    /// How it ended.
    pub ended: Ended,
    /// The beginning of what it wrote to standard output, at most [`OUTPUT_MAX`] bytes.
    pub stdout: Vec<u8>,
    /// The beginning of what it wrote to standard error, at most [`OUTPUT_MAX`] bytes.
    pub stderr: Vec<u8>,
}

impl ExecOutput {
    /// Returns standard output followed by standard error, [`OUTPUT_MAX`] bytes in all.
    pub fn combined(&self) -> Vec<u8> {
        self.stdout.iter().chain(&self.stderr).take(OUTPUT_MAX).copied().collect()
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// It was killed at the timeout.
    TimedOut {
        /// How late this process itself was woken during the attempt.
        lag: Duration,
    },
}

/// Runs a command in the environment of a container that `is_alive`. If the returned future is dropped, the command is killed.
pub async fn exec(spec: &ContainerSpec, command: &[String], timeout: Duration, is_alive: impl FnOnce() -> bool) -> ExecResult {
    let mut deadline = Deadline::after(timeout);
    let (spec, command) = (spec.clone(), command.to_owned());
    // Dropped meanwhile, the command is killed as soon as it has started.
    let starting = tokio::task::spawn_blocking(move || Started::new(&spec, &command));
    let mut started = tokio::select! {
        biased;
        started = starting => started.map_err(io::Error::from).flatten().map_err(ExecError::Spawn)?,
        lag = deadline.passed() => {
            return Ok(ExecOutput { ended: Ended::TimedOut { lag }, stdout: Vec::new(), stderr: Vec::new() });
        }
    };
    let mut stdout = Capture::new(started.child.stdout.take().expect("piped"));
    let mut stderr = Capture::new(started.child.stderr.take().expect("piped"));
    // Asked now that the command carries the marker: a container that ends from here on takes it along, and one that ended
    // before may have missed it.
    if !is_alive() {
        started.kill().await.map_err(ExecError::Spawn)?;
        return Err(ExecError::ContainerGone);
    }
    let ended = loop {
        tokio::select! {
            // The end first: a command that ended in time has not timed out, however late we look. Output last: one that
            // writes without pause must not keep us from looking at the clock.
            biased;
            status = started.wait() => break ended(status.map_err(ExecError::Spawn)?),
            lag = deadline.passed() => {
                started.kill().await.map_err(ExecError::Spawn)?;
                break Ended::TimedOut { lag };
            }
            () = stdout.read(), if !stdout.at_end => {}
            () = stderr.read(), if !stderr.at_end => {}
        }
    };
    Ok(ExecOutput { ended, stdout: stdout.rest(), stderr: stderr.rest() })
}

fn ended(status: ExitStatus) -> Ended {
    status.code().map_or_else(|| Ended::Signal(status.signal().unwrap_or_default()), Ended::Exit)
}

/// Returns an exit code as a shell does: 128 + n after signal n.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A command with everything it started.
pub(crate) struct Started {
    child: Child,
    pid: i32,
    /// What all of it carries in its environment.
    id: String,
    ended: bool,
}

impl Started {
    fn new(spec: &ContainerSpec, command: &[String]) -> io::Result<Started> {
        let mut command = shim::command(spec, command)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Started::spawn(spec, command)
    }

    /// Starts a command of a container, marked so that all it starts is found again.
    pub(crate) fn spawn(spec: &ContainerSpec, command: std::process::Command) -> io::Result<Started> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Told apart from those of an agent before this one by the time.
        let id = format!("{}-{}-{}", spec.id, wall().as_micros(), COUNT.fetch_add(1, Ordering::Relaxed));
        signals::restore_for_children();
        let child = Command::from(command).env(COMMAND_MARKER, &id).spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        Ok(Started { child, pid, id, ended: false })
    }

    /// Waits for the end of its first process.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.ended = true;
        Ok(status)
    }

    /// Kills all of it and collects its first process.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        let (leader, id) = (self.pid, self.id.clone());
        tokio::task::spawn_blocking(move || procfs::kill_command(leader, &id)).await?;
        self.child.wait().await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Started {
    /// Nobody waits any more: tokio collects the first process when it has died.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Gone meanwhile is as good as killed.
        let _ = procfs::signal_group(self.pid, Signal::KILL);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (leader, id) = (self.pid, std::mem::take(&mut self.id));
            runtime.spawn_blocking(move || procfs::kill_command(leader, &id));
        }
    }
}

/// One stream of output: the beginning is kept, the rest read and thrown away, so that the command never blocks.
struct Capture<S> {
    stream: S,
    kept: Vec<u8>,
    buffer: Vec<u8>,
    at_end: bool,
}

impl<S: AsyncRead + AsFd + Unpin> Capture<S> {
    fn new(stream: S) -> Capture<S> {
        Capture { stream, kept: Vec::new(), buffer: vec![0; 4096], at_end: false }
    }

    async fn read(&mut self) {
        match self.stream.read(&mut self.buffer).await {
            Ok(length) if length > 0 => self.keep(length),
            _ => self.at_end = true,
        }
    }

    fn keep(&mut self, length: usize) {
        let length = length.min(OUTPUT_MAX - self.kept.len());
        self.kept.extend_from_slice(&self.buffer[..length]);
    }

    /// Takes what is in the pipe without waiting: something in the background may hold it open.
    fn rest(mut self) -> Vec<u8> {
        while !self.at_end && self.kept.len() < OUTPUT_MAX {
            match rustix::io::read(self.stream.as_fd(), &mut self.buffer[..]) {
                Ok(length) if length > 0 => self.keep(length),
                _ => self.at_end = true,
            }
        }
        self.kept
    }
}
