//! Deployments and ReplicaSets: replicas, selector, template, strategy.

use std::collections::BTreeMap;

use api::field::{Error, Path};
use api::json;
use serde_json::{Map, Value, json};

use super::check::{Errors, at_least, one_of};
use super::fill::{drop_zeros, fill, inner};
use super::meta::{immutable, validate_annotations, validate_labels};
use super::pod::defaults::default_pod_spec;
use super::pod::spec::{validate_pod_annotations, validate_pod_spec};
use super::selectors;

/// Numbers of a status that may not be negative.
const COUNTS: [&str; 9] = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "fullyLabeledReplicas",
    "terminatingReplicas",
    "collisionCount",
    "observedGeneration",
];

/// Fills in what the user left out of a Deployment.
pub(super) fn default_deployment(deployment: &mut Value) {
    default_replicas(deployment);
    let spec = json::object_mut(deployment, &["spec"]);
    drop_zeros(spec, &["paused"]);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    fill(spec, "strategy", json!({}));
    let Some(strategy) = inner(spec, "strategy") else { return };
    fill(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        fill(strategy, "rollingUpdate", json!({}));
        if let Some(rolling) = inner(strategy, "rollingUpdate") {
            fill(rolling, "maxSurge", "25%");
            fill(rolling, "maxUnavailable", "25%");
        }
    }
}

/// Fills in what the user left out of a ReplicaSet, and what both kinds have.
pub(super) fn default_replicas(object: &mut Value) {
    default_pod_spec(object, &["spec", "template", "spec"]);
    let spec = json::object_mut(object, &["spec"]);
    drop_zeros(spec, &["minReadySeconds"]);
    fill(spec, "replicas", 1);
}

/// Fills in what the user left out of the template of pods.
pub(crate) fn default_template(template: &mut Map<String, Value>) {
    let mut whole = Value::Object(std::mem::take(template));
    default_pod_spec(&mut whole, &["spec"]);
    *template = whole.as_object_mut().map(std::mem::take).unwrap_or_default();
}

