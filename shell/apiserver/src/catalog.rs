//! What is served right now: the built-in kinds and those of established CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinds::resource::{self, Resource};
use registry::custom;
use registry::kind::ServedKind;
use registry::state::Snapshot;

/// The kinds that are served, and how to find them.
pub(crate) struct Catalog {
    kinds: Vec<Arc<ServedKind>>,
    by_path: BTreeMap<(String, String, String), Arc<ServedKind>>,
    /// Rises with every change, so that documents made from it can be kept.
    pub(crate) generation: u64,
}

impl Catalog {
    /// Returns the kinds that a snapshot defines.
    pub(crate) fn new(snapshot: &Snapshot, generation: u64) -> Catalog {
        let mut kinds: Vec<Arc<ServedKind>> =
            resource::builtins().into_iter().map(|resource| Arc::new(ServedKind::builtin_kind(resource))).collect();
        let prefix = registry::state::prefix("apiextensions.k8s.io", "customresourcedefinitions", "");
        for (_, stored) in snapshot.range(&prefix, None) {
            kinds.extend(custom::kinds_of(&stored.object()).into_iter().map(Arc::new));
        }
        let place = |resource: &Resource| (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        let by_path = kinds.iter().map(|kind| (place(&kind.resource), Arc::clone(kind))).collect();
        Catalog { kinds, by_path, generation }
    }

    /// Finds a kind by the parts of a URL.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedKind>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Finds a kind by the key of one of its objects: any served version does.
    pub(crate) fn find_by_key(&self, key: &str) -> Option<&Arc<ServedKind>> {
        let mut parts = key.splitn(5, '/').skip(1);
        let (group, plural) = (parts.next()?, parts.next()?);
        self.kinds
            .iter()
            .find(|kind| kind.resource.storage_group == group && kind.resource.plural == plural && kind.resource.group == group)
    }

    /// Returns every kind, core first.
    pub(crate) fn kinds(&self) -> &[Arc<ServedKind>] {
        &self.kinds
    }
}
