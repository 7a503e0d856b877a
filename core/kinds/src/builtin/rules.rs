//! The one place that knows which rule belongs to which kind.

use api::field::{Error, Path};
use api::{endpointslice_rules, json, names, probe_rules, process_rules};
use serde_json::{Value, json};

use super::check::shaped;
use super::fill::{copy, each_mut, fill};
use super::pod::{
    spec::validate_pod_annotations, spec::validate_pod_spec, status::validate_pod_status, update::validate_pod_change,
};
use super::{
    Builtin, Context, Part, admit_pod_tolerations, budget, config, event, lease, meta, namespace, node, pod, service, workload,
};

/// Sets what the server decides about a new object, above all its status: a client cannot be born finished.
///
/// The exception are nodes, whose agents register with the status they have.
pub fn prepare_create(kind: Builtin, object: &mut Value, ctx: &Context<'_>) {
    let status = match kind {
        Builtin::Pod => return pod::prepare_create(object, ctx),
        Builtin::Node => return node::prepare_create(object),
        Builtin::Namespace => return namespace::prepare_create(object),
        Builtin::Service => return service::prepare_create(object),
        Builtin::Deployment => json!({}),
        Builtin::PodDisruptionBudget => budget::new_status(),
        Builtin::ReplicaSet => json!({"replicas": 0}),
        Builtin::CustomResourceDefinition => Value::Null,
        Builtin::ConfigMap
        | Builtin::ServiceAccount
        | Builtin::Secret
        | Builtin::Event
        | Builtin::EventsEvent
        | Builtin::Lease
        | Builtin::EndpointSlice => return,
    };
    copy(Some(&json!({ "status": status })), "status", json::object_mut(object, &[]));
}

/// Keeps of the stored object what this endpoint may not change, and what the server allocated.
pub fn prepare_update(kind: Builtin, part: Part, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
    match part {
        Part::Main => {
            copy_unless_absent(old, "status", new);
            match kind {
                Builtin::Namespace => namespace::keep_finalizers(new, old),
                Builtin::Service => service::prepare_update(new, old),
                // A client that leaves the type out does not ask for another one.
                Builtin::Secret if json::text(new, &["type"]).is_empty() => copy_unless_absent(old, "type", new),
                _ => {}
            }
        }
        Part::Status => {
            copy_unless_absent(old, "spec", new);
            keep_metadata(kind, new, old);
            if kind == Builtin::Pod {
                pod::prepare_status(new, old);
            }
        }
        Part::Binding => {}
        Part::Finalize => {
            let finalizers = json::at(new, &["spec", "finalizers"]).cloned();
            *new = Value::Object(json::object(new, &[]).cloned().unwrap_or_default());
            for key in ["spec", "status"] {
                copy_unless_absent(old, key, new);
            }
            keep_members(new, old, &METADATA);
            copy(Some(&json!({ "finalizers": finalizers })), "finalizers", json::object_mut(new, &["spec"]));
        }
    }
}

/// Copies a member of the stored object, or removes it where there was none.
fn copy_unless_absent(old: &Value, key: &str, new: &mut Value) {
    copy(Some(old), key, json::object_mut(new, &[]));
}

/// The metadata that users own.
const METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Keeps the metadata that a writer of the status may not change.
fn keep_metadata(kind: Builtin, new: &mut Value, old: &Value) {
    let kept: &[&str] = match kind {
        // One patch may set a condition and a label together; owners are left alone, since old agents mangle them.
        Builtin::Pod | Builtin::Node => &["ownerReferences"],
        Builtin::Deployment | Builtin::ReplicaSet => &["labels", "ownerReferences"],
        Builtin::CustomResourceDefinition => &METADATA,
        _ => &[],
    };
    keep_members(new, old, kept);
}

fn keep_members(new: &mut Value, old: &Value, keys: &[&str]) {
    let stored = old.get("metadata");
    let metadata = json::object_mut(new, &["metadata"]);
    for key in keys {
        copy(stored, key, metadata);
    }
}

