//! Commands that somebody talks to, as `kubectl exec` does; with or without a terminal.
//!
//! As in [`crate::exec`], a command has the container's environment and ends with its first process; what it wrote until then is
//! there to be read. A [`Session`] that is dropped kills all that the command has started.
//!
//! A process gets its terminal by asking for it, as the leader of a session. Nothing may run between fork and exec here, so the
//! command is run by a helper that does this first: [`become_command`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;

use crate::container::ShimProgram;
use crate::exec::{ExecError, Started, exit_code};
use crate::readiness::{readable, readable_and_writable};
use crate::shim;
use crate::state::ContainerSpec;

/// The argument that makes a shim a helper for the words after it.
pub const TERMINAL_ARGUMENT: &str = "--terminal";
/// What a terminal is called where nothing is known of it.
const TERM: &str = "xterm";

/// What a command is started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Somebody writes to it.
    pub stdin: bool,
    /// It has a terminal.
    pub terminal: bool,
}

/// A command that runs.
pub struct Session {
    started: Started,
    /// What is written here it reads; taken away, it reads the end. A terminal has none.
    pub stdin: Option<Arc<End>>,
    /// What it writes.
    pub stdout: Arc<End>,
    /// What it complains about; with a terminal, that is part of what it writes.
    pub stderr: Option<Arc<End>>,
}

impl Session {
    /// Starts a command in the environment of a container.
    pub(crate) fn start(
        spec: &ContainerSpec,
        words: &[String],
        wanted: Wanted,
        shim: &ShimProgram,
    ) -> Result<Session, ExecError> {
        let session = if wanted.terminal { in_terminal(spec, words, shim) } else { with_pipes(spec, words, wanted.stdin) };
        session.map_err(ExecError::Spawn)
    }

    /// Waits for its end; returns the exit code, 128 + n after signal n.
    pub async fn wait(&mut self) -> io::Result<i32> {
        self.started.wait().await.map(exit_code)
    }

    /// Kills all that it has started.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.started.kill().await
    }
}

fn with_pipes(spec: &ContainerSpec, words: &[String], stdin: bool) -> io::Result<Session> {
    let mut command = shim::command(spec, words)?;
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    command.stdout(stdout_end).stderr(stderr_end);
    let mut input = None;
    if stdin {
        let (end, writer) = io::pipe()?;
        command.stdin(end);
        input = Some(Arc::new(End::new(writer.into(), true)?));
    }
    let (stdout, stderr) = (End::new(stdout.into(), false)?, End::new(stderr.into(), false)?);
    let started = Started::spawn(spec, command)?;
    Ok(Session { started, stdin: input, stdout: Arc::new(stdout), stderr: Some(Arc::new(stderr)) })
}

fn in_terminal(spec: &ContainerSpec, words: &[String], shim: &ShimProgram) -> io::Result<Session> {
    // Asked for its errors: what cannot be run is said here and not on the terminal.
    shim::command(spec, words)?;
    let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    if let Some(user) = spec.user {
        rustix::fs::fchown(&theirs, Some(rustix::fs::Uid::from_raw(user)), None)?;
    }
    let helper: Vec<String> = shim.args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let path = shim.path.to_string_lossy().into_owned();
    let helper = [vec![path], helper, vec![TERMINAL_ARGUMENT.to_owned(), "--".to_owned()], words.to_vec()].concat();
    let mut command = shim::command(spec, &helper)?;
    if !spec.env.contains_key("TERM") {
        command.env("TERM", TERM);
    }
    // Only who leads no group can begin a session.
    command.process_group(rustix::process::getpgrp().as_raw_nonzero().get());
    command.stdin(Stdio::from(theirs.try_clone()?)).stdout(Stdio::from(theirs.try_clone()?)).stderr(Stdio::from(theirs));
    let started = Started::spawn(spec, command)?;
    let terminal = Arc::new(End::new(ours, true)?);
    Ok(Session { started, stdin: Some(Arc::clone(&terminal)), stdout: terminal, stderr: None })
}

/// Makes standard input the terminal of a session of its own, and becomes the command; returns if that cannot be.
pub fn become_command(words: &[String]) -> ExitCode {
    let Some((program, arguments)) = words.split_first() else { return ExitCode::from(2) };
    let terminal = rustix::process::setsid().and_then(|_| rustix::process::ioctl_tiocsctty(io::stdin()));
    let error = match terminal {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    eprintln!("exec: {program:?}: {error}");
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Our end of a pipe or a terminal.
#[derive(Debug)]
pub struct End(AsyncFd<OwnedFd>);

impl End {
    fn new(fd: OwnedFd, written_to: bool) -> io::Result<End> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(End(if written_to { readable_and_writable(fd)? } else { readable(fd)? }))
    }

    /// Reads some bytes; 0: there will be no more.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(read) = ready.try_io(|fd| Ok(read(fd.get_ref(), buffer)?)) {
                return read;
            }
        }
    }

    /// Reads what is there without waiting; 0: nothing is.
    pub fn read_now(&self, buffer: &mut [u8]) -> usize {
        read(self.0.get_ref(), buffer).unwrap_or(0)
    }

    /// Writes all of the bytes.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            if let Ok(written) = ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                bytes = &bytes[written?..];
            }
        }
        Ok(())
    }

    /// Tells the command that its terminal has another size; a pipe has none.
    pub fn resize(&self, columns: u16, lines: u16) {
        let size = Winsize { ws_col: columns, ws_row: lines, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = rustix::termios::tcsetwinsize(self.0.get_ref(), size);
    }
}

fn read(fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    match rustix::io::read(fd.as_fd(), buffer) {
        // Nobody has the terminal open any more.
        Err(Errno::IO) => Ok(0),
        other => other,
    }
}
