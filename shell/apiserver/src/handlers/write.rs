//! Writing: create, replace. Decisions are the registry's; this prepares, commits, and prepares again if somebody
//! was faster.

use std::sync::Arc;

use api::json;
use api::status::Status;
use http::StatusCode;
use kinds::builtin::{self, Builtin, Part};
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::{Owners, Writer};
use registry::pipeline::{self, Actors, Prepared, World};
use registry::query::{self, FieldValidation};
use registry::state::{Current, Refused, Snapshot, Stored, Write};
use serde_json::Value;

use crate::handlers::body::{self, Read};
use crate::handlers::written::{Written, WrittenObject, answer};
use crate::reply::Reply;
use crate::request::Target;
use crate::server::{Call, Server};

/// How often a write without a version is prepared again because somebody was faster.
pub(crate) const RETRIES: usize = 5;
/// How often a generated name is drawn again because it is taken.
const NAME_DRAWS: usize = 8;

impl Server {
    /// Returns what decisions are taken from.
    pub(crate) fn world<'a>(&'a self, snapshot: &'a Snapshot) -> World<'a> {
        let settings = &self.0.settings;
        let (not_ready, unreachable) = settings.tolerations.get();
        World {
            context: builtin::Context {
                now: self.0.clock.now(),
                gates: &self.0.gates,
                not_ready_toleration_seconds: not_ready,
                unreachable_toleration_seconds: unreachable,
                allow_loopback_endpoints: settings.allow_loopback_endpoints,
            },
            snapshot,
            service_range: settings.service_range(),
            actors: if settings.external_controllers { Actors::External } else { Actors::None },
        }
    }

    /// Creates an object; the name may be generated.
    pub(crate) async fn create_object(
        &self,
        kind: &ServedKind,
        namespace: &str,
        object: Value,
        owners: &Owners<'_>,
        dry_run: bool,
    ) -> Result<Written, Status> {
        let named = !json::text(&object, &["metadata", "name"]).is_empty();
        let mut tries = 0;
        loop {
            let snapshot = self.0.hub.snapshot();
            let Prepared { write, removed, warnings } =
                pipeline::create(kind, namespace, object.clone(), owners, &self.world(&snapshot), &mut self.rng())?;
            let write = write.expect("a creation always writes");
            let name = json::text(write.object(), &["metadata", "name"]).to_owned();
            tries += 1;
            match self.commit(write, dry_run).await? {
                Ok(object) => return Ok(Written { object, removed, warnings }),
                Err(Refused::Exists) if !named && tries < NAME_DRAWS => {}
                Err(Refused::Terminating | Refused::Taken) if tries < NAME_DRAWS => {}
                Err(refused) => return Err(pipeline::refusal(kind, &name, refused)),
            }
        }
    }

    /// Creates an object of the server's own, of whatever kind.
    pub(crate) async fn create_own(&self, kind: &ServedKind, namespace: &str, object: Value) -> Result<(), Status> {
        let name = json::text(&object, &["metadata", "name"]).to_owned();
        let snapshot = self.0.hub.snapshot();
        let world = World { actors: Actors::Server, ..self.world(&snapshot) };
        let owners = Owners::Of(Writer::server(""));
        let prepared = pipeline::create(kind, namespace, object, &owners, &world, &mut self.rng())?;
        let write = prepared.write.expect("a creation always writes");
        match self.commit(write, false).await? {
            Ok(_) => Ok(()),
            Err(refused) => Err(pipeline::refusal(kind, &name, refused)),
        }
    }

    /// Commits a prepared write and returns what is stored, or what would be by a dry run.
    async fn commit(&self, write: Write, dry_run: bool) -> Result<Result<WrittenObject, Refused>, Status> {
        if !dry_run {
            return Ok(self.0.hub.commit(write).await?.map(WrittenObject::Stored));
        }
        let version = json::at(write.object(), &["metadata", "resourceVersion"]).cloned();
        Ok(self.0.hub.rehearse(write).map(|stored| {
            // What the commit would have filled in, such as a cluster IP, is shown; a revision was not given.
            let mut object = stored.whole();
            let metadata = json::object_mut(&mut object, &["metadata"]);
            match version {
                Some(version) => metadata.insert("resourceVersion".to_owned(), version),
                None => metadata.remove("resourceVersion"),
            };
            WrittenObject::DryRun(object)
        }))
    }

