//! Containers as local processes: start one below a shim, find it again, signal it, wait for its end, kill all of it.
//!
//! The state directory is the truth, this process only looks: an instance started here and one adopted after a crash are the
//! same [`Running`]. Its end is seen through a handle of the kernel (pidfd), never by asking again and again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use machine::Time;
use rustix::process::Signal;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::exec::{ExecError, ExecResult, exec};
use crate::interactive::{Session, Wanted};
use crate::procfs;
use crate::shim::REPORT;
use crate::signals;
use crate::state::{ContainerSpec, ExitRecord, Pids, SHIM_MARKER, StateDir, wall};

/// A shim that has not said within this time that its container runs is given up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a kill looks again for processes that were born meanwhile.
const KILL_INTERVAL: Duration = Duration::from_millis(50);
/// How often an adoption looks whether a shim that was just started has come up.
const ADOPT_INTERVAL: Duration = Duration::from_millis(5);

/// The program that becomes a shim; the path of the spec is its last argument.
#[derive(Clone, Debug)]
pub struct ShimProgram {
    /// The program.
    pub path: PathBuf,
    /// Arguments before the path of the spec.
    pub args: Vec<OsString>,
}

impl ShimProgram {
    /// Returns `lifesign shim` of the running program, also when its file was replaced meanwhile.
    pub fn current() -> ShimProgram {
        ShimProgram { path: "/proc/self/exe".into(), args: vec!["shim".into()] }
    }
}

/// Why a container could not be handed to a shim: nothing that the container's spec causes.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The directory has been used.
    #[error("{0} belongs to another instance")]
    Used(PathBuf),
    /// Disk, process table, memory.
    #[error("cannot start the shim of a container")]
    Io(#[from] io::Error),
    /// The shim said nothing.
    #[error("the shim of a container did not come up; see {0}")]
    Silent(PathBuf),
}

/// An instance, as found in its directory.
#[derive(Debug)]
pub enum Instance {
    /// It runs; shared because several tasks wait for it, signal it and run commands in it.
    Running(Arc<Running>),
    /// It has ended, or could not be started.
    Exited(ExitRecord),
}

/// Starts a container instance in a directory of its own.
///
/// Returns when its process runs, or with the reason why it cannot as an exit record.
pub async fn launch(shim: &ShimProgram, dir: impl Into<PathBuf>, spec: &ContainerSpec) -> Result<Instance, LaunchError> {
    let dir = StateDir::new(dir);
    dir.create()?;
    let used = || LaunchError::Used(dir.path().to_owned());
    let lock = dir.lock()?.ok_or_else(used)?;
    if dir.spec_path().exists() {
        return Err(used());
    }
    dir.write_spec(spec)?;
    let complaints = dir.path().join("shim.err");
    signals::restore_for_children();
    let spawned = Command::new(&shim.path)
        .args(&shim.args)
        .arg(dir.spec_path())
        // What the agent was given (proxies, credentials) is nothing that a process which outlives it should carry. One
        // variable tells people which shim it is, and that its environment has been looked at: an empty one may be yet to come.
        .env_clear()
        .env(SHIM_MARKER, &spec.id)
        .stdin(Stdio::from(lock))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(std::fs::File::create(&complaints)?))
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            // Nothing was started: the directory may be tried again.
            std::fs::remove_file(dir.spec_path())?;
            return Err(error.into());
        }
    };
    let mut report = String::new();
    let stdout = child.stdout.take().expect("piped above");
    let answer = tokio::time::timeout(START_TIMEOUT, BufReader::new(stdout).read_line(&mut report)).await;
    if !matches!(answer, Ok(Ok(_))) || report != REPORT {
        // It may still come up: nobody may believe later that it runs.
        child.kill().await?;
        let id = spec.id.clone();
        tokio::task::spawn_blocking(move || procfs::kill_instance(None, &id, false)).await.map_err(io::Error::from)?;
        return Err(LaunchError::Silent(complaints));
    }
    // An empty complaint is one file less per container; a missing one is no loss.
    let _ = std::fs::remove_file(complaints);
    match dir.pids()? {
        Some(pids) => Ok(Instance::Running(Arc::new(Running::new(dir, spec.clone(), pids, Some(child))?))),
        None => {
            let record = dir.exit()?.ok_or_else(|| io::Error::other("the shim left neither pids nor an exit record"))?;
            child.wait().await?;
            Ok(Instance::Exited(record))
        }
    }
}

