//! A served kind: its resource, and the rules of its objects, built in or from a CustomResourceDefinition.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use api::field::Error;
use api::{json, probe_rules};

use crate::autoscalers;
use crate::custom::Custom;
use crate::events;
use crate::query::FieldValidation;
use crate::state::Stored;
use api::status::Status;
use kinds::builtin::{self, Builtin, Context, MetaRules, Part};
use kinds::further::{self, Further};
use kinds::model;
use kinds::resource::Resource;

/// A served kind.
#[derive(Clone)]
pub struct ServedKind {
    /// The resource.
    pub resource: Arc<Resource>,
    rules: Rules,
}

#[derive(Clone)]
enum Rules {
    Builtin(Builtin),
    /// Stored by what the type model says of it.
    Further(&'static Further),
    Custom(Arc<Custom>),
    /// Answered without being stored: reviews, bindings.
    Virtual,
}

impl ServedKind {
    /// Returns a built-in kind.
    pub fn builtin_kind(resource: Arc<Resource>) -> ServedKind {
        let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
        let further = || further::find(group, version, kind).map_or(Rules::Virtual, Rules::Further);
        let rules = Builtin::from_gvk(group, version, kind).map_or_else(further, Rules::Builtin);
        ServedKind { resource, rules }
    }

    /// Returns the kind of a CustomResourceDefinition.
    pub fn custom_kind(resource: Arc<Resource>, custom: Arc<Custom>) -> ServedKind {
        ServedKind { resource, rules: Rules::Custom(custom) }
    }

    /// Returns which built-in kind it is.
    pub fn builtin(&self) -> Option<Builtin> {
        match self.rules {
            Rules::Builtin(builtin) => Some(builtin),
            Rules::Further(_) | Rules::Custom(_) | Rules::Virtual => None,
        }
    }

    /// Returns the row of a kind that is stored by what the type model says of it.
    pub fn further(&self) -> Option<&'static Further> {
        match self.rules {
            Rules::Further(further) => Some(further),
            Rules::Builtin(_) | Rules::Custom(_) | Rules::Virtual => None,
        }
    }

    /// Returns whether objects are answered without being stored: reviews, bindings.
    pub fn is_virtual(&self) -> bool {
        matches!(self.rules, Rules::Virtual)
    }

