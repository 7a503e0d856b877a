//! Managers as they are kept: the text that many objects have alike is held once, and what is an object's own apart from it.
//!
//! Ten thousand pods of one Deployment have the same entries but for times and addresses. So an entry is a [`Template`],
//! shared, with holes for what differs; writing an entry is copying pieces of text.

use std::sync::Arc;

use api::Timestamp;
use machine::Time;
use serde_json::Value;

use crate::fields::{self, Sink};
use crate::managers::{Id, Managers, Operation, Owned};

/// The length of a time in whole seconds, as RFC 3339 writes it.
const TIME_LEN: usize = "2026-01-31T08:00:00Z".len();

/// The text of an entry, with holes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Template {
    text: Box<str>,
    /// Where the holes are, in ascending order; the time is the first, if the entry has one.
    holes: Box<[u32]>,
    timed: bool,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    template: Arc<Template>,
    time: Time,
    values: Box<[Box<str>]>,
}

/// The managers of an object, compact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed(Box<[Entry]>);

/// Knows the templates that are there already.
pub trait Interner {
    /// Returns an equal template that is there already, or keeps this one.
    fn intern(&mut self, template: Arc<Template>) -> Arc<Template>;
}

/// Writes an entry as JSON.
pub(crate) fn render(id: &Id, owned: &Owned, out: &mut impl Sink) {
    out.text("{\"manager\":\"");
    out.text(&fields::escaped(&id.manager));
    out.text("\",\"operation\":\"");
    out.text(if id.operation == Operation::Apply { "Apply" } else { "Update" });
    out.text("\",\"apiVersion\":\"");
    out.text(&fields::escaped(&owned.version));
    if let Some(time) = owned.time {
        out.text("\",\"time\":\"");
        out.hole(&Timestamp(time).to_string());
    }
    out.text("\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
    fields::encode(&owned.fields, out);
    if !id.subresource.is_empty() {
        out.text(",\"subresource\":\"");
        out.text(&fields::escaped(&id.subresource));
        out.text("\"");
    }
    out.text("}");
}

/// Takes an entry apart into a template and its values.
#[derive(Default)]
struct Cutter {
    text: String,
    holes: Vec<u32>,
    values: Vec<Box<str>>,
}

impl Sink for Cutter {
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn hole(&mut self, text: &str) {
        // A request body, and so an object, is far smaller than 4 GiB.
        self.holes.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        self.values.push(text.into());
    }
}

impl Packed {
    /// Returns the compact form of managers.
    pub fn new(managers: &Managers) -> Packed {
        let entries = managers.in_order().into_iter().map(|(id, owned)| {
            let mut cutter = Cutter::default();
            render(id, owned, &mut cutter);
            let timed = owned.time.is_some();
            if timed {
                cutter.values.remove(0);
            }
            let template = Template { text: cutter.text.into(), holes: cutter.holes.into(), timed };
            let time = owned.time.unwrap_or(Time::ZERO);
            Entry { template: Arc::new(template), time, values: cutter.values.into() }
        });
        Packed(entries.collect())
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Uses templates that are there already in place of equal ones.
    pub fn intern(&mut self, interner: &mut impl Interner) {
        for entry in &mut self.0 {
            entry.template = interner.intern(Arc::clone(&entry.template));
        }
    }

    /// Returns how many bytes the text has.
    pub fn text_len(&self) -> usize {
        let values = |entry: &Entry| entry.values.iter().map(|value| value.len()).sum::<usize>();
        let time = |entry: &Entry| if entry.template.timed { TIME_LEN } else { 0 };
        let entries = self.0.iter().map(|entry| entry.template.text.len() + values(entry) + time(entry)).sum::<usize>();
        entries + self.0.len().max(1) + 1
    }

    /// Gives the text of `metadata.managedFields`, a JSON list, in pieces.
    pub fn write(&self, mut put: impl FnMut(&[u8])) {
        put(b"[");
        for (index, entry) in self.0.iter().enumerate() {
            if index > 0 {
                put(b",");
            }
            entry.write(&mut put);
        }
        put(b"]");
    }

    /// Returns the value of `metadata.managedFields`.
    pub fn value(&self) -> Value {
        let mut text = Vec::with_capacity(self.text_len());
        self.write(|piece| text.extend_from_slice(piece));
        serde_json::from_slice(&text).expect("entries are written as JSON")
    }

    /// Returns the managers.
    pub fn managers(&self) -> Managers {
        if self.is_empty() {
            return Managers::default();
        }
        Managers::decode(&self.value()).expect("what was packed can be read")
    }
}

impl Entry {
    fn write(&self, put: &mut impl FnMut(&[u8])) {
        let text = self.template.text.as_bytes();
        let mut values = self.values.iter();
        let mut from = 0;
        for (index, hole) in self.template.holes.iter().enumerate() {
            let to = *hole as usize;
            put(&text[from..to]);
            from = to;
            if index == 0 && self.template.timed {
                put(Timestamp(self.time).to_string().as_bytes());
            } else if let Some(value) = values.next() {
                put(value.as_bytes());
            }
        }
        put(&text[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn managers(ip: &str, time: &str) -> Managers {
        let element = format!("k:{{\"ip\":{}}}", Value::from(ip));
        let mut entries = json!([
            {"manager": "a \"b\"", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
             "fieldsV1": {"f:status": {"f:podIPs": {".": {}}}}, "subresource": "status"},
            {"manager": "no-time", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}},
        ]);
        entries[0]["fieldsV1"]["f:status"]["f:podIPs"][element] = json!({".": {}, "f:ip": {}});
        Managers::decode(&entries).unwrap()
    }

    #[derive(Default)]
    struct KnownTemplates(Vec<Arc<Template>>);

    impl Interner for KnownTemplates {
        fn intern(&mut self, template: Arc<Template>) -> Arc<Template> {
            if let Some(known) = self.0.iter().find(|known| **known == template) {
                return Arc::clone(known);
            }
            self.0.push(Arc::clone(&template));
            template
        }
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let managers = managers("10.0.0.1\"\\", "2026-11-16T12:00:00Z");
        let packed = Packed::new(&managers);
        assert_eq!(packed.managers(), managers);
        assert_eq!(packed.value(), managers.encode());
        let mut length = 0;
        packed.write(|piece| length += piece.len());
        assert_eq!(packed.text_len(), length);
        assert!(Packed::default().managers().is_empty());
    }

    #[test]
    fn objects_that_differ_in_time_and_address_share_their_text() {
        let mut known = KnownTemplates::default();
        for (ip, time) in [("10.0.0.1", "2026-11-16T12:00:00Z"), ("fd00::1", "2026-11-16T12:00:01Z")] {
            let managers = managers(ip, time);
            let mut packed = Packed::new(&managers);
            packed.intern(&mut known);
            assert_eq!(packed.managers(), managers);
        }
        assert_eq!(known.0.len(), 2, "one for each manager, not for each object");
    }
}