    /// Changes an object until nobody was faster; `change` gives the next state.
    pub(crate) async fn update_object<'w>(
        &self,
        kind: &ServedKind,
        part: Part,
        namespace: &str,
        name: &str,
        dry_run: bool,
        mut change: impl FnMut(&Current<'_>) -> Result<Next<'w>, Status>,
    ) -> Result<Written, Status> {
        let key = kind.resource.key(namespace, name);
        let subject = kind.resource.subject(name);
        let mut tries = 0;
        loop {
            let snapshot = self.0.hub.snapshot();
            let stored = snapshot.get(&key).ok_or_else(|| Status::not_found(&subject))?;
            let current = self.0.hub.current(stored);
            let Next { object, form, owners } = change(&current)?;
            let conditional = !json::text(&object, &["metadata", "resourceVersion"]).is_empty() && form == UpdateForm::Replace;
            let Prepared { write, removed, warnings } =
                pipeline::update(kind, part, form, &current, object, &owners, &self.world(&snapshot))?;
            let Some(write) = write else {
                return Ok(Written { object: WrittenObject::Stored(Arc::clone(stored)), removed, warnings });
            };
            tries += 1;
            match self.commit(write, dry_run).await? {
                Ok(object) => return Ok(Written { object, removed, warnings }),
                Err(Refused::Taken) if tries < RETRIES => {}
                Err(Refused::Changed) if !conditional && tries < RETRIES => {}
                Err(refused) => return Err(pipeline::refusal(kind, name, refused)),
            }
        }
    }
}

/// The next state of an object, as a request wants it.
pub(crate) struct Next<'a> {
    pub(crate) object: Value,
    pub(crate) form: UpdateForm,
    pub(crate) owners: Owners<'a>,
}

impl<'a> Next<'a> {
    /// Returns a state that a writer wants.
    pub(crate) fn by(writer: Writer<'a>, object: Value, form: UpdateForm) -> Next<'a> {
        Next { object, form, owners: Owners::Of(writer) }
    }
}

/// Returns who writes: who the request says, else what its user agent begins with. Parts of this process have no user
/// agent but a name.
pub(crate) fn manager(call: &Call, options: &str) -> Result<String, Status> {
    let agent = call.header(http::header::USER_AGENT);
    let own = agent.is_empty() && call.identity.user.starts_with("lifesign-");
    query::field_manager(&call.parameters, if own { &call.identity.user } else { agent }, options)
}

impl Server {
    /// Makes a change that no client may make, until nobody was faster.
    pub(crate) async fn set_object(
        &self,
        kind: &ServedKind,
        namespace: &str,
        name: &str,
        (writer, dry_run): (Option<Writer<'_>>, bool),
        change: impl Fn(&Stored) -> Result<Value, Status>,
    ) -> Result<(), Status> {
        let key = kind.resource.key(namespace, name);
        let subject = kind.resource.subject(name);
        for _ in 0..RETRIES {
            let snapshot = self.0.hub.snapshot();
            let current = snapshot.get(&key).ok_or_else(|| Status::not_found(&subject))?;
            let prepared = pipeline::set(kind, current, change(current)?, writer, &self.world(&snapshot));
            let Some(write) = prepared.write else { return Ok(()) };
            match self.commit(write, dry_run).await? {
                Ok(_) => return Ok(()),
                Err(Refused::Changed | Refused::Taken) => {}
                Err(refused) => return Err(pipeline::refusal(kind, name, refused)),
            }
        }
        Err(Status::modified(&subject))
    }
}

/// Decodes the object of a request and checks that it is of the kind and place that the URL says.
pub(crate) fn decode_object(
    kind: &ServedKind,
    target: &Target,
    read: Read,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let Read { value: mut object, duplicates } = read;
    let (version, name) = (kind.resource.api_version(), &kind.resource.kind);
    let (body_version, body_kind) =
        (json::text(&object, &["apiVersion"]).to_owned(), json::text(&object, &["kind"]).to_owned());
    if kind.resource.custom && (body_version.is_empty() || body_kind.is_empty()) {
        return Err(Status::bad_request("the object provided is unrecognized (must be of type with apiVersion and kind set)"));
    }
    // The version decides what reads a custom resource; its kind is a field like any other, and judged as such.
    if kind.resource.custom && body_version == version && &body_kind != name {
        let wrong = api::field::Error::invalid(&api::field::Path::new("kind"), body_kind, format!("must be {name}"));
        return Err(Status::invalid(&kind.resource.subject(json::text(&object, &["metadata", "name"])), &[wrong]));
    }
    if (!body_version.is_empty() && body_version != version) || (!body_kind.is_empty() && &body_kind != name) {
        return Err(Status::bad_request(format!(
            "the API version and kind in the data ({body_version}, Kind={body_kind}) do not match those of the URL ({version}, Kind={name})"
        )));
    }
    let warnings = kind.decode(&mut object, &duplicates, validation)?;
    if kind.resource.group == "events.k8s.io" {
        object = registry::events::to_core(object);
    }
    check_place(target, &object)?;
    Ok((object, warnings))
}

fn check_place(target: &Target, object: &Value) -> Result<(), Status> {
    let namespace = json::text(object, &["metadata", "namespace"]);
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request ({namespace:?}, {:?})",
            target.namespace
        )));
    }
    let name = json::text(object, &["metadata", "name"]);
    if !target.name.is_empty() && !name.is_empty() && name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}

