//! Where committed changes go: a small trait, a file on disk, and nothing at all for tests.

mod contents;
mod disk;
mod file;
mod memory;
mod preview;
mod restore;
mod rows;

use std::sync::Arc;

use machine::Time;
use registry::state::{Change, ChangeType, Key, RegistryState, Stored, WindowLimits};

pub use file::FileStore;
pub use memory::MemoryStore;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("the data directory {0} is in use by another process; stop that one or choose another with --data-dir")]
    Locked(String),
    /// There is one already.
    #[error("the data directory {0} has data of a plane; choose an empty one with --data-dir")]
    Used(String),
    /// It was written by a later version.
    #[error(
        "the data directory {path} has format {found}, this version reads {known}; use a newer lifesign or another --data-dir"
    )]
    Newer {
        /// The file.
        path: String,
        /// What it says.
        found: u64,
        /// What we read.
        known: u64,
    },
    /// It is damaged.
    #[error("the data file {path} is damaged ({what}); it was left untouched: move it away, or restore it from a backup")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The disk has no room left. Nothing was written; what is stored is intact.
    #[error("the disk of {0} is full; free some space, or delete objects")]
    Full(String),
    /// The disk or the file system failed.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// Where the room for a commit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// What is free.
    Free,
    /// What was set aside for deletions. The history is forgotten, to make room.
    Reserve,
}

/// The last commit of a file did not hold: what it said was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Changes up to this revision are there.
    pub kept: u64,
    /// Revisions go on after this one, which is past everything that was ever given out.
    pub resumed: u64,
}

/// A place for committed changes. `commit` returns only when everything is safe from a crash.
pub trait Store: Send + 'static {
    /// Reads everything back.
    fn load(&mut self, limits: WindowLimits) -> Result<RegistryState, StoreError>;
    /// Writes a batch of changes, all or none, and forgets history up to `floor`, a bounded amount at a time. After
    /// [`StoreError::Full`] it can be called again; without changes it only finds out whether there is room.
    fn commit(&mut self, changes: &[Arc<Change>], floor: u64, room: Room) -> Result<(), StoreError>;
    /// Returns the size on disk.
    fn bytes(&self) -> u64;
    /// Returns what was lost when the store was opened.
    fn fallback(&self) -> Option<Fallback> {
        None
    }
    /// Returns how often something was lost in the life of the store.
    fn fallbacks(&self) -> u64 {
        0
    }
}

/// Rebuilds the window of changes from an undo log: for each revision what was there before.
///
/// The state after a change is the state before the next change of the same object, or the present one.
fn rebuild(present: &std::collections::BTreeMap<Key, Arc<Stored>>, log: Vec<LogRow>) -> Vec<Arc<Change>> {
    let mut after: std::collections::BTreeMap<Key, Option<Arc<Stored>>> = std::collections::BTreeMap::new();
    let mut changes: Vec<Arc<Change>> = Vec::with_capacity(log.len());
    for row in log.into_iter().rev() {
        let next = after.get(&row.key).cloned().unwrap_or_else(|| present.get(&row.key).cloned());
        let object = match row.type_ {
            ChangeType::Deleted => row.last,
            ChangeType::Added | ChangeType::Modified => next,
        };
        after.insert(row.key.clone(), row.previous.clone());
        // A row whose object is lost cannot happen in a store that was written by us; skipping it would leave a hole, so
        // the caller starts the window after it.
        let Some(object) = object else { break };
        changes.push(Arc::new(Change {
            revision: row.revision,
            at: row.at,
            key: row.key,
            type_: row.type_,
            object,
            previous: row.previous,
        }));
    }
    changes.reverse();
    changes
}

/// One row of the undo log.
struct LogRow {
    revision: u64,
    at: Time,
    key: Key,
    type_: ChangeType,
    /// The object before the change.
    previous: Option<Arc<Stored>>,
    /// For a deletion: the last state.
    last: Option<Arc<Stored>>,
}
