//! Server-side apply: a PATCH whose body is the part of the object that the client wants to own.

use std::sync::Arc;

use api::json;
use api::status::Status;
use http::StatusCode;
use kinds::builtin::Part;
use kinds::model;
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::{Owners, Writer};
use registry::pipeline;
use registry::query::{self, FieldValidation};
use registry::state::Current;
use serde_json::Value;

use crate::handlers::body::{self, Read};
use crate::handlers::write::{self, Next, RETRIES};
use crate::handlers::written::answer;
use crate::reply::Reply;
use crate::request::Target;
use crate::server::{Call, Server};

/// The type of such a body. It may also be JSON, which is YAML.
pub(crate) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// What a client applies.
pub(crate) struct Config {
    /// What it wants to own.
    pub(crate) value: Value,
    /// The name under which it owns.
    pub(crate) manager: String,
    /// Whether fields of others are taken over.
    pub(crate) force: bool,
    /// What the client is to be told.
    pub(crate) warnings: Vec<String>,
}

/// Reads the body and the options of an apply to an object of a type.
pub(crate) fn read(call: &Call, api_version: &str, kind: &str) -> Result<Config, Status> {
    let manager = query::applying_manager(&call.parameters)?;
    let validation = query::field_validation(&call.parameters, "PatchOptions")?;
    let text = call.body.trim_ascii_start();
    // Lines count from where the body begins.
    let Read { value, duplicates } = if text.starts_with(b"{") { body::json(text)? } else { body::yaml(&call.body)? };
    let (body_version, body_kind) = (json::text(&value, &["apiVersion"]), json::text(&value, &["kind"]));
    if body_version != api_version || body_kind != kind {
        return Err(Status::bad_request(format!(
            "invalid object type: {body_version}, Kind={body_kind} (the URL asks for {api_version}, Kind={kind})"
        )));
    }
    if json::at(&value, &["metadata", "managedFields"]).is_some() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => model::strict_findings(&[], &duplicates),
        FieldValidation::Strict => match model::strict_error(&[], &duplicates) {
            Some(error) => return Err(Status::bad_request(error)),
            None => Vec::new(),
        },
    };
    Ok(Config { value, manager, force: call.parameters.flag("force"), warnings })
}

/// Answers an apply to an object or to its status.
pub(crate) async fn apply(
    server: &Server,
    kind: &Arc<ServedKind>,
    part: Part,
    target: &Target,
    call: &Call,
) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "PatchOptions")?;
    let mut config = read(call, &kind.resource.api_version(), &kind.resource.kind)?;
    let key = kind.resource.key(&target.namespace, &target.name);
    let subject = kind.resource.subject(&target.name);
    // Fields of gates that are off are dropped from the configuration itself, so the later steps do not see them.
    {
        let snapshot = server.0.hub.snapshot();
        let live = snapshot.get(&key).map(|stored| stored.object());
        config.warnings.extend(kind.gate_warnings(&config.value, live.as_ref(), &server.world(&snapshot).context));
    }
    for _ in 0..RETRIES {
        let exists = server.0.hub.snapshot().get(&key).is_some();
        if !exists && part != Part::Main {
            return Err(Status::not_found(&subject));
        }
        if exists {
            let writer = Writer { manager: &config.manager, subresource: &target.subresource };
            let change = |current: &Current<'_>| {
                let next = applied(server, kind, part, target, current, &config, writer)?;
                write::check_node_status(call, kind, part, current, &next.object)?;
                Ok(next)
            };
            match server.update_object(kind, part, &target.namespace, &target.name, dry_run, change).await {
                // Gone since we looked: then it is to be made.
                Err(status) if status.code == 404 && part == Part::Main => continue,
                Err(status) => return Err(status),
                Ok(written) => return Ok(answer(server, kind, call, StatusCode::OK, written, config.warnings)),
            }
        }
        super::permit(server, target, call, "create", &subject)?;
        match create(server, kind, target, call, &config, dry_run).await {
            // Somebody was faster: then it is to be changed.
            Err(status) if status.reason == "AlreadyExists" => {}
            outcome => return outcome,
        }
    }
    Err(Status::modified(&subject))
}

/// Returns the next state of an object that is there.
pub(crate) fn applied<'a>(
    server: &Server,
    kind: &ServedKind,
    part: Part,
    target: &Target,
    current: &Current<'_>,
    config: &Config,
    writer: Writer<'_>,
) -> Result<Next<'a>, Status> {
    let snapshot = server.0.hub.snapshot();
    let world = server.world(&snapshot);
    let (object, owners) = pipeline::apply(kind, part, Some(current), config.value.clone(), config.force, writer, &world)?;
    let object = decode(kind, target, object)?;
    Ok(Next { object, form: UpdateForm::Patch, owners })
}

/// Brings what an apply leads to into the form of every other body.
fn decode(kind: &ServedKind, target: &Target, object: Value) -> Result<Value, Status> {
    let read = Read { value: object, duplicates: Vec::new() };
    Ok(write::decode_object(kind, target, read, FieldValidation::Ignore)?.0)
}

async fn create(
    server: &Server,
    kind: &Arc<ServedKind>,
    target: &Target,
    call: &Call,
    config: &Config,
    dry_run: bool,
) -> Result<Reply, Status> {
    let (object, owners): (Value, Owners<'_>) = {
        let snapshot = server.0.hub.snapshot();
        let writer = Writer { manager: &config.manager, subresource: "" };
        let world = server.world(&snapshot);
        pipeline::apply(kind, Part::Main, None, config.value.clone(), config.force, writer, &world)?
    };
    let object = decode(kind, target, object)?;
    write::check_node_name(call, kind, &object)?;
    let written = server.create_object(kind, &target.namespace, object, &owners, dry_run).await?;
    server.settle_namespace(kind, written.object.stored()).await;
    Ok(answer(server, kind, call, StatusCode::CREATED, written, config.warnings.clone()))
}
