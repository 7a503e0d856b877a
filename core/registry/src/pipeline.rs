//! From a request to what is committed: the order of defaults, dropping, admission, validation, for every kind alike.
//!
//! Everything is decided against one snapshot; the commit checks that the object has not changed since, and the shell
//! prepares again if it has.

use serde_json::Value;

use api::field::{Error, Path};
use api::json;
use apply::Packed;
use machine::Rng;

use crate::deletion::{self, Decision, DeleteOptions};
use crate::kind::ServedKind;
use crate::meta::{self, UpdateForm};
use crate::ownership::{self, Owners, Writer};
use crate::services;
use crate::state::{Current, Expect, Key, OBJECT_MAX, Refused, Snapshot, Stored, Write, key};
use api::status::{Status, Subject};
use kinds::builtin::{self, Builtin, Context, Part};

mod access;
mod priority;

/// What a write would do.
#[derive(Debug)]
pub struct Prepared {
    /// What to commit; `None`: nothing changes, and the stored object is the answer.
    pub write: Option<Write>,
    /// Whether the object goes with this write.
    pub removed: bool,
    /// What the client is to be told.
    pub warnings: Vec<String>,
}

/// Who acts on objects of kinds that the server stores and does not act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actors {
    /// Nobody: they are refused.
    None,
    /// Components beside this server.
    External,
    /// The server writes them itself, for others to read.
    Server,
}

/// What decisions are taken from, besides the object.
pub struct World<'a> {
    /// Time, gates, and what admission fills in.
    pub context: Context<'a>,
    /// The other objects.
    pub snapshot: &'a Snapshot,
    /// The range of cluster IPs.
    pub service_range: services::Range,
    /// Who acts on objects that the server stores and does not act on.
    pub actors: Actors,
}

/// Prepares the creation of an object.
pub fn create(
    kind: &ServedKind,
    namespace: &str,
    mut object: Value,
    owners: &Owners<'_>,
    world: &World<'_>,
    rng: &mut Rng,
) -> Result<Prepared, Status> {
    let resource = &kind.resource;
    let sent = ownership::take(&mut object);
    if !json::text(&object, &["metadata", "resourceVersion"]).is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    meta::prepare_create(&mut object, namespace, world.context.now, resource.generation, rng);
    let name = json::text(&object, &["metadata", "name"]).to_owned();
    let subject = resource.subject(&name);
    admit_namespace(kind, namespace, world.snapshot, &subject)?;
    admit_definition(kind, world.snapshot, &subject)?;
    let warning = admit_actor(kind, world.actors, &subject)?;
    meta::tidy(&mut object);
    let mut warnings = kind.gate_warnings(&object, None, &world.context);
    let priority = priority::Stated::of(&object);
    kind.complete(&mut object, None, &world.context);
    let managers = match owners {
        Owners::Of(writer) => ownership::created(kind, &object, sent.as_ref(), *writer, world.context.now),
        Owners::Known(managers) => managers.clone(),
    };
    kind.prepare_create(&mut object, &world.context);
    admit_pod(kind, namespace, &mut object, world, &subject)?;
    if world.actors == Actors::External && kind.builtin() == Some(Builtin::Pod) {
        priority.resolve(&mut object, world.snapshot, &subject)?;
        access::mount(&mut object, namespace, world.snapshot, rng);
    }
    let key = resource.key(namespace, &name);
    let mut errors = kind.validate_create(&object, &world.context);
    errors.extend(validate_claims(kind, &key, &object, None, world));
    if !errors.is_empty() {
        return Err(Status::invalid(&subject, &errors));
    }
    warnings.extend(kind.warnings(&object, None, &world.context));
    warnings.extend(warning);
    meta::tidy(&mut object);
    let write = Write {
        within: within(kind, namespace),
        services: service_range(kind, world),
        owners: Packed::new(&managers),
        ..Write::put(key, Expect::Absent, object)
    };
    Ok(Prepared { write: Some(write), removed: false, warnings })
}

/// Returns what new objects of a kind lie in: their namespace, and the definition of their kind.
fn within(kind: &ServedKind, namespace: &str) -> Vec<Key> {
    let namespace = kind.resource.namespaced.then(|| key("", "namespaces", "", namespace));
    namespace.into_iter().chain(definition_key(kind)).collect()
}

/// Returns the key of the CustomResourceDefinition of a kind that has one.
fn definition_key(kind: &ServedKind) -> Option<Key> {
    let name = || format!("{}.{}", kind.resource.plural, kind.resource.group);
    kind.resource.custom.then(|| key("apiextensions.k8s.io", "customresourcedefinitions", "", &name()))
}

