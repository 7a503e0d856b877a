//! CustomResourceDefinitions: names are accepted, versions are served, and the objects go before the definition.

use std::sync::Arc;

use api::status::Status;
use futures::{StreamExt, TryStreamExt};
use kinds::resource::{self, Resource};
use registry::custom;
use registry::deletion::{DeleteOptions, Propagation};
use registry::kind::ServedKind;
use registry::ownership::Writer;
use registry::state::{Key, Snapshot, Stored, key, prefix};
use serde_json::Value;

use super::{DELETIONS_AT_ONCE, remove_finalizer};
use crate::server::Server;

/// Group and plural of the definitions.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");
/// How many objects a condition names.
const NAMED: usize = 5;

/// Returns the key of a definition.
pub(super) fn key_of(name: &str) -> Key {
    key(DEFINITIONS.0, DEFINITIONS.1, "", name)
}

/// Brings a definition to where it should be.
pub(super) async fn reconcile(server: &Server, name: &str) -> Result<(), Status> {
    let snapshot = server.0.hub.snapshot();
    let place = key_of(name);
    let Some(stored) = snapshot.get(&place) else {
        server.refresh_catalog();
        return Ok(());
    };
    if stored.index.deleting {
        let definition = stored.object();
        return finish(server, name, &definition).await;
    }
    let others: Vec<Value> = snapshot
        .range(&prefix(DEFINITIONS.0, DEFINITIONS.1, ""), None)
        .filter(|(other, _)| other.as_ref() != place.as_ref())
        .map(|(_, stored)| stored.object())
        .collect();
    let now = server.0.clock.now();
    let builtins = resource::builtins();
    let builtins: Vec<&Resource> = builtins.iter().map(|resource| resource.as_ref()).collect();
    let change = |current: &Stored| {
        let mut object = current.object();
        object["status"] = schemas::accept_names(&object, &others, &builtins, now);
        Ok(object)
    };
    let catalog = server.catalog();
    let kind = catalog.find(DEFINITIONS.0, "v1", DEFINITIONS.1).expect("definitions are built in");
    match server.set_object(kind, "", name, (Some(Writer::server("status")), false), change).await {
        Err(status) if status.code != 404 => return Err(status),
        _ => {}
    }
    server.refresh_catalog();
    Ok(())
}

/// Returns the definition that waits for objects such as the one of a key to go, if it does.
pub(super) fn waiting_for(snapshot: &Snapshot, key: &str) -> Option<String> {
    let mut parts = key.splitn(4, '/').skip(1);
    let (group, plural) = (parts.next()?, parts.next()?);
    let name = format!("{plural}.{group}");
    let definition = snapshot.get(&key_of(&name))?;
    definition.index.deleting.then_some(name)
}

/// Deletes the objects of a definition that goes, then lets it go.
async fn finish(server: &Server, name: &str, definition: &Value) -> Result<(), Status> {
    let left = match custom::stored_kind(definition) {
        Some(kind) => delete_objects(server, &kind).await?,
        // It never had any.
        None => Vec::new(),
    };
    let catalog = server.catalog();
    let kind = catalog.find(DEFINITIONS.0, "v1", DEFINITIONS.1).expect("definitions are built in");
    let outcome = if left.is_empty() {
        remove_finalizer(server, kind, "", name, schemas::CLEANUP_FINALIZER).await
    } else {
        // The end of the last of them brings us back here.
        report(server, kind, name, &left).await
    };
    server.refresh_catalog();
    match outcome {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// Deletes all objects of a kind and returns those that are still there, held by finalizers.
async fn delete_objects(server: &Server, kind: &ServedKind) -> Result<Vec<Arc<Stored>>, Status> {
    let snapshot = server.0.hub.snapshot();
    let prefix = kind.resource.prefix("");
    let delete = |stored: Arc<Stored>| async move {
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        match server.delete_object(kind, &stored.index.namespace, &stored.index.name, &options).await {
            Ok(written) => Ok((!written.removed).then_some(stored)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    };
    let all: Vec<Arc<Stored>> = snapshot.range(&prefix, None).map(|(_, stored)| Arc::clone(stored)).collect();
    let left: Vec<Option<Arc<Stored>>> =
        futures::stream::iter(all.into_iter().map(delete)).buffered(DELETIONS_AT_ONCE).try_collect().await?;
    Ok(left.into_iter().flatten().collect())
}

/// Says in the conditions what a definition waits for.
async fn report(server: &Server, kind: &ServedKind, name: &str, left: &[Arc<Stored>]) -> Result<(), Status> {
    let now = server.0.clock.now();
    let held = |stored: &Arc<Stored>| {
        let place = format!("{}/{}", stored.index.namespace, stored.index.name);
        format!("{} [{}]", place.trim_start_matches('/'), stored.index.finalizers.join(" "))
    };
    let named: Vec<String> = left.iter().take(NAMED).map(held).collect();
    let more = if left.len() > NAMED { format!(" and {} more", left.len() - NAMED) } else { String::new() };
    let message = format!("{} objects wait for their finalizers: {}{more}", left.len(), named.join(", "));
    let change = |current: &Stored| {
        let mut object = current.object();
        schemas::set_condition(&mut object["status"], "Terminating", true, "InstanceDeletionInProgress", &message, now);
        Ok(object)
    };
    server.set_object(kind, "", name, (Some(Writer::server("status")), false), change).await
}