/// Answers a POST to a collection.
pub(crate) async fn create(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "CreateOptions")?;
    let validation = query::field_validation(&call.parameters, "CreateOptions")?;
    let read = body::object(call, !kind.resource.custom)?;
    let (object, warnings) = decode_object(kind, target, read, validation)?;
    check_node_name(call, kind, &object)?;
    let manager = manager(call, "CreateOptions")?;
    let owners = Owners::Of(Writer { manager: &manager, subresource: "" });
    let written = server.create_object(kind, &target.namespace, object, &owners, dry_run).await?;
    server.settle_namespace(kind, written.object.stored()).await;
    Ok(answer(server, kind, call, StatusCode::CREATED, written, warnings))
}

/// The agent of a node may create its own Node and Lease only.
pub(crate) fn check_node_name(call: &Call, kind: &ServedKind, object: &Value) -> Result<(), Status> {
    let Some(node) = call.identity.node() else { return Ok(()) };
    let name = json::text(object, &["metadata", "name"]);
    let named = matches!(kind.builtin(), Some(Builtin::Node | Builtin::Lease)) || kind.resource.plural == "csinodes";
    if named && name != node {
        let why = format!("node {node:?} is not allowed to create {} {name:?}", kind.resource.kind);
        return Err(Status::forbidden(&kind.resource.subject(name), why));
    }
    Ok(())
}

/// The agent of a node may write the status of its own pods, and nothing else of a pod.
pub(crate) fn check_node_status(
    call: &Call,
    kind: &ServedKind,
    part: Part,
    current: &Current<'_>,
    object: &Value,
) -> Result<(), Status> {
    let Some(node) = call.identity.node() else { return Ok(()) };
    if kind.builtin() != Some(Builtin::Pod) || part != Part::Status {
        return Ok(());
    }
    registry::authz::check_node_write(node, current.value(), object)
        .map_err(|why| Status::forbidden(&kind.resource.subject(&current.index.name), why))
}

/// Answers a PUT.
pub(crate) async fn replace(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    replace_part(server, kind, Part::Main, target, call).await
}

pub(crate) async fn replace_part(
    server: &Server,
    kind: &Arc<ServedKind>,
    part: Part,
    target: &Target,
    call: &Call,
) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "UpdateOptions")?;
    let validation = query::field_validation(&call.parameters, "UpdateOptions")?;
    let read = body::object(call, !kind.resource.custom)?;
    let (mut object, warnings) = decode_object(kind, target, read, validation)?;
    let manager = manager(call, "UpdateOptions")?;
    let writer = Writer { manager: &manager, subresource: &target.subresource };
    let exists = server.0.hub.snapshot().get(&kind.resource.key(&target.namespace, &target.name)).is_some();
    if !exists && part == Part::Main && kind.resource.create_on_update {
        let metadata = json::object_mut(&mut object, &["metadata"]);
        metadata.insert("name".into(), target.name.clone().into());
        check_node_name(call, kind, &object)?;
        let written = server.create_object(kind, &target.namespace, object, &Owners::Of(writer), dry_run).await?;
        return Ok(answer(server, kind, call, StatusCode::CREATED, written, warnings));
    }
    // A change of a version is tried once, except that a Service may have to get another address.
    let once = !json::text(&object, &["metadata", "resourceVersion"]).is_empty() && kind.builtin() != Some(Builtin::Service);
    let change = |current: &Current<'_>| {
        check_node_status(call, kind, part, current, &object)?;
        let next = if once { object.take() } else { object.clone() };
        Ok(Next::by(writer, next, UpdateForm::Replace))
    };
    let written = server.update_object(kind, part, &target.namespace, &target.name, dry_run, change).await?;
    Ok(answer(server, kind, call, StatusCode::OK, written, warnings))
}
