//! What becomes of an object of a further kind: its status, its defaults, and what the model says is wrong with it.

use api::field::{Error, Path};
use api::json;
use serde_json::{Value, json};

use super::{Actor, Further, defaults};
use crate::builtin::{Part, SYSTEM_PRIORITIES, copy, meta, validate_pod_template};
use crate::model::{self, Message, Type};

impl Further {
    /// Returns the type of its objects.
    pub fn message(&self) -> &'static Message {
        let version = if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) };
        model::message_for(&version, self.kind).expect("the model has every kind of the table; a test looks")
    }

    /// Returns the labels of field selectors besides the name and namespace.
    pub fn field_labels(&self) -> &'static [&'static str] {
        match self.kind {
            "ReplicationController" => &["status.replicas"],
            "Job" => &["status.successful"],
            "ResourceSlice" => &["spec.nodeName", "spec.driver"],
            "CertificateSigningRequest" => &["spec.signerName"],
            _ => &[],
        }
    }

    /// Returns the selectable fields of an object.
    pub fn fields(&self, object: &Value) -> Vec<(String, String)> {
        let of = |label: &&str| {
            let found = label.split('.').try_fold(object, json::get);
            let text = match found {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ if label.starts_with("status.") => "0".to_owned(),
                _ => String::new(),
            };
            ((*label).to_owned(), text)
        };
        ["metadata.name", "metadata.namespace"].iter().chain(self.field_labels()).map(of).collect()
    }
}

/// Sets what the server decides about a new object: nobody is born with a status, and a Job selects its own pods.
pub fn prepare_create(kind: &Further, object: &mut Value) {
    if kind.status {
        let status = match kind.kind {
            "PersistentVolume" | "PersistentVolumeClaim" => json!({"phase": "Pending"}),
            "ReplicationController" | "StatefulSet" => json!({"replicas": 0}),
            _ => json!({}),
        };
        json::object_mut(object, &[]).insert("status".to_owned(), status);
    }
    if kind.kind == "Job" && json::boolean(object, &["spec", "manualSelector"]) != Some(true) {
        select_own_pods(object);
    }
}

/// Gives the pods of a Job labels that no other Job's have, and selects by them; the names are those of Kubernetes.
fn select_own_pods(job: &mut Value) {
    let text = |key| json::text(job, &["metadata", key]).to_owned();
    let (name, uid) = (text("name"), text("uid"));
    let labels = json::object_mut(job, &["spec", "template", "metadata", "labels"]);
    for (key, value) in [("job-name", &name), ("batch.kubernetes.io/job-name", &name), ("controller-uid", &uid)] {
        labels.entry(key).or_insert_with(|| value.as_str().into());
    }
    labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.as_str().into());
    let selector = json::object_mut(job, &["spec", "selector", "matchLabels"]);
    selector.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
}

/// Keeps of the stored object what this endpoint may not change.
pub fn prepare_update(kind: &Further, part: Part, new: &mut Value, old: &Value) {
    if !kind.status {
        return;
    }
    match part {
        Part::Status => {
            copy(Some(old), "spec", json::object_mut(new, &[]));
            let metadata = old.get("metadata");
            for key in ["labels", "ownerReferences"] {
                copy(metadata, key, json::object_mut(new, &["metadata"]));
            }
        }
        _ => copy(Some(old), "status", json::object_mut(new, &[])),
    }
}

/// Fills in what was left out. Doing it twice changes nothing.
pub fn default(kind: &Further, object: &mut Value) {
    defaults::fill(kind.message(), object);
    if !matches!(kind.kind, "ReplicationController" | "Job") {
        return;
    }
    let labels = json::at(object, &["spec", "template", "metadata", "labels"]).cloned();
    let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|labels| !labels.is_empty())) else { return };
    let mut inherit = |path: &[&str]| {
        if json::object(object, path).is_none_or(serde_json::Map::is_empty) {
            *json::object_mut(object, path) = labels.as_object().cloned().unwrap_or_default();
        }
    };
    if kind.kind == "ReplicationController" {
        inherit(&["spec", "selector"]);
    }
    inherit(&["metadata", "labels"]);
}

/// Returns everything that is wrong with a new object.
pub fn validate_create(kind: &Further, object: &Value) -> Vec<Error> {
    let mut errors = meta::validate_meta(object, kind.meta_rules());
    validate(kind, object, None, &mut errors);
    errors
}

