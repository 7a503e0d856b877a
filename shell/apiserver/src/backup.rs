//! Backups: all objects of one instant as lines of JSON.
//!
//! The first line says what the file is and of which revision, the last one how many objects it has: one that was cut off is
//! never restored. An object has its key, its revision, and its JSON as it is stored.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use registry::state::{Key, Snapshot, Stored, Templates};
use serde_json::{Value, json};

/// Where a server gives its backup.
pub const PATH: &str = "/debug/backup";
/// The format that this version writes and reads.
const FORMAT: u64 = 1;
/// A piece of a backup has about this size: that much is in memory at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Why a backup cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is no backup.
    #[error("it is not a backup of lifesign")]
    NoBackup,
    /// It was written by a later version.
    #[error("it has format {0}, this version reads {FORMAT}; use a newer lifesign")]
    Newer(u64),
    /// It is not whole.
    #[error("it is cut off: its end is missing")]
    CutOff,
    /// A line is damaged.
    #[error("line {0} is damaged")]
    Damaged(usize),
}

/// A backup that is being written, in pieces.
pub struct Backup {
    snapshot: Snapshot,
    /// The last object that was written; `None`: not even the first line was.
    after: Option<Key>,
    begun: bool,
    objects: usize,
    ended: bool,
}

impl Backup {
    /// Returns the backup of a snapshot.
    pub fn of(snapshot: Snapshot) -> Backup {
        Backup { snapshot, after: None, begun: false, objects: 0, ended: false }
    }

    /// Writes all of it; returns how many objects it has.
    pub fn write(mut self, mut to: impl Write) -> io::Result<usize> {
        for piece in &mut self {
            to.write_all(&piece)?;
        }
        Ok(self.objects)
    }
}

impl Iterator for Backup {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut piece = Vec::new();
        if !self.begun {
            self.begun = true;
            put(&mut piece, &json!({"lifesignBackup": FORMAT, "revision": self.snapshot.revision}));
        }
        let after = self.after.take();
        for (key, stored) in self.snapshot.range("", after.as_deref()) {
            put_object(&mut piece, key, stored);
            self.objects += 1;
            if piece.len() >= PIECE_BYTES {
                self.after = Some(key.clone());
                return Some(piece);
            }
        }
        self.ended = true;
        put(&mut piece, &json!({"objects": self.objects}));
        Some(piece)
    }
}

fn put(piece: &mut Vec<u8>, line: &Value) {
    serde_json::to_writer(&mut *piece, line).expect("texts and numbers serialize");
    piece.push(b'\n');
}

/// Writes the line of an object.
fn put_object(piece: &mut Vec<u8>, key: &Key, stored: &Stored) {
    piece.extend_from_slice(b"{\"key\":");
    serde_json::to_writer(&mut *piece, &**key).expect("a text serializes");
    piece.extend_from_slice(format!(",\"revision\":{},\"object\":", stored.revision).as_bytes());
    stored.write(|part| piece.extend_from_slice(part));
    piece.extend_from_slice(b"}\n");
}

/// A backup that was read, and is whole.
#[derive(Debug)]
pub struct Restored {
    /// The revision at which it was made.
    pub revision: u64,
    /// The objects.
    pub objects: Vec<(Key, Arc<Stored>)>,
}

impl Restored {
    /// Reads a backup.
    pub fn read(from: impl BufRead) -> Result<Restored, BackupError> {
        let mut lines = from.lines();
        let head = lines.next().ok_or(BackupError::NoBackup)??;
        let head: Value = serde_json::from_str(&head).map_err(|_| BackupError::NoBackup)?;
        let number = |name: &str| head[name].as_u64().ok_or(BackupError::NoBackup);
        let (format, revision) = (number("lifesignBackup")?, number("revision")?);
        if format != FORMAT {
            return Err(BackupError::Newer(format));
        }
        let (mut objects, mut templates) = (Vec::new(), Templates::default());
        for (line, number) in lines.zip(2..) {
            let line: Value = serde_json::from_str(&line?).map_err(|_| BackupError::Damaged(number))?;
            if let Some(count) = line["objects"].as_u64() {
                let whole = usize::try_from(count) == Ok(objects.len());
                return if whole { Ok(Restored { revision, objects }) } else { Err(BackupError::Damaged(number)) };
            }
            objects.push(row(&line, revision, &mut templates).ok_or(BackupError::Damaged(number))?);
        }
        Err(BackupError::CutOff)
    }
}

fn row(line: &Value, latest: u64, templates: &mut Templates) -> Option<(Key, Arc<Stored>)> {
    let (key, revision) = (line["key"].as_str()?, line["revision"].as_u64().filter(|revision| *revision <= latest)?);
    let object = serde_json::to_vec(&line["object"]).ok()?;
    Some((Key::from(key), Arc::new(Stored::from_bytes(revision, &object, templates)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use registry::state::{RegistryState, WindowLimits, key};

    fn snapshot(count: u64, size: usize) -> Snapshot {
        let objects = (1..=count).map(|number| {
            let name = format!("o{number:04}");
            let object = json!({"metadata": {"name": name, "uid": name}, "data": {"text": "x".repeat(size)}});
            (key("", "configmaps", "default", &name), Arc::new(Stored::new(number, object)))
        });
        let state =
            RegistryState::restore(count + 5, objects.collect::<Vec<_>>(), count + 5, Vec::new(), WindowLimits::default());
        state.snapshot()
    }

    #[test]
    fn a_backup_is_read_as_it_was_written() {
        // In one piece, in many, and of nothing.
        for (count, size) in [(3, 10), (400, 3000), (0, 0)] {
            let before = snapshot(count, size);
            let mut bytes = Vec::new();
            assert_eq!(Backup::of(before.clone()).write(&mut bytes).unwrap(), before.len());
            let restored = Restored::read(bytes.as_slice()).unwrap();
            assert_eq!((restored.revision, restored.objects.len()), (before.revision, before.len()));
            for ((key, stored), (known, object)) in restored.objects.iter().zip(before.range("", None)) {
                assert_eq!((key, stored.revision, stored.whole()), (known, object.revision, object.whole()));
            }
        }
    }

    #[test]
    fn a_backup_that_is_not_whole_is_refused() {
        let mut bytes = Vec::new();
        Backup::of(snapshot(3, 10)).write(&mut bytes).unwrap();
        for length in 0..bytes.len() - 1 {
            assert!(Restored::read(&bytes[..length]).is_err(), "cut at {length}");
        }
        let text = String::from_utf8(bytes).unwrap();
        assert!(matches!(Restored::read(text.replace("\"o0002\"", "\"o").as_bytes()), Err(BackupError::Damaged(3))));
        let lines: Vec<&str> = text.lines().collect();
        let one_less = [&lines[..1], &lines[2..]].concat().join("\n");
        assert!(matches!(Restored::read(one_less.as_bytes()), Err(BackupError::Damaged(4))));
        assert!(matches!(Restored::read(text.replacen(":1,", ":2,", 1).as_bytes()), Err(BackupError::Newer(2))));
        assert!(matches!(Restored::read(&b"\x7fELF\n"[..]), Err(BackupError::Io(_) | BackupError::NoBackup)));
    }
}