/// Finds an instance that an earlier agent started; `None`: nothing was ever started in this directory.
///
/// If its shim was killed, whatever is left of the container is killed too, and the end is of unknown kind.
pub async fn adopt(dir: impl Into<PathBuf>) -> io::Result<Option<Instance>> {
    let dir = StateDir::new(dir);
    if !dir.spec_path().exists() {
        return Ok(None);
    }
    let spec = dir.spec()?;
    loop {
        if let Some(record) = dir.exit()? {
            return Ok(Some(Instance::Exited(record)));
        }
        let lock = dir.lock()?;
        match (dir.pids()?, lock) {
            (pids, Some(_lock)) => {
                // No shim holds it, none is to come. It may have ended between our two looks.
                let record = match dir.exit()? {
                    Some(record) => record,
                    None => lost(&dir, &spec, pids).await?,
                };
                return Ok(Some(Instance::Exited(record)));
            }
            (Some(pids), None) => {
                if let Some(running) = Running::adopted(&dir, &spec, pids)? {
                    return Ok(Some(Instance::Running(Arc::new(running))));
                }
            }
            (None, None) => {}
        }
        // The shim is on its way up, or on its way down: a matter of milliseconds.
        tokio::time::sleep(ADOPT_INTERVAL).await;
    }
}

/// Cleans up behind a shim that was killed.
async fn lost(dir: &StateDir, spec: &ContainerSpec, pids: Option<Pids>) -> io::Result<ExitRecord> {
    if let Some(pids) = pids.filter(|pids| procfs::is_running(pids.container)) {
        // Not below anybody any more, but still a group. Its members may have cleared the marker.
        let _ = procfs::signal_group(pids.container.pid, Signal::KILL);
    }
    let id = spec.id.clone();
    tokio::task::spawn_blocking(move || procfs::kill_instance(None, &id, false)).await?;
    let now = wall();
    let record = ExitRecord::unknown(pids.map_or(now, |pids| Time::from_micros(pids.started_at)), now);
    dir.write_exit(&record)?;
    Ok(record)
}

/// A container instance that runs, or has just ended.
#[derive(Debug)]
pub struct Running {
    dir: StateDir,
    spec: ContainerSpec,
    pids: Pids,
    /// Readable for ever once the shim has ended.
    shim: AsyncFd<OwnedFd>,
    /// The shim as our child, if it is; to be reaped.
    child: Mutex<Option<Child>>,
}

impl Running {
    fn new(dir: StateDir, spec: ContainerSpec, pids: Pids, child: Option<Child>) -> io::Result<Running> {
        let shim = crate::readiness::readable(procfs::open(pids.shim.pid)?)?;
        Ok(Running { dir, spec, pids, shim, child: Mutex::new(child) })
    }

