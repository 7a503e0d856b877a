//! The entries of `metadata.managedFields`: who wrote what, how, and when.

use std::collections::BTreeMap;

use api::Timestamp;
use machine::Time;
use serde_json::{Map, Value};

use crate::fields;
use crate::set::Set;

/// The most entries of updates, as in kube-apiserver; the oldest are drawn together.
const UPDATE_ENTRIES_MAX: usize = 10;
/// Who owns what the oldest updates wrote.
const ANCIENT: &str = "ancient-changes";

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// What tells the entries of an object apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The name of the manager.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it writes; empty for [`Operation::Apply`], which has one entry whatever the version.
    pub api_version: String,
    /// The subresource through which it writes; empty for the object itself.
    pub subresource: String,
}

impl Id {
    /// Returns the entry of a manager.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Id {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Id { manager: manager.into(), operation, api_version: api_version.into(), subresource: subresource.into() }
    }

    /// Returns the manager as conflicts name it.
    pub fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.api_version);
        }
        text
    }
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The version in which the fields are named.
    pub version: String,
    /// When the manager last changed something, in whole seconds.
    pub time: Option<Time>,
    /// The fields.
    pub fields: Set,
}

/// The managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(pub BTreeMap<Id, Owned>);

/// Entries that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("managedFields cannot be read: {0}")]
pub struct MalformedEntries(String);

/// Returns whether a client asks to forget all managers: an empty list, or one with a single empty entry.
pub fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(|value| value.is_null() || value.as_str() == Some("")),
        _ => false,
    }
}

impl Managers {
    /// Reads `metadata.managedFields`.
    pub fn decode(entries: &Value) -> Result<Managers, MalformedEntries> {
        let entries = match entries {
            Value::Null => &[],
            Value::Array(entries) => entries.as_slice(),
            _ => return Err(MalformedEntries("not a list".to_owned())),
        };
        let mut managers = Managers::default();
        for entry in entries {
            let (id, owned) = decode_entry(entry).map_err(MalformedEntries)?;
            managers.0.insert(id, owned);
        }
        Ok(managers)
    }

    /// Returns whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries in the order in which they are shown: appliers first, each by time and name.
    pub fn in_order(&self) -> Vec<(&Id, &Owned)> {
        let mut entries: Vec<(&Id, &Owned)> = self.0.iter().collect();
        entries.sort_by(|(left, left_owned), (right, right_owned)| {
            let key = |id: &Id, owned: &Owned| (id.operation, owned.time.unwrap_or(Time::ZERO));
            let name = |id: &Id| id.manager.clone();
            key(left, left_owned)
                .cmp(&key(right, right_owned))
                .then_with(|| name(left).cmp(&name(right)))
                .then_with(|| left_owned.version.cmp(&right_owned.version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        entries
    }

    /// Writes the value of `metadata.managedFields`.
    pub fn encode(&self) -> Value {
        Value::Array(self.in_order().into_iter().map(|(id, owned)| encode_entry(id, owned)).collect())
    }

    /// Returns whether both have the same entries, whatever their times.
    pub fn same_but_times(&self, other: &Managers) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|((left_id, left), (right_id, right))| {
                left_id == right_id && left.version == right.version && left.fields == right.fields
            })
    }

    /// Draws the oldest updates together until there are few enough, by version.
    pub(crate) fn cap(&mut self) {
        let mut updates: Vec<Id> = self.0.keys().filter(|id| id.operation == Operation::Update).cloned().collect();
        let mut count = updates.len();
        if count <= UPDATE_ENTRIES_MAX {
            return;
        }
        updates.sort_by_key(|id| (self.0[id].time.unwrap_or(Time::ZERO), id.clone()));
        let mut first_of_version: BTreeMap<String, Id> = BTreeMap::new();
        for id in updates {
            if count <= UPDATE_ENTRIES_MAX {
                break;
            }
            let version = self.0[&id].version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = Id::new(ANCIENT, Operation::Update, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(oldest) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), oldest);
            }
            if id == bucket {
                continue;
            }
            let Some(merged) = self.0.remove(&id) else { continue };
            if let Some(target) = self.0.get_mut(&bucket) {
                target.fields = target.fields.union(&merged.fields);
                target.time = merged.time;
            }
            count -= 1;
        }
    }
}

