//! A CustomResourceDefinition: what it may say, what is filled in, and what the server makes of it.

mod keywords;
mod names;
mod prepare;
mod structural;
mod validate;

#[cfg(test)]
mod tests;

use api::field::{Error, Path};
use api::json;
use serde_json::{Value, json};

use super::columns::PrinterColumns;
use super::paths::{ScalePaths, SelectableFields};
use super::schema::{NotEnforced, Schema};
use super::version::compare_versions;
use kinds::resource::Resource;

pub use names::accept_names;
pub use prepare::{begin_deletion, default_definition, set_condition};
pub use validate::validate_definition;

/// The finalizer that keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A definition, compiled: what is needed to serve its custom resources.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// The plural name in URLs.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of a list.
    pub list_kind: String,
    /// Short names for command lines.
    pub short_names: Vec<String>,
    /// Groups of resources.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether the condition `Established` is true: only then are objects served.
    pub established: bool,
    /// The versions, the preferred one first.
    pub versions: Vec<Version>,
}

/// One version of a definition, compiled.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name, for example `v1`.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// What clients that use it are told, if it is deprecated.
    pub deprecation: Option<String>,
    /// The schema of its objects.
    pub schema: Schema,
    /// The schema as it was written, for publishing.
    pub open_api: Value,
    /// Whether `status` is a subresource.
    pub status: bool,
    /// Where `scale` finds its numbers, if it is a subresource.
    pub scale: Option<ScalePaths>,
    /// What `kubectl get` shows.
    pub columns: PrinterColumns,
    /// What field selectors may name.
    pub selectable: SelectableFields,
}

fn texts(value: &Value, path: &[&str]) -> Vec<String> {
    json::items(value, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the path of the schema of the version at `index`.
fn schema_path(index: usize) -> Path {
    Path::new("spec.versions").index(index).child("schema").child("openAPIV3Schema")
}

impl Definition {
    /// Compiles a definition that is defaulted and valid; the errors say what is not.
    pub fn compile(crd: &Value) -> Result<Definition, Vec<Error>> {
        let name = |key: &str| json::text(crd, &["spec", "names", key]).to_owned();
        let group = json::text(crd, &["spec", "group"]).to_owned();
        let kind = name("kind");
        let mut versions = Vec::new();
        let mut errors = Vec::new();
        for (index, version) in json::items(crd, &["spec", "versions"]).iter().enumerate() {
            match Version::compile(version, &group, &kind, &schema_path(index)) {
                Ok(version) => versions.push(version),
                Err(more) => errors.extend(more),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        versions.sort_by(|a: &Version, b: &Version| compare_versions(&a.name, &b.name));
        Ok(Definition {
            group,
            plural: name("plural"),
            singular: name("singular"),
            kind,
            list_kind: name("listKind"),
            short_names: texts(crd, &["spec", "names", "shortNames"]),
            categories: texts(crd, &["spec", "names", "categories"]),
            namespaced: json::text(crd, &["spec", "scope"]) == "Namespaced",
            established: condition_is_true(crd, "Established"),
            versions,
        })
    }

    /// Returns a version by name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the resource of a version.
    pub fn resource(&self, version: &Version) -> Resource {
        let mut resource = Resource::new(&self.group, &version.name, &self.plural, &self.singular, &self.kind, self.namespaced);
        resource.list_kind.clone_from(&self.list_kind);
        resource.short_names.clone_from(&self.short_names);
        resource.categories.clone_from(&self.categories);
        resource.unconditional_update = false;
        resource.generation = true;
        resource.custom = true;
        if version.status {
            resource = resource.status();
        }
        if version.scale.is_some() {
            resource = resource.scale();
        }
        resource
    }
}

impl Version {
    fn compile(version: &Value, group: &str, kind: &str, path: &Path) -> Result<Version, Vec<Error>> {
        let open_api = json::at(version, &["schema", "openAPIV3Schema"]).cloned().unwrap_or_else(|| json!({"type": "object"}));
        let name = json::text(version, &["name"]).to_owned();
        let deprecation = json::boolean(version, &["deprecated"]).unwrap_or(false).then(|| {
            match json::text(version, &["deprecationWarning"]) {
                "" => format!("{group}/{name} {kind} is deprecated"),
                warning => warning.to_owned(),
            }
        });
        Ok(Version {
            served: json::boolean(version, &["served"]).unwrap_or(false),
            storage: json::boolean(version, &["storage"]).unwrap_or(false),
            deprecation,
            schema: Schema::compile_at(&open_api, path)?,
            open_api,
            status: json::at(version, &["subresources", "status"]).is_some(),
            scale: ScalePaths::compile(version),
            columns: PrinterColumns::compile(version),
            selectable: SelectableFields::compile(version),
            name,
        })
    }
}

/// Returns the warnings about a definition: every expression that is accepted but not enforced.
pub fn definition_warnings(crd: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, version) in json::items(crd, &["spec", "versions"]).iter().enumerate() {
        if let Some(schema) = json::at(version, &["schema", "openAPIV3Schema"])
            && let Ok(schema) = Schema::compile_at(schema, &schema_path(index))
        {
            warnings.extend(schema.not_enforced().iter().map(NotEnforced::to_string));
        }
    }
    warnings
}

/// Returns whether a condition of a definition is true.
pub fn condition_is_true(crd: &Value, condition: &str) -> bool {
    json::items(crd, &["status", "conditions"])
        .iter()
        .any(|other| json::text(other, &["type"]) == condition && json::text(other, &["status"]) == "True")
}
