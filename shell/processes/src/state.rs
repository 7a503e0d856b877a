//! The directory of one container instance: the only thing that an agent and a shim share.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | agent, before the shim starts | what to run |
//! | `lock` | nobody; locked by the shim for its life | locked = a shim lives, or is about to |
//! | `pids.json` | shim, once the process runs | who runs |
//! | `log.N` | shim | output, CRI format, the highest N is the newest |
//! | `exit.json` | shim, as its last act | how it ended |
//!
//! The directory of a container has one such folder per instance, named by its number (`0`, `1`, ...: the restart count).
//! Files appear by rename, so a reader sees all of one or none of it, whoever was killed meanwhile.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use machine::Time;
use runtime::files::create_beside;
use rustix::fs::FlockOperation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The variable by which every process of a container instance is recognised, whoever its parent is.
pub const MARKER: &str = "LIFESIGN_CONTAINER_ID";
/// The only variable of a shim: the instance that it looks after.
pub(crate) const SHIM_MARKER: &str = "LIFESIGN_SHIM_OF";
/// The variable by which all that one command in a container started is recognised: those of a probe or a hook.
pub(crate) const COMMAND_MARKER: &str = "LIFESIGN_COMMAND_ID";

const SPEC: &str = "spec.json";
const LOCK: &str = "lock";
const PIDS: &str = "pids.json";
const EXIT: &str = "exit.json";

/// What a shim runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerSpec {
    /// Names the instance on this machine; never used twice. The process finds it in [`MARKER`].
    pub id: String,
    /// Program and arguments, variables expanded; no shell.
    pub command: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Where it runs; absent: where the agent does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// The user it runs as; absent: the agent's. Another one needs root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// The group it runs as; absent: the agent's. Another one needs root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// How much log is kept.
    pub log: LogLimits,
    /// The address range that stays claimed while the instance lives; see [`crate::addresses`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

/// How much log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLimits {
    /// A file that has reached this size is followed by a new one.
    pub max_bytes: u64,
    /// How many files are kept, the one being written included; at least one.
    pub max_files: u64,
}

impl Default for LogLimits {
    /// The kubelet's `containerLogMaxSize` and `containerLogMaxFiles`.
    fn default() -> LogLimits {
        LogLimits { max_bytes: 10 << 20, max_files: 5 }
    }
}

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
}

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pids {
    /// The shim, leader of its session.
    pub shim: ProcessId,
    /// The container's process, leader of its group.
    pub container: ProcessId,
    /// When it was started, microseconds since the epoch.
    pub started_at: i64,
}

/// How a container instance ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    /// The exit code; 128 + n after signal n. After SIGKILL nobody can tell whether the kernel was short of memory.
    pub exit_code: i32,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// As in `state.terminated.reason`: `Completed`, `Error`, `StartError`, `ContainerCannotRun`, `ContainerStatusUnknown`.
    pub reason: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it started, microseconds since the epoch; when it was tried, if it could not be started.
    pub started_at: i64,
    /// When it ended, microseconds since the epoch.
    pub finished_at: i64,
}

impl ExitRecord {
    /// Returns the record of a process that ran and ended.
    pub fn ended(exit_code: Option<i32>, signal: Option<i32>, started_at: Time, finished_at: Time) -> ExitRecord {
        let exit_code = exit_code.unwrap_or_else(|| 128 + signal.unwrap_or(127));
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        ExitRecord {
            exit_code,
            signal,
            reason: reason.to_owned(),
            message: String::new(),
            started_at: started_at.as_micros(),
            finished_at: finished_at.as_micros(),
        }
    }

    /// Returns the record of an instance whose shim was killed, so that nobody saw its end.
    pub fn unknown(started_at: Time, finished_at: Time) -> ExitRecord {
        ExitRecord {
            exit_code: 137,
            signal: None,
            reason: "ContainerStatusUnknown".to_owned(),
            message: "the shim of the container was killed, so its exit code is not known".to_owned(),
            started_at: started_at.as_micros(),
            finished_at: finished_at.as_micros(),
        }
    }

    /// Returns when it started.
    pub fn started(&self) -> Time {
        Time::from_micros(self.started_at)
    }

    /// Returns when it ended.
    pub fn finished(&self) -> Time {
        Time::from_micros(self.finished_at)
    }
}

