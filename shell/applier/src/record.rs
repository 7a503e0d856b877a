//! What is remembered about a component's file: one small file, replaced whole.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machine::Time;
use profiles::steps::{Component, ComponentValues};
use serde_json::{Value, json};

use crate::node::files::settings;

/// Everything that finishing, undoing and uninstalling need. An absent file is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its content before the first change ever.
    pub(crate) original: Option<Vec<u8>>,
    /// Its content as the last finished change left it: anything else is somebody else's.
    pub(crate) last: Option<Vec<u8>>,
    /// The change that is not confirmed yet.
    pub(crate) pending: Option<Pending>,
    /// How often in a row a change was taken back.
    pub(crate) reverted: u32,
}

/// A change that is not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) new: Option<Vec<u8>>,
    pub(crate) deadline: Time,
    /// Which step it is.
    pub(crate) id: String,
    /// What the component is to use then.
    pub(crate) values: Option<ComponentValues>,
}

impl Record {
    /// Returns the record of a file that was never changed.
    pub(crate) fn new(path: PathBuf, current: Option<Vec<u8>>) -> Record {
        Record { path, original: current.clone(), last: current, pending: None, reverted: 0 }
    }

    /// Returns whether something of ours is in the file, or about to be.
    pub(crate) fn holds_something(&self) -> bool {
        self.last != self.original || self.pending.is_some()
    }

    /// Returns whether somebody has replaced the file by one with nothing of ours in it, as an upgrade does: what it says about a profile is
    /// what it said before the first change.
    pub(crate) fn is_replaced(&self, component: Component, current: Option<&[u8]>) -> bool {
        let before = settings(component, self.original.as_deref());
        self.pending.is_none() && current != self.last.as_deref() && before.is_some() && settings(component, current) == before
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| STANDARD.encode(bytes));
        let mut body = json!({
            "path": STANDARD.encode(self.path.as_os_str().as_encoded_bytes()),
            "file": self.path.to_string_lossy(),
            "original": text(&self.original),
            "last": text(&self.last),
            "pending": self.pending.as_ref().map(|pending| {
                let values = pending.values.map(|values| json!({values.component().name(): values.to_json()}));
                json!({"new": text(&pending.new), "deadline": pending.deadline.as_micros(), "id": pending.id, "values": values})
            }),
            "reverted": self.reverted,
        });
        body["checksum"] = json!(checksum(&body));
        body.to_string().into_bytes()
    }

    /// Reads a record; `None`: it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
        let mut body: Value = serde_json::from_slice(bytes).ok()?;
        let claimed = body.as_object_mut()?.remove("checksum")?.as_u64()?;
        if claimed != checksum(&body) {
            return None;
        }
        let content = |value: &Value| match value {
            Value::Null => Some(None),
            value => STANDARD.decode(value.as_str()?).ok().map(Some),
        };
        let pending = match &body["pending"] {
            Value::Null => None,
            pending => {
                let values = pending["values"].as_object().into_iter().flatten().next();
                let read =
                    |(name, values): (&String, &Value)| ComponentValues::read(Component::parse(name)?, values.clone()).ok();
                Some(Pending {
                    new: content(&pending["new"])?,
                    deadline: Time::from_micros(pending["deadline"].as_i64()?),
                    id: pending["id"].as_str()?.to_owned(),
                    values: values.and_then(read),
                })
            }
        };
        let path = STANDARD.decode(body["path"].as_str()?).ok()?;
        Some(Record {
            path: PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path)),
            original: content(&body["original"])?,
            last: content(&body["last"])?,
            pending,
            reverted: u32::try_from(body["reverted"].as_u64()?).ok()?,
        })
    }
}

/// FNV-1a: against bits that fell over, not against people.
fn checksum(body: &Value) -> u64 {
    body.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_damage_is_noticed() {
        let mut record = Record::new("/etc/kubernetes/manifests/a b.yaml".into(), None);
        record.last = Some(vec![0, 255, b'x']);
        record.pending = Some(Pending {
            new: None,
            deadline: Time::from_secs(1_700_000_000),
            id: "7-1".to_owned(),
            values: Some(ComponentValues::ApiServer { not_ready_seconds: 60, unreachable_seconds: 300 }),
        });
        record.reverted = 2;
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Some(record));
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(Record::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        let text = String::from_utf8(bytes).unwrap().replace("\"reverted\":2", "\"reverted\":0");
        assert_eq!(Record::decode(text.as_bytes()), None);
    }
}
