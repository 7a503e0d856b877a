//! From a marker and a pod to the entries of a NodePodProbe, and when two entries are equal.

use std::collections::BTreeMap;

use api::marker::{ContainerProbe, PodContainerProbe, PodProbe, PodProbeMarker};
use api::pod::{Container, Pod};
use api::{HandlerKind, json};
use serde_json::{Map, Value};

/// Why a probe of a marker is not run on a pod that the marker selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// The stored probe breaks a rule of the API.
    InvalidProbe,
    /// The pod has no such container, or the container no such port.
    TargetMissing,
}

/// Returns the name of an entry.
pub fn entry_name(marker: &str, probe: &str) -> String {
    format!("{marker}#{probe}")
}

/// Returns the entry of a probe on a pod.
pub fn entry(marker: &PodProbeMarker, probe: &PodContainerProbe, pod: &Pod) -> Result<ContainerProbe, Skip> {
    if !probe.errors.is_empty() {
        return Err(Skip::InvalidProbe);
    }
    let container = container(pod, &probe.container_name).ok_or(Skip::TargetMissing)?;
    Ok(ContainerProbe {
        name: entry_name(&marker.metadata.name, &probe.name),
        container_name: probe.container_name.clone(),
        probe: with_numbers(&probe.probe, container).ok_or(Skip::TargetMissing)?,
    })
}

/// Returns the container or sidecar of that name; other init containers have ended before a probe could run.
fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    pod.spec.containers.iter().chain(pod.sidecars()).find(|container| container.name == name)
}

/// Returns a probe with its named port replaced by the number that the container gives it; `None`: it has none.
fn with_numbers(probe: &Value, container: &Container) -> Option<Value> {
    let mut copy = without_nulls(probe);
    for handler in [HandlerKind::HttpGet, HandlerKind::TcpSocket] {
        let Some(port) = copy.get_mut(handler.field()).and_then(|action| action.get_mut("port")) else { continue };
        if let Some(name) = port.as_str() {
            let number = container.ports.iter().find(|port| port.name == name)?.container_port;
            *port = number.into();
        }
    }
    Some(copy)
}

/// Returns a copy without null members: null is absent, and a schema would refuse it in the copy.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(key, member)| (key.clone(), without_nulls(member))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// Returns whether two probes mean the same: absent, zero and empty are equal, wherever they stand.
///
/// One exception: `initialDelayMilliseconds` 0 is not absent, because it switches the default delay off.
pub fn same_probe(left: &Value, right: &Value) -> bool {
    const DELAY: &str = "initialDelayMilliseconds";
    json::int(left, &[DELAY]) == json::int(right, &[DELAY]) && same_value(Some(left), Some(right))
}

fn same_value(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).all(|key| same_value(a.get(key), b.get(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if !a.is_empty() && !b.is_empty() => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(Some(a), Some(b)))
        }
        (a, b) => a == b || (is_zero(a) && is_zero(b)),
    }
}

fn is_zero(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Bool(true)) => false,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.values().all(|member| is_zero(Some(member))),
    }
}

/// Returns whether two entries ask the same of the same container.
pub fn same_entry(left: &ContainerProbe, right: &ContainerProbe) -> bool {
    left.name == right.name && left.container_name == right.container_name && same_probe(&left.probe, &right.probe)
}

/// Returns whether the stored items agree with the desired ones; order does not count, a repeated item is a difference.
pub fn same_spec<'a>(stored: &'a [PodProbe], desired: impl Iterator<Item = &'a PodProbe>) -> bool {
    let by_uid: BTreeMap<&str, &PodProbe> = stored.iter().map(|item| (item.uid.as_str(), item)).collect();
    let mut count = 0;
    let all =
        desired.inspect(|_| count += 1).all(|want| by_uid.get(want.uid.as_str()).is_some_and(|have| same_pod(have, want)));
    all && by_uid.len() == stored.len() && count == stored.len()
}

fn same_pod(left: &PodProbe, right: &PodProbe) -> bool {
    let by_name: BTreeMap<&str, &ContainerProbe> = left.probes.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    (&left.name, &left.namespace, &left.ip) == (&right.name, &right.namespace, &right.ip)
        && by_name.len() == left.probes.len()
        && left.probes.len() == right.probes.len()
        && right.probes.iter().all(|entry| by_name.get(entry.name.as_str()).is_some_and(|have| same_entry(have, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zero_is_absent_except_for_the_delay_offset() {
        let probe = json!({"exec": {"command": ["x"]}});
        for same in [
            json!({"exec": {"command": ["x"]}, "periodSeconds": 0, "periodMilliseconds": 0, "httpGet": null}),
            json!({"exec": {"command": ["x"]}, "tcpSocket": {}, "initialDelayMilliseconds": null}),
        ] {
            assert!(same_probe(&probe, &same), "{same}");
        }
        for other in [
            json!({"exec": {"command": ["x"]}, "initialDelayMilliseconds": 0}),
            json!({"exec": {"command": ["x", ""]}}),
            json!({"exec": {"command": ["y"]}}),
            json!({"exec": {"command": []}}),
        ] {
            assert!(!same_probe(&probe, &other), "{other}");
        }
    }

    #[test]
    fn a_repeated_item_is_a_difference() {
        let item = PodProbe { uid: "u".into(), ..PodProbe::default() };
        let stored = [item.clone(), item.clone()];
        assert!(same_spec(&stored[..1], [&item].into_iter()));
        assert!(!same_spec(&stored, [&item].into_iter()));
        assert!(!same_spec(&stored, std::iter::empty()));
    }
}