/// Returns where a Service gets what it still wants.
fn service_range(kind: &ServedKind, world: &World<'_>) -> Option<services::Range> {
    (kind.builtin() == Some(Builtin::Service)).then_some(world.service_range)
}

fn validate_claims(kind: &ServedKind, key: &str, new: &Value, old: Option<&Value>, world: &World<'_>) -> Vec<Error> {
    let range = service_range(kind, world);
    range.map_or_else(Vec::new, |range| services::validate(key, new, old, world.snapshot.claims(), range))
}

/// Refuses objects of a definition that is going: they would be deleted with it, or worse, be forgotten.
fn admit_definition(kind: &ServedKind, snapshot: &Snapshot, subject: &Subject) -> Result<(), Status> {
    match definition_key(kind) {
        Some(key) if !snapshot.is_alive(&key) => {
            Err(Status::not_allowed_now(subject, "create not allowed while custom resource definition is terminating"))
        }
        _ => Ok(()),
    }
}

/// Returns the answer to a write that cannot be committed as it was prepared, and that preparing again does not help.
pub fn refusal(kind: &ServedKind, name: &str, refused: Refused) -> Status {
    let subject = kind.resource.subject(name);
    let full = |path: Path, what: &str| Status::invalid(&subject, &[Error::invalid(&path, Value::Null, what)]);
    match refused {
        Refused::Exists => Status::already_exists(&subject),
        Refused::Missing => Status::not_found(&subject),
        Refused::TooLarge => {
            let what = format!("Request entity too large: {} {name:?} would be stored with more than", subject.qualified());
            Status::too_large(format!("{what} {OBJECT_MAX} bytes"))
        }
        Refused::NoAddress => {
            full(Path::new("spec").child("clusterIPs"), "failed to allocate a cluster IP: range is full; delete Services")
        }
        Refused::NoPort => {
            full(Path::new("spec").child("ports"), "failed to allocate a nodePort: range is full; delete Services")
        }
        Refused::Changed | Refused::Terminating | Refused::Taken => Status::modified(&subject),
    }
}

/// Refuses objects that nobody would act on; returns what their writer should hear otherwise.
fn admit_actor(kind: &ServedKind, actors: Actors, subject: &Subject) -> Result<Option<String>, Status> {
    match kind.further() {
        Some(further) if actors != Actors::Server => {
            kinds::further::warning(further, actors == Actors::External).map_err(|why| Status::forbidden(subject, why))
        }
        _ => Ok(None),
    }
}

