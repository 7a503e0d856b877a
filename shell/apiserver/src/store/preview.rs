//! A look at a file that leaves it as it is.
//!
//! The database repairs a file when it opens it. A file that is damaged, or that a later version wrote, must not be touched:
//! it is opened here first, and whatever the database writes stays in memory. Only a file whose every checksum holds and
//! whose every row can be read is opened for real.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use redb::{Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError};

use super::StoreError;
use super::contents::Contents;
use super::file::{CACHE_BYTES, FORMAT};

/// Where the file says which of its two commit slots is the newer one, and whether it was closed; redb's format, version 3.
const STATE_OFFSET: u64 = 9;
/// The file was not closed.
const RECOVERY_REQUIRED: u8 = 2;
/// The newer slot is known to hold: the older one is not looked at.
const TWO_PHASE_COMMIT: u8 = 4;

/// Reads a whole file, or says why it cannot be used.
pub(super) fn look(path: &Path) -> Result<Contents, StoreError> {
    // The database trusts some of its own pages so much that it panics when they are damaged.
    quietly(|| read(path)).unwrap_or_else(|what| Err(StoreError::Damaged { path: path.display().to_string(), what }))
}

/// Returns whether the newest commit of a file that was not closed does not hold, so that the database goes back to the one
/// before. That is how a commit looks that a crash cut short, which nobody was told of; and how one looks that was
/// acknowledged and damaged since.
pub(super) fn falls_back(path: &Path) -> Result<bool, StoreError> {
    let failed = |error: io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
    let preview = Preview::open(path).map_err(failed)?;
    let mut state = [0];
    preview.read(STATE_OFFSET, &mut state).map_err(failed)?;
    if state[0] & RECOVERY_REQUIRED == 0 {
        return Ok(false);
    }
    // Told that the newer slot must hold, the database refuses a file in which it does not.
    preview.write(STATE_OFFSET, &[state[0] | TWO_PHASE_COMMIT]).map_err(failed)?;
    let holds = quietly(|| {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(preview);
        opened.is_ok_and(|mut database| database.check_integrity().is_ok_and(|good| good))
    });
    Ok(!holds.unwrap_or(false))
}

/// Runs something whose panic is an answer, not a mistake of ours: it is returned and not printed.
fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let usual = Arc::new(panic::take_hook());
    let (here, others) = (thread::current().id(), Arc::clone(&usual));
    panic::set_hook(Box::new(move |info| {
        if thread::current().id() != here {
            others(info);
        }
    }));
    // Nothing that the work has left half done is looked at again.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    drop(panic::take_hook());
    if let Some(usual) = Arc::into_inner(usual) {
        panic::set_hook(usual);
    }
    outcome.map_err(|panicked| {
        let text = panicked.downcast_ref::<String>().cloned();
        text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

fn read(path: &Path) -> Result<Contents, StoreError> {
    let shown = || path.display().to_string();
    let damaged = |what: &dyn ToString| StoreError::Damaged { path: shown(), what: what.to_string() };
    let newer = |found: u64| StoreError::Newer { path: shown(), found, known: FORMAT };
    let opened = |error: DatabaseError| match error {
        DatabaseError::UpgradeRequired(found) => newer(found.into()),
        DatabaseError::Storage(StorageError::Io(error))
            if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            StoreError::Failed(format!("{}: {error}", shown()))
        }
        other => damaged(&other),
    };
    let preview = Preview::open(path).map_err(|error| StoreError::Failed(format!("{}: {error}", shown())))?;
    let mut database = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(preview).map_err(opened)?;
    match database.check_integrity() {
        Ok(true) => {}
        // A repair here would go back to an earlier state: what was acknowledged since would be lost without a word.
        Ok(false) => return Err(damaged(&"its checksums do not hold")),
        Err(error) => return Err(opened(error)),
    }
    let read = database.begin_read().map_err(|error| damaged(&error))?;
    match Contents::format(&read).map_err(|error| damaged(&error))? {
        None | Some(FORMAT) => {}
        Some(found) => return Err(newer(found)),
    }
    Contents::read(&read).map_err(|what| damaged(&what))
}

const PAGE: u64 = 4_096;

/// A file below, and what was written over it in memory.
#[derive(Debug)]
struct Preview {
    file: File,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// The length of the part of the file that still shows.
    below: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Preview {
    fn open(path: &Path) -> io::Result<Preview> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Preview { file, written: Mutex::new(Written { len, below: len, pages: BTreeMap::new() }) })
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().expect("no code panics while it holds the pages")
    }

    /// Reads a part of a page that nobody has written; past the end of the file there are zeros.
    fn read_below(&self, below: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let there = usize::try_from(below.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        self.file.read_exact_at(&mut out[..there], offset)
    }
}

/// Splits a range at the borders of pages: page, place in it, place in the buffer, length.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let inside = usize::try_from(at % PAGE).expect("a page fits into memory");
        let piece = (len - done).min(PAGE as usize - inside);
        done += piece;
        Some((at / PAGE, inside, done - piece, piece))
    })
}

impl StorageBackend for Preview {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset + out.len() as u64 > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, inside, at, len) in pieces(offset, out.len()) {
            let piece = &mut out[at..at + len];
            match written.pages.get(&page) {
                Some(bytes) => piece.copy_from_slice(&bytes[inside..inside + len]),
                None => self.read_below(written.below, page * PAGE + inside as u64, piece)?,
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        written.len = len;
        written.below = written.below.min(len);
        // Whole pages past the end go; the rest of the last one is zeros if the file grows again.
        written.pages.retain(|page, _| page * PAGE < len);
        if let Some(last) = written.pages.get_mut(&(len / PAGE)) {
            last[usize::try_from(len % PAGE).expect("a page fits into memory")..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        let below = written.below;
        for (page, inside, at, len) in pieces(offset, data.len()) {
            let bytes = match written.pages.entry(page) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let mut bytes = vec![0; PAGE as usize];
                    self.read_below(below, page * PAGE, &mut bytes)?;
                    place.insert(bytes)
                }
            };
            bytes[inside..inside + len].copy_from_slice(&data[at..at + len]);
        }
        written.len = written.len.max(offset + data.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(quietly(|| 7), Ok(7));
        assert_eq!(quietly(|| -> u8 { panic!("page {} is bad", 3) }), Err("page 3 is bad".to_owned()));
    }

    #[test]
    fn writes_are_seen_and_the_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..10_000u32).map(|number| (number % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let preview = Preview::open(&path).unwrap();
        preview.write(4_090, &[7; 20]).unwrap();
        preview.set_len(20_000).unwrap();
        preview.write(19_990, &[9; 10]).unwrap();
        let mut out = vec![1; 20_000];
        preview.read(0, &mut out).unwrap();
        let mut expected = bytes.clone();
        expected[4_090..4_110].fill(7);
        expected.resize(19_990, 0);
        expected.resize(20_000, 9);
        assert_eq!(out, expected);
        preview.set_len(4_100).unwrap();
        preview.set_len(8_192).unwrap();
        let mut tail = vec![1; 100];
        preview.read(4_095, &mut tail).unwrap();
        assert_eq!((&tail[..5], &tail[5..]), (&[7u8; 5][..], &[0u8; 95][..]), "what was cut off does not come back");
        assert!(preview.read(8_190, &mut tail).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
