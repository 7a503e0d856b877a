//! Rules of the EndpointSlice API: defaults, what a switched-off gate drops, validation, warnings, generation.
//!
//! The order on a write is: default, drop, decide about the generation (both against the stored object), validate. Hence a
//! write that stores nothing new changes nothing: neither the generation nor any watcher notices it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::endpointslice::{CONTROLLER_NAME, MANAGED_BY_LABEL, MIRRORING_CONTROLLER_NAME};
use crate::field::{Error, Path};
use crate::ip::{self, Family};
use crate::json::{items, items_mut, object, object_mut, text};
use crate::{FeatureGates, Gate, json, names};

/// The most endpoints of a slice; Kubernetes API.
pub const ENDPOINTS_MAX: usize = 1000;
/// The most addresses of an endpoint; Kubernetes API.
pub const ADDRESSES_MAX: usize = 100;
/// The most ports of a slice; Kubernetes API.
pub const PORTS_MAX: usize = 20_000;
/// The most zones, and the most nodes, in the hints of an endpoint; Kubernetes API.
pub const HINTS_MAX: usize = 8;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Fills in what may be left out: the name and the protocol of a port.
pub fn default_endpoint_slice(slice: &mut Value) {
    for port in items_mut(slice, &["ports"]).into_iter().flatten() {
        for (key, value) in [("name", ""), ("protocol", "TCP")] {
            if json::get(port, key).is_none() {
                object_mut(port, &[]).insert(key.to_owned(), value.into());
            }
        }
    }
}

/// Removes what may not be stored: `serving` and `terminating` while their gate is off, and `deprecatedTopology`.
///
/// Conditions stay if any endpoint of the stored object has either of them: then the new object is stored as sent.
/// `deprecatedTopology` stays only while `endpoints` does not change.
pub fn drop_disabled_endpoint_fields(new: &mut Value, old: Option<&Value>, gates: &FeatureGates) {
    let in_use = |endpoint: &Value| {
        ["serving", "terminating"].iter().any(|condition| json::at(endpoint, &["conditions", condition]).is_some())
    };
    let keep = gates.enabled(Gate::EndpointSliceTerminatingCondition)
        || old.is_some_and(|old| items(old, &["endpoints"]).iter().any(in_use));
    if !keep {
        for conditions in endpoints_mut(new).filter_map(|endpoint| endpoint.get_mut("conditions")?.as_object_mut()) {
            conditions.retain(|key, _| key != "serving" && key != "terminating");
        }
    }
    if old.is_none_or(|old| !json::same_but_nils(old.get("endpoints"), new.get("endpoints"))) {
        endpoints_mut(new).for_each(|endpoint| {
            endpoint.remove("deprecatedTopology");
        });
    }
}

fn endpoints_mut(slice: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    items_mut(slice, &["endpoints"]).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns whether an update raises `metadata.generation`: the labels, or anything outside the metadata, changed.
///
/// Both objects are taken after dropping; Kubernetes compares before, and so raises it for a write that stores nothing new.
pub fn raises_endpoint_slice_generation(new: &Value, old: &Value) -> bool {
    let labels = |slice: &'_ Value| object(slice, &["metadata", "labels"]).cloned().unwrap_or_default();
    let keys = |slice: &Value| -> BTreeSet<String> {
        slice.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != "metadata").cloned().collect()
    };
    let differs = |key: &String| !json::same_but_nils(new.get(key), old.get(key));
    labels(new) != labels(old) || keys(new).union(&keys(old)).any(differs)
}

/// Returns everything that is wrong with a slice, after defaulting and dropping.
///
/// Errors of `endpoints` are not reported when the stored object has the very same endpoints: a slice from before a rule
/// can still be updated elsewhere.
pub fn validate_endpoint_slice(new: &Value, old: Option<&Value>, allow_loopback: bool) -> Vec<Error> {
    let mut errors = Vec::new();
    let address_type = text(new, &["addressType"]);
    let path = Path::root().child("addressType");
    if address_type.is_empty() {
        errors.push(Error::required(&path, ""));
    } else if !ADDRESS_TYPES.contains(&address_type) {
        errors.push(Error::not_supported(&path, address_type, &ADDRESS_TYPES));
    }
    if old.is_some_and(|old| text(old, &["addressType"]) != address_type) {
        errors.push(Error::invalid(&path, address_type, "field is immutable"));
    }
    if old.is_none_or(|old| !json::same_but_nils(old.get("endpoints"), new.get("endpoints"))) {
        validate_endpoints(items(new, &["endpoints"]), address_type, allow_loopback, &mut errors);
    }
    validate_ports(items(new, &["ports"]), &mut errors);
    each_once(errors)
}

/// Keeps the first error of each path and kind: one place is wrong once, however many of its parts are.
fn each_once(errors: Vec<Error>) -> Vec<Error> {
    let mut seen = BTreeSet::new();
    errors.into_iter().filter(|error| seen.insert((error.path.clone(), error.kind))).collect()
}

fn validate_endpoints(endpoints: &[Value], address_type: &str, allow_loopback: bool, errors: &mut Vec<Error>) {
    let path = Path::root().child("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        errors.push(Error::too_many(&path, endpoints.len(), ENDPOINTS_MAX));
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        // Where it is, is put into words only if something is wrong there: there are many endpoints, and mostly nothing is.
        let path = || path.index(index);
        let addresses = || path().child("addresses");
        validate_addresses(items(endpoint, &["addresses"]), address_type, allow_loopback, &addresses, errors);
        for (key, rule) in [("nodeName", names::dns1123_subdomain as fn(&str) -> _), ("hostname", names::dns1123_label)] {
            if let Some(name) = json::get(endpoint, key).and_then(Value::as_str)
                && let Some(broken) = rule(name)
            {
                errors.push(Error::invalid(&path().child(key), name, broken));
            }
        }
        if let Some(hints) = json::get(endpoint, "hints") {
            validate_hints(hints, &path().child("hints"), errors);
        }
    }
}

