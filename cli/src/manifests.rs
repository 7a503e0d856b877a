//! Reading manifests and applying them to a plane.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use runtime::{Client, RequestError, requests};
use serde_json::Value;

use crate::error::Failure;

/// An answer that takes longer never comes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An object of a manifest, and where it stands.
pub(crate) struct Manifest {
    pub(crate) object: Value,
    /// The file.
    pub(crate) source: String,
    /// The line of the file that it begins at, as near as the style of the file tells.
    pub(crate) line: usize,
    /// What is written from there on; empty if its lines cannot be told from those of others.
    pub(crate) text: String,
}

/// Reads every object of some files, folders (their .yaml, .yml and .json files, sorted) or `-`; lists are taken apart. A file, document
/// or item that cannot be read is told, and the others are read.
pub(crate) fn read_all(paths: &[PathBuf]) -> (Vec<Manifest>, Vec<String>) {
    let (mut found, mut bad) = (Vec::new(), Vec::new());
    for path in paths {
        let texts: Vec<(String, std::io::Result<String>)> = if path.as_os_str() == "-" {
            let mut text = String::new();
            vec![("standard input".to_owned(), std::io::stdin().read_to_string(&mut text).map(|_| text))]
        } else {
            match files(path) {
                Ok(files) => {
                    files.into_iter().map(|file| (file.display().to_string(), std::fs::read_to_string(&file))).collect()
                }
                Err(error) => vec![(path.display().to_string(), Err(error))],
            }
        };
        for (source, text) in texts {
            match text {
                Ok(text) => documents(&text, &source, &mut found, &mut bad),
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => bad.push(format!("{source}: not a text")),
                Err(error) => bad.push(format!("{source}: {error}")),
            }
        }
    }
    (found, bad)
}

/// Reads as [`read_all`] does, but what cannot be read is a failure.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, Failure> {
    let (found, bad) = read_all(paths);
    match bad.first() {
        Some(first) => Err(Failure::usage(first).hint("check the paths and files given with -f")),
        None => Ok(found),
    }
}

fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_manifest = |path: &PathBuf| {
        let known = path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
        // It says which of the other files to use; it is no object.
        known && path.file_stem().is_none_or(|name| name != "kustomization")
    };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path)?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_manifest).collect();
    files.sort();
    Ok(files)
}

fn documents(text: &str, source: &str, found: &mut Vec<Manifest>, bad: &mut Vec<String>) {
    let mut start = 1;
    let mut document = String::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            parse(std::mem::take(&mut document), start, source, found, bad);
            start = number + 2;
            continue;
        }
        // What is said before a document begins is about how to read it.
        if !(line.starts_with('%') && document.trim().is_empty()) {
            document.push_str(line);
        }
        document.push('\n');
    }
    parse(document, start, source, found, bad);
}

fn parse(text: String, line: usize, source: &str, found: &mut Vec<Manifest>, bad: &mut Vec<String>) {
    // What kubectl prints as JSON may be large, and is read much faster as what it is.
    let json: Option<Value> = text.trim_start().starts_with('{').then(|| serde_json::from_str(&text).ok()).flatten();
    let values = match json
        .map_or_else(|| serde_saphyr::from_multiple_with_options(&text, yaml_1_2(text.len())), |value| Ok(vec![value]))
    {
        Ok(values) => values,
        Err(error) => {
            let (at, what) = not_yaml(&text, &error.to_string());
            bad.push(format!("{source}:{}: {what}", line + at));
            return;
        }
    };
    for value in values.into_iter().filter(|value| !value.is_null()) {
        let (items, starts): (Vec<Value>, Vec<usize>) = match value {
            Value::Object(mut list)
                if list.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
                    && list.get("items").is_some_and(Value::is_array) =>
            {
                let Some(Value::Array(items)) = list.remove("items") else { continue };
                let starts = crate::explain::items(&text, items.len());
                (items, starts)
            }
            value => (vec![value], vec![0]),
        };
        let lines: Vec<&str> = text.lines().collect();
        for (index, object) in items.into_iter().enumerate() {
            let at = line + starts.get(index).copied().unwrap_or(0);
            let missing: Vec<&str> =
                ["apiVersion", "kind"].into_iter().filter(|field| api::json::text(&object, &[field]).is_empty()).collect();
            let what = match missing.as_slice() {
                _ if is_template(&object) => TEMPLATE.to_owned(),
                [] => {
                    let end = starts.get(index + 1).copied().unwrap_or(lines.len());
                    let text = starts.get(index).map_or_else(String::new, |start| lines[*start..end].join("\n"));
                    found.push(Manifest { object, source: source.to_owned(), line: at, text });
                    continue;
                }
                missing => format!("not an object of Kubernetes: it has no {}", missing.join(" and no ")),
            };
            bad.push(format!("{source}:{at}: {what}"));
        }
    }
}