/// Fills in what was left out. Doing it twice changes nothing.
pub fn default(kind: Builtin, object: &mut Value, _ctx: &Context<'_>) {
    match kind {
        Builtin::Pod => pod::defaults::default_pod(object),
        Builtin::Node => node::default(object),
        Builtin::Namespace => namespace::default(object),
        Builtin::Service => service::default(object),
        Builtin::Secret => config::default_secret(object),
        Builtin::EndpointSlice => {
            endpointslice_rules::default_endpoint_slice(object);
            // Conditions are no pointer in Kubernetes, so they are always shown.
            each_mut(json::object_mut(object, &[]), "endpoints").for_each(|endpoint| fill(endpoint, "conditions", json!({})));
        }
        Builtin::Deployment => workload::default_deployment(object),
        Builtin::ReplicaSet => workload::default_replicas(object),
        Builtin::ConfigMap
        | Builtin::ServiceAccount
        | Builtin::Event
        | Builtin::EventsEvent
        | Builtin::Lease
        | Builtin::PodDisruptionBudget
        | Builtin::CustomResourceDefinition => {}
    }
}

/// Removes the fields of gates that are off, unless the stored object uses them.
pub fn drop_disabled(kind: Builtin, new: &mut Value, old: Option<&Value>, ctx: &Context<'_>) {
    match kind {
        Builtin::EndpointSlice => endpointslice_rules::drop_disabled_endpoint_fields(new, old, ctx.gates),
        _ => drop(probe_rules::drop_disabled_probe_fields(kind.kind(), new, old, ctx.gates)),
    }
}

/// Changes an object the way admission does: pods get their tolerations.
pub fn admit(kind: Builtin, object: &mut Value, ctx: &Context<'_>) {
    if kind == Builtin::Pod {
        admit_pod_tolerations(object, ctx);
    }
}

/// Returns everything that is wrong with a new object.
pub fn validate_create(kind: Builtin, object: &Value, ctx: &Context<'_>) -> Vec<Error> {
    let mut errors = meta::validate_meta(object, kind.meta_rules());
    match kind {
        Builtin::Pod => {
            validate_pod_annotations(object, &Path::root(), &mut errors);
            validate_pod_spec(&object["spec"], &Path::new("spec"), &mut errors);
            if !json::items(object, &["spec", "ephemeralContainers"]).is_empty() {
                let path = Path::new("spec").child("ephemeralContainers");
                errors.push(Error::forbidden(&path, "cannot be set on create"));
            }
        }
        Builtin::Event => event::validate_core(object, &mut errors),
        Builtin::EventsEvent => event::validate_events(object, &mut errors),
        _ => validate_content(kind, object, None, ctx, &mut errors),
    }
    errors
}

/// Judges the content of kinds that have the same rules for new and for changed objects.
fn validate_content(kind: Builtin, object: &Value, old: Option<&Value>, ctx: &Context<'_>, errors: &mut Vec<Error>) {
    match kind {
        Builtin::Node => node::validate(object, errors),
        Builtin::Namespace => namespace::validate(object, errors),
        Builtin::Service => service::validate::validate(object, ctx, errors),
        Builtin::ConfigMap => config::validate_config_map(object, errors),
        Builtin::Secret => config::validate_secret(object, errors),
        Builtin::Lease => lease::validate(object, errors),
        Builtin::EndpointSlice => {
            errors.extend(endpointslice_rules::validate_endpoint_slice(object, old, ctx.allow_loopback_endpoints));
        }
        Builtin::Deployment => workload::validate_deployment(object, old, errors),
        Builtin::ReplicaSet => workload::validate_replica_set(object, old, errors),
        Builtin::PodDisruptionBudget => budget::validate(object, errors),
        Builtin::Pod | Builtin::Event | Builtin::EventsEvent | Builtin::ServiceAccount | Builtin::CustomResourceDefinition => {}
    }
}

