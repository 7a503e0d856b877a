//! Server-side apply with kubectl: ownership, conflicts, force, dry runs, and the way from client-side apply.

use serde_json::{Value, json};

use crate::{Kubectl, On};

fn config(data: Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data}).to_string()
}

/// Returns the entries of an object as (manager, operation, fields below `f:data`).
fn owners(kubectl: &Kubectl) -> Vec<(String, String, Vec<String>)> {
    let shown = kubectl.run("get configmap shared -o json --show-managed-fields");
    let object: Value = serde_json::from_str(&shown).unwrap();
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = |entry: &Value| {
        let data = entry["fieldsV1"]["f:data"].as_object();
        data.into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<String>>()
    };
    entries.iter().map(|entry| (text(&entry["manager"]), text(&entry["operation"]), fields(entry))).collect()
}

fn entry(manager: &str, operation: &str, fields: &[&str]) -> (String, String, Vec<String>) {
    (manager.to_owned(), operation.to_owned(), fields.iter().map(|field| (*field).to_owned()).collect())
}

pub(crate) fn two_managers_share_an_object_and_conflicts_are_named(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.run_with("apply --server-side -f -", &config(json!({"k": "1", "own": "x"})));
    assert_eq!(owners(&kubectl), [entry("kubectl", "Apply", &["f:k", "f:own"])]);
    assert!(!kubectl.run("get configmap shared -o yaml").contains("managedFields"), "hidden unless asked for");

    let other = config(json!({"k": "2"}));
    let output = kubectl.try_run_with("apply --server-side --field-manager=other -f -", &other);
    assert!(!output.good, "{}", output.stdout);
    assert!(output.stderr.contains("conflict with \"kubectl\"") && output.stderr.contains(".data.k"), "{}", output.stderr);
    kubectl.run_with("apply --server-side --field-manager=other --force-conflicts -f -", &other);
    assert_eq!(owners(&kubectl), [entry("kubectl", "Apply", &["f:own"]), entry("other", "Apply", &["f:k"])]);

    // What a manager no longer applies goes; what another owns stays.
    kubectl.run_with("apply --server-side -f -", &config(json!({"k": "2"})));
    assert_eq!(kubectl.run("get configmap shared -o jsonpath={.data}"), "{\"k\":\"2\"}");
    kubectl.run("label configmap shared tier=gold");
    let all = kubectl.run("get configmap shared -o yaml --show-managed-fields");
    assert!(all.contains("manager: kubectl-label"), "{all}");
}

pub(crate) fn diff_and_dry_run_show_what_an_apply_would_do_and_do_nothing(on: On) {
    let kubectl = Kubectl::start(on);
    let first = config(json!({"k": "1"}));
    kubectl.run_with("apply --server-side --dry-run=server -f -", &first);
    assert!(kubectl.refused("get configmap shared").contains("not found"));
    kubectl.run_with("apply --server-side -f -", &first);
    let output = kubectl.try_run_with("diff --server-side -f -", &config(json!({"k": "2"})));
    assert!(
        !output.good && output.stdout.contains("-  k: \"1\"") && output.stdout.contains("+  k: \"2\""),
        "{}{}",
        output.stdout,
        output.stderr
    );
    let version = || kubectl.run("get configmap shared -o jsonpath={.metadata.resourceVersion}");
    let before = version();
    kubectl.run_with("diff --server-side -f -", &first);
    kubectl.run_with("apply --server-side -f -", &first);
    assert_eq!(version(), before, "what is there already is not written again");
    assert_eq!(kubectl.run("get configmap shared -o jsonpath={.data.k}"), "1");
}

pub(crate) fn client_side_apply_is_taken_over_without_conflicts(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.apply(&config(json!({"k": "1", "gone": "1"})));
    kubectl.run_with("apply --server-side -f -", &config(json!({"k": "2"})));
    assert_eq!(kubectl.run("get configmap shared -o jsonpath={.data}"), "{\"k\":\"2\"}");
    assert!(owners(&kubectl).contains(&entry("kubectl", "Apply", &["f:k"])), "{:?}", owners(&kubectl));
    // And back: the annotation was kept up to date.
    kubectl.apply(&config(json!({"k": "3"})));
    assert_eq!(kubectl.run("get configmap shared -o jsonpath={.data}"), "{\"k\":\"3\"}");
}
