//! The rules of a CustomResourceDefinition outside of its schemas.

use std::collections::BTreeSet;

use api::field::{Error, ErrorKind, Path};
use api::{json, names};
use serde_json::Value;

use super::super::format;
use super::super::jsonpath::JsonPath;
use super::{condition_is_true, keywords, texts};

/// The most fields of a version that can be selected by.
const SELECTABLE_MAX: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Returns everything that is wrong with a defaulted definition; `old` is the stored one when this is an update.
pub fn validate_definition(crd: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let group = json::text(crd, &["spec", "group"]);
    let name = json::text(crd, &["metadata", "name"]);
    if name != format!("{}.{group}", json::text(crd, &["spec", "names", "plural"])) {
        errors.push(Error::invalid(&Path::new("metadata.name"), name, "must be spec.names.plural+\".\"+spec.group"));
    }
    check_group(group, &spec.child("group"), &mut errors);
    match json::text(crd, &["spec", "scope"]) {
        "" => errors.push(Error::required(&spec.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(Error::not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"])),
    }
    versions(crd, &spec.child("versions"), &mut errors);
    required_names(crd, &spec.child("names"), &mut errors);
    check_names(crd, &["spec", "names"], &spec.child("names"), &mut errors);
    conversion(crd, &spec.child("conversion"), &mut errors);
    if json::boolean(crd, &["spec", "preserveUnknownFields"]) == Some(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(&spec.child("preserveUnknownFields"), true, detail));
    }
    stored_versions(crd, &mut errors);
    match old {
        Some(old) => immutable(crd, old, &mut errors),
        None => approval(crd, group, &mut errors),
    }
    errors
}

fn check_group(group: &str, path: &Path, errors: &mut Vec<Error>) {
    if group.is_empty() {
        errors.push(Error::required(path, ""));
    } else if let Some(broken) = names::dns1123_subdomain(group) {
        errors.push(Error::invalid(path, group, broken));
    } else if !group.contains('.') {
        errors.push(Error::invalid(path, group, "should be a domain with at least one dot"));
    }
}

fn versions(crd: &Value, path: &Path, errors: &mut Vec<Error>) {
    let versions = json::items(crd, &["spec", "versions"]);
    let mut seen = BTreeSet::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        let name = json::text(version, &["name"]);
        unique &= seen.insert(name);
        if let Some(broken) = names::dns1035_label(name) {
            errors.push(Error::invalid(&path.child("name"), name, broken));
        }
        check_version(version, &path, errors);
    }
    if !unique {
        errors.push(Error::new(path, ErrorKind::Invalid, "must contain unique version names"));
    }
    if versions.iter().filter(|version| json::boolean(version, &["storage"]) == Some(true)).count() != 1 {
        errors.push(Error::new(path, ErrorKind::Invalid, "must have exactly one version marked as storage version"));
    }
}

fn check_version(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    let warning = json::text(version, &["deprecationWarning"]);
    let warning_path = path.child("deprecationWarning");
    if !warning.is_empty() && json::boolean(version, &["deprecated"]) != Some(true) {
        errors.push(Error::invalid(&warning_path, warning, "can only be set for deprecated versions"));
    } else if warning.len() > 256 {
        errors.push(Error::invalid(&warning_path, warning, "must be <= 256 characters long"));
    } else if warning.chars().any(char::is_control) {
        errors.push(Error::invalid(&warning_path, warning, "must only contain printable UTF-8 characters"));
    }
    let schema_path = path.child("schema").child("openAPIV3Schema");
    match json::at(version, &["schema", "openAPIV3Schema"]) {
        None => errors.push(Error::required(&schema_path, "schemas are required")),
        Some(schema) => {
            let has_status = json::at(version, &["subresources", "status"]).is_some();
            keywords::check_root(schema, has_status, &schema_path, errors);
            selectable(version, schema, &path.child("selectableFields"), errors);
        }
    }
    scale(version, &path.child("subresources").child("scale"), errors);
    for (index, column) in json::items(version, &["additionalPrinterColumns"]).iter().enumerate() {
        check_column(column, &path.child("additionalPrinterColumns").index(index), errors);
    }
}

fn scale(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    let Some(scale) = json::at(version, &["subresources", "scale"]) else { return };
    for (key, required, roots, detail) in [
        ("specReplicasPath", true, &["spec"][..], "should be a json path under .spec"),
        ("statusReplicasPath", true, &["status"][..], "should be a json path under .status"),
        ("labelSelectorPath", false, &["spec", "status"][..], "should be a json path under either .spec or .status"),
    ] {
        let path = path.child(key);
        let text = json::text(scale, &[key]);
        match JsonPath::parse(text) {
            _ if text.is_empty() => errors.extend(required.then(|| Error::required(&path, ""))),
            Ok(parsed) => {
                let under =
                    |members: Vec<&str>| members.len() > 1 && members.first().is_some_and(|first| roots.contains(first));
                if !parsed.members().is_some_and(under) {
                    errors.push(Error::invalid(&path, text, detail));
                }
            }
            Err(why) => errors.push(Error::invalid(&path, text, format!("must be a simple json path starting with .: {why}"))),
        }
    }
}

fn check_column(column: &Value, path: &Path, errors: &mut Vec<Error>) {
    if json::text(column, &["name"]).is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    match json::text(column, &["type"]) {
        "" => errors.push(Error::required(&path.child("type"), format!("must be one of {}", COLUMN_TYPES.join(",")))),
        kind if COLUMN_TYPES.contains(&kind) => {}
        other => {
            errors.push(Error::invalid(&path.child("type"), other, format!("must be one of {}", COLUMN_TYPES.join(","))));
        }
    }
    let format = json::text(column, &["format"]);
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(Error::invalid(&path.child("format"), format, format!("must be one of {}", COLUMN_FORMATS.join(","))));
    }
    let text = json::text(column, &["jsonPath"]);
    let path = path.child("jsonPath");
    if text.is_empty() {
        errors.push(Error::required(&path, ""));
    } else if !text.starts_with('.') {
        errors.push(Error::invalid(&path, text, "must be a simple json path starting with ."));
    } else if let Err(why) = JsonPath::parse(text) {
        errors.push(Error::invalid(&path, text, format!("is an invalid json path: {why}")));
    }
}