/// Returns everything that is wrong with an update.
pub fn validate_update(kind: &Further, part: Part, new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = meta::validate_meta_update(new, old, kind.meta_rules());
    if part == Part::Main {
        validate(kind, new, Some(old), &mut errors);
        let fields = IMMUTABLE.iter().filter(|(name, _)| *name == kind.kind).flat_map(|(_, fields)| *fields);
        for field in fields.filter(|field| !json::same_but_nils(new.get(field), old.get(field))) {
            errors.push(meta::immutable(&Path::new(*field), new.get(field)));
        }
    }
    errors
}

/// What keeps the value that it was created with.
const IMMUTABLE: [(&str, &[&str]); 6] = [
    ("PriorityClass", &["value", "preemptionPolicy"]),
    ("RuntimeClass", &["handler"]),
    ("StorageClass", &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]),
    ("ControllerRevision", &["data"]),
    ("RoleBinding", &["roleRef"]),
    ("ClusterRoleBinding", &["roleRef"]),
];

fn validate(kind: &Further, object: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    let message = kind.message();
    for field in message.fields().iter().filter(|field| !matches!(field.name, "metadata" | "status")) {
        let path = Path::new(field.name);
        match object.get(field.name) {
            Some(value) => required(&field.kind, value, &path, errors),
            None if field.required && matches!(field.kind, Type::String) => errors.push(Error::required(&path, "")),
            None => {}
        }
    }
    let template = json::at(object, &["spec", "template"]);
    if let Some(template) = template.filter(|_| matches!(kind.group, "apps" | "batch") || kind.kind == "ReplicationController")
    {
        let known = old.and_then(|old| json::at(old, &["spec", "template"])) == Some(template);
        let jobs = kind.kind == "Job";
        // A ReplicationController selects by labels alone.
        let spec = match kind.kind {
            "ReplicationController" => json!({"selector": {"matchLabels": object["spec"]["selector"]}}),
            _ => object["spec"].clone(),
        };
        validate_pod_template(template, &spec, known, jobs, &Path::new("spec").child("template"), errors);
    }
    if kind.kind == "PriorityClass" {
        validate_priority_class(object, errors);
    }
}

/// The highest priority of a class that is not the system's; Kubernetes API.
const PRIORITY_MAX: i64 = 1_000_000_000;

/// The names and numbers of the system's classes are its own; everybody may have the classes themselves.
fn validate_priority_class(class: &Value, errors: &mut Vec<Error>) {
    let (name, value) = (json::text(class, &["metadata", "name"]), json::int(class, &["value"]).unwrap_or(0));
    if name.starts_with("system-") {
        if !SYSTEM_PRIORITIES.contains(&(name, value)) {
            let why = "priority class names with 'system-' prefix are reserved for system use only";
            errors.push(Error::forbidden(&Path::new("metadata").child("name"), why));
        }
    } else if value > PRIORITY_MAX {
        let why = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        errors.push(Error::forbidden(&Path::new("value"), why));
    }
}

/// Finds texts that must be there and are not. Pod templates have rules of their own.
fn required(kind: &Type, value: &Value, path: &Path, errors: &mut Vec<Error>) {
    match (kind, value) {
        (Type::Message(id), Value::Object(members)) if id.get().name() != "PodTemplateSpec" => {
            for field in id.get().fields() {
                let path = path.child(field.name);
                match members.get(field.name) {
                    Some(value) if !(field.required && value == "") => required(&field.kind, value, &path, errors),
                    _ if field.required && matches!(field.kind, Type::String) => errors.push(Error::required(&path, "")),
                    _ => {}
                }
            }
        }
        (Type::List(item), Value::Array(items)) => {
            for (place, value) in items.iter().enumerate() {
                required(item, value, &path.index(place), errors);
            }
        }
        _ => {}
    }
}

/// Returns whether a change counts for `metadata.generation`: anything but metadata and status.
pub fn generation_changes(kind: &Further, new: &Value, old: &Value) -> bool {
    let names = kind.message().fields().iter().map(|field| field.name);
    names.filter(|name| !matches!(*name, "metadata" | "status")).any(|name| !json::same_but_nils(new.get(name), old.get(name)))
}

