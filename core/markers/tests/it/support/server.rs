//! A small API server: patches, generations, finalizers, the status subresource; enough to hold the cores to their word.

use std::collections::BTreeMap;

use api::write::Body;
use api::{Verb, Write, WriteError};
use machine::Time;
use serde_json::{Value, json};

/// An object's place: plural, namespace, name.
pub(crate) type Place = (&'static str, String, String);

/// What happened to an object.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// It is new or has changed.
    Applied(&'static str, Value),
    /// It is gone; its last version.
    Deleted(&'static str, Value),
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) objects: BTreeMap<Place, Value>,
    /// What watchers have not been told yet.
    pub(crate) events: Vec<Event>,
    /// Requests of the cores by resource, refused ones included.
    pub(crate) writes: BTreeMap<String, usize>,
    pub(crate) conflicts: usize,
    /// Loses `periodMilliseconds` of every stored node object, as a schema without it does.
    pub(crate) prunes: bool,
    revision: u64,
    uids: u64,
}

impl Server {
    pub(crate) fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(plural, namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn list(&self, plural: &'static str) -> Vec<Value> {
        self.objects.iter().filter(|((kind, ..), _)| *kind == plural).map(|(_, object)| object.clone()).collect()
    }

    /// Creates an object, or replaces everything of it but what the server owns, as a user would.
    pub(crate) fn put(&mut self, plural: &'static str, mut object: Value, now: Time) {
        let place = place_of(plural, &object);
        match self.objects.get(&place) {
            Some(old) => {
                for key in ["uid", "creationTimestamp", "generation", "finalizers", "deletionTimestamp"] {
                    object["metadata"][key] = old["metadata"][key].clone();
                }
                if object.get("status").is_none() {
                    object["status"] = old["status"].clone();
                }
            }
            None => {
                self.uids += 1;
                if object["metadata"].get("uid").is_none() {
                    object["metadata"]["uid"] = format!("uid-{}", self.uids).into();
                }
                if object["metadata"].get("creationTimestamp").is_none() {
                    object["metadata"]["creationTimestamp"] = api::Timestamp(now).to_string().into();
                }
            }
        }
        self.store(place, object);
    }

    /// Deletes an object as a user would: finalizers hold it.
    pub(crate) fn delete(&mut self, plural: &'static str, namespace: &str, name: &str, now: Time) {
        let place = (plural, namespace.to_owned(), name.to_owned());
        let Some(mut object) = self.objects.get(&place).cloned() else { return };
        object["metadata"]["deletionTimestamp"] = api::Timestamp(now).to_string().into();
        self.store(place, object);
    }

    /// Carries out a request of a core.
    pub(crate) fn write(&mut self, write: &Write, now: Time) -> Result<Option<Value>, WriteError> {
        let resource = if write.subresource.is_empty() { write.plural.to_owned() } else { format!("{}/status", write.plural) };
        *self.writes.entry(resource).or_default() += 1;
        let result = self.carry_out(write, now);
        self.conflicts += usize::from(matches!(result, Err(WriteError::Conflict | WriteError::AlreadyExists)));
        result
    }

    fn carry_out(&mut self, write: &Write, now: Time) -> Result<Option<Value>, WriteError> {
        let place: Place = (write.plural, write.namespace.clone(), write.name.clone());
        let old = self.objects.get(&place).cloned();
        let (old, patch) = match (&write.verb, old) {
            (Verb::Create(_), Some(_)) => return Err(WriteError::AlreadyExists),
            (Verb::Create(Body::Json(object)), None) => {
                self.put(write.plural, object.clone(), now);
                return Ok(self.objects.get(&place).cloned());
            }
            (Verb::Merge(_) | Verb::Strategic(_) | Verb::Delete { .. }, None) => return Err(WriteError::NotFound),
            (Verb::Delete { uid, .. }, Some(old)) => {
                if !uid.is_empty() && old["metadata"]["uid"] != **uid {
                    return Err(WriteError::Conflict);
                }
                self.delete(write.plural, &write.namespace, &write.name, now);
                return Ok(None);
            }
            (Verb::Merge(patch) | Verb::Strategic(patch), Some(old)) => (old, patch),
            (verb, _) => panic!("{verb:?}"),
        };
        let mut patch = patch.clone();
        for key in ["uid", "resourceVersion"] {
            if patch["metadata"].get(key).is_some_and(|wanted| *wanted != old["metadata"][key]) {
                return Err(WriteError::Conflict);
            }
        }
        let mut new = old.clone();
        if let (Verb::Strategic(_), Some(items)) = (&write.verb, patch["status"]["conditions"].as_array()) {
            let merged = merge_conditions(&old["status"]["conditions"], items);
            patch["status"]["conditions"] = merged;
        }
        json_patch::merge(&mut new, &patch);
        // The object itself and its status are written apart.
        let (theirs, kept) = if write.subresource == "status" { ("status", &new) } else { ("status", &old) };
        let status = kept[theirs].clone();
        if write.subresource == "status" {
            new = old.clone();
        }
        new["status"] = status;
        if new != old {
            self.store(place.clone(), new.clone());
        }
        Ok(Some(self.objects.get(&place).cloned().unwrap_or(new)))
    }

    fn store(&mut self, place: Place, mut object: Value) {
        self.revision += 1;
        let items = object.pointer_mut("/spec/podProbes").and_then(Value::as_array_mut);
        for item in items.into_iter().flatten().filter(|_| self.prunes) {
            for entry in item["probes"].as_array_mut().into_iter().flatten() {
                entry["probe"].as_object_mut().map(|probe| probe.remove("periodMilliseconds"));
            }
        }
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let old = self.objects.get(&place);
        let generation = old.map_or(0, |old| old["metadata"]["generation"].as_i64().unwrap_or(0));
        if old.is_none_or(|old| old["spec"] != object["spec"]) {
            object["metadata"]["generation"] = (generation + 1).into();
        }
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if object["metadata"]["deletionTimestamp"].is_string() && !held {
            self.objects.remove(&place);
            self.events.push(Event::Deleted(place.0, object));
        } else {
            self.events.push(Event::Applied(place.0, object.clone()));
            self.objects.insert(place, object);
        }
    }
}

fn place_of(plural: &'static str, object: &Value) -> Place {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (plural, text("namespace"), text("name"))
}

/// Merges conditions by type, with `$patch: delete`.
fn merge_conditions(old: &Value, patch: &[Value]) -> Value {
    let mut conditions = old.as_array().cloned().unwrap_or_default();
    for item in patch {
        let found = conditions.iter_mut().find(|condition| condition["type"] == item["type"]);
        match (item["$patch"] == json!("delete"), found) {
            (true, _) => conditions.retain(|condition| condition["type"] != item["type"]),
            (false, Some(condition)) => json_patch::merge(condition, item),
            (false, None) => conditions.push(item.clone()),
        }
    }
    conditions.into()
}
