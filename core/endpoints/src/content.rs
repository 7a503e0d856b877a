//! The endpoints of one slice as text, so that changing one does not mean writing the others again.
//!
//! Entry `i` is the bytes between its neighbours' ends; a comma follows each. Replacing an entry moves the bytes behind it,
//! at most one slice's worth, however many slices the Service has.

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
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Which member of the Service it is.
    id: u64,
    /// Where its text ends, its comma included.
    end: usize,
    kind: usize,
}

impl Content {
    /// Returns the content of a packed slice; the endpoints have their ordinals as ids.
    pub fn new(packed: &Packed, namespace: &str, mode: Mode) -> Content {
        let mut content = Content { entries: Vec::with_capacity(packed.records.len()), text: Vec::new() };
        content.text.reserve(packed.records.len() * TYPICAL);
        for record in &packed.records {
            content.push(record.ordinal, record, namespace, mode);
        }
        content
    }

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
        self.text.strip_suffix(b",").unwrap_or(&self.text)
    }

    /// Appends an endpoint.
    pub fn push(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) {
        record.write_json(namespace, mode, &mut self.text);
        self.text.push(b',');
        self.entries.push(Entry { id, end: self.text.len(), kind: kind(&record.conditions) });
    }

    /// Replaces an endpoint in its place.
    pub fn replace(&mut self, id: u64, record: &Record, namespace: &str, mode: Mode) {
        let at = self.find(id);
        self.splice(at, &entry_text(record, namespace, mode));
        self.entries[at].kind = kind(&record.conditions);
    }

    /// Returns a copy with an endpoint replaced in its place.
    pub fn with_replaced(&self, id: u64, record: &Record, namespace: &str, mode: Mode) -> Content {
        let at = self.find(id);
        let mut copy = self.spliced(at, &entry_text(record, namespace, mode));
        copy.entries[at].kind = kind(&record.conditions);
        copy
    }

    /// Removes an endpoint; the order of the others stays.
    pub fn remove(&mut self, id: u64) {
        let at = self.find(id);
        self.splice(at, &[]);
        self.entries.remove(at);
    }

    /// Returns a copy without an endpoint.
    pub fn with_removed(&self, id: u64) -> Content {
        let at = self.find(id);
        let mut copy = self.spliced(at, &[]);
        copy.entries.remove(at);
        copy
    }

    /// Returns a copy with room for one more.
    pub fn roomy(&self) -> Content {
        let end = self.entries.len();
        self.copied(end, self.text.len(), self.text.len(), &[])
    }

    fn find(&self, id: u64) -> usize {
        self.entries.iter().position(|entry| entry.id == id).expect("a member is in the slice of its place")
    }

    /// Returns where the text of an entry begins and ends.
    fn bounds(&self, at: usize) -> (usize, usize) {
        let begin = if at == 0 { 0 } else { self.entries[at - 1].end };
        (begin, self.entries[at].end)
    }

    /// Puts `text` in the place of an entry's text and moves what is behind it.
    fn splice(&mut self, at: usize, text: &[u8]) {
        let (begin, end) = self.bounds(at);
        let (length, grown) = (self.text.len(), begin + text.len());
        self.text.resize(length.max(length - end + grown), 0);
        self.text.copy_within(end..length, grown);
        self.text.truncate(length - end + grown);
        self.text[begin..grown].copy_from_slice(text);
        for entry in &mut self.entries[at..] {
            entry.end = entry.end - end + grown;
        }
    }

    /// Returns a copy with `text` in the place of an entry's text: the one copy that a first change needs anyway.
    fn spliced(&self, at: usize, text: &[u8]) -> Content {
        let (begin, end) = self.bounds(at);
        self.copied(at, begin, end, text)
    }

    fn copied(&self, at: usize, begin: usize, end: usize, text: &[u8]) -> Content {
        let mut copy = Vec::with_capacity(self.text.len() + text.len() + TYPICAL);
        copy.extend_from_slice(&self.text[..begin]);
        copy.extend_from_slice(text);
        copy.extend_from_slice(&self.text[end..]);
        let mut entries = Vec::with_capacity(self.entries.len() + 1);
        entries.extend_from_slice(&self.entries);
        for entry in &mut entries[at..] {
            entry.end = entry.end - end + begin + text.len();
        }
        Content { entries, text: copy }
    }

    /// Reads the endpoints back.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let mut list = Vec::with_capacity(self.text.len() + 2);
        list.push(b'[');
        list.extend_from_slice(self.text());
        list.push(b']');
        serde_json::from_slice(&list).expect("the text was written by this module")
    }

    /// Counts the endpoints by their conditions.
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::default();
        self.entries.iter().for_each(|entry| kinds[entry.kind] += 1);
        kinds
    }
}

fn entry_text(record: &Record, namespace: &str, mode: Mode) -> Vec<u8> {
    let mut text = Vec::with_capacity(TYPICAL);
    record.write_json(namespace, mode, &mut text);
    text.push(b',');
    text
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
        let mut content = Content::default();
        assert!(content.endpoints().is_empty());
        for (id, pod) in ["a", "bb", "ccc"].into_iter().enumerate() {
            content.push(id as u64, &record(pod, true), "default", Mode::None);
        }
        let mut copy = content.with_replaced(1, &record("bb", false), "default", Mode::None).with_removed(0).roomy();
        content.replace(1, &record("bb", false), "default", Mode::None);
        content.remove(0);
        assert_eq!((copy.text(), copy.kinds()), (content.text(), content.kinds()));
        copy.push(3, &record("later", true), "default", Mode::None);
        copy.remove(1);
        assert_eq!(copy.endpoints().len(), 2);
        content.push(7, &record("d", true), "default", Mode::None);
        content.replace(7, &record("d-with-a-longer-name", true), "default", Mode::None);
        let expected: Vec<Endpoint> = [("bb", false), ("ccc", true), ("d-with-a-longer-name", true)]
            .map(|(pod, ready)| record(pod, ready).endpoint("default", Mode::None))
            .into();
        assert_eq!(content.endpoints(), expected);
        assert_eq!((content.len(), content.kinds()[6], content.kinds()[0]), (3, 2, 1));
        [1, 2, 7].into_iter().for_each(|id| content.remove(id));
        assert_eq!(content.text(), b"");
    }
}