    fn adopted(dir: &StateDir, spec: &ContainerSpec, pids: Pids) -> io::Result<Option<Running>> {
        match Running::new(dir.clone(), spec.clone(), pids, None) {
            // Looked at after the handle was opened: the handle is of this process and no later one.
            Ok(running) => Ok(procfs::is_running(pids.shim).then_some(running)),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the name of the instance.
    pub fn id(&self) -> &str {
        &self.spec.id
    }

    /// Returns what it runs.
    pub fn spec(&self) -> &ContainerSpec {
        &self.spec
    }

    /// Returns its directory.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// Returns the number of its process, which is also its group's.
    pub fn pid(&self) -> i32 {
        self.pids.container.pid
    }

    /// Returns the number of its shim.
    pub fn shim_pid(&self) -> i32 {
        self.pids.shim.pid
    }

    /// Returns when it was started, on the wall clock.
    pub fn started_at(&self) -> Time {
        Time::from_micros(self.pids.started_at)
    }

    /// Returns all its processes, commands run in it included. Reads all of /proc: some milliseconds on a busy machine.
    pub fn processes(&self) -> BTreeSet<i32> {
        procfs::of_instance(Some(self.pids.shim.pid), &self.spec.id)
    }

    /// Returns its first process, the one that its command became.
    pub fn main_process(&self) -> i32 {
        self.pids.container.pid
    }

    /// Returns whether its process still runs.
    pub fn is_running(&self) -> bool {
        procfs::is_running(self.pids.container)
    }

    /// Sends a signal to the container's process group; nothing happens if it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if !procfs::is_running(self.pids.container) {
            return Ok(());
        }
        match procfs::signal_group(self.pids.container.pid, signal) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
            other => other,
        }
    }

    /// Waits for the end of the container and of everything below it. May be called any number of times, also at once.
    pub async fn wait(&self) -> io::Result<ExitRecord> {
        let mut guard = self.shim.readable().await?;
        guard.retain_ready();
        if let Some(child) = self.child.lock().expect("nothing panics while it is held").as_mut() {
            // Ended, as the handle says: this only collects it.
            child.try_wait()?;
        }
        match self.dir.exit()? {
            Some(record) => Ok(record),
            None => lost(&self.dir, &self.spec, Some(self.pids)).await,
        }
    }

    /// Kills everything below the shim and returns when nothing is left.
    pub async fn kill_all(&self) -> io::Result<ExitRecord> {
        // The shim kills the rest once the container's process is dead. Only if that takes long do we look for ourselves:
        // a process that cannot be killed at once, or more of them than the shim can keep up with.
        self.signal(Signal::KILL)?;
        loop {
            if let Ok(record) = tokio::time::timeout(KILL_INTERVAL, self.wait()).await {
                return record;
            }
            let (shim, id) = (self.pids.shim.pid, self.spec.id.clone());
            for pid in tokio::task::spawn_blocking(move || procfs::of_instance(Some(shim), &id)).await? {
                // Gone meanwhile is as good as killed.
                let _ = procfs::signal(pid, Signal::KILL);
            }
        }
    }

    /// Runs a command in the container's environment; see [`crate::exec`].
    pub async fn exec(&self, command: &[String], timeout: Duration) -> ExecResult {
        exec(&self.spec, command, timeout, || self.is_running()).await
    }

    /// Starts a command in the container's environment that somebody talks to; see [`crate::interactive`].
    pub async fn converse(&self, command: &[String], wanted: Wanted, shim: &ShimProgram) -> Result<Session, ExecError> {
        let (spec, command, shim) = (self.spec.clone(), command.to_owned(), shim.clone());
        let starting = tokio::task::spawn_blocking(move || Session::start(&spec, &command, wanted, &shim));
        let mut session = starting.await.map_err(|error| ExecError::Spawn(error.into())).flatten()?;
        // Asked now that the command carries the marker, as with every command.
        if !self.is_running() {
            session.kill().await.map_err(ExecError::Spawn)?;
            return Err(ExecError::ContainerGone);
        }
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_empty_directory_holds_no_instance() {
        let folder = tempfile::tempdir().unwrap();
        assert!(adopt(folder.path()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_instance_without_a_shim_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::new(folder.path());
        dir.write_spec(&ContainerSpec { id: "never-started".to_owned(), ..ContainerSpec::default() }).unwrap();
        let Some(Instance::Exited(record)) = adopt(folder.path()).await.unwrap() else { panic!("not running") };
        assert_eq!(record.reason, "ContainerStatusUnknown");
        assert_eq!(dir.exit().unwrap(), Some(record), "the next agent sees the same");
    }
}
