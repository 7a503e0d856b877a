//! The store's state: one revision for everything, the objects, and the window of recent changes.
//!
//! A commit is checked against the state, gets its revision, and becomes visible only when the shell says that it is on
//! disk: [`Snapshot::stage`] computes the next state, [`RegistryState::publish`] makes it the present one. Objects are kept as the
//! bytes that clients get, so reading never serializes. The map is persistent: a snapshot is a clone of a pointer.
//!
//! Invariants: the revision rises by one per change and never falls; every change in the window knows what was there
//! before, so any revision of the window can be read again; whatever the way a write came, no object is larger than
//! [`OBJECT_MAX`], none lies in something that is going, and no two Services hold the same address or port.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use apply::{Interner, Managers, Packed, Template};
use imbl::{OrdMap, OrdSet};
use serde_json::Value;

use machine::Time;

use crate::authz::References;
use crate::index::Index;
use crate::ownership;
use crate::services::{self, Claims};

/// The largest object that is stored: the limit of etcd, 1.5 MiB.
pub const OBJECT_MAX: usize = 3 << 19;
/// What a deletion may add to an object however large: its time, its grace, a finalizer, a condition.
const DELETION_MARKS_MAX: usize = 4 << 10;

/// What the text of a new object begins with.
const TEXT_ROOM: usize = 1 << 10;

pub use kinds::key::{Key, key, prefix};

/// An object as it is stored.
#[derive(Debug)]
pub struct Stored {
    /// The revision of its last change.
    pub revision: u64,
    /// The object as JSON, `resourceVersion` inside, without `apiVersion`, `kind` and `managedFields`.
    pub bytes: Arc<[u8]>,
    /// Where `managedFields` belong in the JSON: in front of the other members of `metadata`.
    gap: u32,
    /// Who owns which field.
    pub owners: Packed,
    /// What selectors and the collector ask about; shared with the collector, which keeps it for every object.
    pub index: Arc<Index>,
    /// What field selectors ask about; computed when first asked, because few objects ever are.
    fields: OnceLock<Vec<(String, String)>>,
    /// What a pod refers to; computed when its node first asks for a Secret or ConfigMap.
    references: OnceLock<References>,
}

impl Stored {
    /// Returns the stored form of an object at a revision; `apiVersion` and `kind` are left out, `resourceVersion` is set.
    pub fn new(revision: u64, object: Value) -> Stored {
        Stored::owned(revision, object, Packed::default())
    }

    /// Returns the same for an object whose fields have owners.
    pub fn owned(revision: u64, mut object: Value, owners: Packed) -> Stored {
        Stored::settled(revision, &mut object, owners, TEXT_ROOM)
    }

    /// Returns the same and leaves the object as it is stored; `room` is about how many bytes its text will have.
    fn settled(revision: u64, object: &mut Value, owners: Packed, room: usize) -> Stored {
        if let Some(members) = object.as_object_mut() {
            members.remove("apiVersion");
            members.remove("kind");
        }
        api::json::object_mut(object, &["metadata"]).insert("resourceVersion".to_owned(), revision.to_string().into());
        Stored::of(revision, object, owners, room)
    }

    /// `object` has `metadata` that are not empty, and no `managedFields`.
    fn of(revision: u64, object: &Value, owners: Packed, room: usize) -> Stored {
        let index = Arc::new(Index::of(object));
        let (bytes, gap) = serialize(object, room);
        let (fields, references) = (OnceLock::new(), OnceLock::new());
        Stored { revision, bytes: bytes.into(), gap, owners, index, fields, references }
    }

    /// Reads the stored form back from disk; `None` if the bytes are not an object with metadata.
    pub fn from_bytes(revision: u64, bytes: &[u8], templates: &mut Templates) -> Option<Stored> {
        let mut object: Value = serde_json::from_slice(bytes).ok()?;
        let managers = ownership::take(&mut object).map(|entries| Managers::decode(&entries));
        let metadata = object.get("metadata")?.as_object()?;
        if metadata.is_empty() {
            return None;
        }
        let mut owners = Packed::new(&managers.transpose().ok()?.unwrap_or_default());
        owners.intern(templates);
        Some(Stored::of(revision, &object, owners, bytes.len()))
    }

    /// Returns how many bytes the whole object has.
    pub fn size(&self) -> usize {
        let around = b"\"managedFields\":,".len();
        self.bytes.len() + if self.owners.is_empty() { 0 } else { self.owners.text_len() + around }
    }

