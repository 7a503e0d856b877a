//! Namespaces: a default service account and the certificate of the authority while they live, nothing left when they go.

use crate::handlers::write::Next;
use registry::ownership::Writer;
use std::sync::Arc;

use api::json;
use api::status::Status;
use futures::{StreamExt, TryStreamExt};
use kinds::builtin::Part;
use registry::deletion::{DeleteOptions, Propagation};
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::namespaces::{self, Content};
use registry::state::Current;
use serde_json::json;

use super::{DELETIONS_AT_ONCE, namespace_key, published};
use crate::server::Server;

/// Brings a namespace to where it should be.
pub(super) async fn reconcile(server: &Server, name: &str) -> Result<(), Status> {
    let snapshot = server.0.hub.snapshot();
    let Some(namespace) = snapshot.get(&namespace_key(name)) else { return Ok(()) };
    if !namespace.index.deleting {
        server.ensure("", "serviceaccounts", name, json!({"metadata": {"name": "default"}})).await?;
        return published::root_certificate(server, name).await;
    }
    empty(server, name).await?;
    let left = contents(server, name);
    let catalog = server.catalog();
    let kind = catalog.find("", "v1", "namespaces").expect("namespaces are built in");
    let outcome = if left.is_empty() {
        let finalized = |current: &Current<'_>| {
            let mut object = current.object();
            json::object_mut(&mut object, &["spec"]).remove("finalizers");
            json::object_mut(&mut object, &["metadata"]).remove("resourceVersion");
            Ok(Next::by(Writer::server("finalize"), object, UpdateForm::Patch))
        };
        server.update_object(kind, Part::Finalize, "", name, false, finalized).await.map(drop)
    } else {
        report(server, kind, name, &left).await
    };
    match outcome {
        Err(status) if status.code == 404 => Ok(()),
        outcome => outcome,
    }
}

/// Deletes everything in a namespace that is not being deleted yet.
async fn empty(server: &Server, name: &str) -> Result<(), Status> {
    let left = contents(server, name).into_iter().filter(|(_, stored)| !stored.index.deleting);
    let deleted = left.map(|(kind, stored)| async move {
        let options = DeleteOptions {
            uid: Some(stored.index.uid.clone()),
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        match server.delete_object(&kind, name, &stored.index.name, &options).await {
            Err(status) if !matches!(status.code, 404 | 409) => Err(status),
            _ => Ok(()),
        }
    });
    futures::stream::iter(deleted).buffer_unordered(DELETIONS_AT_ONCE).try_collect().await
}

fn contents(server: &Server, name: &str) -> Vec<Content> {
    namespaces::contents(server.catalog().kinds(), &server.0.hub.snapshot(), name)
}

/// Says in the namespace's conditions what it still waits for.
async fn report(server: &Server, kind: &Arc<ServedKind>, name: &str, left: &[Content]) -> Result<(), Status> {
    let now = server.0.clock.now();
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        json::object_mut(&mut object, &["metadata"]).remove("resourceVersion");
        namespaces::report(&mut object, left, now);
        Ok(Next::by(Writer::server("status"), object, UpdateForm::Patch))
    };
    server.update_object(kind, Part::Status, "", name, false, change).await.map(drop)
}
