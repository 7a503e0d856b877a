//! What the tests share: a shim, shell containers, and waiting for what a container writes.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use processes::container::{Instance, Running, ShimProgram, launch};
use processes::procfs;
use processes::state::ContainerSpec;
use rustix::process::Signal;

use crate::PARTS;

/// Returns the shim of this package.
pub(crate) fn shim() -> ShimProgram {
    ShimProgram { path: PARTS.into(), args: vec!["shim".into()] }
}

/// Returns a container that runs a shell script.
pub(crate) fn shell(script: &str) -> ContainerSpec {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    ContainerSpec {
        id: format!("test-{}-{count}", std::process::id()),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        ..ContainerSpec::default()
    }
}

/// A container that does not survive the test, however that ends.
pub(crate) struct Started(Arc<Running>);

impl Deref for Started {
    type Target = Arc<Running>;
    fn deref(&self) -> &Arc<Running> {
        &self.0
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The shim does the rest.
        let _ = self.0.signal(Signal::KILL);
    }
}

/// Starts a container that must start.
pub(crate) async fn start(dir: &Path, spec: &ContainerSpec) -> Started {
    match launch(&shim(), dir, spec).await.unwrap() {
        Instance::Running(running) => Started(running),
        Instance::Exited(record) => panic!("did not start: {record:?}"),
    }
}

/// Returns the log files, oldest first.
pub(crate) fn log_files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.strip_prefix("log.")?.parse().ok()?;
            Some((number, path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the raw log.
pub(crate) fn log_text(dir: &Path) -> String {
    log_files(dir).iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Waits until a container has written a line.
pub(crate) async fn wait_for_line(dir: &Path, line: &str) {
    until(&format!("the line {line:?}"), || log_text(dir).lines().any(|entry| entry.splitn(4, ' ').nth(3) == Some(line))).await;
}

/// What has not happened by then never will.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something holds that no event tells of.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

/// Returns whether a process has ended; one that nobody has collected yet has ended too.
pub(crate) fn is_gone(pid: i32) -> bool {
    procfs::stat(pid).is_none_or(|stat| stat.zombie)
}
