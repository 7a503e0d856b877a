//! `lifesign shim`: the parent of one container, which outlives the agent.
//!
//! It leads a session of its own, so a terminal's signals do not reach it; it is a child subreaper, so whatever the container
//! leaves behind comes back to it; it keeps the log and writes the exit record. It takes no orders: the agent signals the
//! container's process group directly, and the shim ends when the container's process has ended and everything below is dead.
//! The container's end is therefore complete once the exit record is there.

pub(crate) mod log;

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use machine::Time;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::logs::cri::Stream;
use crate::procfs;
use crate::state::{ContainerSpec, ExitRecord, MARKER, Pids, StateDir, wall};
use log::LogWriter;

/// What the shim tells the agent, as one line on its standard output, once the files say more.
pub(crate) const REPORT: &str = "ready\n";

/// Runs the container described by a `spec.json` to its end; standard input is the lock of its directory.
pub fn run(spec_path: &Path) -> ExitCode {
    match shim(&StateDir::of_spec(spec_path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lifesign shim: {}: {error}", spec_path.display());
            ExitCode::FAILURE
        }
    }
}

fn shim(dir: &StateDir) -> io::Result<()> {
    let spec = dir.spec()?;
    // Refused only to a group leader: then somebody tries it by hand, and their terminal's signals are theirs.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _claim = spec.claim.as_deref().map(|range| crate::addresses::hold(range, &spec.id)).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let record = runtime.block_on(contain(dir, &spec))?;
    dir.write_exit(&record)?;
    report();
    Ok(())
}

/// Tells the agent that the files are there; it may be dead or not listening any more.
fn report() {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(REPORT.as_bytes()).and_then(|()| stdout.flush());
}

/// Starts the process and stays until it and everything below it have ended.
async fn contain(dir: &StateDir, spec: &ContainerSpec) -> io::Result<ExitRecord> {
    // Handlers, not "ignore": the container would inherit that.
    let mut ended = signal(SignalKind::child())?;
    let _swallowed: Vec<Signal> = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()]
        .into_iter()
        .map(signal)
        .collect::<io::Result<_>>()?;
    let log = LogWriter::create(dir.path(), spec.log)?;
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    let tried_at = wall();
    let pid = match start(spec, stdout_end.into(), stderr_end.into()) {
        Ok(pid) => pid,
        Err(failure) => return Ok(failure.record(tried_at)),
    };
    let started_at = wall();
    if let Err(error) = write_pids(dir, pid, started_at.as_micros()) {
        // Nobody could find it again: better not to have it.
        procfs::kill_instance(Some(own_pid()), &spec.id, true);
        let message = format!("cannot write the state of the container: {error}");
        return Ok(StartFailure { exit_code: 128, reason: "StartError", message }.record(tried_at));
    }
    report();

    let mut output = Output {
        log,
        stdout: Some(Receiver::from_owned_fd(stdout.into())?),
        stderr: Some(Receiver::from_owned_fd(stderr.into())?),
    };
    let status = output.copy_until_end(pid, &mut ended).await;
    let finished_at = wall();
    procfs::kill_instance(Some(own_pid()), &spec.id, true);
    output.drain();
    Ok(ExitRecord::ended(status.exit_status(), status.terminating_signal(), started_at, finished_at))
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn write_pids(dir: &StateDir, pid: Pid, started_at: i64) -> io::Result<()> {
    let gone = || io::Error::other("/proc does not show our own processes");
    let shim = procfs::identify(own_pid()).ok_or_else(gone)?;
    // Even if it has ended already: only we can reap it.
    let container = procfs::identify(pid.as_raw_nonzero().get()).ok_or_else(gone)?;
    dir.write_pids(&Pids { shim, container, started_at })
}

/// Why a process could not be started.
struct StartFailure {
    exit_code: i32,
    reason: &'static str,
    message: String,
}

impl StartFailure {
    fn record(self, tried_at: Time) -> ExitRecord {
        ExitRecord {
            exit_code: self.exit_code,
            signal: None,
            reason: self.reason.to_owned(),
            message: self.message,
            started_at: tried_at.as_micros(),
            finished_at: wall().as_micros(),
        }
    }
}

fn start(spec: &ContainerSpec, stdout: Stdio, stderr: Stdio) -> Result<Pid, StartFailure> {
    let mut command = command(spec, &spec.command).map_err(|error| start_failure(spec, &error))?;
    command.stdout(stdout).stderr(stderr);
    let child = command.spawn().map_err(|error| start_failure(spec, &error))?;
    Ok(Pid::from_child(&child))
}

