//! Who owns which field: the types of kinds as server-side apply sees them, and what writes do to `managedFields`.
//!
//! What every write does is decided in `apply`; here it gets the type of the kind, what its endpoints never change, and the
//! words for what it refuses. Updates of Leases and Events have no entries: they are the hottest writes, and hardly anybody
//! applies them.

mod types;

use apply::{Conflict, Managers, Packed, Refusal, Set};
use serde_json::{Map, Value, json};

use crate::kind::ServedKind;
use crate::state::Stored;
use api::status::Status;
use kinds::builtin::{Builtin, Part};

pub use types::FieldType;

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// The subresource through which it writes; empty for the object itself.
    pub subresource: &'a str,
}

impl Writer<'static> {
    /// The server itself, through the object or one of its subresources.
    pub const fn server(subresource: &'static str) -> Writer<'static> {
        Writer { manager: "lifesign-apiserver", subresource }
    }
}

/// Where the owners of the next state come from.
pub enum Owners<'a> {
    /// From what the writer changes.
    Of(Writer<'a>),
    /// They are known: the state comes from an apply.
    Known(Managers),
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Returns the managers that a write starts from: those that the client sent, if they can be read, else the stored ones.
fn before(sent: Option<&Value>, stored: &Packed, subresource: &str) -> Managers {
    // Through a subresource nobody changes who owns what.
    let sent = sent.filter(|_| subresource.is_empty());
    if sent.is_some_and(apply::is_reset) {
        return Managers::default();
    }
    match sent.map(Managers::decode) {
        Some(Ok(managers)) if !managers.is_empty() => managers,
        _ => stored.managers(),
    }
}

/// Returns the owners of a new object; `object` has its defaults and nothing that the server decides.
pub(crate) fn created(
    kind: &ServedKind,
    object: &Value,
    sent: Option<&Value>,
    writer: Writer<'_>,
    now: machine::Time,
) -> Managers {
    let managers = before(sent, &Packed::default(), "");
    if managers.is_empty() && !tracks_updates(kind) {
        return managers;
    }
    kind.with_write(Part::Main, writer, now, |write| apply::update(write, write.empty, object, managers))
}

/// Returns the owners of the next state of an object.
pub(crate) fn updated(
    kind: &ServedKind,
    part: Part,
    (current, old): (&Stored, &Value),
    new: &Value,
    sent: Option<&Value>,
    writer: Writer<'_>,
    now: machine::Time,
) -> Managers {
    let managers = before(sent, &current.owners, writer.subresource);
    // An object of which nobody was known to own anything stays so until somebody applies.
    if managers.is_empty() {
        return managers;
    }
    kind.with_write(part, writer, now, |write| apply::update(write, old, new, managers))
}

/// Returns the state that an apply leads to, and its owners. `live` is the stored object with its type, if there is one.
pub(crate) fn applied(
    kind: &ServedKind,
    part: Part,
    live: Option<(&Stored, &Value)>,
    config: &Value,
    force: bool,
    writer: Writer<'_>,
    now: machine::Time,
) -> Result<(Value, Managers), Status> {
    let managers = live.map_or_else(Managers::default, |(stored, _)| stored.owners.managers());
    let outcome = kind.with_write(part, writer, now, |write| {
        apply::apply(write, live.map_or(write.empty, |(_, object)| object), config, managers, force)
    });
    match outcome {
        Ok(applied) => Ok((applied.object, applied.managers)),
        Err(Refusal::Conflicts(conflicts)) => Err(conflict(&conflicts)),
        Err(Refusal::Mismatch(mismatches)) => {
            let text = |key| api::json::text(config, &["metadata", key]);
            let all: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
            let all = if all.len() == 1 { all[0].clone() } else { format!("errors:\n  {}", all.join("\n  ")) };
            let (version, name) = (kind.resource.api_version(), &kind.resource.kind);
            Err(Status::bad_request(format!(
                "failed to create typed patch object ({}/{}; {version}, Kind={name}): {all}",
                text("namespace"),
                text("name")
            )))
        }
    }
}

/// 409: fields that others own would get other values.
fn conflict(conflicts: &[Conflict]) -> Status {
    let cause = |conflict: &Conflict| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {}", conflict.owner.shown()), "field": conflict.field()});
    let message = match conflicts {
        [only] => format!("Apply failed with 1 conflict: conflict with {}: {}", only.owner.shown(), only.field()),
        all => {
            let mut text = format!("Apply failed with {} conflicts: ", all.len());
            let mut lines = Vec::new();
            for (index, conflict) in all.iter().enumerate() {
                if index == 0 || all[index - 1].owner != conflict.owner {
                    lines.push(format!("conflicts with {}:", conflict.owner.shown()));
                }
                lines.push(format!("- {}", conflict.field()));
            }
            text.push_str(&lines.join("\n"));
            text
        }
    };
    Status::apply_conflict(message, conflicts.iter().map(cause).collect())
}

/// Returns whether updates of a kind have entries.
fn tracks_updates(kind: &ServedKind) -> bool {
    !matches!(kind.builtin(), Some(Builtin::Lease | Builtin::Event | Builtin::EventsEvent))
}

/// Returns the fields that an endpoint never changes.
fn ignored(kind: &ServedKind, part: Part) -> Set {
    let none = Set::default();
    match (part, kind.builtin()) {
        (Part::Main | Part::Binding, _) if kind.resource.has_status() => none.with(&["status"]),
        (Part::Main | Part::Binding, _) => none,
        (Part::Finalize, _) => none.with(&["status"]).with(&["metadata"]),
        (Part::Status, None) if kind.further().is_some() => none.with(&["spec"]),
        (Part::Status, None) => none.with(&["metadata"]).with(&["spec"]),
        (Part::Status, Some(builtin)) => {
            let set = none.with(&["spec"]);
            match builtin {
                Builtin::Pod => set.with(&["metadata", "deletionTimestamp"]).with(&["metadata", "ownerReferences"]),
                Builtin::Node => set.with(&["metadata", "ownerReferences"]),
                Builtin::Deployment | Builtin::ReplicaSet => {
                    set.with(&["metadata", "labels"]).with(&["metadata", "ownerReferences"])
                }
                Builtin::CustomResourceDefinition => set.with(&["metadata"]),
                _ => set,
            }
        }
    }
}

impl ServedKind {
    /// Hands over what a write through an endpoint is, to be decided about.
    fn with_write<R>(
        &self,
        part: Part,
        writer: Writer<'_>,
        now: machine::Time,
        act: impl FnOnce(&apply::Write<'_, FieldType<'_>>) -> R,
    ) -> R {
        let version = self.resource.api_version();
        let mut empty = Map::new();
        if let Some(message) = self.message() {
            empty = types::empty(message);
        }
        empty.insert("apiVersion".to_owned(), version.clone().into());
        empty.insert("kind".to_owned(), self.resource.kind.clone().into());
        act(&apply::Write {
            manager: writer.manager,
            subresource: writer.subresource,
            version: &version,
            now,
            types: &|version| self.field_type(version),
            empty: &Value::Object(empty),
            ignored: &ignored(self, part),
            tracks_updates: tracks_updates(self),
        })
    }
}