/// Returns everything that is wrong with an update.
pub fn validate_update(kind: Builtin, part: Part, new: &Value, old: &Value, ctx: &Context<'_>) -> Vec<Error> {
    let mut errors = meta::validate_meta_update(new, old, kind.meta_rules());
    match part {
        Part::Status => validate_status(kind, new, old, &mut errors),
        Part::Finalize => namespace::validate(new, &mut errors),
        Part::Binding => shaped(&new["spec"], "nodeName", names::dns1123_subdomain, &Path::new("spec"), &mut errors),
        Part::Main => match kind {
            Builtin::Pod => validate_pod_update(new, old, &mut errors),
            Builtin::Event => event::validate_core(new, &mut errors),
            Builtin::EventsEvent => event::validate_events_change(new, old, &mut errors),
            _ => {
                validate_content(kind, new, Some(old), ctx, &mut errors);
                match kind {
                    Builtin::Node => node::validate_change(new, old, &mut errors),
                    Builtin::Service => service::validate::validate_change(new, old, &mut errors),
                    Builtin::ConfigMap | Builtin::Secret => config::validate_change(new, old, &mut errors),
                    _ => {}
                }
            }
        },
    }
    errors
}

fn validate_pod_update(new: &Value, old: &Value, errors: &mut Vec<Error>) {
    validate_pod_annotations(new, &Path::root(), errors);
    // A spec that is stored already is known to be good, or to be older than a rule: labels may still change.
    if new.get("spec") != old.get("spec") {
        validate_pod_spec(&new["spec"], &Path::new("spec"), errors);
        validate_pod_change(new, old, errors);
    }
}

fn validate_status(kind: Builtin, new: &Value, old: &Value, errors: &mut Vec<Error>) {
    match kind {
        Builtin::Pod => {
            validate_pod_annotations(new, &Path::root(), errors);
            validate_pod_status(new, old, errors);
        }
        Builtin::Node => node::validate_status(new, errors),
        Builtin::Deployment | Builtin::ReplicaSet => workload::validate_status(new, errors),
        _ => {}
    }
}

/// Returns whether a change counts for `metadata.generation`; both objects are defaulted and dropped.
///
/// Ask only for writes of the object itself: a status never counts.
pub fn generation_changes(kind: Builtin, new: &Value, old: &Value) -> bool {
    let differs = |key: &str| !json::same_but_nils(new.get(key), old.get(key));
    match kind {
        Builtin::EndpointSlice => endpointslice_rules::raises_endpoint_slice_generation(new, old),
        Builtin::Deployment => {
            let annotations = |object| json::at(object, &["metadata", "annotations"]);
            differs("spec") || !json::same_but_nils(annotations(new), annotations(old))
        }
        _ => kind.has_generation() && differs("spec"),
    }
}

/// Returns what a writer should be told although the write is accepted.
pub fn warnings(kind: Builtin, new: &Value, old: Option<&Value>, ctx: &Context<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    match kind {
        Builtin::EndpointSlice => warnings.extend(endpointslice_rules::endpoint_slice_warnings(new, old.is_none())),
        Builtin::Service => warnings.extend(service::validate::warnings(new, ctx)),
        Builtin::Pod if old.is_none() => {
            let name = json::text(new, &["metadata", "name"]);
            if let Some(broken) = names::dns1123_label(name) {
                warnings.push(format!(
                    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
                     recommended: {broken}"
                ));
            }
        }
        _ => {}
    }
    let Some(path) = probe_rules::pod_spec_path(kind.kind()) else { return warnings };
    if let Some(old) = old {
        let removed = probe_rules::removed_sub_second_fields(kind.kind(), old, new);
        if !removed.is_empty() {
            warnings.push(format!("sub-second probe fields removed: {}", removed.join(", ")));
        }
    }
    // Whoever does not touch the pods need not hear about them again.
    if old.is_none_or(|old| json::at(old, path) != json::at(new, path)) {
        if ctx.allow_loopback_endpoints {
            let spec = json::at(new, path).unwrap_or(&Value::Null);
            warnings.extend(process_rules::warnings(spec, &Path::new(path.join("."))));
        }
        warnings.extend(pod::env::env_warnings(json::at(new, path).unwrap_or(&Value::Null), &Path::new(path.join("."))));
        warnings.extend(probe_rules::probe_warnings(kind.kind(), new, ctx.gates));
    }
    warnings
}
