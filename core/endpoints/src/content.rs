//! The endpoints of one slice as text, so that changing one does not mean writing the others again.
//!
//! The text is the one that is sent: a slice and the write that carries it share their bytes. An [`Edit`] says what becomes of
//! the endpoints, and the next text is made from it in one pass, however many of them change; it copies one slice's worth,
//! however many slices the Service has.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use api::endpointslice::{Endpoint, EndpointConditions};

use crate::hints::Mode;
use crate::pack::Packed;
use crate::record::Record;

/// How many bytes an endpoint usually takes; a guess that only saves copying.
const TYPICAL: usize = 320;

/// How many endpoints there are of each combination of conditions, see [`kind`].
pub type Kinds = [usize; 8];

/// Returns the place of conditions in [`Kinds`]: ready is 4, serving 2, terminating 1.
pub fn kind(conditions: &EndpointConditions) -> usize {
    usize::from(conditions.is_ready()) * 4 + usize::from(conditions.is_serving()) * 2 + usize::from(conditions.is_terminating())
}

/// The endpoints of one slice, in order.
#[derive(Clone, Debug, Default)]
pub struct Content {
    entries: Vec<Entry>,
    kinds: Kinds,
    encoded: Arc<Vec<u8>>,
    /// Where the endpoints begin in it.
    begin: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Which member of the Service it is.
    id: u64,
    /// Where its text ends, counted from the first endpoint; the next one begins after a comma.
    end: usize,
    kind: usize,
}

impl Content {
    /// Returns how many endpoints there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the endpoints as a JSON list without its brackets.
    pub fn text(&self) -> &[u8] {
        let length = self.entries.last().map_or(0, |entry| entry.end);
        &self.encoded[self.begin..self.begin + length]
    }

    /// Returns what the text is a part of.
    pub fn encoded(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.encoded)
    }

    /// Reads the endpoints back.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let list = [b"[", self.text(), b"]"].concat();
        serde_json::from_slice(&list).expect("the text was written by this module")
    }

    /// Returns how many endpoints there are by their conditions.
    pub fn kinds(&self) -> Kinds {
        self.kinds
    }
}

/// What becomes of the endpoints of a slice.
#[derive(Clone, Debug, Default)]
pub struct Edit<'a> {
    /// What there is before; `None`: nothing.
    base: Option<&'a Content>,
    /// What becomes of endpoints in the base, by their place there; `None`: they go.
    changed: BTreeMap<usize, Option<Piece>>,
    removed: usize,
    /// Endpoints behind them.
    added: Vec<Piece>,
    /// The texts of endpoints that are new or changed, one after the other.
    own: Vec<u8>,
}

/// An endpoint whose text is the edit's own.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: u64,
    begin: usize,
    end: usize,
    kind: usize,
}

impl<'a> Edit<'a> {
    /// Begins with the endpoints of a slice.
    pub fn of(content: &'a Content) -> Edit<'a> {
        Edit { base: Some(content), ..Edit::default() }
    }

    /// Begins with the endpoints of a packed slice, which have their ordinals as ids.
    pub fn packed(packed: &Packed, namespace: &str, mode: Mode) -> Edit<'static> {
        let count = packed.records.len();
        let (added, own) = (Vec::with_capacity(count), Vec::with_capacity(count * TYPICAL));
        let mut edit = Edit { added, own, ..Edit::default() };
        for record in &packed.records {
            edit.push(record.ordinal, record, namespace, mode);
        }
        edit
    }

    /// Returns how many endpoints there are.
    pub fn len(&self) -> usize {
        self.before().len() - self.removed + self.added.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a bound of how many bytes the endpoints take.
    pub fn text_len(&self) -> usize {
        self.base.map_or(0, |base| base.text().len() + 1) + self.own.len()
    }

    /// Appends an endpoint.
    pub fn push(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) {
        let piece = self.write(id, record, namespace, mode);
        self.added.push(piece);
    }

    /// Replaces an endpoint in its place.
    pub fn replace(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) {
        let piece = self.write(id, record, namespace, mode);
        match self.find(id) {
            Ok(at) => drop(self.changed.insert(at, Some(piece))),
            Err(at) => self.added[at] = piece,
        }
    }

    /// Removes an endpoint; the order of the others stays.
    pub fn remove(&mut self, id: u64) {
        match self.find(id) {
            Ok(at) => {
                self.changed.insert(at, None);
                self.removed += 1;
            }
            Err(at) => drop(self.added.remove(at)),
        }
    }

    fn before(&self) -> &'a [Entry] {
        self.base.map_or(&[], |base| &base.entries)
    }

    fn write(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) -> Piece {
        let begin = self.own.len();
        self.own.reserve(TYPICAL);
        record.write_json(namespace, mode, &mut self.own);
        self.own.push(b',');
        Piece { id, begin, end: self.own.len() - 1, kind: kind(&record.conditions) }
    }

