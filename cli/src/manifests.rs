//! Reading manifests and applying them to a plane.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use runtime::{RequestError, requests};
use serde_json::Value;

use crate::error::Failure;

/// An answer that takes longer never comes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An object of a manifest, and where it stands.
pub(crate) struct Manifest {
    pub(crate) object: Value,
    pub(crate) source: String,
}

/// A document of a file.
pub(crate) struct Document {
    /// Its objects; a list is taken apart.
    pub(crate) objects: Vec<Value>,
    pub(crate) source: String,
    /// The line of the file that it begins at.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Reads documents one by one: a file or document that cannot be read is told, and the others are read.
pub(crate) fn read_documents(paths: &[PathBuf]) -> (Vec<Document>, Vec<String>) {
    let (mut found, mut bad) = (Vec::new(), Vec::new());
    for path in paths {
        let texts: Vec<(String, Result<String, String>)> = if path.as_os_str() == "-" {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string());
            vec![("standard input".to_owned(), read)]
        } else {
            match files(path) {
                Ok(files) => files
                    .into_iter()
                    .map(|file| (file.display().to_string(), std::fs::read_to_string(&file).map_err(|error| error.to_string())))
                    .collect(),
                Err(failure) => {
                    bad.push(failure.to_string());
                    continue;
                }
            }
        };
        for (source, text) in texts {
            match text {
                Ok(text) => documents(&text, &source, &mut found, &mut bad),
                Err(error) => bad.push(format!("{source}: {error}")),
            }
        }
    }
    (found, bad)
}

fn documents(text: &str, source: &str, found: &mut Vec<Document>, bad: &mut Vec<String>) {
    let mut start = 1;
    let mut document = String::new();
    let mut finish = |document: &mut String, start: usize| {
        let text = std::mem::take(document);
        match parse(&text, source) {
            Ok(manifests) if manifests.is_empty() => {}
            Ok(manifests) => {
                let objects = manifests.into_iter().map(|manifest| manifest.object).collect();
                found.push(Document { objects, source: source.to_owned(), line: start, text });
            }
            Err(failure) => bad.push(format!("{failure} (in the document at line {start})")),
        }
    };
    for (number, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            finish(&mut document, start);
            start = number + 2;
            continue;
        }
        document.push_str(line);
        document.push('\n');
    }
    finish(&mut document, start);
}

/// Says what is wrong with a text in words that a reader of YAML knows.
fn not_yaml(text: &str, error: &dyn std::fmt::Display) -> String {
    if text.contains("{{") {
        return "not YAML, but a template: render it first, for example with `helm template CHART | lifesign explain -f -`"
            .to_owned();
    }
    let whole = error.to_string();
    let first = whole.lines().next().unwrap_or_default();
    match first.find("DuplicateKeyPolicy") {
        Some(at) => format!(
            "not YAML: {}",
            first[..at]
                .trim_end_matches(|c: char| !c.is_alphanumeric())
                .trim_end_matches("set")
                .trim_end_matches([',', ' ', '(', ';'])
        ),
        None => format!("not YAML: {first}"),
    }
}

/// Reads every object of some files, folders (their .yaml, .yml and .json files, sorted) or `-`; lists are taken apart.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| Failure::usage(format!("standard input: {error}")))?;
            found.extend(parse(&text, "standard input")?);
            continue;
        }
        for file in files(path)? {
            let shown = file.display().to_string();
            let text = std::fs::read_to_string(&file).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
            found.extend(parse(&text, &shown)?);
        }
    }
    Ok(found)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let bad =
        |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display())).hint("check the path given with -f");
    if !std::fs::metadata(path).map_err(bad)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_manifest = |path: &PathBuf| {
        path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
    };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path).map_err(bad)?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_manifest).collect();
    files.sort();
    Ok(files)
}

fn parse(text: &str, source: &str) -> Result<Vec<Manifest>, Failure> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, yaml_1_2())
        .map_err(|error| Failure::usage(format!("{source}: {}", not_yaml(text, &error))))?;
    let mut manifests = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let items = match document.get("items") {
            Some(Value::Array(items)) if api::json::text(&document, &["kind"]).ends_with("List") => items.clone(),
            _ => vec![document],
        };
        for object in items {
            for field in ["apiVersion", "kind"] {
                if api::json::text(&object, &[field]).is_empty() {
                    return Err(Failure::usage(format!("{source}: an object has no {field}")));
                }
            }
            manifests.push(Manifest { object, source: source.to_owned() });
        }
    }
    Ok(manifests)
}

/// Only `true` and `false` are truth values: `on` and `y` are texts, as everybody expects of a label.
fn yaml_1_2() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true }
}

/// Creates an object, or changes the one that is there into it; returns `created`, `configured` or `unchanged`, and what is warned
/// about.
pub(crate) async fn apply(client: &Client, manifest: &Manifest) -> Result<(&'static str, Vec<String>), Failure> {
    let object = &manifest.object;
    let (version, kind) = (api::json::text(object, &["apiVersion"]), api::json::text(object, &["kind"]));
    let name = api::json::text(object, &["metadata", "name"]);
    let bad = |error: RequestError| {
        let why = match error {
            RequestError::Refused(refusal) => refusal.message,
            other => other.to_string(),
        };
        Failure::no(format!("{}: {kind} {name:?}: {why}", manifest.source))
    };
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let (plural, namespaced) = resource(client, &root, kind).await.map_err(bad)?.ok_or_else(|| {
        Failure::no(format!("{}: {kind} of {version} is not served here", manifest.source))
            .hint("`kubectl api-resources` lists what is")
    })?;
    let namespace =
        Some(api::json::text(object, &["metadata", "namespace"])).filter(|text| !text.is_empty()).unwrap_or("default");
    let collection = if namespaced { format!("{root}/namespaces/{namespace}/{plural}") } else { format!("{root}/{plural}") };
    let place = format!("{collection}/{name}");
    match requests::get_opt::<Value>(client, &place, TIMEOUT).await.map_err(bad)? {
        None => {
            let place = format!("{collection}?fieldManager=lifesign-up&fieldValidation=Strict");
            let sent = requests::request_with_warnings(client, http::Method::POST, &place, object).await;
            Ok(("created", sent.map_err(bad)?.1))
        }
        Some(before) => {
            let place = format!("{place}?fieldManager=lifesign-up");
            let sent = requests::request_with_warnings(client, http::Method::PATCH, &place, object).await;
            let (after, warnings) = sent.map_err(bad)?;
            let revision = |object: &Value| api::json::text(object, &["metadata", "resourceVersion"]).to_owned();
            Ok((if revision(&before) == revision(&after) { "unchanged" } else { "configured" }, warnings))
        }
    }
}

/// Finds the resource of a kind: its plural name, and whether it lives in namespaces.
async fn resource(client: &Client, root: &str, kind: &str) -> Result<Option<(String, bool)>, RequestError> {
    let Some(list) = requests::get_opt::<Value>(client, root, TIMEOUT).await? else { return Ok(None) };
    let found = api::json::items(&list, &["resources"])
        .iter()
        .find(|entry| api::json::text(entry, &["kind"]) == kind && !api::json::text(entry, &["name"]).contains('/'));
    Ok(found.map(|entry| (api::json::text(entry, &["name"]).to_owned(), entry["namespaced"] == true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
        let names: Vec<String> =
            parse(text, "t").unwrap().iter().map(|m| api::json::text(&m.object, &["metadata", "name"]).to_owned()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(parse("kind: Pod", "t").is_err());
        assert!(parse("a: [", "t").is_err());
    }
}