    /// Returns the place in the JSON where `managedFields` belong.
    pub fn gap(&self) -> usize {
        self.gap as usize
    }

    /// Gives what belongs into the gap, in pieces.
    pub fn write_owners(&self, mut put: impl FnMut(&[u8])) {
        if !self.owners.is_empty() {
            put(b"\"managedFields\":");
            self.owners.write(&mut put);
            put(b",");
        }
    }

    /// Gives the whole object as JSON, in pieces; the first begins with the brace.
    pub fn write(&self, mut put: impl FnMut(&[u8])) {
        if self.owners.is_empty() {
            return put(&self.bytes);
        }
        let (front, back) = self.bytes.split_at(self.gap());
        put(front);
        self.write_owners(&mut put);
        put(back);
    }

    /// Returns the object with `managedFields`, still without `apiVersion` and `kind`.
    pub fn whole(&self) -> Value {
        with_owners(self.object(), &self.owners)
    }

    /// Returns the value of a selectable field; `fields` lists those of the kind and is asked once per stored object.
    pub fn field(&self, label: &str, fields: impl FnOnce(&Value) -> Vec<(String, String)>) -> Option<&str> {
        let known = self.fields.get_or_init(|| fields(&self.object()));
        known.iter().find(|(name, _)| name == label).map(|(_, value)| value.as_str())
    }

    /// Returns what the object, a pod, refers to; read once per stored object.
    pub fn references(&self) -> &References {
        self.references.get_or_init(|| References::of(&self.object()))
    }

    /// Returns the object without `managedFields`, still without `apiVersion` and `kind`.
    pub fn object(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes were made from a JSON value or checked at load")
    }
}

/// A stored object that a write begins from: its JSON is parsed once, however often it is asked for.
#[derive(Debug)]
pub struct Current<'a> {
    stored: &'a Stored,
    object: Arc<Value>,
}

impl<'a> Current<'a> {
    /// Parses a stored object.
    pub fn new(stored: &'a Stored) -> Current<'a> {
        Current { stored, object: Arc::new(stored.object()) }
    }

    /// Returns the same for an object that is kept parsed.
    pub fn parsed(stored: &'a Stored, object: Arc<Value>) -> Current<'a> {
        Current { stored, object }
    }

    /// Returns the object without `managedFields`, `apiVersion` and `kind`.
    pub fn value(&self) -> &Value {
        &self.object
    }

    /// Returns a copy of the same.
    pub fn object(&self) -> Value {
        Value::clone(&self.object)
    }

    /// Returns a copy with `managedFields`.
    pub fn whole(&self) -> Value {
        with_owners(self.object(), &self.stored.owners)
    }
}

impl std::ops::Deref for Current<'_> {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        self.stored
    }
}

/// Returns an object with its `managedFields`.
pub fn with_owners(mut object: Value, owners: &Packed) -> Value {
    if !owners.is_empty() {
        api::json::object_mut(&mut object, &["metadata"]).insert("managedFields".to_owned(), owners.value());
    }
    object
}

/// Returns the JSON of an object, and the place right behind the brace of `metadata`.
fn serialize(object: &Value, room: usize) -> (Vec<u8>, u32) {
    // Serializing a JSON value cannot fail: its keys are strings and its numbers are finite.
    let put = |out: &mut Vec<u8>, value: &Value| serde_json::to_writer(out, value).expect("a JSON value serializes");
    let (mut out, mut gap) = (Vec::with_capacity(room), 0);
    for (key, value) in object.as_object().into_iter().flatten() {
        out.push(if out.is_empty() { b'{' } else { b',' });
        serde_json::to_writer(&mut out, key).expect("a text serializes");
        out.push(b':');
        if key == "metadata" {
            gap = u32::try_from(out.len() + 1).expect("objects are bounded to megabytes");
        }
        put(&mut out, value);
    }
    out.push(b'}');
    (out, gap)
}

/// The texts of owners that many objects share, as many as are worth remembering.
#[derive(Clone, Debug, Default)]
pub struct Templates(OrdSet<Arc<Template>>);

/// More texts than this are not remembered: then the objects have little in common, and looking costs more than it saves.
const TEMPLATES_MAX: usize = 4096;

