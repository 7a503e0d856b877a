//! The store on disk: one redb file.
//!
//! Tables: `objects` key -> revision + JSON; `log` revision -> what undoes the change; `meta` format, revision, floor.
//! The log holds the state *before* each change (and the last state of deleted objects), so a create costs almost
//! nothing there, and the window of changes can be rebuilt exactly.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::Time;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableError};
use registry::state::{Change, ChangeType, Key, State, Stored, WindowLimits};

use super::{LogRow, Store, StoreError, rebuild};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The format that this version writes and reads.
const FORMAT: u64 = 1;
/// Pages kept in memory by the database; the objects themselves are in our own map.
const CACHE_BYTES: usize = 16 << 20;

/// A store in a file.
pub struct FileStore {
    path: PathBuf,
    database: Database,
    /// Log rows up to this revision are gone from the file.
    trimmed: u64,
}

impl FileStore {
    /// Opens the store of a data directory, made if it is not there.
    pub fn open(directory: &Path) -> Result<FileStore, StoreError> {
        let path = directory.join("store.redb");
        let shown = path.display().to_string();
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(&path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Locked(directory.display().to_string()),
            DatabaseError::UpgradeRequired(found) => {
                StoreError::Newer { path: shown.clone(), found: found.into(), known: FORMAT }
            }
            DatabaseError::Storage(StorageError::Io(error)) if error.kind() != std::io::ErrorKind::InvalidData => {
                StoreError::Failed(format!("{shown}: {error}"))
            }
            other => StoreError::Damaged { path: shown.clone(), what: other.to_string() },
        })?;
        Ok(FileStore { path, database, trimmed: 0 })
    }

    fn damaged(&self, what: impl ToString) -> StoreError {
        StoreError::Damaged { path: self.path.display().to_string(), what: what.to_string() }
    }

    fn read_objects(&self) -> Result<BTreeMap<Key, Arc<Stored>>, StoreError> {
        let read = self.database.begin_read().map_err(|error| self.damaged(error))?;
        let table = match read.open_table(OBJECTS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
            Err(error) => return Err(self.damaged(error)),
        };
        let mut objects = BTreeMap::new();
        for row in table.iter().map_err(|error| self.damaged(error))? {
            let (key, value) = row.map_err(|error| self.damaged(error))?;
            let stored =
                decode_stored(value.value()).ok_or_else(|| self.damaged(format!("object {} is unreadable", key.value())))?;
            objects.insert(Key::from(key.value()), stored);
        }
        Ok(objects)
    }

    fn read_log(&self) -> Result<Vec<LogRow>, StoreError> {
        let read = self.database.begin_read().map_err(|error| self.damaged(error))?;
        let table = match read.open_table(LOG) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            Err(error) => return Err(self.damaged(error)),
        };
        let mut rows = Vec::new();
        for row in table.iter().map_err(|error| self.damaged(error))? {
            let (revision, value) = row.map_err(|error| self.damaged(error))?;
            let revision = revision.value();
            rows.push(
                decode_row(revision, value.value()).ok_or_else(|| self.damaged(format!("change {revision} is unreadable")))?,
            );
        }
        Ok(rows)
    }

    fn read_meta(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let read = self.database.begin_read().map_err(|error| self.damaged(error))?;
        match read.open_table(META) {
            Ok(table) => Ok(table.get(name).map_err(|error| self.damaged(error))?.map(|value| value.value())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(self.damaged(error)),
        }
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

impl Store for FileStore {
    fn load(&mut self, limits: WindowLimits) -> Result<State, StoreError> {
        let format = self.read_meta("format")?.unwrap_or(FORMAT);
        if format != FORMAT {
            return Err(StoreError::Newer { path: self.path.display().to_string(), found: format, known: FORMAT });
        }
        let objects = self.read_objects()?;
        let revision = self.read_meta("revision")?.unwrap_or(0);
        if let Some(ahead) = objects.values().map(|stored| stored.revision).max().filter(|latest| *latest > revision) {
            return Err(self.damaged(format!("an object has revision {ahead}, the store has {revision}")));
        }
        let floor = self.read_meta("floor")?.unwrap_or(0);
        let log = self.read_log()?;
        self.trimmed = log.first().map_or(floor, |row| row.revision.saturating_sub(1));
        let window = rebuild(&objects, log.into_iter().filter(|row| row.revision > floor).collect());
        let floor = window.first().map_or(revision, |change| change.revision - 1).max(floor);
        Ok(State::restore(revision, objects, floor, window, limits))
    }

    fn commit(&mut self, changes: &[Arc<Change>], floor: u64) -> Result<(), StoreError> {
        self.write(changes, floor).map_err(|error| StoreError::Failed(format!("{}: {error}", self.path.display())))
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }
}

/// Revision, then the JSON.
fn encode_stored(stored: &Stored) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + stored.bytes.len());
    bytes.extend_from_slice(&stored.revision.to_le_bytes());
    bytes.extend_from_slice(&stored.bytes);
    bytes
}

