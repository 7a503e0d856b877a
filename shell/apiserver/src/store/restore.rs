//! A store made from a backup.

use std::path::Path;

use redb::{Database, Durability};

use super::StoreError;
use super::contents::{LOG, META, OBJECTS};
use super::disk::RealDisk;
use super::file::{FORMAT, FileStore, REVISIONS_BLOCK, create, lock};
use super::rows::encode_stored;
use crate::backup::Restored;

impl FileStore {
    /// Makes the store of a data directory that has none.
    ///
    /// Revisions go on past those that were probably given out after the backup was made: a client that knows a later state
    /// is told to ask again, and does not take the past for news.
    pub fn restore(directory: &Path, restored: &Restored) -> Result<(), StoreError> {
        let _lock = lock(directory)?;
        let path = directory.join("store.redb");
        if path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(StoreError::Used(directory.display().to_string()));
        }
        let fill = |database: &Database| fill(database, restored).map_err(|error| StoreError::Failed(error.to_string()));
        create(directory, &path, &RealDisk, fill)
    }
}

fn fill(database: &Database, restored: &Restored) -> Result<(), redb::Error> {
    let mut write = database.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    {
        let mut objects = write.open_table(OBJECTS)?;
        for (key, stored) in &restored.objects {
            objects.insert(key.as_ref(), encode_stored(stored).as_slice())?;
        }
        write.open_table(LOG)?;
        let resumed = restored.revision + REVISIONS_BLOCK;
        let mut meta = write.open_table(META)?;
        for (name, value) in
            [("format", FORMAT), ("revision", resumed), ("floor", resumed), ("reserved", resumed + REVISIONS_BLOCK)]
        {
            meta.insert(name, value)?;
        }
    }
    Ok(write.commit()?)
}