    /// Returns the type of its objects, which custom resources do not have.
    pub fn message(&self) -> Option<&'static model::Message> {
        match self.rules {
            Rules::Builtin(_) | Rules::Further(_) => model::message_for(&self.resource.api_version(), &self.resource.kind),
            Rules::Custom(_) | Rules::Virtual => None,
        }
    }

    /// Returns the rules of a CustomResourceDefinition.
    pub fn custom(&self) -> Option<&Arc<Custom>> {
        match &self.rules {
            Rules::Custom(custom) => Some(custom),
            Rules::Builtin(_) | Rules::Further(_) | Rules::Virtual => None,
        }
    }

    /// Decodes an object in place: unknown fields go, wrong types are refused. Returns warnings.
    pub fn decode(
        &self,
        object: &mut Value,
        duplicates: &[String],
        validation: FieldValidation,
    ) -> Result<Vec<String>, Status> {
        let (api_version, kind) = (self.resource.api_version(), &self.resource.kind);
        let unknown = match &self.rules {
            Rules::Custom(custom) => {
                let checked = model::check_metadata(object);
                if let Some(refusal) = checked.refusal(&api_version, kind) {
                    return Err(Status::bad_request(refusal));
                }
                let mut unknown = custom.prune(object);
                unknown.extend(checked.unknown);
                unknown
            }
            Rules::Builtin(_) | Rules::Further(_) | Rules::Virtual => {
                let Some(message) = model::message_for(&api_version, kind) else { return Ok(Vec::new()) };
                let checked = model::check(message, object);
                if let Some(refusal) = checked.refusal(&api_version, kind) {
                    return Err(Status::bad_request(refusal));
                }
                checked.unknown
            }
        };
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(model::strict_findings(&unknown, duplicates)),
            FieldValidation::Strict => match model::strict_error(&unknown, duplicates) {
                Some(error) => Err(Status::bad_request(error)),
                None => Ok(Vec::new()),
            },
        }
    }

    /// Fills in defaults and drops the fields of gates that are off: what a writer is taken to have written.
    ///
    /// What the server decides by itself comes later; nobody owns that.
    pub fn complete(&self, object: &mut Value, old: Option<&Value>, context: &Context<'_>) {
        match &self.rules {
            // Events are kept in another form than one of their groups shows, and nobody owns their fields.
            Rules::Virtual | Rules::Builtin(Builtin::EventsEvent) => {}
            Rules::Builtin(Builtin::CustomResourceDefinition) => {
                builtin::default(Builtin::CustomResourceDefinition, object, context);
                schemas::default_definition(object);
            }
            Rules::Builtin(kind) => {
                if let Some(message) = model::message_for(&self.resource.api_version(), &self.resource.kind) {
                    model::drop_empty(message, object);
                }
                // The families of a Service come with its address, from the server.
                let families = ["ipFamilies", "ipFamilyPolicy"].map(|key| json::at(object, &["spec", key]).is_some());
                builtin::default(*kind, object, context);
                if *kind == Builtin::Service {
                    let spec = json::object_mut(object, &["spec"]);
                    for (key, stated) in ["ipFamilies", "ipFamilyPolicy"].into_iter().zip(families) {
                        spec.remove(key).filter(|_| stated).map(|value| spec.insert(key.to_owned(), value));
                    }
                }
                builtin::drop_disabled(*kind, object, old, context);
            }
            Rules::Further(kind) => {
                model::drop_empty(kind.message(), object);
                further::default(kind, object);
            }
            Rules::Custom(custom) => {
                custom.default(object);
                custom.drop_disabled(object, old, context.gates);
            }
        }
    }

    /// Removes the fields of gates that are off from a part of an object: who applies them does not own them.
    pub fn drop_disabled(&self, part: &mut Value, old: Option<&Value>, context: &Context<'_>) {
        match &self.rules {
            Rules::Virtual | Rules::Further(_) => {}
            Rules::Builtin(kind) => builtin::drop_disabled(*kind, part, old, context),
            Rules::Custom(custom) => custom.drop_disabled(part, old, context.gates),
        }
    }

    /// Returns what a writer is told of fields that are dropped because their gate is off; `new` as it was sent.
    pub fn gate_warnings(&self, new: &Value, old: Option<&Value>, context: &Context<'_>) -> Vec<String> {
        match &self.rules {
            Rules::Virtual | Rules::Further(_) => Vec::new(),
            Rules::Builtin(kind) => probe_rules::disabled_field_warnings(kind.kind(), new, old, context.gates),
            Rules::Custom(custom) => custom.gate_warnings(new, old, context.gates),
        }
    }

    /// Brings a new object into the form in which it is judged: particular metadata, defaults, dropped fields.
    pub fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        match &self.rules {
            Rules::Virtual => {}
            Rules::Builtin(kind) => {
                inward(*kind, object);
                builtin::prepare_create(*kind, object, context);
                builtin::default(*kind, object, context);
                if *kind == Builtin::CustomResourceDefinition {
                    schemas::default_definition(object);
                }
                builtin::drop_disabled(*kind, object, None, context);
                stored(*kind, object);
            }
            Rules::Further(kind) => {
                further::default(kind, object);
                further::prepare_create(kind, object);
            }
            Rules::Custom(custom) => {
                if custom.version.status
                    && let Some(members) = object.as_object_mut()
                {
                    members.remove("status");
                }
                custom.default(object);
                custom.drop_disabled(object, None, context.gates);
            }
        }
    }

    /// Brings the next state of an object into the form in which it is judged.
    pub fn prepare_update(&self, part: Part, new: &mut Value, old: &Value, context: &Context<'_>) {
        match &self.rules {
            Rules::Virtual => {}
            Rules::Builtin(kind) => {
                let old = &seen(*kind, old);
                inward(*kind, new);
                builtin::prepare_update(*kind, part, new, old, context);
                builtin::default(*kind, new, context);
                if *kind == Builtin::CustomResourceDefinition {
                    schemas::default_definition(new);
                }
                builtin::drop_disabled(*kind, new, Some(old), context);
                stored(*kind, new);
            }
            Rules::Further(kind) => {
                further::prepare_update(kind, part, new, old);
                further::default(kind, new);
            }
            Rules::Custom(custom) => {
                split_status(custom, part, new, old);
                custom.default(new);
                custom.drop_disabled(new, Some(old), context.gates);
            }
        }
    }

    /// Judges a new object.
    pub fn validate_create(&self, object: &Value, context: &Context<'_>) -> Vec<Error> {
        match &self.rules {
            Rules::Virtual => Vec::new(),
            Rules::Builtin(Builtin::CustomResourceDefinition) => {
                let mut errors = builtin::validate_create(Builtin::CustomResourceDefinition, object, context);
                errors.extend(schemas::validate_definition(object, None));
                errors
            }
            Rules::Builtin(kind) => builtin::validate_create(*kind, &seen(*kind, object), context),
            Rules::Further(kind) => further::validate_create(kind, object),
            Rules::Custom(custom) => {
                let mut errors = builtin::meta::validate_meta(object, self.custom_meta());
                errors.extend(custom.validate(object, None, Part::Main));
                errors
            }
        }
    }

    /// Judges the next state of an object.
    pub fn validate_update(&self, part: Part, new: &Value, old: &Value, context: &Context<'_>) -> Vec<Error> {
        match &self.rules {
            Rules::Virtual => Vec::new(),
            Rules::Builtin(Builtin::CustomResourceDefinition) => {
                let mut errors = builtin::validate_update(Builtin::CustomResourceDefinition, part, new, old, context);
                if part == Part::Main {
                    errors.extend(schemas::validate_definition(new, Some(old)));
                }
                errors
            }
            Rules::Builtin(kind) => builtin::validate_update(*kind, part, &seen(*kind, new), &seen(*kind, old), context),
            Rules::Further(kind) => further::validate_update(kind, part, new, old),
            Rules::Custom(custom) => {
                let mut errors = builtin::meta::validate_meta_update(new, old, self.custom_meta());
                errors.extend(custom.validate(new, Some(old), part));
                errors
            }
        }
    }

    fn custom_meta(&self) -> MetaRules {
        MetaRules { name: api::names::dns1123_subdomain, namespaced: self.resource.namespaced, qualified_finalizers: true }
    }

    /// Returns whether what is wanted has changed.
    pub fn generation_changes(&self, new: &Value, old: &Value) -> bool {
        match &self.rules {
            Rules::Virtual => false,
            Rules::Builtin(kind) => builtin::generation_changes(*kind, new, old),
            Rules::Further(kind) => further::generation_changes(kind, new, old),
            Rules::Custom(custom) => {
                let ignored = |key: &str| key == "metadata" || (key == "status" && custom.version.status);
                let content = |object: &Value| -> Vec<(String, Value)> {
                    let members = object.as_object().into_iter().flatten();
                    members.filter(|(key, _)| !ignored(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
                };
                content(new) != content(old)
            }
        }
    }

    /// Returns what the client is to be told although nothing is wrong.
    pub fn warnings(&self, new: &Value, old: Option<&Value>, context: &Context<'_>) -> Vec<String> {
        match &self.rules {
            Rules::Virtual | Rules::Further(_) => Vec::new(),
            Rules::Custom(custom) => custom.version.deprecation.iter().cloned().collect(),
            Rules::Builtin(Builtin::CustomResourceDefinition) => schemas::definition_warnings(new),
            Rules::Builtin(kind) => builtin::warnings(*kind, new, old, context),
        }
    }

    /// Returns the selectable fields of an object.
    pub fn fields(&self, object: &Value) -> Vec<(String, String)> {
        let meta = |field: &str| (format!("metadata.{field}"), json::text(object, &["metadata", field]).to_owned());
        match &self.rules {
            Rules::Virtual => Vec::new(),
            // Events are selected in the form in which they are stored, whatever the group.
            Rules::Builtin(Builtin::EventsEvent) => ServedKind::pairs(builtin::selectable_fields(Builtin::Event, object)),
            Rules::Builtin(kind) => ServedKind::pairs(builtin::selectable_fields(*kind, object)),
            Rules::Further(kind) => kind.fields(object),
            Rules::Custom(custom) => {
                let mut fields = vec![meta("name"), meta("namespace")];
                fields.extend(custom.selectable_fields(object));
                fields
            }
        }
    }

    /// Returns the value of one selectable field of a stored object.
    pub fn field_of<'a>(&self, stored: &'a Stored, label: &str) -> Option<&'a str> {
        match label {
            "metadata.name" => Some(&stored.index.name),
            "metadata.namespace" => Some(&stored.index.namespace),
            label => {
                let core = events::core_label(label);
                let label = if self.resource.plural == "events" { core.as_str() } else { label };
                stored.field(label, |object| self.fields(object))
            }
        }
    }

    fn pairs(fields: Vec<(&'static str, String)>) -> Vec<(String, String)> {
        fields.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
    }

    /// Returns whether a field selector may use this label.
    pub fn supports_field(&self, label: &str) -> bool {
        match &self.rules {
            Rules::Virtual => false,
            Rules::Builtin(kind) => builtin::supported_field_label(*kind, label),
            Rules::Further(kind) => {
                label == "metadata.name"
                    || (label == "metadata.namespace" && kind.namespaced)
                    || kind.field_labels().contains(&label)
            }
            Rules::Custom(custom) => {
                label == "metadata.name"
                    || (label == "metadata.namespace" && self.resource.namespaced)
                    || custom.supports_field(label)
            }
        }
    }
}