impl Interner for Templates {
    fn intern(&mut self, template: Arc<Template>) -> Arc<Template> {
        if let Some(known) = self.0.get(&template) {
            return Arc::clone(known);
        }
        if self.0.len() >= TEMPLATES_MAX {
            self.0.clear();
        }
        self.0.insert(Arc::clone(&template));
        template
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    /// The object is new.
    Added,
    /// The object is another than before.
    Modified,
    /// The object is gone.
    Deleted,
}

/// One change of the window.
#[derive(Debug)]
pub struct Change {
    /// Its revision.
    pub revision: u64,
    /// When it was committed; the window is kept for a while.
    pub at: Time,
    /// Which object.
    pub key: Key,
    /// What happened.
    pub type_: ChangeType,
    /// The object after it; for a deletion its last state, with the revision of the deletion.
    pub object: Arc<Stored>,
    /// The object before it.
    pub previous: Option<Arc<Stored>>,
}

impl Change {
    fn size(&self) -> usize {
        let before = self.previous.as_ref().map_or(0, |previous| previous.bytes.len());
        self.object.bytes.len() + before + self.key.len() + 200
    }
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No object of that key.
    Absent,
    /// The object at exactly this revision.
    At(u64),
}

/// One write that waits to be committed.
#[derive(Clone, Debug)]
pub struct Write {
    /// Which object.
    pub key: Key,
    /// What must be there for the write to happen.
    pub expect: Expect,
    /// What to do.
    pub act: Act,
    /// What the object lies in, such as its namespace: nothing of it may be missing or being deleted.
    pub within: Vec<Key>,
    /// For a Service: where the cluster IP and the node ports come from that it still wants.
    pub services: Option<services::Range>,
    /// Who owns which field of the object.
    pub owners: Packed,
}

impl Write {
    /// Returns the write that stores an object.
    pub fn put(key: Key, expect: Expect, object: Value) -> Write {
        Write { key, expect, act: Act::Put(object), within: Vec::new(), services: None, owners: Packed::default() }
    }

    /// Returns whether the write deletes an object, or is a step on the way there.
    pub fn deletes(&self) -> bool {
        match &self.act {
            Act::Remove(_) => true,
            Act::Put(object) => api::json::at(object, &["metadata", "deletionTimestamp"]).is_some(),
        }
    }

    /// Returns the object that is stored, or its last state.
    pub fn object(&self) -> &Value {
        let (Act::Put(object) | Act::Remove(object)) = &self.act;
        object
    }

    /// Returns the same with `managedFields`.
    pub fn into_whole(self) -> Value {
        let (Act::Put(object) | Act::Remove(object)) = self.act;
        with_owners(object, &self.owners)
    }

    /// Returns the write that removes an object; `last` is what watchers see of it.
    pub fn remove(key: Key, expect: Expect, last: Value) -> Write {
        Write { key, expect, act: Act::Remove(last), within: Vec::new(), services: None, owners: Packed::default() }
    }
}

/// What a write does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Stores the object.
    Put(Value),
    /// Removes the object; this is the last state that watchers see.
    Remove(Value),
}

/// A write whose expectation did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The object exists already.
    #[error("the object exists already")]
    Exists,
    /// There is no such object.
    #[error("there is no such object")]
    Missing,
    /// The object has changed.
    #[error("the object has changed")]
    Changed,
    /// What it lies in is missing or being deleted.
    #[error("what the object lies in is missing or being deleted")]
    Terminating,
    /// It would be larger than [`OBJECT_MAX`].
    #[error("the object would be larger than {OBJECT_MAX} bytes")]
    TooLarge,
    /// Another Service has its cluster IP or one of its node ports.
    #[error("another Service has the cluster IP or a node port")]
    Taken,
    /// No cluster IP is free.
    #[error("no cluster IP is free")]
    NoAddress,
    /// Not enough node ports are free.
    #[error("not enough node ports are free")]
    NoPort,
}

impl Refused {
    /// Returns whether preparing the write again against the present helps: it succeeds, or says what is wrong.
    pub fn is_stale(self) -> bool {
        matches!(self, Refused::Exists | Refused::Missing | Refused::Changed | Refused::Terminating | Refused::Taken)
    }
}

/// The answer to a write: the object as stored (for a removal its last state), or why not.
pub type Answer = Result<Arc<Stored>, Refused>;

/// How much history is kept: at least `revisions` and `age`, but never more than `bytes`.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// At least so many changes.
    pub revisions: usize,
    /// At least so long.
    pub age: std::time::Duration,
    /// Never more than this.
    pub bytes: usize,
}

impl Default for WindowLimits {
    fn default() -> WindowLimits {
        WindowLimits { revisions: 10_000, age: std::time::Duration::from_secs(300), bytes: 64 << 20 }
    }
}

