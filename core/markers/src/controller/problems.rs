//! What an event says about a problem of a marker: the first pod concerned, its container, the other marker, and how many pods there are.

use std::collections::BTreeMap;

use api::Pod;
use api::marker::{MarkerPolicy, PodContainerProbe, PodProbeMarker};

use crate::cache::Cache;
use crate::entries::{self, Skip};
use crate::{Compiled, Key, Reason};

/// The part of a policy that is about labels, or about annotations.
type Section = fn(&MarkerPolicy) -> &BTreeMap<String, String>;

/// Returns the message of the event that tells a problem of a marker.
pub(super) fn message(cache: &Cache, key: &Key, reason: Reason) -> String {
    let concerned = (key.clone(), reason);
    let count = cache.problems.count(&concerned);
    let first = cache.problems.get(&concerned).next().and_then(|pod| cache.pods.get(pod));
    let (Some(first), Some(marker)) = (first, cache.markers.get(key)) else { return reason.name().to_owned() };
    let pods = if count == 1 { " (1 pod)".to_owned() } else { format!(" ({count} pods)") };
    let others: Vec<&Compiled> = first
        .markers
        .iter()
        .filter(|other| *other != key)
        .filter_map(|other| Some(&cache.markers.get(other)?.compiled))
        .collect();
    let text = match reason {
        Reason::InvalidProbe => invalid(&marker.compiled.marker, &first.pod),
        Reason::ProbeTargetMissing => target_missing(&marker.compiled.marker, &first.pod),
        Reason::ConditionTypeConflict => condition_conflict(&marker.compiled, &first.pod, &others),
        Reason::MarkConflict => mark_conflict(&marker.compiled, &first.pod, &others),
    };
    text + &pods
}

/// Returns what is said of a marker that selects nothing.
pub(super) fn nothing_selected(marker: &PodProbeMarker) -> String {
    let namespace = &marker.metadata.namespace;
    let Some(selector) = marker.spec.selector.as_ref().filter(|selector| !selector.is_empty()) else {
        return format!("the selector is empty or malformed and selects no pod of namespace {namespace}");
    };
    let text = serde_json::to_string(selector).unwrap_or_default();
    format!("no pod of namespace {namespace} that is scheduled and initialized matches the selector {text}")
}

fn invalid(marker: &PodProbeMarker, pod: &Pod) -> String {
    let broken = marker.spec.probes.iter().find_map(|probe| Some((probe, probe.errors.first()?)));
    match broken {
        Some((probe, error)) => {
            format!("probe {} breaks a rule and is not run on pod {}: {error}", probe.name, pod.metadata.name)
        }
        None => format!("a probe that breaks a rule is not run on pod {}", pod.metadata.name),
    }
}

fn target_missing(marker: &PodProbeMarker, pod: &Pod) -> String {
    let missing = |probe: &&PodContainerProbe| entries::entry(marker, probe, pod) == Err(Skip::TargetMissing);
    let name = &pod.metadata.name;
    let Some(probe) = marker.spec.probes.iter().find(missing) else {
        return format!("pod {name} has not the container or named port of a probe");
    };
    let containers: Vec<_> = pod.spec.containers.iter().chain(pod.sidecars()).collect();
    let wanted = &probe.container_name;
    match containers.iter().find(|container| container.name == *wanted) {
        None => {
            let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
            format!("probe {}: pod {name} has no container {wanted:?}, only {}", probe.name, names.join(", "))
        }
        Some(container) => {
            let names: Vec<&str> =
                container.ports.iter().map(|port| port.name.as_str()).filter(|name| !name.is_empty()).collect();
            let named = if names.is_empty() { "none is named".to_owned() } else { format!("only {}", names.join(", ")) };
            format!("probe {}: container {wanted} of pod {name} has no port of that name, {named}", probe.name)
        }
    }
}

fn condition_conflict(marker: &Compiled, pod: &Pod, others: &[&Compiled]) -> String {
    let types = |marker: &Compiled| -> Vec<String> {
        let all = marker.marker.spec.probes.iter().map(|probe| probe.pod_condition_type.clone());
        all.filter(|type_| !type_.is_empty()).collect()
    };
    let own = types(marker);
    let found = others.iter().find_map(|other| Some((other, types(other).into_iter().find(|type_| own.contains(type_))?)));
    match found {
        Some((other, type_)) => {
            format!("condition {type_} of pod {} is decided by marker {}", pod.metadata.name, other.key.name)
        }
        None => format!("another marker decides a condition of pod {}", pod.metadata.name),
    }
}

fn mark_conflict(marker: &Compiled, pod: &Pod, others: &[&Compiled]) -> String {
    let sections: [(&str, Section); 2] = [("label", |policy| &policy.labels), ("annotation", |policy| &policy.annotations)];
    for (word, of) in sections {
        for (probe, key) in marks(marker, of) {
            // Two probes of one marker may disagree as well.
            let decides = others.iter().chain([&marker]).flat_map(|other| {
                marks(other, of).into_iter().map(|(by, theirs)| (entries::entry_name(&other.key.name, by), theirs))
            });
            let own = entries::entry_name(&marker.key.name, probe);
            if let Some((owner, _)) = decides.into_iter().find(|(owner, theirs)| *theirs == key && *owner != own) {
                return format!("{word} {key} of pod {} is decided by {owner}, with another value", pod.metadata.name);
            }
        }
    }
    format!("another probe decides a label or annotation of pod {}, with another value", pod.metadata.name)
}

/// Returns the probes of a marker and the keys that each may set.
fn marks(marker: &Compiled, of: Section) -> Vec<(&str, &str)> {
    let probes = marker.marker.spec.probes.iter();
    let keys =
        probes.flat_map(|probe| probe.marker_policy.iter().flat_map(of).map(|(key, _)| (probe.name.as_str(), key.as_str())));
    keys.collect()
}
