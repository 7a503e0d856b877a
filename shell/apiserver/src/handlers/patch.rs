//! Patching: JSON patches, merge patches and strategic merge patches of an object or a part of it.

use std::sync::Arc;

use api::json;
use api::status::Status;
use http::StatusCode;
use kinds::builtin::Part;
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::Writer;
use registry::patch::{self, PatchError};
use registry::query;
use registry::state::Current;
use serde_json::Value;

use crate::handlers::apply;
use crate::handlers::body::{self, Read};
use crate::handlers::read::outward;
use crate::handlers::write::{Next, check_node_status, decode_object, manager};
use crate::handlers::written::answer;
use crate::reply::{Reply, typed};
use crate::request::Target;
use crate::server::{Call, Server};

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
pub(crate) fn apply_patch(type_: PatchType, current: Value, change: &Value, message: &str) -> Result<Value, Status> {
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
        let version = version_of(&before).to_owned();
        let after = apply_patch(type_, before, &change, message)?;
        if !after.is_object() {
            return Err(Status::bad_request("the patched object is not an object"));
        }
        // A version in the patch is a condition; the one that was there before is none.
        let claimed = json::text(&change, &["metadata", "resourceVersion"]);
        let version_set = !claimed.is_empty() || (type_ == PatchType::Json && version_of(&after) != version);
        let read = Read { value: after, duplicates: duplicates.clone() };
        let (mut object, found) = decode_object(kind, target, read, validation)?;
        warnings = found;
        check_node_status(call, kind, part, current, &object)?;
        let metadata = json::object_mut(&mut object, &["metadata"]);
        if !version_set {
            metadata.remove("resourceVersion");
        }
        Ok(Next::by(writer, object, UpdateForm::Patch))
    };
    let written = server.update_object(kind, part, &target.namespace, &target.name, dry_run, next).await?;
    Ok(answer(server, kind, call, StatusCode::OK, written, warnings))
}

fn version_of(object: &Value) -> &str {
    json::text(object, &["metadata", "resourceVersion"])
}
