//! Schemas: the types that a document's operations take and give, and everything these are made of.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Gvk, gvk_value, reference};
use kinds::model::{Apply, Field, Message, Type, object_meta};
use kinds::resource::Resource;
use schemas::open_api_schema;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// What is said about the two fields that every kind has.
const API_VERSION_TEXT: &str = "APIVersion defines the version of this representation of the object.";
const KIND_TEXT: &str = "The kind of the object, in CamelCase. It cannot change.";

/// The schemas of a document by name.
#[derive(Default)]
pub(super) struct Schemas {
    found: BTreeMap<String, Value>,
}

impl Schemas {
    pub(super) fn finish(self) -> Map<String, Value> {
        self.found.into_iter().collect()
    }

    /// Adds a built-in kind and what it is made of; returns the name of its schema.
    pub(super) fn kind(&mut self, message: &'static Message, gvk: Gvk<'_>) -> String {
        let name = self.message(message);
        let schema = self.found.get_mut(&name).expect("added just above");
        for (field, text) in [("apiVersion", API_VERSION_TEXT), ("kind", KIND_TEXT)] {
            schema["properties"][field] = json!({"type": "string", "description": text});
        }
        let gvks = schema["x-kubernetes-group-version-kind"].take();
        let mut gvks = gvks.as_array().cloned().unwrap_or_default();
        if !gvks.contains(&gvk_value(gvk)) {
            gvks.push(gvk_value(gvk));
        }
        schema["x-kubernetes-group-version-kind"] = gvks.into();
        name
    }

    /// Adds a custom resource; returns the name of its schema.
    pub(super) fn custom(&mut self, resource: &Resource, schema: &Value) -> String {
        let reversed: Vec<&str> = resource.group.rsplit('.').collect();
        let name = format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind);
        let metadata = self.message(object_meta());
        let common = [
            ("apiVersion", json!({"type": "string", "description": API_VERSION_TEXT})),
            ("kind", json!({"type": "string", "description": KIND_TEXT})),
            (
                "metadata",
                json!({"allOf": [reference(&metadata)], "description": "Standard object's metadata: its name, and what belongs to every object."}),
            ),
        ];
        let schema = open_api_schema(schema, (&resource.group, &resource.version, &resource.kind), &common);
        self.found.insert(name.clone(), schema);
        name
    }

    /// Adds the list of a kind, whose schema is called `item`.
    pub(super) fn list(&mut self, resource: &Resource, item: &str) {
        let metadata = format!("{META}.ListMeta");
        self.found.entry(metadata.clone()).or_insert_with(|| {
            json!({"type": "object", "description": "What belongs to every list.", "properties": {
                "continue": {"type": "string"},
                "remainingItemCount": {"type": "integer", "format": "int64"},
                "resourceVersion": {"type": "string"},
                "selfLink": {"type": "string"},
            }})
        });
        let schema = json!({
            "type": "object",
            "description": format!("{} is a list of {}.", resource.list_kind, resource.kind),
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": API_VERSION_TEXT},
                "kind": {"type": "string", "description": KIND_TEXT},
                "metadata": reference(&metadata),
                "items": {"type": "array", "items": reference(item)},
            },
            "x-kubernetes-group-version-kind": [gvk_value((&resource.group, &resource.version, &resource.list_kind))],
        });
        self.found.insert(list_name(resource, item), schema);
    }

    /// Adds `Status`, which deletion answers with.
    pub(super) fn status(&mut self) {
        let schema = json!({"type": "object", "description": "How a request ended.", "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "status": {"type": "string"},
            "message": {"type": "string"},
            "reason": {"type": "string"},
            "details": {"type": "object"},
            "code": {"type": "integer", "format": "int32"},
        }, "x-kubernetes-group-version-kind": [gvk_value(("", "v1", "Status"))]});
        self.found.insert(status_name(), schema);
    }

    /// Adds a message and what it is made of; returns the name of its schema.
    fn message(&mut self, message: &'static Message) -> String {
        let name = schema_name(message);
        if self.found.contains_key(&name) {
            return name;
        }
        // In place before its fields are looked at: a type may contain itself.
        self.found.insert(name.clone(), Value::Null);
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        if !message.description().is_empty() {
            schema.insert("description".to_owned(), message.description().into());
        }
        let properties: Map<String, Value> =
            message.fields().iter().map(|field| (field.name.to_owned(), self.field(field))).collect();
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        let required: Vec<&str> = message.fields().iter().filter(|field| field.required).map(|field| field.name).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        if message.is_atomic() {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        self.found.insert(name.clone(), Value::Object(schema));
        name
    }

    fn field(&mut self, field: &Field) -> Value {
        let mut schema = self.of(&field.kind);
        let extensions = extensions(field);
        if field.description.is_empty() && extensions.is_empty() {
            return schema;
        }
        // Nothing may stand beside a reference.
        if schema.get("$ref").is_some() {
            schema = json!({"allOf": [schema]});
        }
        let members = schema.as_object_mut().expect("a schema is an object");
        if !field.description.is_empty() {
            members.insert("description".to_owned(), field.description.into());
        }
        members.extend(extensions);
        schema
    }

    fn of(&mut self, kind: &Type) -> Value {
        match kind {
            Type::String => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Double => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Any => json!({"type": "object"}),
            Type::Time => self.shared(&format!("{META}.Time"), json!({"type": "string", "format": "date-time"})),
            Type::MicroTime => self.shared(&format!("{META}.MicroTime"), json!({"type": "string", "format": "date-time"})),
            Type::Quantity => self.shared(
                "io.k8s.apimachinery.pkg.api.resource.Quantity",
                json!({"oneOf": [{"type": "string"}, {"type": "number"}], "description": "An amount, for example 500m or 1Gi."}),
            ),
            Type::IntOrString => self.shared(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            ),
            Type::Message(id) => reference(&self.message(id.get())),
            Type::List(item) => json!({"type": "array", "items": self.of(item)}),
            Type::Map(value) => json!({"type": "object", "additionalProperties": self.of(value)}),
            // Tools want one type; the object is what people write.
            Type::Either(first, _) => self.of(first),
        }
    }

    fn shared(&mut self, name: &str, schema: Value) -> Value {
        self.found.entry(name.to_owned()).or_insert(schema);
        reference(name)
    }
}

