//! The store on disk: one redb file.
//!
//! Tables: `objects` key -> revision + JSON; `log` revision -> what undoes the change; `meta` format, revision, floor,
//! reserved, fallbacks. The log holds the state *before* each change (and the last state of deleted objects), so a create
//! costs almost nothing there, and the window of changes can be rebuilt exactly.
//!
//! A new file gets its name only when it is whole, and an old one is looked at before it is touched: neither a crash at the
//! first start nor a damaged file can make things worse.
//!
//! The database keeps two commits and goes back to the older one if the newer one does not hold. No revision is ever used
//! twice all the same: a commit gives out only revisions that the commit before it has reserved, so the older one knows how
//! far the newer one can have gone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, DatabaseError, Durability, ReadableTable, WriteTransaction};
use registry::state::{Change, ChangeType, RegistryState, Snapshot, WindowLimits};
use runtime::files::{create_beside, open_private, tidy_private_folder};

use super::contents::{Contents, LOG, META, OBJECTS};
use super::disk::{Disk, RESERVE_BYTES, RealDisk, is_full};
use super::rows::{encode_row, encode_stored};
use super::{Fallback, Room, Store, StoreError, preview};

/// The format that this version writes and reads.
pub(super) const FORMAT: u64 = 1;
/// Pages kept in memory by the database; the objects themselves are in our own map.
pub(super) const CACHE_BYTES: usize = 16 << 20;
/// How many revisions are reserved at a time: more than any batch has.
pub(super) const REVISIONS_BLOCK: u64 = 10_000;
/// A disk that was full is tried again when it has this much, or when something was deleted.
const TRY_AGAIN_BYTES: u64 = 1 << 20;
/// How many rows of the history a deletion on a full disk forgets.
const FORGET_WHEN_FULL: usize = 256;

/// A store in a file.
pub struct FileStore {
    path: PathBuf,
    disk: Box<dyn Disk>,
    /// `None` only while it is opened again.
    database: Option<Database>,
    /// What the file held when it was opened, until somebody asks for it.
    contents: Option<Contents>,
    /// What the last commit said, or what the next one says of the past.
    written: Written,
    /// The revision that the file has.
    in_file: u64,
    /// Whether the last commit found no room, and whether a deletion has made some since.
    full: Option<Freed>,
    /// Whether room for deletions is set aside.
    set_aside: bool,
    fallback: Option<Fallback>,
    fallbacks: u64,
    /// Held as long as the store is open; another process is told so.
    _lock: File,
}

type Freed = bool;

/// The numbers of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    revision: u64,
    /// History up to this revision is forgotten.
    floor: u64,
    /// No revision above this one is given out before a commit has said so.
    reserved: u64,
}

impl FileStore {
    /// Opens the store of a data directory, made if it is not there.
    pub fn open(directory: &Path) -> Result<FileStore, StoreError> {
        FileStore::open_on(directory, Box::new(RealDisk))
    }

    fn open_on(directory: &Path, disk: Box<dyn Disk>) -> Result<FileStore, StoreError> {
        let lock = lock(directory)?;
        let path = directory.join("store.redb");
        tidy_private_folder(directory).map_err(|error| StoreError::Failed(format!("{}: {error}", directory.display())))?;
        let there = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let mut contents = Contents::default();
        let (mut in_file, mut fallback) = (0, None);
        if there {
            contents = preview::look(&path)?;
            in_file = contents.revision;
            let mark = FallbackMark(directory.join("store.fallback"));
            if preview::falls_back(&path)? || mark.is_set() {
                // Opening repairs the file: after a crash from here on only the mark tells what has happened.
                mark.set();
                let lost = contents.resume();
                tracing::error!(
                    kept = lost.kept,
                    resumed = lost.resumed,
                    "the last commit of the store does not hold: changes after revision `kept` that it had are lost"
                );
                fallback = Some((lost, mark));
            }
        } else {
            create(directory, &path, disk.as_ref(), |_| Ok(()))?;
        }
        let database = Some(open_database(disk.as_ref(), &path)?);
        let written = Written { revision: contents.revision, floor: contents.floor, reserved: contents.reserved };
        let mut store = FileStore {
            path,
            disk,
            database,
            fallbacks: contents.fallbacks,
            contents: Some(contents),
            written,
            in_file,
            full: None,
            set_aside: false,
            fallback: None,
            _lock: lock,
        };
        if let Some((lost, mark)) = fallback {
            store.fallback = Some(lost);
            // On a full disk the mark stays, and the next start counts again; that does no harm.
            if store.commit(&[], lost.resumed, Room::Reserve).is_ok() {
                mark.clear();
            }
        }
        store.set_room_aside();
        Ok(store)
    }

    /// Returns the objects as the file has them.
    pub fn snapshot(mut self) -> Result<Snapshot, StoreError> {
        Ok(self.load(WindowLimits::default())?.snapshot())
    }

    /// Sets room aside for deletions on a full disk; without it they may have to wait.
    fn set_room_aside(&mut self) {
        match self.disk.set_aside(&self.reserve()) {
            Ok(()) => self.set_aside = true,
            Err(error) => tracing::warn!(%error, "no room can be set aside for deletions on a full disk"),
        }
    }

    /// Gives back the room that was set aside.
    fn use_room_aside(&mut self) -> Result<(), StoreError> {
        self.set_aside = false;
        self.disk.give_back(&self.reserve()).map(drop).map_err(|error| self.failed(&error))
    }

    fn reserve(&self) -> PathBuf {
        self.path.with_extension("reserve")
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open unless opening it again has failed, which is final")
    }

    fn begin(&self) -> Result<WriteTransaction, redb::Error> {
        let mut write = self.database().begin_write()?;
        write.set_durability(Durability::Immediate)?;
        Ok(write)
    }

