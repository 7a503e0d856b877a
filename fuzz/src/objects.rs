//! Objects of the built-in kinds, from the body of a request to the stored form.

use std::sync::{Arc, LazyLock};

use api::{FeatureGates, Gate, json};
use machine::{Rng, Time};
use kinds::builtin::{Context, Part};
use registry::deletion::{self, DeleteOptions};
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use kinds::model;
use registry::patch;
use registry::ownership::{Owners, Writer};
use registry::pipeline::{self, Actors, World};
use registry::query::{FieldValidation, Parameters};
use kinds::resource;
use registry::state::{Act, Current, RegistryState, Snapshot, Stored, WindowLimits, key};
use kinds::table;
use serde_json::{Value, json};

pub(crate) const NOW: Time = Time::from_secs(1_800_000_000);
const NAMESPACE: &str = "ns";

static KINDS: LazyLock<Vec<ServedKind>> = LazyLock::new(|| resource::builtins().into_iter().map(ServedKind::builtin_kind).collect());
static GATES: LazyLock<[FeatureGates; 2]> = LazyLock::new(|| {
    let off = Gate::ALL.into_iter().fold(FeatureGates::default(), |gates, gate| gates.with(gate, false));
    [FeatureGates::default(), off]
});
/// What must exist for objects to be accepted: their namespace, and the account that pods run as.
static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
    let stored = |object: Value| Arc::new(Stored::new(1, object));
    let objects = [
        (key("", "namespaces", "", NAMESPACE), stored(json!({"metadata": {"name": NAMESPACE}}))),
        (
            key("", "serviceaccounts", NAMESPACE, "default"),
            stored(json!({"metadata": {"name": "default", "namespace": NAMESPACE}})),
        ),
    ];
    RegistryState::restore(1, objects, 1, Vec::new(), WindowLimits::default()).snapshot()
});

pub(crate) fn context(gates: &FeatureGates) -> Context<'_> {
    Context {
        now: NOW,
        gates,
        not_ready_toleration_seconds: 300,
        unreachable_toleration_seconds: 300,
        allow_loopback_endpoints: true,
    }
}

fn world(gates: &FeatureGates) -> World<'_> {
    let service_range = registry::services::Range::new(std::net::Ipv4Addr::new(127, 96, 0, 0), 24);
    World { context: context(gates), snapshot: &SNAPSHOT, service_range, actors: Actors::External }
}

/// Reads a JSON body and writes the object through every rule of its kind; of all kinds if it does not say which.
pub fn object(bytes: &[u8]) {
    let Ok(parsed) = model::json::parse(bytes) else { return };
    views(&parsed.value);
    let (api_version, kind) = (json::text(&parsed.value, &["apiVersion"]), json::text(&parsed.value, &["kind"]));
    let named = KINDS.iter().find(|known| known.resource.kind == kind && known.resource.api_version() == api_version);
    for known in KINDS.iter().filter(|known| named.is_none_or(|named| named.resource == known.resource)) {
        for gates in GATES.iter() {
            let mut object = parsed.value.clone();
            for validation in [FieldValidation::Strict, FieldValidation::Warn] {
                let _ = known.decode(&mut object.clone(), &parsed.duplicates, validation);
            }
            if known.decode(&mut object, &parsed.duplicates, FieldValidation::Ignore).is_err() {
                continue;
            }
            // Events of the two groups are stored in one form; the server brings them into it.
            if known.resource.group == "events.k8s.io" {
                object = registry::events::to_core(object);
            }
            write(known, object, gates);
        }
    }
}

/// Reads a protobuf body and goes on as with JSON.
pub fn protobuf(bytes: &[u8]) {
    let Ok(object) = model::protobuf::decode(bytes) else { return };
    let text = serde_json::to_vec(&object).expect("a JSON value serializes");
    self::object(&text);
}

/// Who writes.
const OWNERS: Owners<'static> = Owners::Of(Writer { manager: "fuzz", subresource: "" });

/// Creates the object, then updates, lists and deletes it.
fn write(kind: &ServedKind, object: Value, gates: &FeatureGates) {
    let world = world(gates);
    let namespace = if kind.resource.namespaced { NAMESPACE } else { "" };
    let Ok(created) = pipeline::create(kind, namespace, object, &OWNERS, &world, &mut Rng::new(7)) else { return };
    let Some(write) = created.write else { return };
    let Act::Put(stored) = write.act else { return };
    let stored = Stored::owned(2, stored, write.owners);
    let old = stored.object();
    let current = Current::new(&stored);
    // What was accepted may be written back as it is, and that changes nothing.
    match pipeline::update(kind, Part::Main, UpdateForm::Replace, &current, old.clone(), &OWNERS, &world) {
        Ok(same) => {
            assert!(same.write.is_none(), "{} changes when it is written back: {old} {:?}", kind.resource.kind, same.write)
        }
        Err(status) => panic!("{} may not be written back: {old} {status:?}", kind.resource.kind),
    }
    if kind.resource.has_status() {
        let _ = pipeline::update(kind, Part::Status, UpdateForm::Patch, &current, old.clone(), &OWNERS, &world);
    }
    let mut other = old.clone();
    other["metadata"]["labels"] = json!({"x": "y"});
    let _ = pipeline::update(kind, Part::Main, UpdateForm::Patch, &current, other, &OWNERS, &world);
    let _ = table::row(&kind.resource.kind, &old, NOW);
    let _ = kind.fields(&old);
    if let Ok(options) = DeleteOptions::read(&Value::Null, &Parameters::parse("")) {
        let _ = pipeline::delete(kind, &stored, &options, &world);
        let _ = deletion::decide(&kind.resource, &old, &options, NOW);
    }
}

/// Judges the object by the rules that are not in the server's own kinds.
fn views(object: &Value) {
    for old in [None, Some(object)] {
        api::marker_rules::validate_pod_probe_marker(object, old);
    }
    api::marker_rules::probe_errors(&object["spec"]);
    api::config_node_rules::validate(object);
    api::config_node_rules::validate_status(object);
    let _ = api::PodProbeMarker::from(object.clone());
    let _ = serde_json::from_value::<api::Pod>(object.clone());
    let _ = serde_json::from_value::<api::NodePodProbe>(object.clone());
    let _ = serde_json::from_value::<api::EndpointSlice>(object.clone());
}

/// Applies `{"object": .., "patch": ..}` in each of the three ways; the object's kind decides about strategic merges.
pub fn patch(bytes: &[u8]) {
    let Ok(parsed) = model::json::parse(bytes) else { return };
    let (object, change) = (&parsed.value["object"], &parsed.value["patch"]);
    let _ = patch::json_patch(object.clone(), change);
    let merged = patch::merge_patch(object.clone(), change);
    assert_eq!(patch::merge_patch(merged.clone(), change), merged, "a merge patch twice is a merge patch once");
    let (api_version, kind) = (json::text(object, &["apiVersion"]), json::text(object, &["kind"]));
    if let Some(message) = model::message_for(api_version, kind) {
        let _ = patch::strategic_merge(object.clone(), change, message.name());
    }
}
