//! What a write does to the fields of everybody.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::element::Element;
use crate::managers::{Id, Managers, Operation, Owned};
use crate::schema::Schema;
use crate::set::{Set, show};
use crate::walk::{self, Difference, Mismatch};

/// A field that somebody else owns and that would get another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub owner: Id,
    /// The field.
    pub path: Vec<Element>,
}

impl Conflict {
    /// Returns the field as errors show it.
    pub fn field(&self) -> String {
        show(&self.path)
    }
}

/// What ownership is decided from, besides the objects.
pub(crate) struct Rules<'t, S> {
    /// Returns the type of a version; `None`: it is gone, and so is what was owned in it.
    pub(crate) types: &'t dyn Fn(&str) -> Option<S>,
    /// Fields that this endpoint never changes.
    pub(crate) ignored: &'t Set,
}

/// How two states differ, by version.
type Differences = BTreeMap<String, Difference>;

/// Why an apply does not happen.
pub(crate) enum Stop {
    Mismatch(Mismatch),
    Conflicts(Vec<Conflict>),
}

impl From<Mismatch> for Stop {
    fn from(mismatch: Mismatch) -> Stop {
        Stop::Mismatch(mismatch)
    }
}

impl<'a, S: Schema<'a>> Rules<'_, S> {
    /// Brings what everybody owns into line with types that may have changed; who wrote a version that is gone, goes.
    pub(crate) fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain(|_, owned| {
            let Some(schema) = (self.types)(&owned.version) else { return false };
            if let Some(fields) = walk::reconcile(schema, &owned.fields) {
                owned.fields = fields;
            }
            true
        });
    }

    /// Returns how two states differ in every version that somebody writes.
    fn differences(&self, old: &Value, new: &Value, version: &str, managers: &Managers) -> Result<Differences, Mismatch> {
        let mut differences = Differences::new();
        for version in managers.0.values().map(|owned| owned.version.as_str()).chain([version]) {
            if let Some(schema) = (self.types)(version)
                && !differences.contains_key(version)
            {
                let mut difference = walk::compare(schema, old, new)?;
                difference.ignore(self.ignored);
                differences.insert(version.to_owned(), difference);
            }
        }
        Ok(differences)
    }

    /// Takes from everybody but `own` what differs between two states.
    fn take(differences: &Differences, managers: &mut Managers, own: Option<&Id>) {
        managers.0.retain(|id, owned| {
            if Some(id) == own {
                return !owned.fields.is_empty();
            }
            let Some(difference) = differences.get(&owned.version) else { return false };
            if !difference.changed.is_empty() || !difference.removed.is_empty() {
                owned.fields = owned.fields.difference(&difference.changed).difference(&difference.removed);
            }
            !owned.fields.is_empty()
        });
    }

    /// Returns the fields that differ and that somebody else owns.
    fn conflicts(differences: &Differences, managers: &Managers, own: &Id) -> Vec<Conflict> {
        let others = managers.0.iter().filter(|(id, _)| *id != own);
        let disputed = |(id, owned): (&Id, &Owned)| {
            let disputed = differences.get(&owned.version).map(|all| owned.fields.intersection(&all.changed));
            let owner = id.clone();
            disputed.unwrap_or_default().paths().into_iter().map(move |path| Conflict { owner: owner.clone(), path })
        };
        others.flat_map(disputed).collect()
    }

    /// An update: everybody loses what it changes; returns what the writer has set.
    pub(crate) fn update(&self, old: &Value, new: &Value, version: &str, managers: &mut Managers) -> Result<Set, Mismatch> {
        self.reconcile(managers);
        let mut differences = self.differences(old, new, version, managers)?;
        Self::take(&differences, managers, None);
        Ok(differences.remove(version).unwrap_or_default().changed)
    }

    /// An apply: returns the object that it leads to.
    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        version: &str,
        managers: &mut Managers,
        id: &Id,
        force: bool,
    ) -> Result<Value, Stop> {
        self.reconcile(managers);
        let Some(schema) = (self.types)(version) else { return Ok(live.clone()) };
        let merged = walk::merge(schema, live, config)?;
        let fields = walk::fields(schema, config)?.without_trees(self.ignored);
        let last = managers.0.get(id).cloned();
        let time = last.as_ref().and_then(|last| last.time);
        managers.0.insert(id.clone(), Owned { version: version.to_owned(), time, fields });
        let new = match last {
            Some(last) if !last.fields.is_empty() => self.prune(merged, managers, &last)?,
            _ => merged,
        };
        let differences = self.differences(live, &new, version, managers)?;
        let conflicts = if force { Vec::new() } else { Self::conflicts(&differences, managers, id) };
        if !conflicts.is_empty() {
            return Err(Stop::Conflicts(conflicts));
        }
        Self::take(&differences, managers, Some(id));
        Ok(new)
    }

    /// Removes what the manager applied before, does not apply now, and nobody else owns.
    fn prune(&self, merged: Value, managers: &Managers, last: &Owned) -> Result<Value, Mismatch> {
        let Some(schema) = (self.types)(&last.version) else { return Ok(merged) };
        let last_fields = last.fields.with_declared_parents(Some(schema));
        let mut pruned = walk::remove(schema, &merged, &last_fields);
        // Versions other than the last one see the same object; what is owned in them is owned all the same.
        let mut owned_by_version: BTreeMap<&str, Set> = BTreeMap::new();
        for owned in managers.0.values() {
            let known = owned_by_version.entry(&owned.version).or_default();
            *known = known.union(&owned.fields);
        }
        let mut versions: Vec<&str> = owned_by_version.keys().copied().collect();
        versions.sort_by_key(|version| *version != last.version);
        for version in versions {
            let Some(schema) = (self.types)(version) else { continue };
            let owned = owned_by_version[version].with_declared_parents(Some(schema));
            let all = declared_fields(schema, &merged)?;
            let kept = declared_fields(schema, &pruned)?.union(&owned);
            pruned = walk::remove(schema, &merged, &all.difference(&kept));
        }
        // What nobody applied stays, even if the parent of it was applied.
        let gone = declared_fields(schema, &merged)?.difference(&declared_fields(schema, &pruned)?).intersection(&last_fields);
        Ok(walk::remove(schema, &merged, &gone))
    }
}

fn declared_fields<'a, S: Schema<'a>>(schema: S, value: &Value) -> Result<Set, Mismatch> {
    Ok(walk::fields(schema, value)?.with_declared_parents(Some(schema)))
}

/// Returns whether an entry is one of an applier.
pub(crate) fn is_applier(id: &Id) -> bool {
    id.operation == Operation::Apply
}