fn selectable(version: &Value, schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let fields = json::items(version, &["selectableFields"]);
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let text = json::text(field, &["jsonPath"]);
        if text.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let parsed = JsonPath::parse(text);
        let Some(members) = parsed.as_ref().ok().and_then(JsonPath::members) else {
            errors.push(Error::invalid(&path, text, "is an invalid path: only members such as .spec.color are allowed"));
            continue;
        };
        let found = members.iter().try_fold(schema, |schema, name| json::at(schema, &["properties", name]));
        match found.map(|found| json::text(found, &["type"])) {
            _ if members.first() == Some(&"metadata") => {
                errors.push(Error::invalid(&path, text, "must not point to fields in metadata"));
            }
            Some("string" | "boolean" | "integer") => {}
            Some(_) => errors.push(Error::invalid(&path, text, "must point to a field of type string, boolean or integer")),
            None => errors.push(Error::invalid(&path, text, "is an invalid path: does not refer to a valid field")),
        }
        if !seen.insert(members.join(".")) {
            errors.push(Error::duplicate(&path, text));
        }
    }
    if seen.len() > SELECTABLE_MAX {
        errors.push(Error::too_many(path, seen.len(), SELECTABLE_MAX));
    }
}

fn required_names(crd: &Value, path: &Path, errors: &mut Vec<Error>) {
    for key in ["plural", "singular", "kind", "listKind"] {
        if json::text(crd, &["spec", "names", key]).is_empty() {
            errors.push(Error::required(&path.child(key), ""));
        }
    }
}

fn check_names(crd: &Value, at: &[&str], path: &Path, errors: &mut Vec<Error>) {
    let Some(names_) = json::at(crd, at) else { return };
    for key in ["plural", "singular"] {
        let name = json::text(names_, &[key]);
        if let Some(broken) = names::dns1035_label(name).filter(|_| !name.is_empty()) {
            errors.push(Error::invalid(&path.child(key), name, broken));
        }
    }
    for key in ["kind", "listKind"] {
        let name = json::text(names_, &[key]);
        if let Some(broken) = names::dns1035_label(&name.to_lowercase()).filter(|_| !name.is_empty()) {
            let detail = format!("may have mixed case, but should otherwise match: {broken}");
            errors.push(Error::invalid(&path.child(key), name, detail));
        }
    }
    for key in ["shortNames", "categories"] {
        for (index, name) in texts(names_, &[key]).iter().enumerate() {
            if let Some(broken) = names::dns1035_label(name) {
                errors.push(Error::invalid(&path.child(key).index(index), name.as_str(), broken));
            }
        }
    }
    let kind = json::text(names_, &["kind"]);
    if !kind.is_empty() && kind == json::text(names_, &["listKind"]) {
        errors.push(Error::invalid(&path.child("listKind"), kind, "kind and listKind may not be the same"));
    }
}

fn conversion(crd: &Value, path: &Path, errors: &mut Vec<Error>) {
    match json::text(crd, &["spec", "conversion", "strategy"]) {
        "None" => {}
        // No webhooks here: refusing the definition is better than serving objects that were not converted.
        other => errors.push(Error::not_supported(&path.child("strategy"), other, &["None"])),
    }
    if json::at(crd, &["spec", "conversion", "webhook"]).is_some() {
        errors.push(Error::forbidden(&path.child("webhook"), "should not be set when strategy is not set to Webhook"));
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("status.storedVersions");
    let versions = json::items(crd, &["spec", "versions"]);
    let stored = texts(crd, &["status", "storedVersions"]);
    for version in versions.iter().filter(|version| json::boolean(version, &["storage"]) == Some(true)) {
        let name = json::text(version, &["name"]);
        if !stored.iter().any(|stored| stored == name) {
            errors.push(Error::new(&path, ErrorKind::Invalid, format!("must have the storage version {name}")));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| json::text(version, &["name"]) == name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name.as_str(), detail));
        }
    }
}

fn immutable(crd: &Value, old: &Value, errors: &mut Vec<Error>) {
    let mut fixed: Vec<&[&str]> = vec![&["spec", "group"], &["spec", "names", "plural"]];
    if condition_is_true(old, "Established") {
        fixed.extend([&["spec", "scope"][..], &["spec", "names", "kind"][..]]);
    }
    for path in fixed {
        let new = json::text(crd, path);
        if new != json::text(old, path) {
            errors.push(Error::invalid(&Path::new(path.join(".")), new, "field is immutable"));
        }
    }
}

/// Groups of the community need the approval of the community.
fn approval(crd: &Value, group: &str, errors: &mut Vec<Error>) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.')));
    if !protected {
        return;
    }
    let path = Path::new("metadata.annotations").key(ANNOTATION);
    match json::text(crd, &["metadata", "annotations", ANNOTATION]) {
        "" => {
            errors.push(Error::required(&path, "protected groups must have approval annotation \"api-approved.kubernetes.io\""))
        }
        text if text.starts_with("unapproved") || format::of_text("uri").is_some_and(|check| check(text)) => {}
        other => errors.push(Error::invalid(&path, other, "must be a URL or begin with \"unapproved\"")),
    }
}