/// The objects at one revision.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    objects: OrdMap<Key, Arc<Stored>>,
    claims: Claims,
    templates: Templates,
}

impl Snapshot {
    /// Returns who holds which cluster IP and node port.
    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Returns whether an object is there and not being deleted.
    pub(crate) fn is_alive(&self, key: &str) -> bool {
        self.objects.get(key).is_some_and(|stored| !stored.index.deleting)
    }

    /// Returns an object.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// Checks a batch of writes and computes the state after it. Writes of one batch see each other in order.
    pub fn stage(mut self, at: Time, batch: Vec<Write>) -> Staged {
        let mut changes = Vec::with_capacity(batch.len());
        let mut parsed = Vec::new();
        let answers = batch.into_iter().map(|write| stage_one(&mut self, at, write, &mut changes, &mut parsed)).collect();
        Staged { next: self, changes, answers, parsed }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the objects whose key begins with `prefix`, after `after` if given, in key order.
    pub fn range<'a>(&'a self, prefix: &'a str, after: Option<&str>) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let start: Key = after.unwrap_or(prefix).into();
        let bound = if after.is_some() { Excluded(start) } else { Included(start) };
        self.objects.range((bound, Unbounded)).take_while(move |(key, _)| key.starts_with(prefix))
    }
}

/// The present, and the window of changes that led to it.
#[derive(Debug, Default)]
pub struct RegistryState {
    now: Snapshot,
    window: VecDeque<Arc<Change>>,
    window_bytes: usize,
    /// Changes up to this revision are no longer known.
    floor: u64,
    limits: WindowLimits,
}

/// The outcome of staging a batch: a state that is not visible yet.
#[derive(Debug)]
pub struct Staged {
    next: Snapshot,
    /// What must reach the disk, in order.
    pub changes: Vec<Arc<Change>>,
    /// The answer to each write: the object as stored (for a removal its last state), or why not.
    pub answers: Vec<Answer>,
    /// What was stored, as it was before it became text.
    pub parsed: Vec<ParsedObject>,
}

/// A stored object with its JSON as values.
pub type ParsedObject = (Arc<Stored>, Arc<Value>);

impl RegistryState {
    /// Returns the state that was on disk: objects at `revision`, and the changes after `floor`, oldest first.
    pub fn restore(
        revision: u64,
        objects: impl IntoIterator<Item = (Key, Arc<Stored>)>,
        floor: u64,
        window: Vec<Arc<Change>>,
        limits: WindowLimits,
    ) -> RegistryState {
        let window_bytes = window.iter().map(|change| change.size()).sum();
        let objects: OrdMap<Key, Arc<Stored>> = objects.into_iter().collect();
        let mut now = Snapshot { revision, objects, claims: Claims::default(), templates: Templates::default() };
        now.claims = Claims::of(now.range(services::KEYS, None).map(|(key, stored)| (key, stored.object())));
        RegistryState { now, window: window.into(), window_bytes, floor, limits }
    }

    /// Goes on with the texts of owners that the objects share.
    #[must_use]
    pub fn with_templates(mut self, templates: Templates) -> RegistryState {
        self.now.templates = templates;
        self
    }

    /// Returns the present.
    pub fn snapshot(&self) -> Snapshot {
        self.now.clone()
    }

    /// Returns the revision.
    pub fn revision(&self) -> u64 {
        self.now.revision
    }

    /// Returns the revision up to which changes are no longer known.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Makes a staged batch the present. Only the latest staged batch may be published, and only once it is on disk.
    pub fn publish(&mut self, staged_next: Snapshot, changes: &[Arc<Change>]) {
        assert!(staged_next.revision >= self.now.revision, "revisions never fall");
        self.now = staged_next;
        for change in changes {
            self.window_bytes += change.size();
            self.window.push_back(Arc::clone(change));
        }
        let now = changes.last().map_or(Time::ZERO, |change| change.at);
        // Bounded work per commit: no pause, however much has expired.
        for _ in 0..(2 * changes.len() + 1) {
            if !self.oldest_expired(now) {
                break;
            }
            self.forget_oldest();
        }
        while self.window_bytes > self.limits.bytes && self.window.len() > 1 {
            self.forget_oldest();
        }
    }

    fn oldest_expired(&self, now: Time) -> bool {
        let Some(oldest) = self.window.front() else { return false };
        self.window.len() > self.limits.revisions && now.since(oldest.at) > self.limits.age
    }