    /// Reserves revisions in a commit of its own: the one that uses them comes after it.
    fn reserve_revisions(&mut self, up_to: u64) -> Result<(), redb::Error> {
        let write = self.begin()?;
        write.open_table(META)?.insert("reserved", up_to)?;
        write.commit()?;
        self.written.reserved = up_to;
        Ok(())
    }

    fn write(&mut self, changes: &[Arc<Change>], floor: u64, room: Room) -> Result<(), redb::Error> {
        let revision = changes.last().map_or(self.written.revision, |change| change.revision);
        if revision > self.written.reserved {
            self.reserve_revisions(revision + REVISIONS_BLOCK)?;
        }
        let mut next = Written { revision, floor: floor.max(self.written.floor), ..self.written };
        if room == Room::Reserve {
            next.floor = revision;
        }
        if next.reserved - revision < REVISIONS_BLOCK / 2 {
            next.reserved = revision + REVISIONS_BLOCK;
        }
        let write = self.begin()?;
        {
            let mut objects = write.open_table(OBJECTS)?;
            let mut log = write.open_table(LOG)?;
            for change in changes {
                match change.type_ {
                    ChangeType::Deleted => objects.remove(change.key.as_ref())?,
                    ChangeType::Added | ChangeType::Modified => {
                        objects.insert(change.key.as_ref(), encode_stored(&change.object).as_slice())?
                    }
                };
                if room == Room::Free {
                    log.insert(change.revision, encode_row(change).as_slice())?;
                }
            }
            // A bounded amount of forgetting per commit: no pause, however much has expired.
            let some = if room == Room::Free { (2 * changes.len()).max(16) } else { FORGET_WHEN_FULL };
            let expired = log.range(..=next.floor)?.take(some).map(|row| Ok(row?.0.value()));
            for revision in expired.collect::<Result<Vec<u64>, redb::StorageError>>()? {
                log.remove(revision)?;
            }
            let mut meta = write.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("revision", next.revision)?;
            meta.insert("floor", next.floor)?;
            meta.insert("reserved", next.reserved)?;
            meta.insert("fallbacks", self.fallbacks)?;
        }
        write.commit()?;
        self.written = next;
        self.in_file = next.revision;
        Ok(())
    }

    /// Opens the database again: after an error it takes nothing more. What was committed must be there, and no more.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.database = None;
        let database = open_database(self.disk.as_ref(), &self.path)?;
        let found = Contents::revision(&database).map_err(|error| self.failed(&error))?;
        self.database = Some(database);
        if found == self.in_file {
            return Ok(());
        }
        let expected = self.in_file;
        Err(self.failed(&format!("it has revision {found} where {expected} was expected; start again to go on from there")))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> StoreError {
        StoreError::Failed(format!("{}: {error}", self.path.display()))
    }

    fn is_full(&self) -> StoreError {
        StoreError::Full(self.path.display().to_string())
    }
}

/// Remembers across a crash that the last commit of a file did not hold.
struct FallbackMark(PathBuf);

impl FallbackMark {
    fn is_set(&self) -> bool {
        self.0.exists()
    }

    fn set(&self) {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        let outcome = open_private(&self.0).and_then(|file| file.sync_all()).and_then(|()| File::open(folder)?.sync_all());
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot write {}", self.0.display());
        }
    }

    fn clear(&self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove {}", self.0.display());
        }
    }
}

/// Makes a new file: whole, or not at all.
pub(super) fn create(
    directory: &Path,
    path: &Path,
    disk: &dyn Disk,
    fill: impl FnOnce(&Database) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
    let (new, _) = create_beside(path).map_err(failed)?;
    let made = open_database(disk, &new).and_then(|database| fill(&database));
    let made = made.and_then(|()| std::fs::rename(&new, path).map_err(failed));
    if made.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    made?;
    // The name itself must survive a power loss.
    File::open(directory).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Takes the lock of a data directory.
pub(super) fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("lock");
    let failed = |error: std::io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
    let file = open_private(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::Locked(directory.display().to_string())),
        Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn open_database(disk: &dyn Disk, path: &Path) -> Result<Database, StoreError> {
    disk.open(path).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Locked(path.display().to_string()),
        other => StoreError::Failed(format!("{}: {other}", path.display())),
    })
}

impl Store for FileStore {
    fn load(&mut self, limits: WindowLimits) -> Result<RegistryState, StoreError> {
        let contents = self.contents.take().ok_or_else(|| StoreError::Failed("the store was loaded already".to_owned()))?;
        Ok(contents.into_state(limits))
    }

    fn commit(&mut self, changes: &[Arc<Change>], floor: u64, room: Room) -> Result<(), StoreError> {
        match room {
            // To try is dear: the database is opened again after each failure.
            Room::Free if self.full == Some(false) && self.disk.available(&self.path) < TRY_AGAIN_BYTES => {
                return Err(self.is_full());
            }
            Room::Free => {}
            Room::Reserve => self.use_room_aside()?,
        }
        match self.write(changes, floor, room) {
            Ok(()) if room == Room::Reserve => self.full = self.full.map(|_| true),
            Ok(()) => {
                self.full = None;
                if !self.set_aside && self.disk.available(&self.path) > 2 * RESERVE_BYTES {
                    self.set_room_aside();
                }
            }
            Err(error) if is_full(&error) => {
                self.full = Some(false);
                self.reopen()?;
                return Err(self.is_full());
            }
            Err(error) => return Err(self.failed(&error)),
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    fn fallback(&self) -> Option<Fallback> {
        self.fallback
    }

    fn fallbacks(&self) -> u64 {
        self.fallbacks
    }
}

#[cfg(test)]
mod tests;
