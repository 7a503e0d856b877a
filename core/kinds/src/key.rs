//! Where an object is stored.

use std::sync::Arc;

/// The place of an object: `/<group>/<resource>/<namespace>/<name>`, empty parts included. Bytewise order is list order.
pub type Key = Arc<str>;

/// Returns the key of an object.
pub fn key(group: &str, resource: &str, namespace: &str, name: &str) -> Key {
    format!("/{group}/{resource}/{namespace}/{name}").into()
}

/// Returns what the keys of a resource begin with, in one namespace or (empty) in all.
pub fn prefix(group: &str, resource: &str, namespace: &str) -> String {
    if namespace.is_empty() { format!("/{group}/{resource}/") } else { format!("/{group}/{resource}/{namespace}/") }
}