/// Returns how a field merges, in the words of the document.
fn extensions(field: &Field) -> Map<String, Value> {
    let mut found = Map::new();
    let mut put = |name: &str, value: Value| drop(found.insert(format!("x-kubernetes-{name}"), value));
    let merge = &field.merge;
    let strategic = merge.key.is_some() || matches!(merge.apply, Apply::Set);
    match (strategic, merge.retain_keys) {
        (true, true) => put("patch-strategy", "merge,retainKeys".into()),
        (true, false) => put("patch-strategy", "merge".into()),
        (false, true) => put("patch-strategy", "retainKeys".into()),
        (false, false) => {}
    }
    if let Some(key) = merge.key {
        put("patch-merge-key", key.into());
    }
    let list = matches!(field.kind, Type::List(_));
    match &merge.apply {
        Apply::Map(keys) => {
            put("list-type", "map".into());
            put("list-map-keys", json!(keys));
        }
        Apply::Set => put("list-type", "set".into()),
        Apply::Atomic => put(if list { "list-type" } else { "map-type" }, "atomic".into()),
        Apply::Unsaid => {}
    }
    found
}

/// Returns the name of the list of a kind whose schema is called `item`.
pub(super) fn list_name(resource: &Resource, item: &str) -> String {
    format!("{}{}", item.strip_suffix(resource.kind.as_str()).unwrap_or(item), resource.list_kind)
}

/// Returns the name of the schema of `Status`.
pub(super) fn status_name() -> String {
    format!("{META}.Status")
}

/// Returns the name of a message's schema, for example `io.k8s.api.core.v1.Pod`.
pub(super) fn schema_name(message: &Message) -> String {
    let name = message.short_name();
    match message.group() {
        "" => {}
        "autoscaling" => return format!("io.k8s.api.autoscaling.v2.{name}"),
        "autoscalingv1" => return format!("io.k8s.api.autoscaling.v1.{name}"),
        "apiregistration" => return format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.{name}"),
        group => return format!("io.k8s.api.{group}.v1.{name}"),
    }
    let package = match name {
        "ObjectMeta"
        | "OwnerReference"
        | "ManagedFieldsEntry"
        | "LabelSelector"
        | "LabelSelectorRequirement"
        | "Condition"
        | "DeleteOptions"
        | "Preconditions"
        | "FieldSelectorRequirement" => META,
        "Deployment"
        | "DeploymentSpec"
        | "DeploymentStatus"
        | "DeploymentStrategy"
        | "DeploymentCondition"
        | "ReplicaSet"
        | "ReplicaSetSpec"
        | "ReplicaSetStatus"
        | "ReplicaSetCondition"
        | "RollingUpdateDeployment" => "io.k8s.api.apps.v1",
        "Lease" | "LeaseSpec" => "io.k8s.api.coordination.v1",
        "EndpointSlice" | "Endpoint" | "EndpointConditions" | "EndpointHints" | "EndpointPort" | "ForZone" | "ForNode" => {
            "io.k8s.api.discovery.v1"
        }
        "Eviction" | "PodDisruptionBudget" | "PodDisruptionBudgetSpec" | "PodDisruptionBudgetStatus" => "io.k8s.api.policy.v1",
        "Scale" | "ScaleSpec" | "ScaleStatus" => "io.k8s.api.autoscaling.v1",
        "SelfSubjectReview"
        | "SelfSubjectReviewStatus"
        | "UserInfo"
        | "TokenRequest"
        | "TokenRequestSpec"
        | "TokenRequestStatus"
        | "BoundObjectReference" => "io.k8s.api.authentication.v1",
        "SelfSubjectAccessReview"
        | "SelfSubjectAccessReviewSpec"
        | "SelfSubjectRulesReview"
        | "SelfSubjectRulesReviewSpec"
        | "SubjectAccessReviewStatus"
        | "SubjectRulesReviewStatus"
        | "ResourceAttributes"
        | "NonResourceAttributes"
        | "ResourceRule"
        | "NonResourceRule"
        | "FieldSelectorAttributes"
        | "LabelSelectorAttributes" => "io.k8s.api.authorization.v1",
        _ if name.starts_with("CustomResource") => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        "WebhookConversion"
        | "WebhookClientConfig"
        | "ServiceReference"
        | "SelectableField"
        | "JSONSchemaProps"
        | "ExternalDocumentation"
        | "ValidationRule" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        _ => "io.k8s.api.core.v1",
    };
    format!("{package}.{name}")
}