fn validate_addresses(
    addresses: &[Value],
    address_type: &str,
    allow_loopback: bool,
    list: &dyn Fn() -> Path,
    errors: &mut Vec<Error>,
) {
    if addresses.is_empty() {
        errors.push(Error::required(&list(), "must contain at least 1 address"));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(Error::too_many(&list(), addresses.len(), ADDRESSES_MAX));
    }
    let family = Family::from_name(address_type);
    for (index, address) in addresses.iter().enumerate() {
        let (address, at) = (address.as_str().unwrap_or_default(), || list().index(index));
        match family {
            Some(family) => validate_ip(address, family, allow_loopback, (list, &at), errors),
            None if address_type == "FQDN" => errors.extend(fqdn_error(address, &at())),
            None => {}
        }
    }
}

fn validate_ip(
    address: &str,
    family: Family,
    allow_loopback: bool,
    (list, at): (&dyn Fn() -> Path, &dyn Fn() -> Path),
    errors: &mut Vec<Error>,
) {
    if let Some(broken) = ip::check(address) {
        errors.push(Error::invalid(&at(), address, broken));
        return;
    }
    let parsed = ip::parse(address).expect("checked just above");
    if Family::of(parsed) != family {
        errors.push(Error::invalid(&list(), address, format!("must be an {} address", family.name())));
    }
    errors.extend(ip::check_endpoint(parsed, allow_loopback).map(|broken| Error::invalid(&at(), address, broken)));
}

fn fqdn_error(name: &str, path: &Path) -> Option<Error> {
    if name.is_empty() {
        // As Kubernetes: the one address that is missing rather than malformed.
        return Some(Error::required(path, ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    if let Some(broken) = names::dns1123_subdomain(name) {
        return Some(Error::invalid(path, name, broken));
    }
    if !name.contains('.') {
        return Some(Error::invalid(path, name, "should be a domain with at least two segments separated by dots"));
    }
    name.split('.').find_map(|label| names::dns1123_label(label).map(|broken| Error::invalid(path, label, broken)))
}

fn validate_hints(hints: &Value, path: &Path, errors: &mut Vec<Error>) {
    let lists = [("forZones", names::label_value as fn(&str) -> _), ("forNodes", names::dns1123_subdomain)];
    for (key, rule) in lists {
        let (list, path) = (items(hints, &[key]), path.child(key));
        if list.len() > HINTS_MAX {
            errors.push(Error::too_many(&path, list.len(), HINTS_MAX));
            return;
        }
        let mut seen = BTreeSet::new();
        for (index, item) in list.iter().enumerate() {
            let (name, path) = (text(item, &["name"]), path.index(index).child("name"));
            if !seen.insert(name) {
                errors.push(Error::duplicate(&path, name));
            }
            errors.extend(rule(name).map(|broken| Error::invalid(&path, name, broken)));
        }
    }
}

fn validate_ports(ports: &[Value], errors: &mut Vec<Error>) {
    let path = Path::root().child("ports");
    if ports.len() > PORTS_MAX {
        errors.push(Error::too_many(&path, ports.len(), PORTS_MAX));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, &["name"]);
        if !name.is_empty()
            && let Some(broken) = names::dns1123_label(name)
        {
            errors.push(Error::invalid(&path.child("name"), name, broken));
        }
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        match json::get(port, "protocol").and_then(Value::as_str) {
            None => errors.push(Error::required(&path.child("protocol"), "")),
            Some(protocol) if !PROTOCOLS.contains(&protocol) => {
                errors.push(Error::not_supported(&path.child("protocol"), protocol, &PROTOCOLS));
            }
            Some(_) => {}
        }
        if let Some(app_protocol) = json::get(port, "appProtocol").and_then(Value::as_str)
            && let Some(broken) = names::qualified_name(app_protocol)
        {
            errors.push(Error::invalid(&path.child("appProtocol"), app_protocol, broken));
        }
    }
}

/// Returns what the writer of a slice that was accepted should be told: `creating` says that there was none before.
pub fn endpoint_slice_warnings(new: &Value, creating: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if creating && text(new, &["addressType"]) == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    // The two built-in controllers write canonical addresses; the largest slices are theirs, so no time is spent on them.
    if [CONTROLLER_NAME, MIRRORING_CONTROLLER_NAME].contains(&text(new, &["metadata", "labels", MANAGED_BY_LABEL])) {
        return warnings;
    }
    for (i, endpoint) in items(new, &["endpoints"]).iter().enumerate() {
        for (j, address) in items(endpoint, &["addresses"]).iter().enumerate() {
            let address = address.as_str().unwrap_or_default();
            let Some(parsed) = ip::parse(address).filter(|_| ip::check(address).is_some()) else { continue };
            let path = Path::root().child("endpoints").index(i).child("addresses").index(j);
            warnings.push(match Family::of(parsed) {
                Family::IPv4 => {
                    format!("{path}: non-standard IP address {address:?} will be refused in a future release: use \"{parsed}\"")
                }
                Family::IPv6 => {
                    format!("{path}: IPv6 address {address:?} should be in RFC 5952 canonical format (\"{parsed}\")")
                }
            });
        }
    }
    warnings
}

#[cfg(test)]
#[path = "endpointslice_rules/tests.rs"]
mod tests;
