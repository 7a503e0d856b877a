//! Markers: which pods a PodProbeMarker selects, and what marks they wear.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::marker::{MarkerPolicy, PodContainerProbe};
use api::{Pod, PodProbeMarker};
use serde::Serialize;

use crate::pods::cut;

/// Pods that a row shows; a marker of more says how many it selects.
const PODS_MAX: usize = 200;

/// A PodProbeMarker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkerRow {
    /// Namespace and name.
    pub key: String,
    /// How many pods it selects.
    pub selects: usize,
    /// Its probes.
    pub probes: Vec<MarkerProbe>,
    /// The pods that it selects, at most 200.
    pub pods: Vec<MarkedPod>,
}

/// A probe of a marker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkerProbe {
    /// Its name.
    pub name: String,
    /// The container that it asks.
    pub container: String,
    /// The condition that it sets; empty: none.
    pub condition: String,
    /// Why it does not run; empty: it does.
    pub error: String,
}

/// A pod that a marker selects.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkedPod {
    /// Its name.
    pub name: String,
    /// The state of each probe of the marker, in order: `Succeeded`, `Failed`, `Unknown`; empty: not known yet.
    pub states: Vec<String>,
    /// Labels and annotations that the marker gave it: `name=value`.
    pub marks: Vec<String>,
}

impl MarkerRow {
    pub(crate) fn of<'a>(marker: &PodProbeMarker, pods: impl Iterator<Item = &'a Arc<Pod>>) -> MarkerRow {
        let selector = marker.spec.selector.as_ref().and_then(|selector| selector.compile());
        let namespace = marker.metadata.namespace.as_str();
        let selected: Vec<&Arc<Pod>> = pods
            .filter(|pod| pod.metadata.namespace == namespace)
            .filter(|pod| selector.as_ref().is_some_and(|selector| selector.matches(&pod.metadata.labels)))
            .collect();
        let probe = |probe: &PodContainerProbe| MarkerProbe {
            name: probe.name.clone(),
            container: probe.container_name.clone(),
            condition: probe.pod_condition_type.clone(),
            error: probe.errors.first().map_or_else(String::new, |error| cut(&error.message())),
        };
        let marked = |pod: &&Arc<Pod>| MarkedPod {
            name: pod.metadata.name.clone(),
            states: marker.spec.probes.iter().map(|probe| state_of(probe, pod)).collect(),
            marks: marks_of(&marker.spec.probes, pod),
        };
        MarkerRow {
            key: marker.metadata.key(),
            selects: selected.len(),
            probes: marker.spec.probes.iter().map(probe).collect(),
            pods: selected.iter().take(PODS_MAX).map(marked).collect(),
        }
    }
}

/// Returns the state of a probe as the pod shows it: by its condition, else by the marks of a policy.
fn state_of(probe: &PodContainerProbe, pod: &Pod) -> String {
    let condition = pod.condition(&probe.pod_condition_type).filter(|_| !probe.pod_condition_type.is_empty());
    let by_condition = condition.map(|condition| match condition.status.as_str() {
        "True" => "Succeeded",
        "False" => "Failed",
        _ => "Unknown",
    });
    let by_marks = || probe.marker_policy.iter().find(|policy| wears(policy, pod)).map(|policy| policy.state.as_str());
    by_condition.or_else(by_marks).unwrap_or_default().to_owned()
}

/// Returns whether a pod wears all marks of a policy, of which there is at least one.
fn wears(policy: &MarkerPolicy, pod: &Pod) -> bool {
    let all = |wanted: &BTreeMap<String, String>, own: &BTreeMap<String, String>| {
        wanted.iter().all(|(name, value)| own.get(name) == Some(value))
    };
    !(policy.labels.is_empty() && policy.annotations.is_empty())
        && all(&policy.labels, &pod.metadata.labels)
        && all(&policy.annotations, &pod.metadata.annotations)
}

fn marks_of(probes: &[PodContainerProbe], pod: &Pod) -> Vec<String> {
    let worn = probes.iter().flat_map(|probe| probe.marker_policy.iter().find(|policy| wears(policy, pod)));
    let mut marks: Vec<String> = worn
        .flat_map(|policy| policy.labels.iter().chain(&policy.annotations))
        .map(|(name, value)| cut(&format!("{name}={value}")))
        .collect();
    marks.sort();
    marks.dedup();
    marks
}