/// Refuses objects in a namespace that is missing or going.
fn admit_namespace(kind: &ServedKind, namespace: &str, snapshot: &Snapshot, subject: &Subject) -> Result<(), Status> {
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
fn admit_pod(
    kind: &ServedKind,
    namespace: &str,
    object: &mut Value,
    world: &World<'_>,
    subject: &Subject,
) -> Result<(), Status> {
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
    kind: &ServedKind,
    part: Part,
    form: UpdateForm,
    current: &Current<'_>,
    mut new: Value,
    owners: &Owners<'_>,
    world: &World<'_>,
) -> Result<Prepared, Status> {
    let resource = &kind.resource;
    let old = current.value();
    let sent = ownership::take(&mut new);
    let subject = resource.subject(&current.index.name);
    // Stored objects do not say what they are; what is compared with them must not either.
    if let Some(members) = new.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    check_version(kind, form, &new, old, &subject)?;
    meta::prepare_update(&mut new, old, &subject, form)?;
    meta::tidy(&mut new);
    let mut warnings = kind.gate_warnings(&new, Some(old), &world.context);
    kind.complete(&mut new, Some(old), &world.context);
    let managers = match owners {
        Owners::Of(writer) => ownership::updated(kind, part, (current, old), &new, sent.as_ref(), *writer, world.context.now),
        Owners::Known(managers) => managers.clone(),
    };
    kind.prepare_update(part, &mut new, old, &world.context);
    if part == Part::Main && kind.builtin() == Some(Builtin::Pod) {
        builtin::admit_pod_tolerations(&mut new, &world.context);
    }
    let key = resource.key(&current.index.namespace, &current.index.name);
    let mut errors = meta::validate_finalizers(&new, old);
    errors.extend(kind.validate_update(part, &new, old, &world.context));
    errors.extend(validate_claims(kind, &key, &new, Some(old), world));
    if !errors.is_empty() {
        return Err(Status::invalid(&subject, &errors));
    }
    if resource.generation && part == Part::Main && kind.generation_changes(&new, old) {
        let generation = json::int(old, &["metadata", "generation"]).unwrap_or(0);
        meta::set_generation(&mut new, generation + 1);
    }
    meta::tidy(&mut new);
    warnings.extend(kind.warnings(&new, Some(old), &world.context));
    let expect = Expect::At(current.revision);
    // What is the same as before is not written: no version, no event, no work for anybody. Times alone are no change.
    let same = new == *old && managers.same_but_times(&current.owners.managers());
    if deletion::finished(resource, &new) {
        let owners = if same { current.owners.clone() } else { Packed::new(&managers) };
        let write = Write { owners, ..Write::remove(key, expect, new) };
        return Ok(Prepared { write: Some(write), removed: true, warnings });
    }
    let (services, owners) = (service_range(kind, world), || Packed::new(&managers));
    let write = (!same).then(|| Write { services, owners: owners(), ..Write::put(key, expect, new) });
    Ok(Prepared { write, removed: false, warnings })
}

fn check_version(kind: &ServedKind, form: UpdateForm, new: &Value, old: &Value, subject: &Subject) -> Result<(), Status> {
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

/// Returns the state that an apply leads to and who owns it then; the next step is [`update`], or [`create`] without a
/// `current` one.
///
/// `config` is what the client applies, with its type.
pub fn apply(
    kind: &ServedKind,
    part: Part,
    current: Option<&Current<'_>>,
    mut config: Value,
    force: bool,
    writer: Writer<'_>,
    world: &World<'_>,
) -> Result<(Value, Owners<'static>), Status> {
    let live = current.map(|current| {
        let mut live = kind.outward(current.object());
        for key in ["apiVersion", "kind"] {
            json::object_mut(&mut live, &[]).insert(key.to_owned(), config.get(key).cloned().unwrap_or_default());
        }
        live
    });
    kind.drop_disabled(&mut config, live.as_ref(), &world.context);
    let live = current.map(|current| &**current).zip(live.as_ref());
    let (object, managers) = ownership::applied(kind, part, live, &config, force, writer, world.context.now)?;
    Ok((object, Owners::Known(managers)))
}

/// Prepares a change that the server itself makes and that no client may: a binding, the status of a definition.
///
/// It has an owner only if the server tells itself apart as `writer`: nobody owns what a binding sets.
pub fn set(kind: &ServedKind, current: &Stored, mut new: Value, writer: Option<Writer<'_>>, world: &World<'_>) -> Prepared {
    let old = current.object();
    let version = json::text(&old, &["metadata", "resourceVersion"]).to_owned();
    json::object_mut(&mut new, &["metadata"]).insert("resourceVersion".into(), version.into());
    let key = kind.resource.key(&current.index.namespace, &current.index.name);
    let services = service_range(kind, world);
    let owners = match writer.filter(|_| new != old) {
        Some(writer) => {
            let part = if writer.subresource == "status" { Part::Status } else { Part::Main };
            Packed::new(&ownership::updated(kind, part, (current, &old), &new, None, writer, world.context.now))
        }
        None => current.owners.clone(),
    };
    let write = (new != old).then(|| Write { services, owners, ..Write::put(key, Expect::At(current.revision), new) });
    Prepared { write, removed: false, warnings: Vec::new() }
}

/// Prepares the deletion of an object.
pub fn delete(kind: &ServedKind, current: &Stored, options: &DeleteOptions, world: &World<'_>) -> Result<Prepared, Status> {
    let resource = &kind.resource;
    let old = current.object();
    let subject = resource.subject(&current.index.name);
    options.check(&old, &subject)?;
    if resource.is_core("namespaces") && matches!(current.index.name.as_str(), "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(&subject, "this namespace may not be deleted"));
    }
    let key = resource.key(&current.index.namespace, &current.index.name);
    let expect = Expect::At(current.revision);
    let (write, removed) = match deletion::decide(resource, &old, options, world.context.now) {
        Decision::Keep => (None, false),
        Decision::Mark(next) => (Some(Write::put(key, expect, next)), false),
        Decision::Remove(last) => (Some(Write::remove(key, expect, last)), true),
    };
    let write = write.map(|write| Write { owners: current.owners.clone(), ..write });
    Ok(Prepared { write, removed, warnings: Vec::new() })
}
