//! Reading the logs of a container, across rotated files and while it writes.
//!
//! What is read is what the program wrote, byte for byte; options cut whole lines off its beginning and bytes off its end.

pub mod cri;
mod files;
mod select;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::io::unix::AsyncFd;

use crate::procfs;
use crate::state::{StateDir, instance_dir, instances};
use files::Files;
use select::{Pause, Selection};

/// How long a follower waits before it looks for new lines; the end of the container is seen at once.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Which part of a log, as `kubectl logs` asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Goes on until the container ends.
    pub follow: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<u64>,
    /// Only what was written in the last seconds.
    pub since_seconds: Option<i64>,
    /// Only what was written at this instant, in microseconds since the epoch, or later.
    pub since_time: Option<machine::Time>,
    /// A timestamp in front of every line.
    pub timestamps: bool,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
    /// The instance before the newest.
    pub previous: bool,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There was never an instance.
    #[error("the container has not been started yet")]
    NotStarted,
    /// There is only one instance.
    #[error("previous terminated container not found")]
    NoPrevious,
    /// The disk.
    #[error("cannot read the log")]
    Io(#[from] io::Error),
}

/// A log as it is read, piece by piece.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Reads the log of a container's newest instance, or of the one before.
pub fn read(container_dir: &Path, options: &LogOptions) -> Result<LogStream, LogError> {
    let numbers = instances(container_dir)?;
    let newest_first = |back: usize| numbers.len().checked_sub(back + 1).map(|index| numbers[index]);
    let number = if options.previous {
        newest_first(1).ok_or(LogError::NoPrevious)?
    } else {
        newest_first(0).ok_or(LogError::NotStarted)?
    };
    Ok(read_instance(&StateDir::new(instance_dir(container_dir, number)), options)?)
}

/// Reads the log of one instance.
pub fn read_instance(dir: &StateDir, options: &LogOptions) -> io::Result<LogStream> {
    let files = Files::open(dir.path())?;
    let reader = Reader {
        dir: dir.clone(),
        end: files.end()?,
        files,
        selection: Selection::new(options, crate::state::wall()),
        follow: options.follow,
        shim: None,
        ready: VecDeque::new(),
    };
    let chunks =
        futures::stream::try_unfold(reader, |mut reader| async { Ok(reader.next().await?.map(|chunk| (chunk, reader))) });
    Ok(chunks.boxed())
}

/// The state of one reading.
struct Reader {
    dir: StateDir,
    files: Files,
    /// Where the log ended when reading began: a file and a place in it.
    end: (u64, u64),
    selection: Selection,
    follow: bool,
    /// Readable when the container has ended; opened by the first wait.
    shim: Option<AsyncFd<std::os::fd::OwnedFd>>,
    ready: VecDeque<Bytes>,
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some(chunk));
            }
            if self.selection.is_full() {
                return Ok(None);
            }
            // Before reading: what is written until the end is then read after it.
            let ended = !self.follow || self.dir.exit_path().exists();
            // What is written while lines are counted is not counted: a busy container would never let that end.
            let counted = self.selection.is_counting() && self.files.is_past(self.end);
            let lines = if counted { Vec::new() } else { self.files.read()? };
            if !lines.is_empty() {
                self.selection.take(self.files.number(), &lines, &mut self.ready);
                // Other readers and containers share this thread.
                tokio::task::yield_now().await;
            } else if self.selection.at_pause() == Pause::Rewind {
                self.files = Files::open(self.dir.path())?;
                self.selection.rewound(self.files.number());
            } else if ended {
                return Ok(None);
            } else {
                self.wait().await;
            }
        }
    }

    /// Waits for the end of the container, but not long: there may be new lines.
    async fn wait(&mut self) {
        if self.shim.is_none()
            && let Ok(Some(pids)) = self.dir.pids()
            && let Ok(handle) = procfs::open(pids.shim.pid)
            && procfs::is_running(pids.shim)
        {
            self.shim = crate::readiness::readable(handle).ok();
        }
        let ended = async {
            match &self.shim {
                Some(shim) => match shim.readable().await {
                    Ok(mut guard) => guard.retain_ready(),
                    Err(_) => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        };
        // Ended without a record: an adopting agent will write one; asking without a pause would not bring it about.
        if tokio::time::timeout(FOLLOW_INTERVAL, ended).await.is_ok() && !self.dir.exit_path().exists() {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::log::LogWriter;
    use crate::state::LogLimits;
    use cri::Stream as Output;
    use proptest::prelude::*;

    fn read_all(dir: &Path, options: &LogOptions) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut stream = read_instance(&StateDir::new(dir), options).unwrap();
            let mut all = Vec::new();
            while let Some(chunk) = stream.next().await {
                all.extend_from_slice(&chunk.unwrap());
            }
            all
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                (0usize..40_000).prop_map(|length| vec![b'x'; length]),
                Just(b"\n\n".to_vec()),
            ], 0..12),
            max_bytes in 1u64..5_000,
            lines in 0u64..6,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut log = LogWriter::create(folder.path(), LogLimits { max_bytes, max_files: 1_000_000 }).unwrap();
            for (nanos, piece) in (0..).zip(&pieces) {
                log.write(Output::Stdout, nanos, piece);
            }
            log.finish(1_000);
            let written = pieces.concat();
            prop_assert!(read_all(folder.path(), &LogOptions::default()) == written);

            let all: Vec<&[u8]> = written.split_inclusive(|byte| *byte == b'\n').collect();
            let tail = all[all.len().saturating_sub(usize::try_from(lines).unwrap())..].concat();
            let options = LogOptions { tail_lines: Some(lines), ..LogOptions::default() };
            prop_assert!(read_all(folder.path(), &options) == tail);
        }
    }
}