const TEMPLATE: &str = "a template: render it first, for example with `helm template CHART | lifesign explain -f -`";

/// Returns whether something that must be a plain value still has to be rendered.
fn is_template(object: &Value) -> bool {
    let open = |text: &str| text.contains("{{");
    let pod_spec = api::probe_rules::pod_spec_path(api::json::text(object, &["kind"]));
    let containers = pod_spec.and_then(|path| api::json::at(object, path)).map(|spec| api::json::items(spec, &["containers"]));
    open(api::json::text(object, &["metadata", "name"]))
        || containers.is_some_and(|items| items.iter().any(|item| open(api::json::text(item, &["image"]))))
}

/// Says what is wrong with a text, in words that a reader of YAML knows, and in which of its lines, from 0.
fn not_yaml(text: &str, error: &str) -> (usize, String) {
    let first = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let (at, what) = match first.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((place, what)) => (place.split(' ').next().and_then(|line| line.parse::<usize>().ok()).unwrap_or(1), what),
        None => (1, first),
    };
    let at = at.saturating_sub(1);
    // A template breaks where it is rendered, or right after.
    let near = text.lines().skip(at.saturating_sub(1)).take(2).any(|line| line.contains("{{"));
    if near {
        return (at, format!("not YAML, but {TEMPLATE}"));
    }
    if what.starts_with("budget breached") || what.starts_with("recursion limit") {
        return (at, "too large, too deep or with too many aliases to be read".to_owned());
    }
    match what.strip_prefix("duplicate mapping key: ").map(|rest| rest.split([',', ' ']).next().unwrap_or(rest)) {
        Some(key) => (at, format!("the key {key:?} is there twice")),
        None => (at, format!("not YAML: {what}")),
    }
}

/// Only `true` and `false` are truth values: `on` and `y` are texts, as everybody expects of a label.
fn yaml_1_2(length: usize) -> serde_saphyr::Options {
    // What a whole cluster prints is fine; what becomes larger than it is written, by aliases, is not.
    serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_nodes: length.max(250_000), max_events: length.saturating_mul(2).max(1_000_000) },
    }
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

    fn of(text: &str) -> (Vec<Manifest>, Vec<String>) {
        let (mut found, mut bad) = (Vec::new(), Vec::new());
        documents(text, "t", &mut found, &mut bad);
        (found, bad)
    }

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let text = "%YAML 1.2\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n- 5\n";
        let (found, bad) = of(text);
        let names: Vec<&str> = found.iter().map(|manifest| api::json::text(&manifest.object, &["metadata", "name"])).collect();
        assert_eq!((names, found[0].line, found[1].line), (vec!["a", "b"], 3, 11));
        assert_eq!(bad, ["t:12: not an object of Kubernetes: it has no apiVersion and no kind"]);
    }

    #[test]
    fn what_is_wrong_is_told_in_plain_words_with_its_line() {
        let bad = |text: &str| of(text).1.join("; ");
        assert_eq!(bad("kind: Pod"), "t:1: not an object of Kubernetes: it has no apiVersion");
        assert_eq!(
            bad("a: 1\n---\nb: 1\nb: 2\n"),
            "t:1: not an object of Kubernetes: it has no apiVersion and no kind; t:4: the key \"b\" is there twice"
        );
        assert!(bad("a: [").starts_with("t:1: not YAML: "), "{}", bad("a: ["));
        assert!(bad("kind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n").contains("helm template"));
        let quoted =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, image: \"{{ .Values.image }}\"}]}";
        assert_eq!(bad(quoted), format!("t:1: {TEMPLATE}"));
        // Rules and dashboards have braces of their own.
        assert_eq!(bad("apiVersion: v1\nkind: ConfigMap\ndata: {rule: \"{{ $labels.pod }}\"}"), "");
    }
}
