//! From a request to what is committed: the order of defaults, dropping, admission, validation, for every kind alike.
//!
//! Everything is decided against one snapshot; the commit checks that the object has not changed since, and the shell
//! prepares again if it has.

use serde_json::Value;

use api::field::{Error, Path};
use api::json;
use machine::Rng;

use crate::deletion::{self, Decision, DeleteOptions};
use crate::kind::Kind;
use crate::meta::{self, UpdateForm};
use crate::state::{Act, Expect, Snapshot, Stored, Write, key};
use api::status::{Status, Subject};
use kinds::builtin::{self, Builtin, Context, Part};

/// What a write would do.
#[derive(Debug)]
pub struct Prepared {
    /// What to commit; `None`: nothing changes.
    pub write: Option<Write>,
    /// The object to answer with.
    pub object: Value,
    /// Whether the object goes with this write.
    pub removed: bool,
    /// What the client is to be told.
    pub warnings: Vec<String>,
}

/// What decisions are taken from, besides the object.
pub struct World<'a> {
    /// Time, gates, and what admission fills in.
    pub context: Context<'a>,
    /// The other objects.
    pub snapshot: &'a Snapshot,
    /// The address that a new Service gets.
    pub cluster_ip: Option<String>,
    /// Ports that a new Service may use on the node, as many as it can need.
    pub node_ports: Vec<i64>,
}

/// Prepares the creation of an object.
pub fn create(kind: &Kind, namespace: &str, mut object: Value, world: &World<'_>, rng: &mut Rng) -> Result<Prepared, Status> {
    let resource = &kind.resource;
    if !json::text(&object, &["metadata", "resourceVersion"]).is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    meta::prepare_create(&mut object, namespace, world.context.now, resource.generation, rng);
    let name = json::text(&object, &["metadata", "name"]).to_owned();
    let subject = resource.subject(&name);
    admit_namespace(kind, namespace, world.snapshot, &subject)?;
    kind.prepare_create(&mut object, world);
    admit_pod(kind, namespace, &mut object, world, &subject)?;
    let errors = kind.validate_create(&object, &world.context);
    if !errors.is_empty() {
        return Err(Status::invalid(&subject, &errors));
    }
    let warnings = kind.warnings(&object, None, &world.context);
    meta::tidy(&mut object);
    let write = Write { key: resource.key(namespace, &name), expect: Expect::Absent, act: Act::Put(object.clone()) };
    Ok(Prepared { write: Some(write), object, removed: false, warnings })
}