    /// Returns the place of an endpoint in the base, or else among those added.
    fn find(&self, id: u64) -> Result<usize, usize> {
        match self.before().iter().position(|entry| entry.id == id) {
            Some(at) => Ok(at),
            None => Err(self.added.iter().position(|piece| piece.id == id).expect("a member is in the slice of its place")),
        }
    }

    /// Writes the endpoints behind `head`, and `tail` behind them.
    pub fn finish(self, head: Vec<u8>, tail: impl FnOnce(&mut Vec<u8>)) -> Content {
        let (before, kinds) = (self.before(), self.base.map_or(Kinds::default(), |base| base.kinds));
        let entries = Vec::with_capacity(self.len());
        let mut writer = Writer { begin: head.len(), out: head, entries, kinds };
        let mut from = 0;
        for (&at, piece) in &self.changed {
            writer.copy(self.base, from..at);
            writer.kinds[before[at].kind] -= 1;
            piece.iter().for_each(|piece| writer.add(piece, &self.own));
            from = at + 1;
        }
        writer.copy(self.base, from..before.len());
        self.added.iter().for_each(|piece| writer.add(piece, &self.own));
        let Writer { mut out, entries, kinds, begin } = writer;
        tail(&mut out);
        Content { entries, kinds, encoded: Arc::new(out), begin }
    }

    /// Writes the endpoints alone.
    pub fn content(self) -> Content {
        let head = Vec::with_capacity(self.text_len());
        self.finish(head, |_| {})
    }
}

/// A text that is being made.
struct Writer {
    out: Vec<u8>,
    begin: usize,
    entries: Vec<Entry>,
    kinds: Kinds,
}

impl Writer {
    /// Returns where the next endpoint begins.
    fn next(&mut self) -> usize {
        if self.out.len() > self.begin {
            self.out.push(b',');
        }
        self.out.len() - self.begin
    }

    /// Copies neighbours of the base together, with the commas between them; they are counted already.
    fn copy(&mut self, base: Option<&Content>, range: Range<usize>) {
        let Some(base) = base.filter(|_| !range.is_empty()) else { return };
        let begin = if range.start == 0 { 0 } else { base.entries[range.start - 1].end + 1 };
        let to = self.next();
        let run = &base.entries[range];
        self.entries.extend(run.iter().map(|entry| Entry { end: entry.end - begin + to, ..*entry }));
        let end = run.last().expect("the range is not empty").end;
        self.out.extend_from_slice(&base.text()[begin..end]);
    }

    fn add(&mut self, piece: &Piece, own: &[u8]) {
        self.next();
        self.out.extend_from_slice(&own[piece.begin..piece.end]);
        self.entries.push(Entry { id: piece.id, end: self.out.len() - self.begin, kind: piece.kind });
        self.kinds[piece.kind] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pod: &str, ready: bool) -> Record {
        Record {
            ordinal: 0,
            pod: pod.into(),
            uid: "u".into(),
            address: "10.0.0.1".parse().unwrap(),
            hostname: None,
            conditions: EndpointConditions { ready: Some(ready), serving: Some(ready), terminating: Some(false) },
            node: None,
            zone: None,
        }
    }

    #[test]
    fn editing_the_text_is_writing_it_anew() {
        let mut edit = Edit::default();
        assert!(edit.clone().content().endpoints().is_empty());
        for (id, pod) in ["a", "bb", "ccc"].into_iter().enumerate() {
            edit.push(id as u64, &record(pod, true), "default", Mode::None);
        }
        let first = edit.finish(b"[".to_vec(), |out| out.push(b']'));
        let sent: Vec<Endpoint> = serde_json::from_slice(&first.encoded()).unwrap();
        assert_eq!(first.endpoints(), sent);

        let mut edit = Edit::of(&first);
        edit.replace(1, &record("bb", false), "default", Mode::None);
        edit.remove(0);
        edit.push(7, &record("d", true), "default", Mode::None);
        edit.replace(7, &record("d-with-a-longer-name", true), "default", Mode::None);
        let second = edit.finish(b"head[".to_vec(), |out| out.extend_from_slice(b"]tail"));
        let expected: Vec<Endpoint> = [("bb", false), ("ccc", true), ("d-with-a-longer-name", true)]
            .map(|(pod, ready)| record(pod, ready).endpoint("default", Mode::None))
            .into();
        assert_eq!(second.endpoints(), expected);
        assert_eq!((second.len(), second.kinds()[6], second.kinds()[0]), (3, 2, 1));
        assert!(second.encoded().starts_with(b"head[{") && second.encoded().ends_with(b"}]tail"));

        let unchanged = Edit::of(&second).content();
        assert_eq!((unchanged.text(), unchanged.kinds()), (second.text(), second.kinds()));
        assert_eq!(first.endpoints(), sent, "an edit leaves what it began with alone");
        let mut edit = Edit::of(&second);
        [1, 2, 7].into_iter().for_each(|id| edit.remove(id));
        assert_eq!(edit.content().text(), b"");
    }
}
