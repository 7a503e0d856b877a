//! The store on disk: one redb file.
//!
//! Tables: `objects` key -> revision + JSON; `log` revision -> what undoes the change; `meta` format, revision, floor.
//! The log holds the state *before* each change (and the last state of deleted objects), so a create costs almost
//! nothing there, and the window of changes can be rebuilt exactly.

//!
//! A new file gets its name only when it is whole, and an old one is looked at before it is touched: neither a crash at the
//! first start nor a damaged file can make things worse.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, DatabaseError, Durability};
use registry::state::{Change, ChangeType, State, WindowLimits};

use super::contents::{Contents, LOG, META, OBJECTS};
use super::preview;
use super::rows::{encode_row, encode_stored};
use super::{Store, StoreError};

/// The format that this version writes and reads.
pub(super) const FORMAT: u64 = 1;
/// Pages kept in memory by the database; the objects themselves are in our own map.
pub(super) const CACHE_BYTES: usize = 16 << 20;

/// A store in a file.
pub struct FileStore {
    path: PathBuf,
    database: Database,
    /// What the file held when it was opened, until somebody asks for it.
    contents: Option<Contents>,
    /// Log rows up to this revision are gone from the file.
    trimmed: u64,
    /// Held as long as the store is open; another process is told so.
    _lock: File,
}

impl FileStore {
    /// Opens the store of a data directory, made if it is not there.
    pub fn open(directory: &Path) -> Result<FileStore, StoreError> {
        let lock = lock(directory)?;
        let path = directory.join("store.redb");
        let failed = |error: std::io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
        let there = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let contents = if there { preview::look(&path)? } else { Contents::default() };
        if !there {
            let new = directory.join("store.redb.new");
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                _ => drop(database(&new)?),
            }
            std::fs::rename(&new, &path).map_err(failed)?;
            // The name itself must survive a power loss.
            File::open(directory).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        let database = database(&path)?;
        Ok(FileStore { path, database, trimmed: contents.trimmed(), contents: Some(contents), _lock: lock })
    }

    fn write(&mut self, changes: &[Arc<Change>], floor: u64) -> Result<(), redb::Error> {
        let mut write = self.database.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        {
            let mut objects = write.open_table(OBJECTS)?;
            let mut log = write.open_table(LOG)?;
            let mut meta = write.open_table(META)?;
            for change in changes {
                match change.type_ {
                    ChangeType::Deleted => objects.remove(change.key.as_ref())?,
                    ChangeType::Added | ChangeType::Modified => {
                        objects.insert(change.key.as_ref(), encode_stored(&change.object).as_slice())?
                    }
                };
                log.insert(change.revision, encode_row(change).as_slice())?;
            }
            // A bounded amount of forgetting per commit: no pause, however much has expired.
            for _ in 0..(2 * changes.len()).max(16) {
                if self.trimmed >= floor {
                    break;
                }
                self.trimmed += 1;
                log.remove(self.trimmed)?;
            }
            meta.insert("format", FORMAT)?;
            if let Some(last) = changes.last() {
                meta.insert("revision", last.revision)?;
            }
            meta.insert("floor", floor)?;
        }
        write.commit()?;
        Ok(())
    }
}

/// Takes the lock of a data directory.
fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("lock");
    let failed = |error: std::io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::Locked(directory.display().to_string())),
        Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Opens a file that is good, or a new one.
fn database(path: &Path) -> Result<Database, StoreError> {
    Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Locked(path.display().to_string()),
        other => StoreError::Failed(format!("{}: {other}", path.display())),
    })
}

impl Store for FileStore {
    fn load(&mut self, limits: WindowLimits) -> Result<State, StoreError> {
        let contents = self.contents.take().ok_or_else(|| StoreError::Failed("the store was loaded already".to_owned()))?;
        Ok(contents.into_state(limits))
    }

