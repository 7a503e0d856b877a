//! PodProbeMarker and NodePodProbe, as the marker controller and the agent read them.
//!
//! These kinds are often admitted by somebody else's webhook, so reading is total: a member of a wrong JSON type counts as
//! absent, an item of a wrong type as an empty one. What a stored marker breaks is found once, while it is read, and kept
//! beside each probe; the cores skip such a probe and work with the others.

mod node;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::meta::{Kind, ObjectMeta, Scope};
use crate::{LabelSelector, field, json, marker_rules};
pub use node::{
    ContainerProbe, ContainerProbeState, NodePodProbe, NodePodProbeSpec, NodePodProbeStatus, PodProbe, PodProbeStatus,
    ProbeState,
};

/// The finalizer that keeps a marker until its entries are out of every NodePodProbe.
pub const MARKER_FINALIZER: &str = "kruise.io/node-pod-probe-cleanup";
/// The annotation that says what happens to marks when the marker is deleted: `Keep` (default) or `Remove`.
pub const RELEASE_POLICY: &str = "lifesign.dev/release-policy";
/// The annotation on a pod that says which probe owns which mark.
pub const MARKED: &str = "lifesign.dev/marked";

/// Custom probes for the pods that a selector selects, and the marks that follow from their states.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub struct PodProbeMarker {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: PodProbeMarkerSpec,
    /// What is seen.
    pub status: PodProbeMarkerStatus,
}

impl Kind for PodProbeMarker {
    const GROUP: &'static str = "apps.kruise.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "PodProbeMarker";
    const PLURAL: &'static str = "podprobemarkers";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What a marker is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodProbeMarkerSpec {
    /// Pods of the marker's namespace; `None` if absent or not readable: then it selects nothing.
    pub selector: Option<LabelSelector>,
    /// The probes, in order.
    pub probes: Vec<PodContainerProbe>,
}

/// A probe of a marker.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodContainerProbe {
    /// Unique in the marker.
    #[serde(deserialize_with = "lenient")]
    pub name: String,
    /// A container or a sidecar.
    #[serde(deserialize_with = "lenient")]
    pub container_name: String,
    /// The probe as stored; what is not null is copied to the node.
    #[serde(deserialize_with = "lenient")]
    pub probe: Value,
    /// What to put on the pod in which state.
    #[serde(deserialize_with = "lenient_items")]
    pub marker_policy: Vec<MarkerPolicy>,
    /// The condition to maintain on the pod; empty: none.
    #[serde(deserialize_with = "lenient")]
    pub pod_condition_type: String,
    /// The rules that this probe breaks; a probe with errors is not run.
    #[serde(skip)]
    pub errors: Vec<field::Error>,
}

/// What to put on a pod while a probe is in a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MarkerPolicy {
    /// `Succeeded` or `Failed`.
    #[serde(deserialize_with = "lenient")]
    pub state: String,
    /// Labels.
    #[serde(deserialize_with = "lenient_map")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "lenient_map")]
    pub annotations: BTreeMap<String, String>,
}

/// What is seen of a marker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodProbeMarkerStatus {
    /// The generation whose probes have reached every node concerned.
    #[serde(deserialize_with = "lenient")]
    pub observed_generation: i64,
    /// How many pods the marker selects.
    #[serde(deserialize_with = "lenient")]
    pub matched_pods: i64,
}

impl From<Value> for PodProbeMarker {
    fn from(mut value: Value) -> PodProbeMarker {
        let spec = take(&mut value, "spec");
        let mut errors = marker_rules::probe_errors(&spec).into_iter();
        let mut probes: Vec<PodContainerProbe> = items(json::at(&spec, &["probes"]).cloned().unwrap_or_default());
        for probe in &mut probes {
            probe.errors = errors.next().unwrap_or_default();
        }
        // A selector with one bad member must select nothing, so it is read as a whole or not at all.
        let selector = json::get(&spec, "selector").and_then(|selector| LabelSelector::deserialize(selector).ok());
        PodProbeMarker {
            metadata: or_default(take(&mut value, "metadata")),
            spec: PodProbeMarkerSpec { selector, probes },
            status: or_default(take(&mut value, "status")),
        }
    }
}

impl PodProbeMarker {
    /// Returns whether the marker wants its marks removed when it is deleted.
    pub fn removes_marks(&self) -> bool {
        self.metadata.annotations.get(RELEASE_POLICY).is_some_and(|policy| policy == "Remove")
    }
}

/// Splits the name of an entry into marker and probe: at the first `#`, which no object name holds.
pub fn split_entry(name: &str) -> Option<(&str, &str)> {
    name.split_once('#')
}

/// Reads a member; one of a wrong type counts as absent.
fn lenient<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    Value::deserialize(deserializer).map(or_default)
}

/// Reads a list; an item of a wrong type counts as an empty one, so that the others keep their places.
fn lenient_items<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Value::deserialize(deserializer).map(items)
}

/// Reads a map of texts; other values are left out.
fn lenient_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let members = match Value::deserialize(deserializer)? {
        Value::Object(members) => members,
        _ => return Ok(BTreeMap::new()),
    };
    let text = |(key, value)| match value {
        Value::String(text) => Some((key, text)),
        _ => None,
    };
    Ok(members.into_iter().filter_map(text).collect())
}

fn or_default<T: Default + DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

fn items<T: Default + DeserializeOwned>(value: Value) -> Vec<T> {
    match value {
        Value::Array(items) => items.into_iter().map(or_default).collect(),
        _ => Vec::new(),
    }
}

fn take(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bad_probe_does_not_hide_the_others() {
        let marker: PodProbeMarker = serde_json::from_value(json!({
            "metadata": {"name": "m", "namespace": "ns", "creationTimestamp": null},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "probes": [
                7,
                {"name": "bad", "containerName": "c", "probe": {"exec": "/x"}, "podConditionType": "t"},
                {"name": "good", "containerName": "c", "probe": {"exec": {"command": ["x"]}}, "podConditionType": "u"},
            ]},
            "status": "odd",
        }))
        .unwrap();
        assert_eq!(marker.spec.probes.iter().map(|probe| probe.errors.is_empty()).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(marker.spec.probes[1].name, "bad");
        assert_eq!(marker.metadata.name, "m");
    }

    #[test]
    fn a_selector_with_a_bad_member_selects_nothing() {
        let marker = PodProbeMarker::from(json!({"spec": {"selector": {"matchLabels": {"a": "b", "c": 1}}, "probes": []}}));
        assert_eq!(marker.spec.selector, None);
    }
}
