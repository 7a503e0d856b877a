//! Everything that a file holds, read and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError};
use registry::state::{Key, State, Stored, Templates, WindowLimits};

use super::rows::{decode_row, decode_stored};
use super::{LogRow, rebuild};

pub(super) const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// What a file holds.
#[derive(Default)]
pub(super) struct Contents {
    objects: BTreeMap<Key, Arc<Stored>>,
    templates: Templates,
    log: Vec<LogRow>,
    revision: u64,
    floor: u64,
}

impl Contents {
    /// Returns the format that the file says it has; `None`: nothing was ever written.
    pub(super) fn format(read: &ReadTransaction) -> Result<Option<u64>, redb::Error> {
        meta(read, "format")
    }

    /// Reads everything; an error says what cannot be read.
    pub(super) fn read(read: &ReadTransaction) -> Result<Contents, String> {
        let text = |error: redb::Error| error.to_string();
        let number = |name| Ok::<u64, String>(meta(read, name).map_err(text)?.unwrap_or(0));
        let mut templates = Templates::default();
        let (objects, log) = (objects(read, &mut templates)?, log(read, &mut templates)?);
        let contents = Contents { objects, templates, log, revision: number("revision")?, floor: number("floor")? };
        let latest = contents.objects.values().map(|stored| stored.revision).max().unwrap_or(0);
        if latest > contents.revision {
            return Err(format!("an object has revision {latest}, the store has {}", contents.revision));
        }
        Ok(contents)
    }

    /// Returns the oldest change that the file still has, less one.
    pub(super) fn trimmed(&self) -> u64 {
        self.log.first().map_or(self.floor, |row| row.revision.saturating_sub(1))
    }

    /// Returns the state that was stored.
    pub(super) fn into_state(self, limits: WindowLimits) -> State {
        let Contents { objects, templates, log, revision, floor } = self;
        let window = rebuild(&objects, log.into_iter().filter(|row| row.revision > floor).collect());
        let floor = window.first().map_or(revision, |change| change.revision - 1).max(floor);
        State::restore(revision, objects, floor, window, limits).with_templates(templates)
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
