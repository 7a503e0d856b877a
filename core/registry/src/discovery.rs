//! Discovery: which groups, versions and resources there are.
//!
//! Two forms say the same. The legacy form is a tree of small documents; the aggregated one, which kubectl and client-go
//! ask for, is one document for `/api` and one for `/apis`. Groups keep the order in which their resources are given: it
//! decides which resource a short name means when two claim it. Versions of a group go from the preferred one down.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::openapi::hash;
use kinds::resource::{Resource, Subresource};

/// Returns `APIVersions`, the legacy answer of `/api`; `address` is the host and port of the server.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Returns `APIGroupList`, the legacy answer of `/apis`.
pub fn group_list<R: AsRef<Resource>>(resources: &[R]) -> Value {
    let groups: Vec<Value> =
        groups(resources).into_iter().filter(|name| !name.is_empty()).map(|name| group_body(resources, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns `APIGroup`, the answer of `/apis/GROUP`; `None`: there is no such group.
pub fn group<R: AsRef<Resource>>(resources: &[R], name: &str) -> Option<Value> {
    if name.is_empty() || !groups(resources).contains(&name) {
        return None;
    }
    let mut body = group_body(resources, name);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(body)
}

/// Returns `APIResourceList`, the answer of `/api/v1` and `/apis/GROUP/VERSION`; `None`: there is no such version.
pub fn resource_list<R: AsRef<Resource>>(resources: &[R], group: &str, version: &str) -> Option<Value> {
    let mut entries: Vec<Value> = Vec::new();
    for resource in of_version(resources, group, version) {
        entries.push(legacy_resource(resource));
        entries.extend(resource.subresources.iter().map(|subresource| legacy_subresource(resource, subresource)));
    }
    if entries.is_empty() {
        return None;
    }
    let group_version = group_version(group, version);
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}))
}

/// Which of the two aggregated documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all other groups.
    Groups,
}

/// Returns `APIGroupDiscoveryList`; `version` is that of `apidiscovery.k8s.io`, as the client asked for it.
pub fn aggregated<R: AsRef<Resource>>(resources: &[R], root: Root, version: &str) -> Value {
    let wanted = |name: &&str| name.is_empty() == (root == Root::Core);
    let items: Vec<Value> = groups(resources)
        .into_iter()
        .filter(wanted)
        .map(|name| {
            let versions: Vec<Value> = versions(resources, name)
                .into_iter()
                .map(|version| {
                    let entries: Vec<Value> = of_version(resources, name, version).map(aggregated_resource).collect();
                    json!({"version": version, "freshness": "Current", "resources": entries})
                })
                .collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

/// Returns the entity tag of a document: a quoted hash of its bytes.
pub fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", hash(bytes))
}

/// Returns a key by which versions sort from the preferred one down: stable, beta, alpha, each with the higher number
/// first, then names that are no versions, by their text.
pub fn version_order(version: &str) -> impl Ord {
    let parsed = parse_version(version);
    (parsed.is_none(), Reverse(parsed), version.to_owned())
}

/// Reads `v2`, `v1beta3`, `v1alpha1` as (stability, major, minor).
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let number = |digits: &str| if digits.starts_with('0') { None } else { digits.parse::<u64>().ok() };
    let (stability, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (1, number(minor)?),
        None => match rest.strip_prefix("alpha") {
            Some(minor) => (0, number(minor)?),
            None if rest.is_empty() => (2, 0),
            None => return None,
        },
    };
    Some((stability, number(major)?, minor))
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Returns the groups in the order of their first resource.
fn groups<R: AsRef<Resource>>(resources: &[R]) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for resource in resources {
        let group = resource.as_ref().group.as_str();
        if !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

/// Returns the versions of a group, the preferred one first.
fn versions<'a, R: AsRef<Resource>>(resources: &'a [R], group: &str) -> Vec<&'a str> {
    let ours = resources.iter().map(AsRef::as_ref).filter(|resource| resource.group == group);
    let mut found: Vec<&str> = ours.map(|resource| resource.version.as_str()).collect();
    found.sort_by_cached_key(|version| version_order(version));
    found.dedup();
    found
}

fn of_version<'a, R: AsRef<Resource>>(
    resources: &'a [R],
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a Resource> {
    resources.iter().map(AsRef::as_ref).filter(move |resource| resource.group == group && resource.version == version)
}

fn group_body<R: AsRef<Resource>>(resources: &[R], name: &str) -> Value {
    let entry = |version: &&str| json!({"groupVersion": group_version(name, version), "version": version});
    let versions: Vec<Value> = versions(resources, name).iter().map(entry).collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

/// Adds the names that a resource may have besides its own.
fn with_names(mut entry: Value, resource: &Resource) -> Value {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    entry
}

fn legacy_resource(resource: &Resource) -> Value {
    let entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    with_names(entry, resource)
}

fn legacy_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let (group, version, kind) = kind_of(resource, subresource);
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": subresource.verbs,
    });
    if (group, version) != (&resource.group, &resource.version) {
        entry["group"] = group.into();
        entry["version"] = version.into();
    }
    entry
}

/// Returns group, version and kind of what a subresource takes and gives.
fn kind_of<'a>(resource: &'a Resource, subresource: &'a Subresource) -> (&'a str, &'a str, &'a str) {
    match &subresource.other_kind {
        Some((group, version, kind)) => (group, version, kind),
        None => (&resource.group, &resource.version, &resource.kind),
    }
}

fn aggregated_resource(resource: &Resource) -> Value {
    let subresources = resource.subresources.iter().map(|subresource| {
        let (group, version, kind) = kind_of(resource, subresource);
        json!({
            "subresource": subresource.name,
            "responseKind": {"group": group, "version": version, "kind": kind},
            "verbs": subresource.verbs,
        })
    });
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    with_names(entry, resource)
}

#[cfg(test)]
mod tests;
