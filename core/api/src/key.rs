//! Names of objects.

use crate::ObjectMeta;

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of a name in a namespace.
    pub fn new(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the key of an object.
    pub fn of(metadata: &ObjectMeta) -> Key {
        Key::new(&metadata.namespace, &metadata.name)
    }

    /// Returns the least key of a namespace, for ranges.
    pub fn first(namespace: &str) -> Key {
        Key::new(namespace, "")
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// Returns the revision of a version of an object, if it is a number: then two versions can be compared.
///
/// Kubernetes promises that since 1.35, our server always.
pub fn revision(metadata: &ObjectMeta) -> Option<u128> {
    metadata.resource_version.parse().ok()
}

/// Returns whether `new` is an older version of the very object `known`.
///
/// A watch may deliver an old version after the answer to a write brought a newer one. Where revisions are not numbers,
/// nothing is called old.
pub fn is_stale(known: &ObjectMeta, new: &ObjectMeta) -> bool {
    new.is_older_than(known)
}