/// Judges a Deployment; `old` is the stored one, whose template need not be judged again.
pub(super) fn validate_deployment(deployment: &Value, old: Option<&Value>, errors: &mut Errors) {
    validate_replicas(deployment, old, "deployment", errors);
    let path = Path::new("spec");
    let spec = &deployment["spec"];
    validate_strategy(&spec["strategy"], &path.child("strategy"), errors);
    at_least(spec, "revisionHistoryLimit", 0, &path, errors);
    at_least(spec, "progressDeadlineSeconds", 0, &path, errors);
    let ready = json::int(spec, &["minReadySeconds"]).unwrap_or(0);
    if let Some(deadline) = json::int(spec, &["progressDeadlineSeconds"]).filter(|deadline| *deadline <= ready) {
        errors.push(Error::invalid(&path.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"));
    }
}

/// Judges a ReplicaSet.
pub(super) fn validate_replica_set(set: &Value, old: Option<&Value>, errors: &mut Errors) {
    validate_replicas(set, old, "replica set", errors);
}

fn validate_replicas(object: &Value, old: Option<&Value>, kind: &str, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = &object["spec"];
    at_least(spec, "replicas", 0, &path, errors);
    at_least(spec, "minReadySeconds", 0, &path, errors);
    let selector = path.child("selector");
    match json::get(spec, "selector") {
        None => errors.push(Error::required(&selector, "")),
        Some(given) if selectors::is_empty(given) => {
            errors.push(Error::invalid(&selector, given.clone(), format!("empty selector is invalid for {kind}")));
        }
        Some(given) => selectors::validate_label_selector(given, &selector, errors),
    }
    match json::get(spec, "template") {
        None => errors.push(Error::required(&path.child("template"), "")),
        Some(template) => {
            let known = old.and_then(|old| json::at(old, &["spec", "template"])) == Some(template);
            validate_template(template, spec, known, false, &path.child("template"), errors);
        }
    }
    if let Some(old) = old
        && !json::same_but_nils(spec.get("selector"), json::at(old, &["spec", "selector"]))
    {
        errors.push(immutable(&selector, spec.get("selector")));
    }
}

/// Judges a template; one that is stored already is known to be good, or to be older than a rule. Pods of `jobs` end.
pub(crate) fn validate_template(template: &Value, spec: &Value, known: bool, jobs: bool, path: &Path, errors: &mut Errors) {
    let meta = path.child("metadata");
    let labels = json::at(template, &["metadata", "labels"]);
    let texts: BTreeMap<&str, &str> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    if let Some(selector) = json::get(spec, "selector").filter(|selector| !selectors::is_empty(selector))
        && let Some(selector) = selectors::compile(selector)
        && !selector.matches_with(|key| texts.get(key).copied())
    {
        let value = labels.cloned().unwrap_or_else(|| json!({}));
        errors.push(Error::invalid(&meta.child("labels"), value, "`selector` does not match template `labels`"));
    }
    if known {
        return;
    }
    validate_labels(labels, &meta.child("labels"), errors);
    validate_annotations(json::at(template, &["metadata", "annotations"]), &meta.child("annotations"), errors);
    validate_pod_annotations(template, path, errors);
    let path = path.child("spec");
    let pod = &template["spec"];
    validate_pod_spec(pod, &path, errors);
    if !json::items(pod, &["ephemeralContainers"]).is_empty() {
        errors.push(Error::forbidden(&path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template"));
    }
    if jobs {
        one_of(pod, "restartPolicy", &["OnFailure", "Never"], &path, errors);
        return;
    }
    if ["Never", "OnFailure"].contains(&json::text(pod, &["restartPolicy"])) {
        one_of(pod, "restartPolicy", &["Always"], &path, errors);
    }
    if json::get(pod, "activeDeadlineSeconds").is_some() {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.push(Error::forbidden(&path.child("activeDeadlineSeconds"), detail));
    }
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut Errors) {
    one_of(strategy, "type", &["Recreate", "RollingUpdate"], path, errors);
    let rolling = json::get(strategy, "rollingUpdate");
    let path = path.child("rollingUpdate");
    match (json::text(strategy, &["type"]), rolling) {
        ("Recreate", Some(_)) => {
            errors.push(Error::forbidden(&path, "may not be specified when strategy `type` is 'Recreate'"));
        }
        ("RollingUpdate", None) => errors.push(Error::required(&path, "this should be defaulted and never be nil")),
        ("RollingUpdate", Some(rolling)) => {
            let unavailable = validate_share(rolling, "maxUnavailable", &path, errors);
            let surge = validate_share(rolling, "maxSurge", &path, errors);
            let (key, value) = ("maxUnavailable", json::get(rolling, "maxUnavailable").cloned().unwrap_or(Value::Null));
            if unavailable == Some(0) && surge == Some(0) {
                errors.push(Error::invalid(&path.child(key), value, "may not be 0 when `maxSurge` is 0"));
            } else if value.is_string() && unavailable.is_some_and(|percent| percent > 100) {
                errors.push(Error::invalid(&path.child(key), value, "must not be greater than 100%"));
            }
        }
        _ => {}
    }
}

/// Judges a number or percentage; returns it without its sign of percent.
pub(super) fn validate_share(rolling: &Value, key: &str, path: &Path, errors: &mut Errors) -> Option<i64> {
    let value = json::get(rolling, key)?;
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            let share = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            if share.is_none() {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%')";
                errors.push(Error::invalid(&path.child(key), text.as_str(), detail));
            }
            share.map(|share| share.parse().unwrap_or(i64::MAX))
        }
        _ => {
            at_least(rolling, key, 0, path, errors);
            value.as_i64().filter(|number| *number >= 0)
        }
    }
}

/// Judges the status of either kind.
pub(super) fn validate_status(object: &Value, errors: &mut Errors) {
    let path = Path::new("status");
    let status = &object["status"];
    for key in COUNTS {
        at_least(status, key, 0, &path, errors);
    }
    let count = |key| json::int(status, &[key]).unwrap_or(0);
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"] {
        if count(key) > count("replicas") {
            errors.push(Error::invalid(&path.child(key), count(key), "cannot be greater than status.replicas"));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = "cannot be greater than readyReplicas";
        errors.push(Error::invalid(&path.child("availableReplicas"), count("availableReplicas"), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        }})
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<(String, &'static str)> {
        let mut new = deployment();
        change(&mut new["spec"]);
        default_deployment(&mut new);
        let mut errors = Vec::new();
        validate_deployment(&new, None, &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn a_deployment_gets_what_kubernetes_gives() {
        let mut new = deployment();
        default_deployment(&mut new);
        let spec = &new["spec"];
        assert_eq!(
            (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
            (&json!(1), &json!(10), &json!(600))
        );
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
        assert_eq!(spec["strategy"], strategy);
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(errors(|_| {}), []);
    }

    #[test]
    fn the_selector_is_required_and_matches_the_template() {
        assert_eq!(errors(|spec| spec["selector"] = Value::Null), owned(&[("spec.selector", "Required")]));
        assert_eq!(errors(|spec| spec["selector"] = json!({})), owned(&[("spec.selector", "Invalid")]));
        let other = |spec: &mut Value| spec["template"]["metadata"]["labels"] = json!({"a": "c"});
        assert_eq!(errors(other), owned(&[("spec.template.metadata.labels", "Invalid")]));
    }

    #[test]
    fn the_selector_does_not_change() {
        let mut old = deployment();
        default_deployment(&mut old);
        let mut new = old.clone();
        new["spec"]["selector"] = json!({"matchLabels": {"a": "z"}});
        new["spec"]["template"]["metadata"]["labels"] = json!({"a": "z"});
        let mut found = Vec::new();
        validate_deployment(&new, Some(&old), &mut found);
        assert_eq!(found.len(), 1);
        assert!(found[0].path == "spec.selector" && found[0].message().contains("field is immutable"), "{}", found[0]);
    }

    #[test]
    fn numbers_and_the_strategy_are_judged() {
        let found = errors(|spec| {
            spec["replicas"] = json!(-1);
            spec["progressDeadlineSeconds"] = json!(5);
            spec["minReadySeconds"] = json!(5);
            spec["strategy"] = json!({"type": "Recreate", "rollingUpdate": {}});
        });
        let expected = [
            ("spec.replicas", "Invalid"),
            ("spec.strategy.rollingUpdate", "Forbidden"),
            ("spec.progressDeadlineSeconds", "Invalid"),
        ];
        assert_eq!(found, owned(&expected));
        let rolling = |surge: Value, unavailable: Value| {
            errors(|spec| spec["strategy"] = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}))
        };
        assert_eq!(rolling(json!(1), json!("0%")), []);
        let path = "spec.strategy.rollingUpdate.maxUnavailable";
        assert_eq!(rolling(json!(0), json!("0%")), owned(&[(path, "Invalid")]));
        assert_eq!(rolling(json!(1), json!("101%")), owned(&[(path, "Invalid")]));
        assert_eq!(rolling(json!(1), json!(-1)), owned(&[(path, "Invalid")]));
        assert_eq!(rolling(json!(1), json!("many")), owned(&[(path, "Invalid")]));
    }

    #[test]
    fn pods_of_a_template_restart_always() {
        let found = errors(|spec| {
            spec["template"]["spec"]["restartPolicy"] = json!("Never");
            spec["template"]["spec"]["activeDeadlineSeconds"] = json!(5);
        });
        let expected =
            [("spec.template.spec.restartPolicy", "NotSupported"), ("spec.template.spec.activeDeadlineSeconds", "Forbidden")];
        assert_eq!(found, owned(&expected));
    }

    #[test]
    fn a_status_counts_within_its_replicas() {
        let mut found = Vec::new();
        validate_status(&json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 2}}), &mut found);
        let paths: Vec<_> = found.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["status.availableReplicas", "status.availableReplicas"]);
    }
}
