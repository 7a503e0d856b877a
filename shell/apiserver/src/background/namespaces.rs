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
use registry::state::{Current, Stored};
use serde_json::{Value, json};

use super::{DELETIONS_AT_ONCE, namespace_key, published};
use crate::server::Server;

/// How many objects a condition names.
const NAMED: usize = 5;

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
    let namespaces = catalog.find("", "v1", "namespaces").expect("namespaces are built in");
    let outcome = if left.is_empty() {
        let finalized = |current: &Current<'_>| {
            let mut object = current.object();
            json::object_mut(&mut object, &["spec"]).remove("finalizers");
            json::object_mut(&mut object, &["metadata"]).remove("resourceVersion");
            Ok(Next::by(Writer::server("finalize"), object, UpdateForm::Patch))
        };
        server.update_object(namespaces, Part::Finalize, "", name, false, finalized).await.map(drop)
    } else {
        report(server, namespaces, name, &left).await
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

/// Returns what is in a namespace.
fn contents(server: &Server, name: &str) -> Vec<(Arc<ServedKind>, Arc<Stored>)> {
    let snapshot = server.0.hub.snapshot();
    let catalog = server.catalog();
    let stored_once =
        catalog.kinds().iter().filter(|kind| kind.resource.namespaced && kind.resource.group == kind.resource.storage_group);
    let mut found: Vec<(Arc<ServedKind>, Arc<Stored>)> = Vec::new();
    for kind in stored_once {
        if found
            .iter()
            .any(|(other, _)| other.resource.group == kind.resource.group && other.resource.plural == kind.resource.plural)
        {
            continue; // another version of the same objects
        }
        let prefix = kind.resource.prefix(name);
        found.extend(snapshot.range(&prefix, None).map(|(_, stored)| (Arc::clone(kind), Arc::clone(stored))));
    }
    found
}

/// Says in the namespace's conditions what it still waits for: the usual question about one that will not go.
async fn report(
    server: &Server,
    namespaces: &Arc<ServedKind>,
    name: &str,
    left: &[(Arc<ServedKind>, Arc<Stored>)],
) -> Result<(), Status> {
    let now = api::Timestamp(server.0.clock.now()).to_string();
    let named = |(kind, stored): &(Arc<ServedKind>, Arc<Stored>)| {
        format!("{}/{}", kind.resource.subject("").qualified(), stored.index.name)
    };
    let objects: Vec<String> = left.iter().take(NAMED).map(named).collect();
    let held: Vec<String> = left
        .iter()
        .filter(|(_, stored)| !stored.index.finalizers.is_empty())
        .take(NAMED)
        .map(|entry| format!("{} [{}]", named(entry), entry.1.index.finalizers.join(" ")))
        .collect();
    let more = |count: usize| if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let condition = |type_: &str, status: bool, reason: &str, message: String| json!({"type": type_, "status": if status { "True" } else { "False" }, "reason": reason, "message": message, "lastTransitionTime": now});
    let conditions = [
        condition(
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".into(),
        ),
        condition(
            "NamespaceContentRemaining",
            true,
            "SomeResourcesRemain",
            format!("{} objects remain: {}{}", left.len(), objects.join(", "), more(left.len())),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            !held.is_empty(),
            if held.is_empty() { "ContentHasNoFinalizers" } else { "SomeFinalizersRemain" },
            format!("objects with finalizers: {}", held.join(", ")),
        ),
    ];
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        json::object_mut(&mut object, &["metadata"]).remove("resourceVersion");
        let before: Vec<Value> = json::items(&object, &["status", "conditions"]).to_vec();
        let kept = |new: &Value| {
            let same = |old: &&Value| old["type"] == new["type"] && old["status"] == new["status"];
            let mut new = new.clone();
            if let Some(old) = before.iter().find(same) {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            new
        };
        let next: Vec<Value> = conditions.iter().map(kept).collect();
        json::object_mut(&mut object, &["status"]).insert("conditions".into(), next.into());
        Ok(Next::by(Writer::server("status"), object, UpdateForm::Patch))
    };
    server.update_object(namespaces, Part::Status, "", name, false, change).await.map(drop)
}