/// The directory of one container instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// Returns the directory as one of an instance; it need not exist.
    pub fn new(path: impl Into<PathBuf>) -> StateDir {
        StateDir(path.into())
    }

    /// Returns the instance that a path of a `spec.json` belongs to.
    pub fn of_spec(path: &Path) -> StateDir {
        StateDir(path.parent().unwrap_or(Path::new("")).to_owned())
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where the spec is.
    pub fn spec_path(&self) -> PathBuf {
        self.0.join(SPEC)
    }

    /// Returns where the exit record will be.
    pub fn exit_path(&self) -> PathBuf {
        self.0.join(EXIT)
    }

    /// Makes the directory, for the agent's user alone: the spec holds secrets.
    pub fn create(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    /// Reads the spec.
    pub fn spec(&self) -> io::Result<ContainerSpec> {
        self.read(SPEC)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no spec.json"))
    }

    /// Writes the spec.
    pub fn write_spec(&self, spec: &ContainerSpec) -> io::Result<()> {
        self.write(SPEC, spec)
    }

    /// Reads who runs; `None`: nobody yet.
    pub fn pids(&self) -> io::Result<Option<Pids>> {
        self.read(PIDS)
    }

    /// Writes who runs.
    pub fn write_pids(&self, pids: &Pids) -> io::Result<()> {
        self.write(PIDS, pids)
    }

    /// Reads how it ended; `None`: it has not, or nobody saw it.
    pub fn exit(&self) -> io::Result<Option<ExitRecord>> {
        self.read(EXIT)
    }

    /// Writes how it ended.
    pub fn write_exit(&self, record: &ExitRecord) -> io::Result<()> {
        self.write(EXIT, record)
    }

    /// Takes the lock of the instance; `None`: a shim holds it.
    ///
    /// The lock belongs to the open file, not to a process: it is handed to the shim as its standard input.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.0.join(LOCK))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match std::fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let place = self.0.join(name);
        let (fresh, mut file) = create_beside(&place)?;
        let written = file.write_all(&serde_json::to_vec(value)?).and_then(|()| std::fs::rename(&fresh, place));
        if written.is_err() {
            // What is half written helps nobody; the error that matters is the first one.
            let _ = std::fs::remove_file(fresh);
        }
        written
    }
}

/// Returns the numbers of a container's instances, oldest first.
pub fn instances(container_dir: &Path) -> io::Result<Vec<u64>> {
    let entries = match std::fs::read_dir(container_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found: Vec<u64> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the directory of an instance.
pub fn instance_dir(container_dir: &Path, number: u64) -> PathBuf {
    container_dir.join(number.to_string())
}

/// Removes all but the newest `keep` instances of a container; one whose shim lives stays.
pub fn prune(container_dir: &Path, keep: usize) -> io::Result<()> {
    let numbers = instances(container_dir)?;
    for number in &numbers[..numbers.len().saturating_sub(keep)] {
        let dir = StateDir::new(instance_dir(container_dir, *number));
        if dir.lock()?.is_some() {
            std::fs::remove_dir_all(dir.path())?;
        }
    }
    Ok(())
}

/// Returns the wall clock, as shims and logs write it.
pub fn wall() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_reads_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::new(folder.path().join("a/0"));
        dir.create().unwrap();
        assert_eq!(dir.exit().unwrap(), None);
        let spec = ContainerSpec { id: "x".to_owned(), command: vec!["true".to_owned()], ..ContainerSpec::default() };
        dir.write_spec(&spec).unwrap();
        assert_eq!(dir.spec().unwrap(), spec);
        let record = ExitRecord::ended(None, Some(9), Time::from_secs(1), Time::from_secs(2));
        dir.write_exit(&record).unwrap();
        assert_eq!(dir.exit().unwrap(), Some(record.clone()));
        assert_eq!((record.exit_code, record.reason.as_str()), (137, "Error"));
    }

    #[test]
    fn the_lock_is_held_by_the_open_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::new(folder.path());
        let first = dir.lock().unwrap().expect("nobody holds it");
        assert!(dir.lock().unwrap().is_none());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(dir.lock().unwrap().is_none(), "a copy keeps it");
        drop(copy);
        assert!(dir.lock().unwrap().is_some());
    }

    #[test]
    fn old_instances_are_removed_unless_they_live() {
        let folder = tempfile::tempdir().unwrap();
        for number in [0, 1, 2, 10] {
            StateDir::new(instance_dir(folder.path(), number)).create().unwrap();
        }
        let alive = StateDir::new(instance_dir(folder.path(), 1)).lock().unwrap();
        prune(folder.path(), 2).unwrap();
        assert_eq!(instances(folder.path()).unwrap(), [1, 2, 10]);
        drop(alive);
        prune(folder.path(), 5).unwrap();
        assert_eq!(instances(folder.path()).unwrap(), [1, 2, 10]);
        assert_eq!(instances(&folder.path().join("none")).unwrap(), Vec::<u64>::new());
    }
}
