//! Custom resources: a served version of a CustomResourceDefinition, with the rules that go beyond its schema.

use std::collections::BTreeSet;

use std::sync::Arc;

use api::FeatureGates;
use api::field::Error;
use serde_json::Value;

use crate::kind::ServedKind;
use kinds::builtin::Part;
use schemas::{self, Definition, Schema, Version};

/// A served version of a definition.
pub struct Custom {
    /// What the definition says.
    pub version: Version,
    /// The schemas of the other versions, by name: somebody may own fields in them.
    others: Vec<(String, Schema)>,
    extra: Extra,
}

/// Kinds whose rules go beyond what a schema can say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    None,
    PodProbeMarker,
    ConfigNode,
}

impl Custom {
    /// Returns the schema of a version, be it this one or another.
    pub fn schema_of(&self, version: &str) -> Option<&Schema> {
        if version == self.version.name {
            return Some(&self.version.schema);
        }
        self.others.iter().find(|(name, _)| name == version).map(|(_, schema)| schema)
    }

    /// Removes what the schema does not know; returns the paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        schemas::prune(&self.version.schema, object)
    }

    /// Fills in the defaults of the schema.
    pub fn default(&self, object: &mut Value) {
        schemas::default(&self.version.schema, object);
    }

    /// Removes the fields of gates that are off.
    pub fn drop_disabled(&self, new: &mut Value, old: Option<&Value>, gates: &FeatureGates) {
        if self.extra == Extra::PodProbeMarker {
            api::probe_rules::drop_disabled_probe_fields("PodProbeMarker", new, old, gates);
        }
    }

    /// Returns what a writer is told of fields that are dropped because their gate is off.
    pub fn gate_warnings(&self, new: &Value, old: Option<&Value>, gates: &FeatureGates) -> Vec<String> {
        match self.extra {
            Extra::PodProbeMarker => api::probe_rules::disabled_field_warnings("PodProbeMarker", new, old, gates),
            Extra::None | Extra::ConfigNode => Vec::new(),
        }
    }

    /// Judges an object by the schema and by what goes beyond it.
    pub fn validate(&self, new: &Value, old: Option<&Value>, part: Part) -> Vec<Error> {
        let mut errors = match self.extra {
            Extra::PodProbeMarker if part == Part::Main => api::marker_rules::validate_pod_probe_marker(new, old),
            Extra::ConfigNode if part == Part::Status => api::config_node_rules::validate_status(new),
            Extra::ConfigNode => api::config_node_rules::validate(new),
            Extra::None | Extra::PodProbeMarker => Vec::new(),
        };
        // The rules of a marker judge types as well; what the schema would add says the same in other words.
        if self.extra == Extra::PodProbeMarker && !errors.is_empty() {
            return errors;
        }
        // One place, one error: the particular rules speak first, because they explain better.
        let mut known: BTreeSet<String> = errors.iter().map(|error| error.path.clone()).collect();
        errors.extend(
            schemas::validate(&self.version.schema, new, old).into_iter().filter(|error| known.insert(error.path.clone())),
        );
        errors
    }

    /// Returns the fields that selectors may use, besides those of every object.
    pub fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        let selectable = &self.version.selectable;
        let value = |label: &str| selectable.value(object, label).unwrap_or_default().into_owned();
        selectable.labels().map(|label| (label.to_owned(), value(label))).collect()
    }

    /// Returns whether selectors may use a field.
    pub fn supports_field(&self, label: &str) -> bool {
        self.version.selectable.labels().any(|known| known == label)
    }
}

/// Returns the kinds that an established definition serves, the preferred version first.
pub fn kinds_of(definition: &Value) -> Vec<ServedKind> {
    let Some(definition) = established(definition) else { return Vec::new() };
    let served = definition.versions.iter().filter(|version| version.served);
    served.map(|version| kind(&definition, version)).collect()
}

/// Returns the kind of the objects that an established definition has stored, served or not.
pub fn stored_kind(definition: &Value) -> Option<ServedKind> {
    let definition = established(definition)?;
    let version = definition.versions.iter().find(|version| version.storage)?;
    Some(kind(&definition, version))
}

fn established(definition: &Value) -> Option<Definition> {
    Definition::compile(definition).ok().filter(|definition| definition.established)
}

fn kind(definition: &Definition, version: &Version) -> ServedKind {
    let extra = match (definition.group.as_str(), definition.kind.as_str()) {
        ("apps.kruise.io", "PodProbeMarker") => Extra::PodProbeMarker,
        ("config.openshift.io", "Node") => Extra::ConfigNode,
        _ => Extra::None,
    };
    let other = |other: &&Version| other.name != version.name;
    let others = definition.versions.iter().filter(other).map(|other| (other.name.clone(), other.schema.clone())).collect();
    ServedKind::custom_kind(
        Arc::new(definition.resource(version)),
        Arc::new(Custom { version: version.clone(), others, extra }),
    )
}
