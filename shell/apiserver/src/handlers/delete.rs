//! Deleting: one object, or all that are selected.

use std::sync::Arc;

use api::status::Status;
use http::StatusCode;
use kinds::builtin::Builtin;
use registry::deletion::DeleteOptions;
use registry::kind::ServedKind;
use registry::pipeline::{self, Prepared};
use registry::query;
use registry::state::Refused;
use serde_json::json;

use crate::handlers::body;
use crate::handlers::read::outward;
use crate::handlers::written::{Written, WrittenObject};
use crate::negotiate::Encoding;
use crate::reply::{self, Reply, typed};
use crate::request::Target;
use crate::server::{Call, Server};

/// How often a deletion is prepared again because somebody changed the object.
const RETRIES: usize = 10;

impl Server {
    /// Deletes an object by its rules: now, or marked for later.
    pub(crate) async fn delete_object(
        &self,
        kind: &ServedKind,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Written, Status> {
        let key = kind.resource.key(namespace, name);
        let subject = kind.resource.subject(name);
        for _ in 0..RETRIES {
            let snapshot = self.0.hub.snapshot();
            let current = snapshot.get(&key).ok_or_else(|| Status::not_found(&subject))?;
            let Prepared { write, removed, warnings } = pipeline::delete(kind, current, options, &self.world(&snapshot))?;
            let object = match write {
                None => Ok(Arc::clone(current)),
                Some(write) if options.dry_run => {
                    return Ok(Written { object: WrittenObject::DryRun(write.into_whole()), removed, warnings });
                }
                Some(write) => self.0.hub.commit(write).await?,
            };
            match object {
                Ok(stored) => return Ok(Written { object: WrittenObject::Stored(stored), removed, warnings }),
                Err(Refused::Changed) => {}
                Err(refused) => return Err(pipeline::refusal(kind, name, refused)),
            }
        }
        Err(Status::modified(&subject))
    }
}

/// Answers a DELETE of one object.
pub(crate) async fn delete(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let options = DeleteOptions::read(&body::options(call, "DeleteOptions")?, &call.parameters)?;
    let written = server.delete_object(kind, &target.namespace, &target.name, &options).await?;
    // Kubernetes shows pods and objects that still exist; what is gone gets a Status.
    if written.removed && kind.builtin() != Some(Builtin::Pod) {
        let last = written.object.whole();
        let status = Status::success(&kind.resource.subject(&target.name), api::json::text(&last, &["metadata", "uid"]));
        return Ok(reply::value(StatusCode::OK, call.encoding, &status));
    }
    Ok(written.object.show(server, kind, call, StatusCode::OK))
}

/// Answers a DELETE of a collection.
pub(crate) async fn delete_collection(
    server: &Server,
    kind: &Arc<ServedKind>,
    target: &Target,
    call: &Call,
) -> Result<Reply, Status> {
    let options = DeleteOptions::read(&body::options(call, "DeleteOptions")?, &call.parameters)?;
    let query = query::list_query(&call.parameters)?;
    let matches = crate::handlers::matcher(kind, query.labels, query.fields)?;
    let snapshot = server.0.hub.snapshot();
    let prefix = kind.resource.prefix(&target.namespace);
    let mut items = Vec::new();
    for (_, stored) in snapshot.range(&prefix, None).filter(|(_, stored)| matches(stored)) {
        match server.delete_object(kind, &stored.index.namespace, &stored.index.name, &options).await {
            Ok(written) => {
                let object = outward(kind, written.object.whole());
                items.push(if kind.resource.custom { typed(kind, object) } else { object });
            }
            Err(status) if status.code == 404 => {} // somebody else was faster
            Err(status) => return Err(status),
        }
    }
    let list = json!({
        "apiVersion": kind.resource.api_version(), "kind": kind.resource.list_kind,
        "metadata": {"resourceVersion": server.0.hub.snapshot().revision.to_string()}, "items": items,
    });
    let encoding = if call.encoding == Encoding::Yaml { Encoding::Yaml } else { Encoding::Json };
    Ok(reply::value(StatusCode::OK, encoding, &list))
}
