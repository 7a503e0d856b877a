//! Writing: create, replace, patch. Decisions are the registry's; this prepares, commits, and prepares again if somebody
//! was faster.

use std::sync::Arc;

use api::json;
use api::status::Status;
use http::StatusCode;
use kinds::builtin::{self, Builtin, Part};
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::{Owners, Writer};
use registry::patch::{self, PatchError};
use registry::pipeline::{self, Actors, Prepared, World};
use registry::query::{self, FieldValidation};
use registry::state::{Current, Refused, Snapshot, Stored, Write};
use serde_json::Value;

use crate::handlers::apply;
use crate::handlers::body::{self, Read};
use crate::handlers::read::{outward, show, show_stored};
use crate::reply::{self, Reply, typed};
use crate::request::Target;
use crate::server::{Call, Server};

/// How often a write without a version is prepared again because somebody was faster.
pub(crate) const RETRIES: usize = 5;
/// How often a generated name is drawn again because it is taken.
const NAME_DRAWS: usize = 8;

/// What became of a write: the object as stored, none after a dry run, or why not.
type Committed = Result<Option<Arc<Stored>>, Refused>;

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
    ) -> Result<(Prepared, Option<Arc<Stored>>), Status> {
        let named = !json::text(&object, &["metadata", "name"]).is_empty();
        let mut tries = 0;
        loop {
            let snapshot = self.0.hub.snapshot();
            let mut prepared =
                pipeline::create(kind, namespace, object.clone(), owners, &self.world(&snapshot), &mut self.rng())?;
            let write = prepared.write.take().expect("a creation always writes");
            let name = json::text(&prepared.object, &["metadata", "name"]).to_owned();
            tries += 1;
            match self.commit(write, dry_run, &mut prepared).await? {
                Ok(stored) => return Ok((prepared, stored)),
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
        let mut prepared = pipeline::create(kind, namespace, object, &owners, &world, &mut self.rng())?;
        let write = prepared.write.take().expect("a creation always writes");
        match self.commit(write, false, &mut prepared).await? {
            Ok(_) => Ok(()),
            Err(refused) => Err(pipeline::refusal(kind, &name, refused)),
        }
    }

    /// Commits a prepared write and returns what is stored; of a dry run only what would be answered is kept.
    async fn commit(&self, write: Write, dry_run: bool, prepared: &mut Prepared) -> Result<Committed, Status> {
        if !dry_run {
            return Ok(self.0.hub.commit(write).await?.map(Some));
        }
        Ok(self.0.hub.rehearse(write).map(|stored| {
            // What the commit would have filled in, such as a cluster IP, is shown; a revision was not given.
            let version = json::at(&prepared.object, &["metadata", "resourceVersion"]).cloned();
            prepared.object = stored.object();
            let metadata = json::object_mut(&mut prepared.object, &["metadata"]);
            match version {
                Some(version) => metadata.insert("resourceVersion".to_owned(), version),
                None => metadata.remove("resourceVersion"),
            };
            None
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
    ) -> Result<(Prepared, Option<Arc<Stored>>), Status> {
        let key = kind.resource.key(namespace, name);
        let subject = kind.resource.subject(name);
        let mut tries = 0;
        loop {
            let snapshot = self.0.hub.snapshot();
            let stored = snapshot.get(&key).ok_or_else(|| Status::not_found(&subject))?;
            let current = Current::new(stored);
            let Next { object, form, owners } = change(&current)?;
            let conditional = !json::text(&object, &["metadata", "resourceVersion"]).is_empty() && form == UpdateForm::Replace;
            let mut prepared = pipeline::update(kind, part, form, &current, object, &owners, &self.world(&snapshot))?;
            let Some(write) = prepared.write.take() else {
                let unchanged = (!dry_run).then(|| Arc::clone(stored));
                return Ok((prepared, unchanged));
            };
            tries += 1;
            match self.commit(write, dry_run, &mut prepared).await? {
                Ok(stored) => return Ok((prepared, stored)),
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
            let mut prepared = pipeline::set(kind, current, change(current)?, writer, &self.world(&snapshot));
            let Some(write) = prepared.write.take() else { return Ok(()) };
            match self.commit(write, dry_run, &mut prepared).await? {
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

pub(crate) fn answer(
    server: &Server,
    kind: &Arc<ServedKind>,
    call: &Call,
    code: StatusCode,
    prepared: Prepared,
    stored: Option<Arc<Stored>>,
    warnings: Vec<String>,
) -> Reply {
    let all: Vec<String> = warnings.into_iter().chain(prepared.warnings.iter().cloned()).collect();
    let shown = match stored {
        Some(stored) => show_stored(server, kind, call, code, &stored),
        None => show(server, kind, call, code, prepared.whole()),
    };
    reply::warn(shown, &all)
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
    let (prepared, stored) = server.create_object(kind, &target.namespace, object, &owners, dry_run).await?;
    server.settle_namespace(kind, stored.as_deref()).await;
    Ok(answer(server, kind, call, StatusCode::CREATED, prepared, stored, warnings))
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
        let (prepared, stored) = server.create_object(kind, &target.namespace, object, &Owners::Of(writer), dry_run).await?;
        return Ok(answer(server, kind, call, StatusCode::CREATED, prepared, stored, warnings));
    }
    let change = |current: &Current<'_>| {
        check_node_status(call, kind, part, current, &object)?;
        Ok(Next::by(writer, object.clone(), UpdateForm::Replace))
    };
    let (prepared, stored) = server.update_object(kind, part, &target.namespace, &target.name, dry_run, change).await?;
    Ok(answer(server, kind, call, StatusCode::OK, prepared, stored, warnings))
}

/// Answers a PATCH.
pub(crate) async fn patch(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    patch_part(server, kind, Part::Main, target, call).await
}

/// The kinds of patch that are understood.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
}

const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    apply::MEDIA_TYPE,
    "application/strategic-merge-patch+json",
];

pub(crate) fn patch_type(call: &Call, custom: bool) -> Result<PatchType, Status> {
    match body::media_type(call) {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(PatchType::Strategic),
        other => Err(Status::unsupported_media_type(other, if custom { &PATCH_TYPES[..3] } else { &PATCH_TYPES })),
    }
}

/// Applies a patch to an object of a message type.
pub(crate) fn apply_patch(type_: PatchType, current: &Value, change: &Value, message: &str) -> Result<Value, Status> {
    match type_ {
        PatchType::Json => patch::json_patch(current, change).map_err(patch_status),
        PatchType::Merge if change.is_object() => Ok(patch::merge_patch(current, change)),
        PatchType::Merge => Err(Status::bad_request("a merge patch must be an object")),
        PatchType::Strategic => patch::strategic_merge(current, change, message).map_err(patch_status),
    }
}

fn patch_status(error: PatchError) -> Status {
    match error {
        PatchError::TooManyOperations(_) | PatchError::TooMuchWork => Status::too_large(error.to_string()),
        PatchError::BadRequest(_) => Status::bad_request(error.to_string()),
        PatchError::Invalid(_) => Status::unprocessable(error.to_string()),
    }
}

pub(crate) async fn patch_part(
    server: &Server,
    kind: &Arc<ServedKind>,
    part: Part,
    target: &Target,
    call: &Call,
) -> Result<Reply, Status> {
    if body::media_type(call) == apply::MEDIA_TYPE {
        return apply::apply(server, kind, part, target, call).await;
    }
    let dry_run = query::dry_run(&call.parameters, "PatchOptions")?;
    let validation = query::field_validation(&call.parameters, "PatchOptions")?;
    let manager = manager(call, "PatchOptions")?;
    query::no_force(&call.parameters)?;
    let writer = Writer { manager: &manager, subresource: &target.subresource };
    // Owners are looked at by those only who speak of them.
    let with_owners = call.body.windows(13).any(|text| text == b"managedFields");
    let type_ = patch_type(call, kind.resource.custom)?;
    let Read { value: change, duplicates } = body::json(&call.body)?;
    let mut warnings = Vec::new();
    let next = |current: &Current<'_>| {
        let stored = if with_owners { current.whole() } else { current.object() };
        let before = typed(kind, outward(kind, stored));
        let message = kind.message().map_or(kind.resource.kind.as_str(), |message| message.name());
        let mut after = apply_patch(type_, &before, &change, message)?;
        if !after.is_object() {
            return Err(Status::bad_request("the patched object is not an object"));
        }
        // A version in the patch is a condition; the one that was there before is none.
        let claimed = json::text(&change, &["metadata", "resourceVersion"]);
        let version_set = !claimed.is_empty() || (type_ == PatchType::Json && version_of(&after) != version_of(&before));
        let read = Read { value: after.take(), duplicates: duplicates.clone() };
        let (mut object, found) = decode_object(kind, target, read, validation)?;
        warnings = found;
        check_node_status(call, kind, part, current, &object)?;
        let metadata = json::object_mut(&mut object, &["metadata"]);
        if !version_set {
            metadata.remove("resourceVersion");
        }
        Ok(Next::by(writer, object, UpdateForm::Patch))
    };
    let (prepared, stored) = server.update_object(kind, part, &target.namespace, &target.name, dry_run, next).await?;
    Ok(answer(server, kind, call, StatusCode::OK, prepared, stored, warnings))
}

fn version_of(object: &Value) -> &str {
    json::text(object, &["metadata", "resourceVersion"])
}