/// Returns what the writer of a new object should hear although it is accepted; an error: why it is not.
///
/// `external`: components that are not part of this server may act on what it stores.
pub fn warning(kind: &Further, external: bool) -> Result<Option<String>, String> {
    let name = kind.kind;
    match kind.actor {
        Actor::Nobody => Ok(None),
        Actor::Admission => Err(format!("this server does not enforce what a {name} asks for, so it stores none")),
        Actor::Component if external => Ok(Some(format!("nothing of this server acts on a {name}: another component has to"))),
        Actor::Authorizer if external => Ok(Some(format!("this server stores a {name} and does not enforce it"))),
        Actor::Component => Err(format!(
            "nothing of this server acts on a {name}; with --external-controllers it is stored for components that do"
        )),
        Actor::Authorizer => {
            Err(format!("this server does not enforce a {name}; with --external-controllers it is stored and not enforced"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::further::{KINDS, find};

    #[test]
    fn every_kind_is_in_the_model_with_its_layout() {
        for kind in &KINDS {
            let message = kind.message();
            assert!(message.has_wire() && message.is_kind() && message.field("metadata").is_some(), "{}", kind.kind);
            let status = message.field("status").is_some();
            assert!(!kind.status || status, "{} has no status", kind.kind);
        }
        for (index, kind) in KINDS.iter().enumerate() {
            let same = |other: &Further| (other.group, other.version, other.plural) == (kind.group, kind.version, kind.plural);
            assert!(!KINDS[..index].iter().any(same), "{}", kind.kind);
        }
    }

    #[test]
    fn what_is_not_enforced_is_refused_and_what_nobody_acts_on_needs_a_component() {
        let of = |group, version, kind| find(group, version, kind).unwrap();
        for external in [false, true] {
            assert!(warning(of("networking.k8s.io", "v1", "NetworkPolicy"), external).is_err());
            assert!(warning(of("", "v1", "ResourceQuota"), external).is_err());
            assert_eq!(warning(of("", "v1", "PodTemplate"), external), Ok(None));
        }
        for (group, kind) in [("apps", "StatefulSet"), ("rbac.authorization.k8s.io", "Role")] {
            assert!(warning(of(group, "v1", kind), false).unwrap_err().contains("--external-controllers"));
            assert!(warning(of(group, "v1", kind), true).unwrap().is_some());
        }
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}});
        let kind = find("batch", "v1", "Job").unwrap();
        default(kind, &mut job);
        prepare_create(kind, &mut job);
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
    }

    #[test]
    fn texts_that_must_be_there_are_missed() {
        let class = find("storage.k8s.io", "v1", "StorageClass").unwrap();
        let paths =
            |object: &Value| -> Vec<String> { validate_create(class, object).into_iter().map(|error| error.path).collect() };
        assert_eq!(paths(&json!({"metadata": {"name": "a"}})), ["provisioner"]);
        assert!(paths(&json!({"metadata": {"name": "a"}, "provisioner": "p"})).is_empty());
    }

    #[test]
    fn what_is_immutable_cannot_be_changed() {
        let kind = find("scheduling.k8s.io", "v1", "PriorityClass").unwrap();
        let class = |value: i64, text: &str| json!({"metadata": {"name": "a", "resourceVersion": "1"}, "value": value, "description": text});
        let paths = |new: &Value| -> Vec<String> {
            validate_update(kind, Part::Main, new, &class(1, "a")).into_iter().map(|error| error.path).collect()
        };
        assert_eq!(paths(&class(1, "b")), Vec::<String>::new());
        assert_eq!(paths(&class(10, "a")), ["value"]);
    }

    #[test]
    fn names_and_numbers_of_system_classes_are_reserved() {
        let kind = find("scheduling.k8s.io", "v1", "PriorityClass").unwrap();
        let paths = |name: &str, value: i64| -> Vec<String> {
            let class = json!({"metadata": {"name": name}, "value": value});
            validate_create(kind, &class).into_iter().map(|error| error.path).collect()
        };
        assert_eq!(paths("system-mine", 1), ["metadata.name"]);
        assert_eq!(paths("system-node-critical", 1), ["metadata.name"]);
        assert!(paths("system-node-critical", 2_000_001_000).is_empty());
        assert_eq!(paths("mine", 1_000_000_001), ["value"]);
        assert!(paths("mine", 1_000_000_000).is_empty() && paths("low", -5).is_empty());
    }

    #[test]
    fn the_status_has_its_own_endpoint() {
        let kind = find("apps", "v1", "DaemonSet").unwrap();
        let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"numberReady": 1}});
        let new = json!({"metadata": {}, "spec": {"x": 2}, "status": {"numberReady": 2}});
        let after = |part| {
            let mut object = new.clone();
            prepare_update(kind, part, &mut object, &old);
            (object["spec"]["x"].clone(), object["status"]["numberReady"].clone())
        };
        assert_eq!(after(Part::Main), (json!(2), json!(1)));
        assert_eq!(after(Part::Status), (json!(1), json!(2)));
    }
}
