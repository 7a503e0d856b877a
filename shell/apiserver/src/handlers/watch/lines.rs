//! Lines of events that many watchers get: rendered by the first of them, shared by the others.
//!
//! Watchers that are level render the same few changes at the same time. So only the latest lines are kept, and who is behind
//! renders for himself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use registry::state::ChangeType;

/// The most lines that are kept: as many as a busy second has for each of some kinds.
const LINES_MAX: usize = 256;
/// The most bytes that are kept.
const BYTES_MAX: usize = 1 << 20;

/// What a line is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The revision of the shown object; no two objects have the same.
    pub(crate) revision: u64,
    /// What happened, to this watcher: an object may appear to one that another has seen before.
    pub(crate) type_: ChangeType,
    /// Group, version and kind in front of the object: one object may be shown as several.
    pub(crate) prefix: Arc<str>,
}

/// The latest lines.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    lines: VecDeque<(Name, Bytes)>,
    bytes: usize,
}

impl Lines {
    /// Returns a line, rendered now if it is not there.
    pub(crate) fn get(&self, name: &Name, render: impl FnOnce() -> Bytes) -> Bytes {
        let known = |kept: &Kept| kept.lines.iter().rev().find(|(other, _)| other == name).map(|(_, line)| line.clone());
        if let Some(line) = known(&self.0.lock().expect("no code panics while it holds the lines")) {
            return line;
        }
        // Not under the lock: whoever renders another line need not wait.
        let line = render();
        let mut kept = self.0.lock().expect("no code panics while it holds the lines");
        if known(&kept).is_none() {
            kept.bytes += line.len();
            kept.lines.push_back((name.clone(), line.clone()));
            while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
                let Some((_, oldest)) = kept.lines.pop_front() else { break };
                kept.bytes -= oldest.len();
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(revision: u64) -> Name {
        Name { revision, type_: ChangeType::Added, prefix: "{".into() }
    }

    #[test]
    fn a_line_is_rendered_once_for_all() {
        let lines = Lines::default();
        let first = lines.get(&name(1), || Bytes::from(vec![b'x'; 10]));
        let second = lines.get(&name(1), || panic!("rendered again"));
        assert_eq!(first.as_ptr(), second.as_ptr());
        let other = Name { type_: ChangeType::Modified, ..name(1) };
        assert_eq!(lines.get(&other, || Bytes::from_static(b"other")), "other");
        let version = Name { prefix: "{2".into(), ..name(1) };
        assert_eq!(lines.get(&version, || Bytes::from_static(b"version")), "version");
    }

    #[test]
    fn few_lines_and_bytes_are_kept() {
        let lines = Lines::default();
        for revision in 0..10_000 {
            lines.get(&name(revision), || Bytes::from(vec![b'x'; 100]));
        }
        assert_eq!(lines.0.lock().unwrap().lines.len(), LINES_MAX);
        for revision in 10_000..10_010 {
            lines.get(&name(revision), || Bytes::from(vec![b'x'; BYTES_MAX]));
            assert!(lines.0.lock().unwrap().bytes <= BYTES_MAX);
        }
        assert_eq!(lines.0.lock().unwrap().lines.len(), 1, "the latest");
    }
}