fn decode_entry(entry: &Value) -> Result<(Id, Owned), String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        other => return Err(format!("operation must be `Apply` or `Update`, not {other:?}")),
    };
    let version = text("apiVersion");
    if version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    if text("fieldsType") != "FieldsV1" {
        return Err(format!("fieldsType must be `FieldsV1`, not {:?}", text("fieldsType")));
    }
    let none = Map::new();
    let fields = match entry.get("fieldsV1") {
        None | Some(Value::Null) => &none,
        Some(fields) => fields.as_object().ok_or("fieldsV1 is not an object")?,
    };
    let time = match text("time") {
        "" => None,
        text => Some(Timestamp::parse(text).map_err(|_| format!("time {text:?} is not RFC 3339"))?.0),
    };
    let mut id = Id::new(text("manager"), operation, version, text("subresource"));
    text("manager").clone_into(&mut id.manager);
    Ok((id, Owned { version: version.to_owned(), time, fields: fields::decode(fields)? }))
}

fn encode_entry(id: &Id, owned: &Owned) -> Value {
    let mut text = String::new();
    crate::packed::render(id, owned, &mut text);
    serde_json::from_str(&text).expect("an entry is written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, second: i64, field: &str) -> Value {
        let time = Timestamp(Time::from_secs(1_700_000_000 + second)).to_string();
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
               "fieldsV1": {"f:data": {format!("f:{field}"): {}}}})
    }

    #[test]
    fn entries_are_read_and_written_in_order() {
        let apply = json!({"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                           "fieldsV1": {"f:data": {}}, "subresource": "status"});
        let entries = json!([entry("late", 9, "a"), entry("early", 1, "b"), apply]);
        let managers = Managers::decode(&entries).unwrap();
        let shown: Vec<&str> = managers.in_order().iter().map(|(id, _)| id.manager.as_str()).collect();
        assert_eq!(shown, ["z", "early", "late"]);
        assert_eq!(managers.encode(), json!([entries[2], entries[1], entries[0]]));
        assert_eq!(Managers::decode(&managers.encode()).unwrap(), managers);
    }

    #[test]
    fn malformed_entries_are_refused() {
        for (key, value) in [("operation", "Merge"), ("apiVersion", ""), ("fieldsType", "V2"), ("time", "now")] {
            let mut bad = entry("m", 1, "a");
            bad[key] = value.into();
            assert!(Managers::decode(&json!([bad])).is_err(), "{key}");
        }
        assert!(Managers::decode(&json!({})).is_err());
        assert!(Managers::decode(&Value::Null).unwrap().is_empty());
    }

    #[test]
    fn an_empty_list_or_entry_resets() {
        assert!(is_reset(&json!([])) && is_reset(&json!([{}])));
        assert!(!is_reset(&Value::Null) && !is_reset(&json!([entry("m", 1, "a")])) && !is_reset(&json!([{}, {}])));
    }

    #[test]
    fn the_oldest_updates_are_drawn_together() {
        let entries = (0..12).map(|number| entry(&format!("m{number:02}"), number, &format!("k{number}"))).collect();
        let mut managers = Managers::decode(&Value::Array(entries)).unwrap();
        managers.cap();
        assert_eq!(managers.0.len(), 10);
        let ancient = &managers.0[&Id::new(ANCIENT, Operation::Update, "v1", "")];
        assert_eq!(ancient.fields.to_string(), ".data.k0\n.data.k1\n.data.k2");
        assert_eq!(ancient.time, Some(Time::from_secs(1_700_000_002)));
        let before = managers.clone();
        managers.cap();
        assert_eq!(managers, before);
    }
}
