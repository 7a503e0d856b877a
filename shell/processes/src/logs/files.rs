//! The files of one log, read in order as if they were one.
//!
//! A file is complete once the next number exists. A reader that is slower than the rotation misses what was thrown away.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::shim::log::path;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// A place in the files of a log.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    current: Option<(u64, File)>,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
    /// How much of the current file was read.
    read: u64,
}

impl Files {
    /// Starts at the oldest file.
    pub(super) fn open(dir: &Path) -> io::Result<Files> {
        let mut files = Files { dir: dir.to_owned(), current: None, begun: Vec::new(), read: 0 };
        files.go_to(0)?;
        Ok(files)
    }

    /// Returns the number of the file that is being read.
    pub(super) fn number(&self) -> u64 {
        self.current.as_ref().map_or(0, |(number, _)| *number)
    }

    /// Returns where the log ends now: a file and a place in it.
    pub(super) fn end(&self) -> io::Result<(u64, u64)> {
        let Some(last) = numbers(&self.dir)?.last().copied() else { return Ok((0, 0)) };
        match std::fs::metadata(path(&self.dir, last)) {
            Ok(metadata) => Ok((last, metadata.len())),
            // Thrown away between our two looks: everything up to it is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((last, 0)),
            Err(error) => Err(error),
        }
    }

    /// Returns whether everything before a place was read.
    pub(super) fn is_past(&self, end: (u64, u64)) -> bool {
        (self.number(), self.read) >= end
    }

    /// Returns the next lines, each with its line feed; empty: nothing has been written since.
    pub(super) fn read(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let Some((number, file)) = &mut self.current else {
                self.go_to(0)?;
                if self.current.is_none() {
                    return Ok(Vec::new());
                }
                continue;
            };
            let number = *number;
            // Asked before reading: if there is a next one, this one is complete and what we read is all of it.
            let complete = numbers(&self.dir)?.last().is_some_and(|last| *last > number);
            let mut bytes = std::mem::take(&mut self.begun);
            let before = bytes.len();
            file.take(CHUNK as u64).read_to_end(&mut bytes)?;
            let grown = bytes.len() > before;
            self.read += (bytes.len() - before) as u64;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            self.begun = bytes.split_off(whole);
            if !bytes.is_empty() {
                return Ok(bytes);
            }
            if !grown && !complete {
                return Ok(Vec::new());
            }
            if !grown {
                self.begun.clear();
                self.go_to(number + 1)?;
            }
        }
    }

    /// Goes to the oldest file that is not older than `number`.
    fn go_to(&mut self, number: u64) -> io::Result<()> {
        for candidate in numbers(&self.dir)?.into_iter().filter(|candidate| *candidate >= number) {
            match File::open(path(&self.dir, candidate)) {
                Ok(file) => {
                    self.current = Some((candidate, file));
                    self.read = 0;
                    return Ok(());
                }
                // Thrown away between our two looks.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the numbers of the files that are there, oldest first.
fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|name| name.strip_prefix("log.")?.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}
