//! docs/metrics.md lists every metric that the code registers, with its type, labels and meaning.
//!
//! It is read from the sources: a metric without a series is not in any exposition, so running a plane would not find it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{read, root, written};

/// The crates that register metrics, and where these are served.
const CRATES: [(&str, &str); 6] = [
    ("shell/agent", "The agent, at `/metrics` of its endpoint; the first two at `/metrics/probes`, as the kubelet has them"),
    ("shell/apiserver", "The API server, at `/metrics`"),
    (
        "shell/controllers",
        "The controllers: at `/metrics` of the API server in `lifesign up`, of `--metrics-addr` in `lifesign controllers`",
    ),
    ("shell/proxy", "The service proxy, at `/metrics` of the API server in `lifesign up`"),
    ("shell/runtime", "Traffic with the API, beside the metrics of the controllers"),
    ("shell/webhook", "The admission webhook, beside the metrics of the controllers"),
];

#[derive(Debug, PartialEq)]
struct Metric {
    name: String,
    type_: &'static str,
    labels: Vec<String>,
    help: String,
}

#[test]
fn the_list_of_metrics_is_that_of_the_code() {
    let mut text = "# Metrics\n\nWritten from the code by `LIFESIGN_UPDATE=1 cargo test -p lifesign --test docs`. What to watch of a feature, and for \
                    what, is on its page.\n"
        .to_owned();
    let mut count = 0;
    for (folder, place) in CRATES {
        let mut found: BTreeMap<String, Metric> = BTreeMap::new();
        for path in sources(&root().join(folder).join("src")) {
            let source = std::fs::read_to_string(&path).expect("a source is text");
            found.extend(metrics(&source).into_iter().map(|metric| (metric.name.clone(), metric)));
        }
        assert!(!found.is_empty(), "{folder} has metrics");
        count += found.len();
        text += &format!("\n## {place}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n");
        for metric in found.values() {
            let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
            text += &format!("| `{}` | {} | {labels} | {} |\n", metric.name, metric.type_, metric.help);
        }
    }
    assert!(count > 60, "the sources are read wrongly: only {count} metrics");
    written("docs/metrics.md", &text);
}

/// Metrics that documents name are metrics that there are.
#[test]
fn documents_name_metrics_that_exist() {
    let list = read("docs/metrics.md");
    for page in ["docs/probes.md", "docs/markers.md", "docs/endpointslices.md", "docs/profiles.md"] {
        let text = read(page);
        for word in text.split('`').skip(1).step_by(2) {
            let name = word.split('{').next().unwrap_or_default();
            let is_metric = ["lifesign_", "endpoint_slice_controller_", "prober_", "kubeproxy_"]
                .iter()
                .any(|start| name.starts_with(start));
            assert!(
                !is_metric || list.contains(&format!("`{name}`")),
                "{page} names {name}, which docs/metrics.md does not have"
            );
        }
    }
}

fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there").filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the metrics that a source registers.
fn metrics(source: &str) -> Vec<Metric> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices(".register(") {
        let receiver = last_word(&source[..at]);
        let arguments = arguments(&source[at + ".register(".len()..]);
        let [name, help, metric] = arguments.as_slice() else { continue };
        let before = &source[..at];
        let (Some(name), Some(help)) = (literal(name, before), literal(help, before)) else { continue };
        let prefix = before.rfind(&format!("let {receiver} = ")).and_then(|at| {
            let (_, rest) = before[at..].split_once("sub_registry_with_prefix(\"")?;
            Some(format!("{}_", rest.split('"').next()?))
        });
        let field = last_word(metric.trim_end_matches(".clone()"));
        let declared = declaration(source, field).unwrap_or_else(|| panic!("what is the type of {name}, {field}?"));
        let type_ = if declared.contains("Counter") {
            "counter"
        } else if declared.contains("Histogram") {
            "histogram"
        } else {
            "gauge"
        };
        let suffix = if type_ == "counter" && !declared.contains("PlainCounter") { "_total" } else { "" };
        let name = format!("{}{name}{suffix}", prefix.unwrap_or_default());
        found.push(Metric { name, type_, labels: labels(source, &declared), help });
    }
    found.extend(collected(source));
    found
}

/// Returns the metrics of a collector: a list of names and meanings, with one beginning, by node.
fn collected(source: &str) -> Vec<Metric> {
    let Some((before, _)) = source.split_once("encode_descriptor(&name") else { return Vec::new() };
    let start = before.rfind("format!(\"").map(|at| before[at + 9..].split('{').next().unwrap_or_default()).unwrap_or_default();
    let list = &before[before.rfind("let series").unwrap_or(0)..];
    let tuple = |line: &str| {
        let mut texts = line.trim().strip_prefix("(\"")?.split('"');
        let (name, help) = (texts.next()?, texts.nth(1)?);
        Some(Metric { name: format!("{start}{name}"), type_: "gauge", labels: vec!["node".to_owned()], help: help.to_owned() })
    };
    list.lines().filter_map(tuple).collect()
}

/// Returns the arguments of a call, whose text begins behind its parenthesis.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut quoted, mut all, mut one) = (0, false, Vec::new(), String::new());
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                all.push(std::mem::take(&mut one).trim().to_owned());
                continue;
            }
            _ => {}
        }
        one.push(c);
    }
    if !one.trim().is_empty() {
        all.push(one.trim().to_owned());
    }
    all
}

/// Returns a text, or the one that a name was given just before.
fn literal(argument: &str, before: &str) -> Option<String> {
    let text = match argument.strip_prefix('"') {
        Some(_) => argument,
        None => {
            let declared = format!("let {argument} = ");
            &before[before.rfind(&declared)? + declared.len()..]
        }
    };
    Some(text.strip_prefix('"')?.split('"').next()?.to_owned())
}

/// Returns the type of a field or variable, as far as its line has it.
fn declaration(source: &str, name: &str) -> Option<String> {
    let starts = [format!("{name}: "), format!("let {name}: "), format!("let {name} = ")];
    let mut lines = source.lines().map(|line| line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) "));
    let types = ["Counter", "Gauge", "Histogram"];
    lines
        .find(|line| starts.iter().any(|start| line.starts_with(start)) && types.iter().any(|type_| line.contains(type_)))
        .map(str::to_owned)
}

/// Returns the labels of a family.
fn labels(source: &str, declared: &str) -> Vec<String> {
    let mut names = declared.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let Some(body) = names.find_map(|name| Some(source.split_once(&format!("struct {name} {{"))?.1)) else { return Vec::new() };
    let body = body.split('}').next().unwrap_or_default();
    let fields = body.lines().filter(|line| !line.trim().starts_with("//")).filter_map(|line| line.split_once(':'));
    fields.map(|(name, _)| last_word(name).to_owned()).filter(|name| !name.is_empty()).collect()
}

fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