    fn commit(&mut self, changes: &[Arc<Change>], floor: u64) -> Result<(), StoreError> {
        self.write(changes, floor).map_err(|error| StoreError::Failed(format!("{}: {error}", self.path.display())))
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Time;
    use registry::state::{Expect, Write, key};
    use serde_json::json;

    fn write(store: &mut FileStore, state: &mut State, write: Write) {
        let (next, changes, answers) = state.stage(Time::from_secs(7), vec![write]).into_parts();
        assert!(answers[0].is_ok());
        store.commit(&changes, state.floor()).unwrap();
        state.publish(next, &changes);
    }

    fn put(name: &str, expect: Expect, value: u64) -> Write {
        Write::put(key("", "things", "ns", name), expect, json!({"metadata": {"name": name}, "v": value}))
    }

    #[test]
    fn everything_comes_back_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut state;
        {
            let mut store = FileStore::open(directory.path()).unwrap();
            state = store.load(WindowLimits::default()).unwrap();
            write(&mut store, &mut state, put("a", Expect::Absent, 1));
            write(&mut store, &mut state, put("b", Expect::Absent, 2));
            write(&mut store, &mut state, put("a", Expect::At(1), 3));
            let last = json!({"metadata": {"name": "b"}, "last": true});
            let gone = Write::remove(key("", "things", "ns", "b"), Expect::At(2), last);
            write(&mut store, &mut state, gone);
        }
        let mut store = FileStore::open(directory.path()).unwrap();
        let back = store.load(WindowLimits::default()).unwrap();
        assert_eq!(back.revision(), 4);
        let describe = |state: &State| -> Vec<String> {
            let changes = state.changes_after(0).unwrap();
            changes.map(|c| format!("{c:?}")).collect()
        };
        assert_eq!(describe(&back), describe(&state));
        assert_eq!(back.snapshot_at(2).unwrap().len(), 2);
        assert_eq!(back.snapshot().len(), 1);
    }

    #[test]
    fn a_second_process_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let _first = FileStore::open(directory.path()).unwrap();
        assert!(matches!(FileStore::open(directory.path()), Err(StoreError::Locked(_))));
    }

    #[test]
    fn a_damaged_file_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.redb");
        std::fs::write(&path, b"this is not a database, it is a letter").unwrap();
        let error = FileStore::open(directory.path()).err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"this is not a database, it is a letter");
    }

    #[test]
    fn damage_anywhere_is_found_or_does_not_matter() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.redb");
        {
            let mut store = FileStore::open(directory.path()).unwrap();
            let mut state = store.load(WindowLimits::default()).unwrap();
            for number in 0..40 {
                write(&mut store, &mut state, put(&format!("o{number}"), Expect::Absent, number));
            }
        }
        let describe =
            |state: &State| format!("{:?} {:?}", state.snapshot(), state.changes_after(0).unwrap().collect::<Vec<_>>());
        let good = std::fs::read(&path).unwrap();
        let expected = describe(&FileStore::open(directory.path()).unwrap().load(WindowLimits::default()).unwrap());
        let mut rng = machine::Rng::new(3);
        let mut found = 0;
        for _ in 0..40 {
            let mut bad = good.clone();
            let at = usize::try_from(rng.below(good.len() as u64)).unwrap();
            let end = (at + 64).min(bad.len());
            bad[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
            std::fs::write(&path, &bad).unwrap();
            match FileStore::open(directory.path()) {
                Err(_) => {
                    found += 1;
                    assert!(std::fs::read(&path).unwrap() == bad, "the file was changed");
                }
                Ok(mut store) => assert_eq!(describe(&store.load(WindowLimits::default()).unwrap()), expected, "at {at}"),
            }
        }
        assert!(found > 0, "no damage hit anything");
    }

    #[test]
    fn a_crash_at_the_first_start_leaves_nothing_in_the_way() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("store.redb.new"), [0; 5_000]).unwrap();
        let state = FileStore::open(directory.path()).unwrap().load(WindowLimits::default()).unwrap();
        assert_eq!(state.revision(), 0);
    }

    #[test]
    fn a_newer_format_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        {
            let store = FileStore::open(directory.path()).unwrap();
            let transaction = store.database.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
            transaction.commit().unwrap();
        }
        let bytes = std::fs::read(directory.path().join("store.redb")).unwrap();
        let error = FileStore::open(directory.path()).err().unwrap();
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
        assert!(std::fs::read(directory.path().join("store.redb")).unwrap() == bytes, "the file was changed");
    }
}
