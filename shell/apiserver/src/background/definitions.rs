//! CustomResourceDefinitions: names are accepted, versions are served, and the objects go before the definition.

use api::status::Status;
use kinds::resource::{self, Resource};
use registry::deletion::{DeleteOptions, Propagation};
use registry::state::{Stored, key, prefix};
use serde_json::Value;

use super::remove_finalizer;
use crate::server::Server;

/// Brings a definition to where it should be.
pub(super) async fn reconcile(server: &Server, name: &str) -> Result<(), Status> {
    let snapshot = server.0.hub.snapshot();
    let place = key("apiextensions.k8s.io", "customresourcedefinitions", "", name);
    let Some(stored) = snapshot.get(&place) else {
        server.refresh_catalog();
        return Ok(());
    };
    if stored.index.deleting {
        let definition = stored.object();
        return finish(server, name, &definition).await;
    }
    let others: Vec<Value> = snapshot
        .range(&prefix("apiextensions.k8s.io", "customresourcedefinitions", ""), None)
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
    let kind = catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").expect("definitions are built in");
    match server.set_object(kind, "", name, false, change).await {
        Err(status) if status.code != 404 => return Err(status),
        _ => {}
    }
    server.refresh_catalog();
    Ok(())
}

/// Deletes the objects of a definition that goes, then lets it go.
async fn finish(server: &Server, name: &str, definition: &Value) -> Result<(), Status> {
    let catalog = server.catalog();
    let group = api::json::text(definition, &["spec", "group"]);
    let plural = api::json::text(definition, &["spec", "names", "plural"]);
    let served = catalog
        .kinds()
        .iter()
        .find(|kind| kind.resource.custom && kind.resource.group == group && kind.resource.plural == plural);
    let snapshot = server.0.hub.snapshot();
    let mut left = 0;
    for (_, stored) in snapshot.range(&prefix(group, plural, ""), None) {
        let Some(kind) = served else { break };
        left += 1;
        let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        match server.delete_object(kind, &stored.index.namespace, &stored.index.name, &options).await {
            Ok((prepared, _)) if prepared.removed => left -= 1,
            Ok(_) => {}
            Err(status) if status.code == 404 => left -= 1,
            Err(status) => return Err(status),
        }
    }
    if left > 0 {
        return Ok(()); // their own end brings us back here
    }
    let kind = catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").expect("definitions are built in");
    match remove_finalizer(server, kind, "", name, schemas::CLEANUP_FINALIZER).await {
        Err(status) if status.code != 404 => Err(status),
        _ => {
            server.refresh_catalog();
            Ok(())
        }
    }
}