impl ServedKind {
    /// Returns whether objects are shown in another form than they are stored in.
    pub fn is_shown_otherwise(&self) -> bool {
        self.builtin() == Some(Builtin::EventsEvent)
            || self.further().is_some_and(Further::is_older_version)
            || self.custom().is_some_and(|custom| custom.version.schema.has_defaults())
    }

    /// Returns a stored object as its group and version shows it: events and autoscalers have two faces, and custom
    /// resources get defaults that their definition did not have when they were written.
    pub fn outward(&self, mut object: Value) -> Value {
        if let Some(custom) = self.custom() {
            custom.default(&mut object);
        }
        match () {
            () if self.builtin() == Some(Builtin::EventsEvent) => events::from_core(object),
            () if self.further().is_some_and(Further::is_older_version) => autoscalers::to_v1(object),
            () => object,
        }
    }
}

/// Returns an object as the rules of its kind see it: events are stored in another form than `events.k8s.io` shows them.
fn seen(kind: Builtin, object: &Value) -> Cow<'_, Value> {
    if kind == Builtin::EventsEvent { Cow::Owned(events::from_core(object.clone())) } else { Cow::Borrowed(object) }
}

/// Brings a stored object into the form that the rules of its kind see.
fn inward(kind: Builtin, object: &mut Value) {
    if kind == Builtin::EventsEvent {
        *object = events::from_core(object.take());
    }
}

/// Brings an object into the form in which it is stored.
fn stored(kind: Builtin, object: &mut Value) {
    if kind == Builtin::EventsEvent {
        *object = events::to_core(object.take());
    }
}

/// The main endpoint keeps the stored status; the status endpoint keeps everything else.
fn split_status(custom: &Custom, part: Part, new: &mut Value, old: &Value) {
    if !custom.version.status {
        return;
    }
    let (Some(members), Some(stored)) = (new.as_object_mut(), old.as_object()) else { return };
    match part {
        Part::Status => {
            let status = members.remove("status");
            *members = stored.clone();
            match status {
                Some(status) => members.insert("status".into(), status),
                None => members.remove("status"),
            };
        }
        _ => {
            match stored.get("status") {
                Some(status) => members.insert("status".into(), status.clone()),
                None => members.remove("status"),
            };
        }
    }
}
