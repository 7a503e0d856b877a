//! The disk below the store: its file, what is set aside on it, and what is left of it.
//!
//! A deletion needs room too: the database writes new pages before it lets go of old ones. So that deletions go on when the
//! disk is full, a file of a fixed size lies beside the store, and is removed when nothing else helps.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use redb::{Database, DatabaseError};
use runtime::files::open_private;

use super::file::CACHE_BYTES;

/// What is set aside for deletions: some hundred of them, and the pages that they free serve the next.
pub(super) const RESERVE_BYTES: u64 = 8 << 20;

/// The disk that a store lies on.
pub(super) trait Disk: Send {
    /// Opens a database whose file is good, or makes a new one.
    fn open(&self, path: &Path) -> Result<Database, DatabaseError>;
    /// Sets room aside in a file, unless that was done.
    fn set_aside(&self, path: &Path) -> io::Result<()>;
    /// Gives the room back that was set aside; returns whether there was any.
    fn give_back(&self, path: &Path) -> io::Result<bool>;
    /// Returns how many bytes are free; as many as can be if nobody knows.
    fn available(&self, path: &Path) -> u64;
}

/// A disk of the machine.
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
        let file = open_private(path).map_err(|error| DatabaseError::Storage(redb::StorageError::Io(error)))?;
        Database::builder().set_cache_size(CACHE_BYTES).create_file(file)
    }

    fn set_aside(&self, path: &Path) -> io::Result<()> {
        let file = open_private(path)?;
        if file.metadata()?.len() >= RESERVE_BYTES {
            return Ok(());
        }
        let outcome = allocate(&file);
        if outcome.is_err() {
            // Half of it would only be in the way.
            let _ = std::fs::remove_file(path);
        }
        outcome
    }

    fn give_back(&self, path: &Path) -> io::Result<bool> {
        match std::fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn available(&self, path: &Path) -> u64 {
        rustix::fs::statvfs(path).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// Gives a file blocks of its own, not only a length.
fn allocate(mut file: &File) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let block = vec![0; 64 << 10];
            for _ in 0..RESERVE_BYTES / block.len() as u64 {
                file.write_all(&block)?;
            }
            Ok(())
        }
        outcome => outcome.map_err(io::Error::from),
    }
}

/// Returns whether an error means that there is no room left.
pub(super) fn is_full(error: &redb::Error) -> bool {
    let redb::Error::Io(error) = error else { return false };
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// A disk of a given size, for tests: a full one without root.
#[cfg(test)]
pub(super) mod small {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use redb::StorageBackend;
    use redb::backends::FileBackend;

    use super::*;

    const PAGE: u64 = 4_096;

    /// What lies on the disk.
    #[derive(Debug, Default)]
    pub(crate) struct Used {
        pub(crate) capacity: u64,
        /// Bytes of somebody else.
        pub(crate) others: u64,
        reserve: u64,
        pages: BTreeSet<u64>,
    }

    impl Used {
        pub(crate) fn free(&self) -> u64 {
            self.capacity.saturating_sub(self.others + self.reserve + self.pages.len() as u64 * PAGE)
        }

        fn take(&mut self, offset: u64, len: u64) -> io::Result<()> {
            let new: Vec<u64> =
                (offset / PAGE..(offset + len).div_ceil(PAGE)).filter(|page| !self.pages.contains(page)).collect();
            if new.len() as u64 * PAGE > self.free() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.pages.extend(new);
            Ok(())
        }
    }

    /// A disk of a given size.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct SmallDisk(pub(crate) Arc<Mutex<Used>>);

    impl SmallDisk {
        pub(crate) fn of(capacity: u64) -> SmallDisk {
            SmallDisk(Arc::new(Mutex::new(Used { capacity, ..Used::default() })))
        }

        /// Lets somebody else take all that is free.
        pub(crate) fn fill(&self) {
            let mut used = self.0.lock().unwrap();
            used.others += used.free();
        }
    }

    impl Disk for SmallDisk {
        fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
            let backend = Backend { file: FileBackend::new(open_private(path).unwrap())?, disk: self.clone() };
            Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)
        }

        fn set_aside(&self, _: &Path) -> io::Result<()> {
            let mut used = self.0.lock().unwrap();
            if used.free() + used.reserve < RESERVE_BYTES {
                return Err(io::ErrorKind::StorageFull.into());
            }
            used.reserve = RESERVE_BYTES;
            Ok(())
        }

        fn give_back(&self, _: &Path) -> io::Result<bool> {
            Ok(std::mem::take(&mut self.0.lock().unwrap().reserve) > 0)
        }

        fn available(&self, _: &Path) -> u64 {
            self.0.lock().unwrap().free()
        }
    }

    #[derive(Debug)]
    struct Backend {
        file: FileBackend,
        disk: SmallDisk,
    }

    impl StorageBackend for Backend {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            // A longer file is a hole at first, as on most file systems.
            self.disk.0.lock().unwrap().pages.retain(|page| page * PAGE < len);
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.disk.0.lock().unwrap().take(offset, data.len() as u64)?;
            self.file.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.file.close()
        }
    }
}
