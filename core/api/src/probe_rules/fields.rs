//! The millisecond fields of all probes of an object: where they are, and which of them a switched-off gate removes.
//!
//! "In use" is judged per gate and over the whole stored object, as Kubernetes does for gated fields: who has the field
//! already may change it, also on another probe.

use serde_json::Value;

use super::{CONTAINER_LISTS, OFFSET_FIELDS, PROBE_FIELDS};
use crate::{FeatureGates, Gate, json};

/// Returns the members that lead to the pod spec of a kind, if it has one.
pub fn pod_spec_path(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "Pod" => Some(&["spec"]),
        "PodTemplate" => Some(&["template", "spec"]),
        "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "DaemonSet" | "Job" => {
            Some(&["spec", "template", "spec"])
        }
        "CronJob" => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

/// Where a kind keeps its probes: the way to the spec, the lists in it, the members of an item.
struct Layout {
    spec: &'static [&'static str],
    lists: &'static [&'static str],
    members: &'static [&'static str],
}

/// Below a pod template, as a workload controller holds it.
const TEMPLATE: Layout = Layout { spec: &["spec"], lists: &CONTAINER_LISTS, members: &PROBE_FIELDS };

fn layout(kind: &str) -> Option<Layout> {
    match pod_spec_path(kind) {
        Some(spec) => Some(Layout { spec, ..TEMPLATE }),
        None if kind == "PodProbeMarker" => Some(Layout { spec: &["spec"], lists: &["probes"], members: &["probe"] }),
        None => None,
    }
}

/// A probe of an object, and what makes it the same probe in another version of the object.
struct Place<'a> {
    list: &'static str,
    index: usize,
    /// Name of the container or marker probe.
    owner: &'a str,
    member: &'static str,
    probe: &'a Value,
}

impl Place<'_> {
    fn has(&self, field: &str) -> bool {
        json::get(self.probe, field).is_some()
    }

    fn path(&self, layout: &Layout, field: &str) -> String {
        path(layout, self.list, self.index, self.member, field)
    }
}

fn path(layout: &Layout, list: &str, index: usize, member: &str, field: &str) -> String {
    format!("{}.{list}[{index}].{member}.{field}", layout.spec.join("."))
}

fn places<'a>(layout: &Layout, object: &'a Value) -> Vec<Place<'a>> {
    let mut found = Vec::new();
    let Some(spec) = json::at(object, layout.spec) else { return found };
    for list in layout.lists.iter().copied() {
        for (index, item) in json::items(spec, &[list]).iter().enumerate() {
            for member in layout.members.iter().copied() {
                if let Some(probe) = item.get(member).filter(|probe| probe.is_object()) {
                    found.push(Place { list, index, owner: json::text(item, &["name"]), member, probe });
                }
            }
        }
    }
    found
}

/// Returns the full paths of the millisecond fields that an object has; 0 counts, null does not.
pub fn sub_second_fields(kind: &str, object: &Value) -> Vec<String> {
    let Some(layout) = layout(kind) else { return Vec::new() };
    let mut paths = Vec::new();
    for place in places(&layout, object) {
        paths.extend(OFFSET_FIELDS.into_iter().filter(|field| place.has(field)).map(|field| place.path(&layout, field)));
    }
    paths
}

/// Returns the paths, in `old`, of the millisecond fields that `new` does not have any more.
///
/// Containers are matched by name, so moving one in its list removes nothing. A client with compiled-in types erases the
/// fields unseen; this is what it is told.
pub fn removed_sub_second_fields(kind: &str, old: &Value, new: &Value) -> Vec<String> {
    let Some(layout) = layout(kind) else { return Vec::new() };
    let kept = places(&layout, new);
    let mut removed = Vec::new();
    for place in places(&layout, old) {
        let is_same = |other: &&Place<'_>| (other.list, other.owner, other.member) == (place.list, place.owner, place.member);
        for field in OFFSET_FIELDS {
            // Names can be there twice in what was not validated yet.
            if place.has(field) && !kept.iter().filter(is_same).any(|same| same.has(field)) {
                removed.push(place.path(&layout, field));
            }
        }
    }
    removed
}