    fn forget_oldest(&mut self) {
        if let Some(change) = self.window.pop_front() {
            self.window_bytes -= change.size();
            self.floor = change.revision;
        }
    }

    /// Returns the changes after `revision`, oldest first; `None` if some of them are no longer known.
    pub fn changes_after(&self, revision: u64) -> Option<impl Iterator<Item = &Arc<Change>>> {
        if revision < self.floor {
            return None;
        }
        let start = self.window.partition_point(|change| change.revision <= revision);
        Some(self.window.range(start..))
    }

    /// Returns the objects as they were at `revision`; `None` if that is ahead or no longer known.
    pub fn snapshot_at(&self, revision: u64) -> Option<Snapshot> {
        if revision > self.now.revision || revision < self.floor {
            return None;
        }
        // Nothing is written against the past: who holds what there is not asked.
        let (claims, templates) = (Claims::default(), Templates::default());
        let mut past = Snapshot { revision, objects: self.now.objects.clone(), claims, templates };
        for change in self.window.iter().rev().take_while(|change| change.revision > revision) {
            match &change.previous {
                Some(previous) => past.objects.insert(Arc::clone(&change.key), Arc::clone(previous)),
                None => past.objects.remove(&change.key),
            };
        }
        Some(past)
    }
}

impl Staged {
    /// Splits into what [`RegistryState::publish`] takes, the answers and what was parsed.
    pub fn into_parts(self) -> (Snapshot, Vec<Arc<Change>>, Vec<Answer>, Vec<ParsedObject>) {
        (self.next, self.changes, self.answers, self.parsed)
    }
}

fn stage_one(
    next: &mut Snapshot,
    at: Time,
    write: Write,
    changes: &mut Vec<Arc<Change>>,
    parsed: &mut Vec<ParsedObject>,
) -> Result<Arc<Stored>, Refused> {
    let Write { key, expect, act, within, services, mut owners } = write;
    let previous = next.objects.get(&key).cloned();
    match (expect, &previous) {
        (Expect::Absent, None) => {}
        (Expect::Absent, Some(_)) => return Err(Refused::Exists),
        (Expect::At(_), None) => return Err(Refused::Missing),
        (Expect::At(revision), Some(stored)) if stored.revision != revision => return Err(Refused::Changed),
        (Expect::At(_), Some(_)) => {}
    }
    if !within.iter().all(|place| next.is_alive(place)) {
        return Err(Refused::Terminating);
    }
    let revision = next.revision + 1;
    let service_before = || previous.as_ref().filter(|_| key.starts_with(services::KEYS)).map(|stored| stored.object());
    // A refused write leaves no trace: what it would change is put in place after the last reason to refuse it.
    let (type_, object) = match act {
        Act::Put(mut object) => {
            let mut claims = next.claims.clone();
            if key.starts_with(services::KEYS) {
                claims.assign(&key, &mut object, service_before().as_ref(), services)?;
            }
            owners.intern(&mut next.templates);
            // It will mostly be about as long as it was: then its text need not be moved while it grows.
            let room = previous.as_ref().map_or(TEXT_ROOM, |previous| previous.bytes.len() + previous.bytes.len() / 16);
            let stored = Arc::new(Stored::settled(revision, &mut object, owners, room));
            check_size(&stored, previous.as_deref())?;
            next.claims = claims;
            next.objects.insert(Arc::clone(&key), Arc::clone(&stored));
            parsed.push((Arc::clone(&stored), Arc::new(object)));
            (if previous.is_none() { ChangeType::Added } else { ChangeType::Modified }, stored)
        }
        Act::Remove(object) => {
            if let Some(service) = service_before() {
                next.claims.release(&key, &service);
            }
            next.objects.remove(&key);
            (ChangeType::Deleted, Arc::new(Stored::owned(revision, object, owners)))
        }
    };
    next.revision = revision;
    changes.push(Arc::new(Change { revision, at, key, type_, object: Arc::clone(&object), previous }));
    Ok(object)
}

/// Refuses an object above the limit. One that is above it already may stay so, and can always be deleted.
fn check_size(stored: &Stored, previous: Option<&Stored>) -> Result<(), Refused> {
    let before = previous.map_or(0, |previous| previous.bytes.len());
    let marked = stored.index.deleting && previous.is_some_and(|previous| !previous.index.deleting);
    let limit = OBJECT_MAX.max(before) + if marked { DELETION_MARKS_MAX } else { 0 };
    if stored.bytes.len() > limit { Err(Refused::TooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
