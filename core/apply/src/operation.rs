//! What writes mean for the managers of an object: the whole of it, with times, names and the upgrade from older clients.

use machine::Time;
use serde_json::{Map, Value};

use crate::managers::{Id, Managers, Operation, Owned};
use crate::ownership::{Conflict, Rules, Stop, is_applier};
use crate::schema::Schema;
use crate::set::Set;
use crate::walk::{self, Mismatch};

/// Where clients that merge on their own side keep what they applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Who owns what was there before anybody was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose older client-side form is upgraded.
const KUBECTL: &str = "kubectl";
/// The most bytes that the annotations of an object may have.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// A write, without the object.
pub struct Write<'t, S> {
    /// Who writes.
    pub manager: &'t str,
    /// Through which subresource; empty for the object itself.
    pub subresource: &'t str,
    /// In which version.
    pub version: &'t str,
    /// When.
    pub now: Time,
    /// Returns the type of a version; `None`: there is no such version.
    pub types: &'t dyn Fn(&str) -> Option<S>,
    /// An object of the kind that nobody has written anything into.
    pub empty: &'t Value,
    /// Fields that this endpoint never changes, with everything below them.
    pub ignored: &'t Set,
    /// Whether updates have entries; without them only appliers are known.
    pub tracks_updates: bool,
}

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object that it leads to.
    pub object: Value,
    /// The managers after it.
    pub managers: Managers,
}

/// Why an apply is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The configuration is not what its type says.
    Mismatch(Vec<Mismatch>),
    /// Somebody else owns fields that would get other values.
    Conflicts(Vec<Conflict>),
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Refusal {
        match stop {
            Stop::Mismatch(mismatch) => Refusal::Mismatch(vec![mismatch]),
            Stop::Conflicts(conflicts) => Refusal::Conflicts(conflicts),
        }
    }
}

/// Metadata that is the server's business and that nobody owns.
fn unowned() -> Set {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let top = Set::default().with(&["apiVersion"]).with(&["kind"]).with(&["metadata"]);
    metadata.iter().fold(top, |set, name| set.with(&["metadata", name]))
}

impl<'a, S: Schema<'a>> Write<'_, S> {
    fn id(&self, operation: Operation) -> Id {
        Id::new(self.manager, operation, self.version, self.subresource)
    }

    fn rules(&self) -> Rules<'_, S> {
        Rules { types: self.types, ignored: self.ignored }
    }

    /// Whole seconds: that is what entries show.
    fn time(&self) -> Time {
        Time::from_secs(self.now.as_secs())
    }
}

/// Returns the managers after a write that is no apply: the writer owns what it set, others no longer own what it changed.
///
/// If one of the states is not what its type says, nobody is known to own anything: better nobody than the wrong one.
pub fn update<'a, S: Schema<'a>>(write: &Write<'_, S>, live: &Value, new: &Value, mut managers: Managers) -> Managers {
    let Ok(set) = write.rules().update(live, new, write.version, &mut managers) else { return Managers::default() };
    let set = set.difference(&unowned());
    if !set.is_empty() && write.tracks_updates {
        let entry = managers.0.entry(write.id(Operation::Update)).or_insert_with(|| Owned {
            version: write.version.to_owned(),
            time: None,
            fields: Set::default(),
        });
        entry.fields = entry.fields.union(&set);
        entry.time = Some(write.time());
    }
    managers.cap();
    managers
}

/// Returns the object and its managers after an apply.
///
/// `live` is the object as it is stored, or an empty one of the kind; `managers` are those of `live`.
pub fn apply<'a, S: Schema<'a>>(
    write: &Write<'_, S>,
    live: &Value,
    config: &Value,
    managers: Managers,
    force: bool,
) -> Result<Applied, Refusal> {
    let Some(schema) = (write.types)(write.version) else { return Err(Refusal::Mismatch(Vec::new())) };
    let mismatches = walk::check(schema, config);
    if !mismatches.is_empty() {
        return Err(Refusal::Mismatch(mismatches));
    }
    let managers = if managers.is_empty() { first(write, live) } else { managers };
    let mut outcome = once(write, live, config, managers.clone(), force);
    if let Err(Refusal::Conflicts(conflicts)) = &outcome
        && write.manager == KUBECTL
        && let Some(allowed) = last_applied(write, live)
    {
        let left: Vec<Conflict> = conflicts.iter().filter(|conflict| !allowed.contains(&conflict.path)).cloned().collect();
        outcome = if left.is_empty() { once(write, live, config, managers, true) } else { Err(Refusal::Conflicts(left)) };
    }
    let mut applied = outcome?;
    if !write.tracks_updates {
        applied.managers.0.retain(|id, _| is_applier(id));
    }
    if write.manager == KUBECTL {
        refresh_last_applied(&mut applied.object, config);
    }
    Ok(applied)
}

/// Returns who owns an object of which nobody was known to own anything.
fn first<'a, S: Schema<'a>>(write: &Write<'_, S>, live: &Value) -> Managers {
    let before = Write { manager: BEFORE_FIRST_APPLY, tracks_updates: true, ..*write };
    update(&before, write.empty, live, Managers::default())
}

fn once<'a, S: Schema<'a>>(
    write: &Write<'_, S>,
    live: &Value,
    config: &Value,
    mut managers: Managers,
    force: bool,
) -> Result<Applied, Refusal> {
    let id = write.id(Operation::Apply);
    let before = managers.0.get(&id).cloned();
    let object = write.rules().apply(live, config, write.version, &mut managers, &id, force)?;
    let unchanged = walk::same(&object, live);
    if let Some(owned) = managers.0.get_mut(&id) {
        owned.fields = owned.fields.difference(&unowned());
        if owned.fields.is_empty() {
            managers.0.remove(&id);
        } else if !unchanged || before.is_none_or(|before| before.fields != owned.fields) {
            owned.time = Some(write.time());
        }
    }
    Ok(Applied { object, managers })
}

/// Returns the fields that the object still has as a client-side apply has left them: the same user wrote them.
fn last_applied<'a, S: Schema<'a>>(write: &Write<'_, S>, live: &Value) -> Option<Set> {
    let text = annotations(live)?.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion")?.as_str()? != write.version {
        return None;
    }
    let schema = (write.types)(write.version)?;
    if !walk::check(schema, &last).is_empty() {
        return None;
    }
    let difference = walk::compare(schema, &last, live).ok()?;
    Some(walk::fields(schema, &last).ok()?.difference(&difference.changed).difference(&difference.removed))
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.get("annotations")?.as_object()
}

/// Keeps the annotation of client-side apply up to date, if the object has it, so that both ways of applying can be mixed.
fn refresh_last_applied(object: &mut Value, config: &Value) {
    let present = annotations(object).and_then(|all| all.get(LAST_APPLIED)?.as_str()).is_some_and(|text| !text.is_empty());
    if !present {
        return;
    }
    let mut config = config.clone();
    if let Some(all) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        all.remove(LAST_APPLIED);
    }
    let Some(all) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    all.insert(LAST_APPLIED.to_owned(), (html_safe(&config) + "\n").into());
    let size: usize = all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_MAX {
        all.remove(LAST_APPLIED);
    }
}

/// Writes JSON the way the clients do that compare this text byte by byte.
fn html_safe(value: &Value) -> String {
    let text = value.to_string();
    let escape = |c| match c {
        '<' => "\\u003c".to_owned(),
        '>' => "\\u003e".to_owned(),
        '&' => "\\u0026".to_owned(),
        '\u{2028}' => "\\u2028".to_owned(),
        '\u{2029}' => "\\u2029".to_owned(),
        other => String::from(other),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests;