/// Refuses objects in a namespace that is missing or going.
fn admit_namespace(kind: &Kind, namespace: &str, snapshot: &Snapshot, subject: &Subject) -> Result<(), Status> {
    if !kind.resource.namespaced {
        return Ok(());
    }
    let Some(stored) = snapshot.get(&key("", "namespaces", "", namespace)) else {
        return Err(Status::not_found(&Subject {
            resource: "namespaces".into(),
            name: namespace.into(),
            ..Subject::default()
        }));
    };
    if !stored.index.deleting {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = serde_json::json!({
        "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace",
    });
    Err(Status::forbidden(subject, why).with_causes(vec![cause]))
}

/// Fills in what a pod gets at creation, and refuses one whose service account does not exist.
fn admit_pod(kind: &Kind, namespace: &str, object: &mut Value, world: &World<'_>, subject: &Subject) -> Result<(), Status> {
    if kind.builtin() != Some(Builtin::Pod) {
        return Ok(());
    }
    builtin::admit_pod_tolerations(object, &world.context);
    let spec = json::object_mut(object, &["spec"]);
    let account =
        spec.get("serviceAccountName").and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or("default").to_owned();
    spec.insert("serviceAccountName".into(), account.clone().into());
    spec.insert("serviceAccount".into(), account.clone().into());
    if world.snapshot.get(&key("", "serviceaccounts", namespace, &account)).is_none() {
        let why = format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found");
        return Err(Status::forbidden(subject, why));
    }
    Ok(())
}

/// Prepares the change of an object into `new`, which came through the endpoint `part`.
pub fn update(
    kind: &Kind,
    part: Part,
    form: UpdateForm,
    current: &Stored,
    mut new: Value,
    world: &World<'_>,
) -> Result<Prepared, Status> {
    let resource = &kind.resource;
    let old = current.object();
    let subject = resource.subject(&current.index.name);
    // Stored objects do not say what they are; what is compared with them must not either.
    if let Some(members) = new.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    check_version(kind, form, &new, &old, &subject)?;
    meta::prepare_update(&mut new, &old, &subject, form)?;
    kind.prepare_update(part, &mut new, &old, &world.context);
    if part == Part::Main && kind.builtin() == Some(Builtin::Pod) {
        builtin::admit_pod_tolerations(&mut new, &world.context);
    }
    let mut errors = meta::validate_finalizers(&new, &old);
    errors.extend(kind.validate_update(part, &new, &old, &world.context));
    if !errors.is_empty() {
        return Err(Status::invalid(&subject, &errors));
    }
    if resource.generation && part == Part::Main && kind.generation_changes(&new, &old) {
        let generation = json::int(&old, &["metadata", "generation"]).unwrap_or(0);
        meta::set_generation(&mut new, generation + 1);
    }
    meta::tidy(&mut new);
    let warnings = kind.warnings(&new, Some(&old), &world.context);
    let key = resource.key(&current.index.namespace, &current.index.name);
    let expect = Expect::At(current.revision);
    if deletion::finished(resource, &new) {
        let write = Write { key, expect, act: Act::Remove(new.clone()) };
        return Ok(Prepared { write: Some(write), object: new, removed: true, warnings });
    }
    // What is the same as before is not written: no version, no event, no work for anybody.
    let write = (new != old).then(|| Write { key, expect, act: Act::Put(new.clone()) });
    Ok(Prepared { write, object: new, removed: false, warnings })
}

fn check_version(kind: &Kind, form: UpdateForm, new: &Value, old: &Value, subject: &Subject) -> Result<(), Status> {
    let claimed = json::text(new, &["metadata", "resourceVersion"]);
    if claimed.is_empty() {
        if form == UpdateForm::Replace && !kind.resource.unconditional_update {
            let path = Path::root().child("metadata").child("resourceVersion");
            return Err(Status::invalid(subject, &[Error::invalid(&path, "", "must be specified for an update")]));
        }
        return Ok(());
    }
    if claimed == json::text(old, &["metadata", "resourceVersion"]) { Ok(()) } else { Err(Status::modified(subject)) }
}

/// Prepares a change that the server itself makes and that no client may: a binding, the status of a definition.
pub fn set(kind: &Kind, current: &Stored, mut new: Value) -> Prepared {
    let old = current.object();
    let version = json::text(&old, &["metadata", "resourceVersion"]).to_owned();
    json::object_mut(&mut new, &["metadata"]).insert("resourceVersion".into(), version.into());
    let key = kind.resource.key(&current.index.namespace, &current.index.name);
    let write = (new != old).then(|| Write { key, expect: Expect::At(current.revision), act: Act::Put(new.clone()) });
    Prepared { write, object: new, removed: false, warnings: Vec::new() }
}

/// Prepares the deletion of an object.
pub fn delete(kind: &Kind, current: &Stored, options: &DeleteOptions, world: &World<'_>) -> Result<Prepared, Status> {
    let resource = &kind.resource;
    let old = current.object();
    let subject = resource.subject(&current.index.name);
    options.check(&old, &subject)?;
    if resource.is_core("namespaces") && matches!(current.index.name.as_str(), "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(&subject, "this namespace may not be deleted"));
    }
    let key = resource.key(&current.index.namespace, &current.index.name);
    let expect = Expect::At(current.revision);
    let prepared = |object: Value, act: Option<Act>, removed| Prepared {
        write: act.map(|act| Write { key, expect, act }),
        object,
        removed,
        warnings: Vec::new(),
    };
    Ok(match deletion::decide(resource, &old, options, world.context.now) {
        Decision::Keep => prepared(old, None, false),
        Decision::Mark(next) => prepared(next.clone(), Some(Act::Put(next)), false),
        Decision::Remove(last) => prepared(last.clone(), Some(Act::Remove(last)), true),
    })
}
