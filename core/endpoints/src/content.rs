//! The endpoints of one slice as text, so that changing one does not mean writing the others again.
//!
//! The text is the one that is sent: a slice and the write that carries it share their bytes. An [`Edit`] says what becomes of
//! the endpoints, and the next text is made from it in one pass, however many of them change; it copies one slice's worth,
//! however many slices the Service has.

use std::ops::Deref;
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

/// The JSON of a slice; copies share the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded(Arc<Vec<u8>>);

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Encoded> for Vec<u8> {
    fn from(encoded: Encoded) -> Vec<u8> {
        Arc::unwrap_or_clone(encoded.0)
    }
}

/// The endpoints of one slice, in order.
#[derive(Clone, Debug, Default)]
pub struct Content {
    entries: Vec<Entry>,
    kinds: Kinds,
    encoded: Encoded,
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
    pub fn encoded(&self) -> &Encoded {
        &self.encoded
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
    /// The text before.
    base: &'a [u8],
    pieces: Vec<Piece>,
    kinds: Kinds,
    /// The texts of endpoints that are new or changed, one after the other.
    own: Vec<u8>,
}

/// One endpoint: where its text is.
#[derive(Clone, Copy, Debug)]
struct Piece {
    id: u64,
    begin: usize,
    end: usize,
    /// In the edit's own text, not in the base.
    own: bool,
    kind: usize,
}

impl<'a> Edit<'a> {
    /// Begins with the endpoints of a slice.
    pub fn of(content: &'a Content) -> Edit<'a> {
        let mut begin = 0;
        let mut pieces = Vec::with_capacity(content.len() + 1);
        pieces.extend(content.entries.iter().map(|&Entry { id, end, kind }| {
            let piece = Piece { id, begin, end, own: false, kind };
            begin = end + 1;
            piece
        }));
        Edit { base: content.text(), pieces, kinds: content.kinds, own: Vec::new() }
    }

    /// Begins with the endpoints of a packed slice, which have their ordinals as ids.
    pub fn packed(packed: &Packed, namespace: &str, mode: Mode) -> Edit<'static> {
        let count = packed.records.len();
        let (pieces, own) = (Vec::with_capacity(count), Vec::with_capacity(count * TYPICAL));
        let mut edit = Edit { pieces, own, ..Edit::default() };
        for record in &packed.records {
            edit.push(record.ordinal, record, namespace, mode);
        }
        edit
    }

    /// Returns how many endpoints there are.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns how many bytes the endpoints take.
    pub fn text_len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.end - piece.begin + 1).sum()
    }

    /// Appends an endpoint.
    pub fn push(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) {
        let piece = self.write(id, record, namespace, mode);
        self.pieces.push(piece);
    }

    /// Replaces an endpoint in its place.
    pub fn replace(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) {
        let at = self.find(id);
        self.kinds[self.pieces[at].kind] -= 1;
        self.pieces[at] = self.write(id, record, namespace, mode);
    }

    /// Removes an endpoint; the order of the others stays.
    pub fn remove(&mut self, id: u64) {
        let at = self.find(id);
        self.kinds[self.pieces.remove(at).kind] -= 1;
    }

    fn write(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) -> Piece {
        let (begin, kind) = (self.own.len(), kind(&record.conditions));
        self.own.reserve(TYPICAL);
        record.write_json(namespace, mode, &mut self.own);
        self.own.push(b',');
        self.kinds[kind] += 1;
        Piece { id, begin, end: self.own.len() - 1, own: true, kind }
    }

    fn find(&self, id: u64) -> usize {
        self.pieces.iter().position(|piece| piece.id == id).expect("a member is in the slice of its place")
    }

    /// Writes the endpoints behind `head`, and `tail` behind them.
    pub fn finish(self, head: Vec<u8>, tail: impl FnOnce(&mut Vec<u8>)) -> Content {
        let (begin, mut out) = (head.len(), head);
        let mut entries = Vec::with_capacity(self.pieces.len());
        // Neighbours are copied together, with the commas between them.
        let mut rest = self.pieces.as_slice();
        while let [first, ..] = rest {
            let follows = |pair: &[Piece]| pair[0].own == pair[1].own && pair[0].end + 1 == pair[1].begin;
            let count = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
            let (run, others) = rest.split_at(count);
            if out.len() > begin {
                out.push(b',');
            }
            let at = out.len() - begin;
            entries.extend(run.iter().map(|&Piece { id, end, kind, .. }| Entry { id, end: end - first.begin + at, kind }));
            let text = if first.own { &self.own } else { self.base };
            out.extend_from_slice(&text[first.begin..run[count - 1].end]);
            rest = others;
        }
        tail(&mut out);
        Content { entries, kinds: self.kinds, encoded: Encoded(Arc::new(out)), begin }
    }

    /// Writes the endpoints alone.
    pub fn content(self) -> Content {
        let head = Vec::with_capacity(self.text_len());
        self.finish(head, |_| {})
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
        let sent: Vec<Endpoint> = serde_json::from_slice(first.encoded()).unwrap();
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