/// Returns the gate that a millisecond field belongs to.
fn gate_of(field: &str) -> Gate {
    if field == "timeoutMilliseconds" { Gate::SubSecondProbeTimeouts } else { Gate::SubSecondProbes }
}

/// Returns the millisecond fields whose gate is off and not used by the stored object.
fn disabled_fields(layout: &Layout, old: Option<&Value>, gates: &FeatureGates) -> Vec<&'static str> {
    let mut fields: Vec<&str> = OFFSET_FIELDS.into_iter().filter(|field| !gates.enabled(gate_of(field))).collect();
    if let Some(old) = old.filter(|_| !fields.is_empty()) {
        let used: Vec<Gate> = places(layout, old)
            .iter()
            .flat_map(|place| OFFSET_FIELDS.into_iter().filter(|field| place.has(field)))
            .map(gate_of)
            .collect();
        fields.retain(|field| !used.contains(&gate_of(field)));
    }
    fields
}

/// Returns what a writer is told of the fields that [`drop_disabled_probe_fields`] will remove, one line for each gate.
pub fn disabled_field_warnings(kind: &str, new: &Value, old: Option<&Value>, gates: &FeatureGates) -> Vec<String> {
    let Some(layout) = layout(kind) else { return Vec::new() };
    let fields = disabled_fields(&layout, old, gates);
    let mut warnings = Vec::new();
    for gate in [Gate::SubSecondProbes, Gate::SubSecondProbeTimeouts] {
        let mut paths = Vec::new();
        for place in places(&layout, new) {
            let dropped = fields.iter().filter(|field| gate_of(field) == gate && place.has(field));
            paths.extend(dropped.map(|field| place.path(&layout, field)));
        }
        if !paths.is_empty() {
            let names = paths.join(", ");
            warnings.push(format!("{names}: dropped, because the feature gate {} is off", gate.name()));
        }
    }
    warnings
}

/// Removes the millisecond fields whose gate is off, unless the stored object uses that gate. Returns their paths.
///
/// Applies to pods, every kind with a pod template, and PodProbeMarker; other kinds are left alone.
pub fn drop_disabled_probe_fields(kind: &str, new: &mut Value, old: Option<&Value>, gates: &FeatureGates) -> Vec<String> {
    let Some(layout) = layout(kind) else { return Vec::new() };
    let fields = disabled_fields(&layout, old, gates);
    remove(&layout, new, &fields)
}

/// Removes the millisecond fields whose gate is off from a pod template, whoever uses them.
///
/// Workload controllers compare templates after this, on both sides: otherwise a stored template that keeps a field would
/// differ for ever from the child that lost it on create.
pub fn drop_disabled_template_fields(template: &mut Value, gates: &FeatureGates) {
    let fields: Vec<&str> = OFFSET_FIELDS.into_iter().filter(|field| !gates.enabled(gate_of(field))).collect();
    remove(&TEMPLATE, template, &fields);
}

/// Removes fields from every probe; returns the paths of those that were set.
fn remove(layout: &Layout, object: &mut Value, fields: &[&str]) -> Vec<String> {
    let mut paths = Vec::new();
    if fields.is_empty() {
        return paths;
    }
    let spec = layout.spec.iter().try_fold(object, |value, member| value.get_mut(member));
    let Some(spec) = spec else { return paths };
    for list in layout.lists {
        for (index, item) in json::items_mut(spec, &[list]).into_iter().flatten().enumerate() {
            for member in layout.members {
                let Some(Value::Object(probe)) = item.get_mut(member) else { continue };
                for field in fields {
                    if probe.remove(*field).is_some_and(|value| !value.is_null()) {
                        paths.push(path(layout, list, index, member, field));
                    }
                }
            }
        }
    }
    paths
}
