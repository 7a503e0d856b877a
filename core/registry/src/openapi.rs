//! OpenAPI: of version 3 one document for each group and version, made from the type model and the schemas of definitions.
//!
//! kubectl reads three things: the PATCH operation of a kind with its parameters and body types (without it, `apply` and
//! `create -f` refuse to run), the merge keys in the schemas, and the texts for `explain`. A document is a pure function of
//! the resources that are served, so it is made once per change; its hash is its version.

mod paths;
mod schemas;
pub mod v2;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use kinds::model::{self, message_for};
use kinds::resource::Resource;
use schemas::Schemas;

/// A served resource as its document shows it.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// `openAPIV3Schema` of a custom resource.
    pub schema: Option<&'a Value>,
}

/// A group, version and kind.
type Gvk<'a> = (&'a str, &'a str, &'a str);

/// Returns where a group and version lives: `api/v1` or `apis/apps/v1`.
pub fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Returns the groups and versions of some resources, in their order.
pub fn versions<'a>(served: &[Served<'a>]) -> Vec<(&'a str, &'a str)> {
    let mut seen = BTreeSet::new();
    served
        .iter()
        .map(|served| (served.resource.group.as_str(), served.resource.version.as_str()))
        .filter(|version| seen.insert(*version))
        .collect()
}

/// Returns the document of a group and version; `server_version` is what `/version` reports.
pub fn document(group: &str, version: &str, served: &[Served<'_>], server_version: &str) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    let ours = served.iter().filter(|served| served.resource.group == group && served.resource.version == version);
    for served in ours {
        let resource = served.resource;
        let name = match (served.schema, message_for(&resource.api_version(), &resource.kind)) {
            (Some(schema), _) => schemas.custom(resource, schema),
            (None, Some(message)) => schemas.kind(message, (group, version, &resource.kind)),
            (None, None) => schemas.custom(resource, &json!({"type": "object"})),
        };
        if resource.verbs.contains(&"list") {
            schemas.list(resource, &name);
        }
        for subresource in &resource.subresources {
            if let Some((group, version, kind)) = &subresource.other_kind {
                let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
                if let Some(message) = message_for(&api_version, kind) {
                    schemas.kind(message, (group, version, kind));
                }
            }
        }
        paths::add(&mut paths, resource, &name);
    }
    if let Some(options) = model::message("DeleteOptions") {
        schemas.kind(options, (group, version, "DeleteOptions"));
    }
    schemas.status();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "components": {"schemas": schemas.finish()},
    })
}

/// Returns the index: where each document is, by [`root`] and hash.
pub fn index(hashes: &BTreeMap<String, String>) -> Value {
    let entry = |(root, hash): (&String, &String)| {
        (root.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{root}?hash={hash}")}))
    };
    json!({"paths": hashes.iter().map(entry).collect::<Map<String, Value>>()})
}

/// Returns a hash of some bytes as upper-case hexadecimal digits, for ETags and URLs (FNV-1a, 128 bits; not for secrets).
pub fn hash(bytes: &[u8]) -> String {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in bytes {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032X}")
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn gvk_value((group, version, kind): Gvk<'_>) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

#[cfg(test)]
mod tests;