/// Returns a command in the environment of a container: its own process group, nothing inherited, no standard input.
pub(crate) fn command(spec: &ContainerSpec, words: &[String]) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(rustix::io::Errno::NOENT)?;
    let path = spec.env.get("PATH").map(String::as_str);
    let mut command = Command::new(procfs::find_program(program, path, spec.working_dir.as_deref())?);
    command.arg0(program).args(arguments).env_clear().envs(&spec.env).env(MARKER, &spec.id);
    command.process_group(0).stdin(Stdio::null());
    if let Some(dir) = &spec.working_dir {
        command.current_dir(dir);
    }
    if let Some(group) = spec.group {
        command.gid(group);
    }
    if let Some(user) = spec.user {
        command.uid(user);
    }
    Ok(command)
}

/// Says in the words of a shell (127: not found, 126: found but not to be run) why nothing was started.
fn start_failure(spec: &ContainerSpec, error: &io::Error) -> StartFailure {
    let program = spec.command.first().map(String::as_str).unwrap_or_default();
    if let Some(dir) = spec.working_dir.as_ref().filter(|dir| !dir.is_dir()) {
        let message =
            format!("workingDir {dir:?} is not a directory of this machine; pods are processes here, so create it first");
        return StartFailure { exit_code: 127, reason: "StartError", message };
    }
    use io::ErrorKind::{NotFound, OutOfMemory, PermissionDenied, WouldBlock};
    match error.kind() {
        NotFound if program.contains('/') => {
            let message = format!("exec: {program:?}: no such file on this machine; images are not pulled here");
            StartFailure { exit_code: 127, reason: "StartError", message }
        }
        NotFound => {
            let message = format!("exec: {program:?}: executable file not found in $PATH; images are not pulled here");
            StartFailure { exit_code: 127, reason: "StartError", message }
        }
        OutOfMemory | WouldBlock => {
            StartFailure { exit_code: 128, reason: "StartError", message: format!("exec: {program:?}: {error}") }
        }
        PermissionDenied if spec.user.is_some() && !rustix::process::geteuid().is_root() => {
            let message = format!("exec: {program:?}: {error}; running as another user needs lifesign to run as root");
            StartFailure { exit_code: 126, reason: "ContainerCannotRun", message }
        }
        _ => StartFailure { exit_code: 126, reason: "ContainerCannotRun", message: format!("exec: {program:?}: {error}") },
    }
}

/// What the container writes, on its way to the log.
struct Output {
    log: LogWriter,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
}

impl Output {
    /// Copies until the process has ended.
    async fn copy_until_end(&mut self, pid: Pid, ended: &mut Signal) -> WaitStatus {
        let (mut out, mut err) = (vec![0; 16 * 1024], vec![0; 4 * 1024]);
        // It may have ended before we began to look.
        if let Some(status) = reap(pid) {
            return status;
        }
        loop {
            tokio::select! {
                _ = ended.recv() => if let Some(status) = reap(pid) {
                    return status;
                },
                read = next(&mut self.stdout, &mut out) => match read {
                    Some(length) => self.log.write(Stream::Stdout, now_nanos(), &out[..length]),
                    None => self.stdout = None,
                },
                read = next(&mut self.stderr, &mut err) => match read {
                    Some(length) => self.log.write(Stream::Stderr, now_nanos(), &err[..length]),
                    None => self.stderr = None,
                },
            }
        }
    }

    /// Copies what is still in the pipes, without waiting: somebody outside may hold the other end.
    fn drain(&mut self) {
        let mut buffer = vec![0; 16 * 1024];
        for (stream, receiver) in [(Stream::Stdout, self.stdout.take()), (Stream::Stderr, self.stderr.take())] {
            let Some(receiver) = receiver else { continue };
            // A pipe holds at most a mebibyte for an ordinary user; more than that is somebody who writes on.
            for _ in 0..64 {
                match rustix::io::read(receiver.as_fd(), &mut buffer) {
                    Ok(length) if length > 0 => self.log.write(stream, now_nanos(), &buffer[..length]),
                    _ => break,
                }
            }
        }
        self.log.finish(now_nanos());
    }
}

/// Reads from a stream; `None`: it has ended. Waits for ever if there is none.
async fn next(stream: &mut Option<Receiver>, buffer: &mut [u8]) -> Option<usize> {
    match stream {
        Some(stream) => stream.read(buffer).await.ok().filter(|length| *length > 0),
        None => std::future::pending().await,
    }
}

/// Reaps whatever has ended; returns the status of `pid` if it is among them.
fn reap(pid: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((ended, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if ended == pid {
            found = Some(status);
        }
    }
    found
}

fn now_nanos() -> i128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
