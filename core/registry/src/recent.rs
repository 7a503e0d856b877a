//! The objects that were written last, parsed: who changes one of them again need not read its text again.
//!
//! A pod that becomes ready and the slice that it is in are written again and again; the others hardly ever. So a few are kept,
//! and never much memory: values take several times the room of their text.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::state::{ParsedObject, Stored};

/// So many objects are kept parsed.
const OBJECTS_MAX: usize = 64;
/// All of them together have at most so many bytes of text.
const BYTES_MAX: usize = 256 << 10;

/// The objects that were written last, the oldest first.
#[derive(Debug, Default)]
pub struct Recent {
    objects: VecDeque<ParsedObject>,
    bytes: usize,
}

impl Recent {
    /// Returns the values of an object if they are kept.
    pub fn get(&self, stored: &Arc<Stored>) -> Option<Arc<Value>> {
        let (_, value) = self.objects.iter().rev().find(|(known, _)| Arc::ptr_eq(known, stored))?;
        Some(Arc::clone(value))
    }

    /// Keeps what was written and returns what is not kept any more, for the caller to drop when it holds no lock.
    pub fn keep(&mut self, written: Vec<ParsedObject>) -> Vec<ParsedObject> {
        let mut gone = Vec::new();
        for object in written {
            // What it was before is of no use to anybody.
            let before = self.objects.iter().position(|(known, _)| known.index.uid == object.0.index.uid);
            gone.extend(before.and_then(|at| self.take(at)));
            if object.0.bytes.len() > BYTES_MAX {
                gone.push(object);
                continue;
            }
            self.bytes += object.0.bytes.len();
            self.objects.push_back(object);
            while self.objects.len() > OBJECTS_MAX || self.bytes > BYTES_MAX {
                gone.extend(self.take(0));
            }
        }
        gone
    }

    fn take(&mut self, at: usize) -> Option<ParsedObject> {
        let taken = self.objects.remove(at)?;
        self.bytes -= taken.0.bytes.len();
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: usize, revision: u64, text: usize) -> ParsedObject {
        let value = json!({"metadata": {"name": name.to_string(), "uid": name.to_string()}, "data": "x".repeat(text)});
        (Arc::new(Stored::new(revision, value.clone())), Arc::new(value))
    }

    #[test]
    fn the_last_state_of_the_last_objects_is_kept() {
        let mut recent = Recent::default();
        let (old, new) = (object(1, 1, 10), object(1, 2, 10));
        assert!(recent.keep(vec![old.clone()]).is_empty());
        assert_eq!(recent.get(&old.0).as_deref(), Some(&*old.1));
        assert_eq!(recent.keep(vec![new.clone()]).len(), 1);
        assert!(recent.get(&old.0).is_none(), "its text is history");
        assert!(recent.get(&new.0).is_some());
        let gone = recent.keep((2..2 + OBJECTS_MAX).map(|name| object(name, 3, 10)).collect());
        assert!(gone.len() == 1 && Arc::ptr_eq(&gone[0].0, &new.0), "the oldest went");
    }

    #[test]
    fn memory_is_bounded_by_bytes() {
        let mut recent = Recent::default();
        let small = object(1, 1, 10);
        recent.keep(vec![small.clone(), object(2, 1, BYTES_MAX + 1)]);
        assert!(recent.get(&small.0).is_some(), "what is too large displaces nothing");
        recent.keep((3..8).map(|name| object(name, 1, BYTES_MAX / 4)).collect());
        assert!(recent.get(&small.0).is_none() && recent.objects.len() == 3 && recent.bytes <= BYTES_MAX);
    }
}
