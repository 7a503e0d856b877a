//! A Service that selects no pod: a label that differs, or a workload without pods.

use std::collections::BTreeMap;

use api::{Service, json};
use serde_json::Value;

use super::matching::{self, near_miss};
use crate::answer::Finding;
use crate::chain::Step;
use crate::facts::{Facts, Query, Resource};
use crate::words;

/// Pods and workloads are compared with the selector up to this many.
const NEIGHBOURS_MAX: u32 = 300;

fn labels_of(value: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    json::object(value, path).into_iter().flatten().filter_map(text).collect()
}

/// Says why a Service selects nobody.
pub(super) fn explain(facts: &Facts, service: &Service) -> Step<Finding> {
    let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
    let short = format!("svc/{name}");
    let list = |resource| Query::list(resource, namespace, "", "", NEIGHBOURS_MAX);
    let workloads = [Resource::Deployments, Resource::StatefulSets, Resource::DaemonSets];
    facts.want([list(Resource::Pods)].into_iter().chain(workloads.map(list)));
    let selector = words::selector(&service.spec.selector);
    let finding = |cause, what: String| {
        Finding::new(cause, &short, what).seen_at(
            &short,
            "spec.selector",
            selector.clone(),
            service.metadata.creation_timestamp,
        )
    };
    // A workload whose pods would be selected: it has none.
    for resource in workloads {
        let Ok(listed) = facts.list(&list(resource))? else { continue };
        for item in listed.items {
            if !matching::selects(service, &labels_of(item, &["spec", "template", "metadata", "labels"])) {
                continue;
            }
            let object = format!("{}/{}", resource.short(), json::text(item, &["metadata", "name"]));
            if json::int(item, &["spec", "replicas"]) == Some(0) {
                let what = format!("{object}, whose pods it would select, is scaled to 0");
                return Ok(finding("ScaledToZero", what)
                    .seen(&object, "spec.replicas", "0")
                    .act("scale it up", format!("kubectl -n {namespace} scale {object} --replicas=1")));
            }
            let what = format!("{object}, whose pods it would select, has none");
            let failure = json::items(item, &["status", "conditions"])
                .iter()
                .find(|condition| json::text(condition, &["type"]) == "ReplicaFailure");
            let finding = match failure {
                Some(failure) => finding("NoPods", format!("{what}: {}", json::text(failure, &["message"]))),
                None => finding("NoPods", what),
            };
            return Ok(finding.act("why it has no pods", format!("lifesign why {object} -n {namespace}")));
        }
    }
    let pods = facts.list(&list(Resource::Pods))?;
    let items = pods.as_ref().map(|listed| listed.items).unwrap_or_default();
    let nearest = items.iter().find_map(|item| {
        let miss = near_miss(&service.spec.selector, &labels_of(item, &["metadata", "labels"]))?;
        Some((item, miss))
    });
    if let Some((pod, miss)) = nearest {
        let pod_name = json::text(pod, &["metadata", "name"]);
        return Ok(finding(
            "SelectorMismatch",
            format!("its selector matches no pod, by one label: {} (pod/{pod_name})", miss.say()),
        )
        .seen(format!("pod/{pod_name}"), "metadata.labels", words::selector(&labels_of(pod, &["metadata", "labels"])))
        .act("correct the selector, or the labels in the pod's template", miss.patch(namespace, name)));
    }
    let there = match &pods {
        Err(refused) => refused.say(),
        Ok(listed) if listed.items.is_empty() => format!("there is no pod in namespace {namespace}"),
        Ok(listed) => {
            let mut kinds: Vec<String> = listed
                .items
                .iter()
                .map(|item| words::selector(&labels_of(item, &["metadata", "labels"])))
                .filter(|labels| !labels.is_empty())
                .collect();
            kinds.sort();
            kinds.dedup();
            format!("the pods there have {}", if kinds.is_empty() { "no labels".to_owned() } else { words::some(&kinds, 3) })
        }
    };
    Ok(finding("SelectsNothing", format!("its selector {selector} matches no pod in namespace {namespace}"))
        .seen("pods", format!("in namespace {namespace}"), there)
        .act("compare with the labels of the pods that are meant", format!("kubectl -n {namespace} get pods --show-labels")))
}
