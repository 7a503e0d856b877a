//! Services of the given files: do they select a pod, and does it declare their ports.

use std::collections::BTreeMap;

use api::field::Path;
use api::{Selector, json};
use serde_json::Value;

use crate::findings::Findings;
use crate::report::{Severity, Workload};
use crate::{name, namespace};

/// The pods that the given files make: labels, containers, namespace.
pub(crate) struct Given<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) spec: &'a Value,
}

/// Judges a Service; `None`: there is nothing to say.
pub(crate) fn judge(service: &Value, pods: &[Given<'_>]) -> Option<Workload> {
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let selector: BTreeMap<String, String> =
        json::object(service, &["spec", "selector"]).map(|map| map.iter().filter_map(text).collect()).unwrap_or_default();
    if selector.is_empty() || json::text(service, &["spec", "type"]) == "ExternalName" {
        return None;
    }
    let here: Vec<&Given<'_>> = pods.iter().filter(|pod| pod.namespace == namespace(service)).collect();
    let wanted = Selector::from_labels(&selector);
    let selected: Vec<&&Given<'_>> = here.iter().filter(|pod| wanted.matches(&pod.labels)).collect();
    let mut found = Findings::default();
    // Without any pod in the files nobody can tell what is there.
    if selected.is_empty() && !here.is_empty() {
        let near = here.iter().find(|pod| selector.keys().any(|key| pod.labels.contains_key(key)));
        let differs = near.map(|pod| {
            let (key, value) =
                selector.iter().find(|(key, value)| pod.labels.get(*key) != Some(*value)).expect("it is not selected");
            let own = pod.labels.get(key).map_or_else(|| "no such label".to_owned(), |own| format!("{key}={own}"));
            format!(": it wants {key}={value}, {:?} has {own}", pod.name)
        });
        let text = format!("none of the pods of the given files has its labels{}", differs.unwrap_or_default());
        found.add(
            Severity::Warning,
            "service-selects-nothing",
            Path::new("spec.selector"),
            text,
            "correct the selector, or the labels of the pod template",
        );
    }
    for (index, port) in json::items(service, &["spec", "ports"]).iter().enumerate() {
        let Some(target) = port.get("targetPort").and_then(Value::as_str) else { continue };
        let declares = |pod: &Given<'_>| declared(pod.spec).any(|own| own == target);
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
