//! Everything that a file holds, read and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use registry::state::{Key, RegistryState, Stored, Templates, WindowLimits};

use super::file::REVISIONS_BLOCK;
use super::rows::{decode_row, decode_stored};
use super::{Fallback, LogRow, rebuild};

pub(super) const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// What a file holds.
#[derive(Default)]
pub(super) struct Contents {
    objects: BTreeMap<Key, Arc<Stored>>,
    templates: Templates,
    log: Vec<LogRow>,
    pub(super) revision: u64,
    pub(super) floor: u64,
    /// No revision above this one was ever given out.
    pub(super) reserved: u64,
    /// How often the last commit did not hold.
    pub(super) fallbacks: u64,
}

impl Contents {
    /// Returns the format that the file says it has; `None`: nothing was ever written.
    pub(super) fn format(read: &ReadTransaction) -> Result<Option<u64>, redb::Error> {
        meta(read, "format")
    }

    /// Returns the revision of a database.
    pub(super) fn revision(database: &Database) -> Result<u64, redb::Error> {
        Ok(meta(&database.begin_read()?, "revision")?.unwrap_or(0))
    }

    /// Reads everything; an error says what cannot be read.
    pub(super) fn read(read: &ReadTransaction) -> Result<Contents, String> {
        let text = |error: redb::Error| error.to_string();
        let number = |name| Ok::<u64, String>(meta(read, name).map_err(text)?.unwrap_or(0));
        let mut templates = Templates::default();
        let (objects, log) = (objects(read, &mut templates)?, log(read, &mut templates)?);
        let revision = number("revision")?;
        // A file of the time before blocks were reserved: no batch is larger than a block.
        let reserved = meta(read, "reserved").map_err(text)?.unwrap_or(revision + REVISIONS_BLOCK);
        let (floor, fallbacks) = (number("floor")?, number("fallbacks")?);
        let contents = Contents { objects, templates, log, revision, floor, reserved, fallbacks };
        let latest = contents.objects.values().map(|stored| stored.revision).max().unwrap_or(0);
        if latest > contents.revision {
            return Err(format!("an object has revision {latest}, the store has {}", contents.revision));
        }
        Ok(contents)
    }

    /// Goes on past everything that was ever given out. Whoever knows a later state than this one must ask again.
    pub(super) fn resume(&mut self) -> Fallback {
        let fallback = Fallback { kept: self.revision, resumed: self.reserved + 1 };
        self.log.clear();
        (self.revision, self.floor) = (fallback.resumed, fallback.resumed);
        self.fallbacks += 1;
        fallback
    }

    /// Returns the state that was stored.
    pub(super) fn into_state(self, limits: WindowLimits) -> RegistryState {
        let Contents { objects, templates, log, revision, floor, .. } = self;
        let window = rebuild(&objects, log.into_iter().filter(|row| row.revision > floor).collect());
        let floor = window.first().map_or(revision, |change| change.revision - 1).max(floor);
        RegistryState::restore(revision, objects, floor, window, limits).with_templates(templates)
    }
}

fn meta(read: &ReadTransaction, name: &str) -> Result<Option<u64>, redb::Error> {
    match read.open_table(META) {
        Ok(table) => Ok(table.get(name)?.map(|value| value.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn objects(read: &ReadTransaction, templates: &mut Templates) -> Result<BTreeMap<Key, Arc<Stored>>, String> {
    let table = match read.open_table(OBJECTS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut objects = BTreeMap::new();
    for row in table.iter().map_err(|error| error.to_string())? {
        let (key, value) = row.map_err(|error| error.to_string())?;
        let stored = decode_stored(value.value(), templates).ok_or_else(|| format!("object {} is unreadable", key.value()))?;
        objects.insert(Key::from(key.value()), stored);
    }
    Ok(objects)
}

fn log(read: &ReadTransaction, templates: &mut Templates) -> Result<Vec<LogRow>, String> {
    let table = match read.open_table(LOG) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut rows = Vec::new();
    for row in table.iter().map_err(|error| error.to_string())? {
        let (revision, value) = row.map_err(|error| error.to_string())?;
        let revision = revision.value();
        rows.push(decode_row(revision, value.value(), templates).ok_or_else(|| format!("change {revision} is unreadable"))?);
    }
    Ok(rows)
}