fn decode_stored(bytes: &[u8]) -> Option<Arc<Stored>> {
    let (revision, json) = bytes.split_first_chunk::<8>()?;
    Some(Arc::new(Stored::from_bytes(u64::from_le_bytes(*revision), json)?))
}

/// Type, time, key, then the object before (if any) and the last state (if it was a deletion), each with its length.
fn encode_row(change: &Change) -> Vec<u8> {
    let mut bytes = vec![match change.type_ {
        ChangeType::Added => b'A',
        ChangeType::Modified => b'M',
        ChangeType::Deleted => b'D',
    }];
    bytes.extend_from_slice(&change.at.as_micros().to_le_bytes());
    let mut part = |content: &[u8]| {
        bytes.extend_from_slice(&u32::try_from(content.len()).expect("objects are bounded to megabytes").to_le_bytes());
        bytes.extend_from_slice(content);
    };
    part(change.key.as_bytes());
    part(&change.previous.as_ref().map(|previous| encode_stored(previous)).unwrap_or_default());
    part(&if change.type_ == ChangeType::Deleted { encode_stored(&change.object) } else { Vec::new() });
    bytes
}

fn decode_row(revision: u64, bytes: &[u8]) -> Option<LogRow> {
    let (tag, rest) = bytes.split_first()?;
    let type_ = match tag {
        b'A' => ChangeType::Added,
        b'M' => ChangeType::Modified,
        b'D' => ChangeType::Deleted,
        _ => return None,
    };
    let (at, mut rest) = rest.split_first_chunk::<8>()?;
    let mut part = || {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let (content, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = tail;
        Some(content)
    };
    let (key, previous, last) = (part()?, part()?, part()?);
    let optional = |content: &[u8]| if content.is_empty() { Some(None) } else { decode_stored(content).map(Some) };
    Some(LogRow {
        revision,
        at: Time::from_micros(i64::from_le_bytes(*at)),
        key: std::str::from_utf8(key).ok()?.into(),
        type_,
        previous: optional(previous)?,
        last: optional(last)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use registry::state::{Act, Expect, Write, key};
    use serde_json::json;

    fn write(store: &mut FileStore, state: &mut State, write: Write) {
        let (next, changes, answers) = state.stage(Time::from_secs(7), vec![write]).into_parts();
        assert!(answers[0].is_ok());
        store.commit(&changes, state.floor()).unwrap();
        state.publish(next, &changes);
    }

    fn put(name: &str, expect: Expect, value: u64) -> Write {
        Write { key: key("", "things", "ns", name), expect, act: Act::Put(json!({"metadata": {"name": name}, "v": value})) }
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
            let gone = Write {
                key: key("", "things", "ns", "b"),
                expect: Expect::At(2),
                act: Act::Remove(json!({"metadata": {"name": "b"}, "last": true})),
            };
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
    fn a_newer_format_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        {
            let store = FileStore::open(directory.path()).unwrap();
            let transaction = store.database.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
            transaction.commit().unwrap();
        }
        let error = FileStore::open(directory.path()).unwrap().load(WindowLimits::default()).unwrap_err();
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    }
}
