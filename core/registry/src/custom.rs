//! Custom resources: a version of a CustomResourceDefinition, compiled.

use std::sync::Arc;

use api::FeatureGates;
use api::field::Error;
use api::json;
use machine::Time;
use serde_json::Value;

use crate::builtin::Part;
use crate::crd::{self, PrinterColumns, ScalePaths, Schema, SelectableFields};
use crate::kind::Kind;
use crate::resource::Resource;
use crate::table::{Column, Row};

/// The finalizer that makes a definition wait for its objects.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A served version of a definition.
pub struct Custom {
    schema: Schema,
    schema_json: Value,
    /// Whether `status` has an endpoint of its own.
    pub status: bool,
    /// Where the numbers of `scale` are, if it is served.
    pub scale: Option<ScalePaths>,
    columns: PrinterColumns,
    selectable: SelectableFields,
    rules: Extra,
}

/// Kinds whose rules go beyond what a schema can say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    None,
    PodProbeMarker,
    ConfigNode,
}

impl Custom {
    fn compile(group: &str, kind: &str, version: &Value) -> Option<Custom> {
        let schema_json = json::at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or(Value::Null);
        let schema = Schema::compile(&schema_json).ok()?;
        let columns = PrinterColumns::compile(version);
        let selectable = SelectableFields::compile(version);
        let scale = ScalePaths::compile(version);
        let rules = match (group, kind) {
            ("apps.kruise.io", "PodProbeMarker") => Extra::PodProbeMarker,
            ("config.openshift.io", "Node") => Extra::ConfigNode,
            _ => Extra::None,
        };
        let status = json::at(version, &["subresources", "status"]).is_some();
        Some(Custom { schema, schema_json, status, scale, columns, selectable, rules })
    }

    /// Returns the schema, for OpenAPI.
    pub fn openapi_schema(&self) -> &Value {
        &self.schema_json
    }

    /// Removes what the schema does not know; returns the paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        crd::prune(&self.schema, object)
    }

    /// Fills in the defaults of the schema.
    pub fn default(&self, object: &mut Value) {
        crd::default(&self.schema, object);
    }

    /// Removes the fields of gates that are off.
    pub fn drop_disabled(&self, new: &mut Value, old: Option<&Value>, gates: &FeatureGates) {
        if self.rules == Extra::PodProbeMarker {
            api::probe_rules::drop_disabled_probe_fields("PodProbeMarker", new, old, gates);
        }
    }

    /// Judges an object by the schema and by what goes beyond it.
    pub fn validate(&self, new: &Value, old: Option<&Value>, part: Part) -> Vec<Error> {
        let mut errors = match self.rules {
            Extra::None => Vec::new(),
            Extra::PodProbeMarker if part == Part::Main => api::marker_rules::validate_pod_probe_marker(new, old),
            Extra::PodProbeMarker => Vec::new(),
            Extra::ConfigNode if part == Part::Status => api::config_node_rules::validate_status(new),
            Extra::ConfigNode => api::config_node_rules::validate(new),
        };
        // The rules of a marker judge types as well; what the schema would add says the same in other words.
        if self.rules == Extra::PodProbeMarker && !errors.is_empty() {
            return errors;
        }
        // One place, one error: the particular rules speak first, because they explain better.
        for error in crd::validate(&self.schema, new, old) {
            if !errors.iter().any(|known| known.path == error.path) {
                errors.push(error);
            }
        }
        errors
    }

    /// Returns the columns of its tables.
    pub fn columns(&self) -> &[Column] {
        self.columns.columns()
    }

    /// Returns the row of an object.
    pub fn row(&self, object: &Value, now: Time) -> Row {
        self.columns.row(object, now)
    }

    /// Returns the fields that selectors may use, besides those of every object.
    pub fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        let value = |label: &str| self.selectable.value(object, label).unwrap_or_default().into_owned();
        self.selectable.labels().map(|label| (label.to_owned(), value(label))).collect()
    }

    /// Returns whether selectors may use a field.
    pub fn supports_field(&self, label: &str) -> bool {
        self.selectable.labels().any(|known| known == label)
    }
}

/// Returns the kinds that an established definition serves, preferred version first.
pub fn kinds_of(definition: &Value) -> Vec<Kind> {
    let established = json::items(definition, &["status", "conditions"])
        .iter()
        .any(|condition| json::text(condition, &["type"]) == "Established" && json::text(condition, &["status"]) == "True");
    if !established {
        return Vec::new();
    }
    let group = json::text(definition, &["spec", "group"]);
    let name = |field: &str| json::text(definition, &["status", "acceptedNames", field]).to_owned();
    let list = |field: &str| -> Vec<String> {
        let items = json::items(definition, &["status", "acceptedNames", field]);
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let namespaced = json::text(definition, &["spec", "scope"]) == "Namespaced";
    let mut versions: Vec<&Value> = json::items(definition, &["spec", "versions"])
        .iter()
        .filter(|version| json::boolean(version, &["served"]) == Some(true))
        .collect();
    versions.sort_by_key(|version| crate::discovery::version_order(json::text(version, &["name"])));
    versions
        .into_iter()
        .filter_map(|version| {
            let custom = Custom::compile(group, &name("kind"), version)?;
            let mut resource = Resource::new(
                group,
                json::text(version, &["name"]),
                &name("plural"),
                &name("singular"),
                &name("kind"),
                namespaced,
            );
            resource.list_kind = name("listKind");
            resource.short_names = list("shortNames");
            resource.categories = list("categories");
            (resource.custom, resource.generation, resource.unconditional_update) = (true, true, false);
            if custom.scale.is_some() {
                resource = resource.scale();
            }
            if custom.status {
                resource = resource.status();
            }
            Some(Kind::custom_kind(Arc::new(resource), Arc::new(custom)))
        })
        .collect()
}

/// Returns the status of a definition: which names are accepted, and whether it is served.
pub fn definition_status(definition: &Value, _others: &[Value], now: api::Timestamp) -> Value {
    let mut names = definition["spec"]["names"].clone();
    let kind = json::text(&names, &["kind"]).to_owned();
    if json::text(&names, &["listKind"]).is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if json::text(&names, &["singular"]).is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    let stored: Vec<Value> = json::items(definition, &["spec", "versions"])
        .iter()
        .filter(|v| v["storage"] == true)
        .map(|v| v["name"].clone())
        .collect();
    serde_json::json!({"acceptedNames": names, "storedVersions": stored, "conditions": [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": now.to_string()},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": now.to_string()}]})
}
