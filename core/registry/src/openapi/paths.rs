//! Paths: what can be done with a resource, with which parameters and bodies.

use serde_json::{Map, Value, json};

use super::schemas::{list_name, schema_name, status_name};
use super::{Gvk, gvk_value, reference, root};
use kinds::model::{self, message_for};
use kinds::resource::{Resource, Subresource};

/// What a request can do, and under which names documents have it.
struct Action {
    verb: &'static str,
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    /// The first word of the operation's id.
    id: &'static str,
    parameters: &'static [(&'static str, &'static str)],
}

const LIST_PARAMETERS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE_PARAMETERS: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const DELETE_PARAMETERS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

const COLLECTION: [Action; 3] = [
    Action { verb: "list", method: "get", action: "list", id: "list", parameters: LIST_PARAMETERS },
    Action { verb: "create", method: "post", action: "post", id: "create", parameters: WRITE_PARAMETERS },
    Action {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        id: "deleteCollection",
        parameters: &[
            ("continue", "string"),
            ("dryRun", "string"),
            ("fieldSelector", "string"),
            ("gracePeriodSeconds", "integer"),
            ("labelSelector", "string"),
            ("limit", "integer"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
            ("resourceVersion", "string"),
            ("resourceVersionMatch", "string"),
        ],
    },
];
const OBJECT: [Action; 5] = [
    Action { verb: "get", method: "get", action: "get", id: "read", parameters: &[] },
    Action { verb: "create", method: "post", action: "post", id: "create", parameters: WRITE_PARAMETERS },
    Action { verb: "update", method: "put", action: "put", id: "replace", parameters: WRITE_PARAMETERS },
    Action {
        verb: "patch",
        method: "patch",
        action: "patch",
        id: "patch",
        parameters: &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")],
    },
    Action { verb: "delete", method: "delete", action: "delete", id: "delete", parameters: DELETE_PARAMETERS },
];

/// Adds the paths of a resource; `schema` names the schema of its kind.
pub(super) fn add(paths: &mut Map<String, Value>, resource: &Resource, schema: &str) {
    let base = format!("/{}", root(&resource.group, &resource.version));
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{scope}/{}", resource.plural);
    let own = Operations { resource, subresource: None, schema, gvk: (&resource.group, &resource.version, &resource.kind) };
    own.add(paths, &collection, &COLLECTION, &resource.verbs, resource.namespaced);
    // Creation is of the collection; what remains is of one object.
    let of_object: Vec<&str> = resource.verbs.iter().copied().filter(|verb| *verb != "create").collect();
    own.add(paths, &format!("{collection}/{{name}}"), &OBJECT, &of_object, resource.namespaced);
    if resource.namespaced {
        let listing: Vec<&str> = resource.verbs.iter().copied().filter(|verb| *verb == "list").collect();
        own.add(paths, &format!("{base}/{}", resource.plural), &COLLECTION, &listing, false);
    }
    for subresource in &resource.subresources {
        add_subresource(paths, &own, &format!("{collection}/{{name}}"), subresource);
    }
}

fn add_subresource(paths: &mut Map<String, Value>, own: &Operations<'_>, object: &str, subresource: &Subresource) {
    let mut operations = Operations { subresource: Some(subresource), ..*own };
    let mut other = String::new();
    if let Some((group, version, kind)) = &subresource.other_kind {
        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        let Some(message) = message_for(&api_version, kind) else { return };
        other = schema_name(message);
        operations.gvk = (group, version, kind);
    }
    let operations = Operations { schema: if other.is_empty() { own.schema } else { &other }, ..operations };
    let path = format!("{object}/{}", subresource.name);
    operations.add(paths, &path, &OBJECT, &subresource.verbs, operations.resource.namespaced);
}

/// The operations on a kind, of a resource or one of its subresources.
#[derive(Clone, Copy)]
struct Operations<'a> {
    resource: &'a Resource,
    subresource: Option<&'a Subresource>,
    schema: &'a str,
    gvk: Gvk<'a>,
}

impl Operations<'_> {
    fn add(&self, paths: &mut Map<String, Value>, path: &str, actions: &[Action], verbs: &[&str], in_namespace: bool) {
        let mut item: Map<String, Value> = actions
            .iter()
            .filter(|action| verbs.contains(&action.verb))
            .map(|action| (action.method.to_owned(), self.operation(action, in_namespace)))
            .collect();
        if item.is_empty() {
            return;
        }
        let in_path = ["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let mut parameters: Vec<Value> = in_path
            .map(
                |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}}),
            )
            .collect();
        parameters.push(parameter("pretty", "string"));
        item.insert("parameters".to_owned(), parameters.into());
        paths.insert(path.to_owned(), Value::Object(item));
    }

    fn operation(&self, action: &Action, in_namespace: bool) -> Value {
        let mut operation = json!({
            "operationId": self.operation_id(action, in_namespace),
            "tags": [format!("{}_{}", self.group_word().to_lowercase(), self.resource.version)],
            "parameters": action.parameters.iter().map(|(name, kind)| parameter(name, kind)).collect::<Vec<Value>>(),
            "responses": self.responses(action),
            "x-kubernetes-action": action.action,
            "x-kubernetes-group-version-kind": gvk_value(self.gvk),
        });
        if let Some(content) = self.request(action) {
            operation["requestBody"] = json!({"content": content, "required": action.method != "delete"});
        }
        operation
    }

    /// Returns the bodies that an action takes.
    fn request(&self, action: &Action) -> Option<Value> {
        let json_of = |name: &str| json!({"*/*": {"schema": reference(name)}});
        match action.method {
            "post" | "put" => Some(json_of(self.schema)),
            "delete" => Some(json_of(&schema_name(model::message("DeleteOptions")?))),
            "patch" => {
                let mut types =
                    vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
                if !self.resource.custom {
                    types.push("application/strategic-merge-patch+json");
                }
                let body = json!({"schema": {"type": "object"}});
                Some(types.into_iter().map(|kind| (kind.to_owned(), body.clone())).collect::<Map<String, Value>>().into())
            }
            _ => None,
        }
    }

    fn responses(&self, action: &Action) -> Value {
        if self.subresource.is_some_and(|subresource| subresource.name == "log") {
            return json!({"200": {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}});
        }
        let name = match action.action {
            "list" => list_name(self.resource, self.schema),
            "delete" | "deletecollection" => status_name(),
            _ => self.schema.to_owned(),
        };
        let answer = |text: &str| json!({"description": text, "content": {"application/json": {"schema": reference(&name)}}});
        match action.method {
            "post" | "put" | "patch" => json!({"200": answer("OK"), "201": answer("Created")}),
            _ => json!({"200": answer("OK")}),
        }
    }

    fn group_word(&self) -> String {
        match self.resource.group.split('.').next() {
            None | Some("") => "Core".to_owned(),
            Some(first) => capital(first),
        }
    }

    /// Returns for example `patchAppsV1NamespacedDeploymentScale`.
    fn operation_id(&self, action: &Action, in_namespace: bool) -> String {
        let scope = if in_namespace { "Namespaced" } else { "" };
        let everywhere = if self.resource.namespaced && !in_namespace { "ForAllNamespaces" } else { "" };
        let sub = self.subresource.map_or_else(String::new, |subresource| capital(&subresource.name));
        let (group, version, kind) = (self.group_word(), capital(&self.resource.version), &self.resource.kind);
        format!("{}{group}{version}{scope}{kind}{sub}{everywhere}", action.id)
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}
