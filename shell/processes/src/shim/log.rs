//! The log file of a container: takes what the program writes, line by line, and keeps the newest files.
//!
//! Files are numbered and never renamed: `log.0`, `log.1`, ... A new number is opened only when the one before is complete, so
//! a reader that finds `log.N+1` has seen all of `log.N` once it reads to its end. A full disk loses log, never blocks the program.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::logs::cri::{Stamper, Stream};
use crate::state::LogLimits;

/// Longer lines are written in pieces; containerd's `max_container_log_line_size`.
const LINE_MAX: usize = 16 * 1024;

/// Returns the log file with a number.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("log.{number}"))
}

/// Writes the log of one container instance.
#[derive(Debug)]
pub(crate) struct LogWriter {
    dir: PathBuf,
    limits: LogLimits,
    number: u64,
    file: Option<File>,
    size: u64,
    stamper: Stamper,
    /// The beginning of a line per stream.
    begun: [Vec<u8>; 2],
    out: Vec<u8>,
}

impl LogWriter {
    /// Opens `log.0`.
    pub(crate) fn create(dir: &Path, limits: LogLimits) -> io::Result<LogWriter> {
        Ok(LogWriter {
            dir: dir.to_owned(),
            limits,
            number: 0,
            file: Some(open(&path(dir, 0))?),
            size: 0,
            stamper: Stamper::default(),
            begun: [Vec::new(), Vec::new()],
            out: Vec::new(),
        })
    }

    /// Takes what a program wrote.
    pub(crate) fn write(&mut self, stream: Stream, nanos: i128, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.text(stream, nanos, &bytes[..end]);
            self.entry(stream, nanos, true);
            bytes = &bytes[end + 1..];
        }
        self.text(stream, nanos, bytes);
        self.flush();
    }

    /// Writes lines that have begun and will not end.
    pub(crate) fn finish(&mut self, nanos: i128) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.begun[stream as usize].is_empty() {
                self.entry(stream, nanos, false);
            }
        }
        self.flush();
    }

    /// Takes text without line feeds.
    fn text(&mut self, stream: Stream, nanos: i128, mut text: &[u8]) {
        loop {
            let begun = &mut self.begun[stream as usize];
            let (now, later) = text.split_at(text.len().min(LINE_MAX - begun.len()));
            begun.extend_from_slice(now);
            if later.is_empty() {
                return;
            }
            self.entry(stream, nanos, false);
            text = later;
        }
    }

    /// Puts the line that has begun into the buffer.
    fn entry(&mut self, stream: Stream, nanos: i128, full: bool) {
        let before = self.out.len();
        self.stamper.append(nanos, &mut self.out);
        let tag = if full { " F " } else { " P " };
        for part in [b" ", stream.as_str().as_bytes(), tag.as_bytes(), &self.begun[stream as usize], b"\n"] {
            self.out.extend_from_slice(part);
        }
        self.begun[stream as usize].clear();
        if self.size + before as u64 > 0 && self.size + self.out.len() as u64 > self.limits.max_bytes {
            let entry = self.out.split_off(before);
            self.flush();
            self.rotate();
            self.out = entry;
        }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            // A full disk: this piece is lost, the next may fit again.
            let _ = file.write_all(&self.out);
        }
        self.size += self.out.len() as u64;
        self.out.clear();
        // One burst must not cost memory for ever.
        self.out.shrink_to(2 * LINE_MAX);
    }

    fn rotate(&mut self) {
        self.number += 1;
        self.size = 0;
        self.file = open(&path(&self.dir, self.number)).ok();
        if let Some(oldest) = self.number.checked_sub(self.limits.max_files.max(1)) {
            // Somebody else removed it: just as well.
            let _ = std::fs::remove_file(path(&self.dir, oldest));
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::cri::Entry;

    fn read(dir: &Path, number: u64) -> String {
        std::fs::read_to_string(path(dir, number)).unwrap()
    }

    #[test]
    fn lines_are_written_when_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogWriter::create(folder.path(), LogLimits::default()).unwrap();
        log.write(Stream::Stdout, 1, b"one\ntw");
        log.write(Stream::Stderr, 2, b"oops\n");
        log.write(Stream::Stdout, 3, b"o\n\nend");
        log.finish(4);
        let stamp = |nanos: u32| format!("1970-01-01T00:00:00.{nanos:09}Z");
        let expected = [
            format!("{} stdout F one\n", stamp(1)),
            format!("{} stderr F oops\n", stamp(2)),
            format!("{} stdout F two\n", stamp(3)),
            format!("{} stdout F \n", stamp(3)),
            format!("{} stdout P end\n", stamp(4)),
        ];
        assert_eq!(read(folder.path(), 0), expected.concat());
    }

    #[test]
    fn long_lines_are_written_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogWriter::create(folder.path(), LogLimits::default()).unwrap();
        let line = "x".repeat(2 * LINE_MAX + 5);
        log.write(Stream::Stdout, 1, format!("{line}\n").as_bytes());
        let text = read(folder.path(), 0);
        let entries: Vec<Entry<'_>> = text.lines().map(|line| Entry::parse(line.as_bytes()).unwrap()).collect();
        let shape: Vec<(bool, usize)> = entries.iter().map(|entry| (entry.full, entry.text.len())).collect();
        assert_eq!(shape, [(false, LINE_MAX), (false, LINE_MAX), (true, 5)]);
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_one_piece() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogWriter::create(folder.path(), LogLimits::default()).unwrap();
        log.write(Stream::Stdout, 1, "x".repeat(LINE_MAX).as_bytes());
        log.write(Stream::Stdout, 2, b"\n");
        assert_eq!(read(folder.path(), 0).lines().count(), 1);
    }

    #[test]
    fn the_oldest_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let limits = LogLimits { max_bytes: 100, max_files: 2 };
        let mut log = LogWriter::create(folder.path(), limits).unwrap();
        for line in 0..10 {
            log.write(Stream::Stdout, 1, format!("line {line} {}\n", "x".repeat(30)).as_bytes());
        }
        let mut left: Vec<String> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["log.8", "log.9"]);
        assert!(read(folder.path(), 9).contains("line 9"));
    }
}
