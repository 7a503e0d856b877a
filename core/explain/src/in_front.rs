//! Services of the given files: do they select a pod, and does it declare their ports.

use std::collections::BTreeMap;

use api::field::Path;
use api::{Selector, json};
use serde_json::Value;

use crate::findings::Findings;
use crate::given::{Given, GivenPod};
use crate::report::{Severity, Workload};
use crate::templates::{self, texts};
use crate::{name, namespace, rules};

/// Labels that pods get while they run, by the controllers of Kubernetes.
const RUN_TIME: [&str; 9] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "job-name",
    "pod-template-hash",
    "rollouts-pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// Judges a Service; `None`: there is nothing to say.
pub(crate) fn judge(service: &Value, given: &Given<'_>) -> Option<Workload> {
    let selector = texts(service, &["spec", "selector"]);
    if selector.is_empty() || json::text(service, &["spec", "type"]) == "ExternalName" {
        return None;
    }
    let here = given.pods_beside(service);
    let later = given.marks_beside(service);
    let selector: BTreeMap<String, String> =
        selector.into_iter().filter(|label| !RUN_TIME.contains(&label.0.as_str()) && !later.contains(label)).collect();
    if selector.is_empty() {
        return None;
    }
    let wanted = Selector::from_labels(&selector);
    let selected: Vec<&GivenPod<'_>> = here.iter().filter(|pod| wanted.matches(&pod.labels)).collect();
    let mut found = Findings::default();
    // Without any pod in the files nobody can tell what is there.
    if selected.is_empty()
        && let Some((elsewhere, pod)) = given.pods().find(|(_, pod)| wanted.matches(&pod.labels))
    {
        let text = format!(
            "the pods of {:?} have its labels, but are in namespace {elsewhere:?} and not in {:?}",
            pod.name,
            namespace(service)
        );
        let advice =
            "a Service leads to pods of its own namespace only; one that the file does not name is that of the context";
        found.add(Severity::Info, "service-selects-nothing", Path::new("spec.selector"), text, advice);
    } else if selected.is_empty() && !here.is_empty() {
        let lacks = |pod: &&GivenPod<'_>| {
            let agrees = |(key, value): (&String, &String)| pod.labels.get(key).is_none_or(|own| own == value);
            selector.iter().all(agrees) && selector.keys().any(|key| pod.labels.contains_key(key))
        };
        let lacking = here.iter().find(lacks);
        let near = lacking.or_else(|| here.iter().find(|pod| selector.keys().any(|key| pod.labels.contains_key(key))));
        let differs = near.map(|pod| {
            let (key, value) =
                selector.iter().find(|(key, value)| pod.labels.get(*key) != Some(*value)).expect("it is not selected");
            let own = pod.labels.get(key).map_or_else(|| "no such label".to_owned(), |own| format!("{key}={own}"));
            format!(": it wants {key}={value}, {:?} has {own}", pod.name)
        });
        let text = format!("none of the pods of the given files has its labels{}", differs.unwrap_or_default());
        // What a controller of such an object makes is not in the files.
        let others = given.objects.iter().any(|object| rules::may_make_pods(object) && templates::pods(object).is_empty());
        let (severity, advice) = match lacking {
            Some(_) => (Severity::Info, "correct one of them, unless something sets the label while the pod runs"),
            None if others => (Severity::Info, "correct the selector, unless it is meant for pods that are not in the files"),
            None => (Severity::Warning, "correct the selector, or the labels of the pod template"),
        };
        found.add(severity, "service-selects-nothing", Path::new("spec.selector"), text, advice);
    }
    for (index, port) in json::items(service, &["spec", "ports"]).iter().enumerate() {
        let Some(target) = port.get("targetPort").and_then(Value::as_str) else { continue };
        let declares = |pod: &GivenPod<'_>| declared(&pod.spec).any(|own| own == target);
        if selected.is_empty() || selected.iter().any(|pod| declares(pod)) {
            continue;
        }
        let text = format!("no container of {:?} declares a port named {target:?}: nothing is sent there", selected[0].name);
        let path = Path::new("spec.ports").index(index).child("targetPort");
        found.add(Severity::Error, "service-port-undeclared", path, text, "name a port of the container, or use its number");
    }
    if found.all.is_empty() {
        return None;
    }
    Some(Workload {
        object: 0,
        kind: "Service".to_owned(),
        namespace: namespace(service).to_owned(),
        name: name(service).to_owned(),
        containers: Vec::new(),
        findings: found.all,
    })
}

/// Returns the names of the ports that the containers of a pod declare.
pub(crate) fn declared(spec: &Value) -> impl Iterator<Item = &str> {
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| json::items(spec, &[list]));
    containers
        .flat_map(|container| json::items(container, &["ports"]))
        .map(|port| json::text(port, &["name"]))
        .filter(|name| !name.is_empty())
}
