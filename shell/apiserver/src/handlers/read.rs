//! Reading: one object, or a list of them.

use std::sync::Arc;
use std::time::Duration;

use api::status::Status;
use bytes::BytesMut;
use http::StatusCode;
use kinds::table;
use registry::kind::Kind;
use registry::query::{self, Continue, ListQuery, Version};
use registry::state::{Snapshot, Stored};
use serde_json::{Value, json};

use crate::negotiate::{Encoding, Form};
use crate::reply::{self, Reply, object_bytes, push_object, type_prefix, typed};
use crate::request::Target;
use crate::server::{Call, Server};

/// How long a request for a version that is ahead waits for it.
const VERSION_PATIENCE: Duration = Duration::from_secs(3);

/// Answers with one object.
pub(crate) async fn get(server: &Server, kind: &Arc<Kind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    if let Some(wanted) = version_of(call)? {
        wait_for(server, wanted).await?;
    }
    let snapshot = server.0.hub.snapshot();
    let stored = snapshot
        .get(&kind.resource.key(&target.namespace, &target.name))
        .ok_or_else(|| Status::not_found(&kind.resource.subject(&target.name)))?;
    Ok(show_stored(server, kind, call, StatusCode::OK, stored))
}

fn version_of(call: &Call) -> Result<Option<u64>, Status> {
    call.parameters.number("resourceVersion")
}

/// Waits for a version that is ahead of the store, but not for long.
pub(crate) async fn wait_for(server: &Server, wanted: u64) -> Result<(), Status> {
    let hub = &server.0.hub;
    if wanted <= hub.snapshot().revision {
        return Ok(());
    }
    match tokio::time::timeout(VERSION_PATIENCE, hub.reached(wanted)).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Status::version_too_large(wanted, hub.snapshot().revision)),
    }
}

/// Shows an object as it is stored, in the form that the client wants.
pub(crate) fn show_stored(server: &Server, kind: &Arc<Kind>, call: &Call, code: StatusCode, stored: &Stored) -> Reply {
    let plain = call.form == Form::Whole && call.encoding == Encoding::Json && !call.parameters.flag("pretty");
    if plain && kind.resource.group != "events.k8s.io" {
        return reply::json(code, object_bytes(&type_prefix(kind), stored));
    }
    show(server, kind, call, code, stored.object())
}

/// Shows an object in the form that the client wants.
pub(crate) fn show(server: &Server, kind: &Arc<Kind>, call: &Call, code: StatusCode, object: Value) -> Reply {
    let shown = match call.form {
        Form::Table(version) => {
            let revision = api::json::text(&object, &["metadata", "resourceVersion"]).to_owned();
            render_table(server, kind, call, version, std::slice::from_ref(&object), json!({"resourceVersion": revision}), true)
        }
        Form::Metadata(version) => metadata_only(version, &object),
        Form::Whole | Form::Aggregated(_) => typed(kind, outward(kind, object)),
    };
    finish(call, code, &shown)
}

fn finish(call: &Call, code: StatusCode, shown: &Value) -> Reply {
    if call.encoding == Encoding::Json && call.parameters.flag("pretty") {
        return reply::json(code, serde_json::to_vec_pretty(shown).expect("a JSON value serializes"));
    }
    reply::value(code, call.encoding, shown)
}

/// Returns an object as its group shows it: events have two faces.
pub(crate) fn outward(kind: &Kind, object: Value) -> Value {
    if kind.resource.group == "events.k8s.io" { registry::events::from_core(object) } else { object }
}

/// Returns the metadata of an object alone.
pub(crate) fn metadata_only(version: &str, object: &Value) -> Value {
    json!({"apiVersion": format!("meta.k8s.io/{version}"), "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
}

/// Returns the table of some objects.
pub(crate) fn render_table(
    server: &Server,
    kind: &Arc<Kind>,
    call: &Call,
    version: &str,
    objects: &[Value],
    metadata: Value,
    columns: bool,
) -> Value {
    let include = table::Include::parse(call.parameters.text("includeObject")).unwrap_or_default();
    let now = server.0.clock.now();
    let kind_name = kind.resource.kind.as_str();
    let own = kind.custom().map(|custom| custom.version.columns.columns());
    let all = own.unwrap_or_else(|| table::columns(kind_name));
    let mut shown = if columns { table::Table::new(version, include, all) } else { table::Table::continued(version, include) };
    for object in objects {
        let object = typed(kind, object.clone());
        let row = match kind.custom() {
            Some(custom) => custom.version.columns.row(&object, now),
            None => table::row(kind_name, &object, now),
        };
        shown.push(row, &object);
    }
    shown.finish(metadata)
}

/// One page of a list.
struct Page {
    revision: u64,
    items: Vec<Arc<Stored>>,
    resume: Option<Continue>,
    remaining: Option<usize>,
}

/// Answers with a list.
pub(crate) async fn list(server: &Server, kind: &Arc<Kind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let query = query::list_query(&call.parameters)?;
    if let Version::NotOlderThan(wanted) | Version::Exact(wanted) = query.version {
        wait_for(server, wanted).await?;
    }
    let snapshot = snapshot_for(server, &query)?;
    let page = page(kind, target, &snapshot, query)?;
    Ok(show_page(server, kind, call, &page))
}

fn snapshot_for(server: &Server, query: &ListQuery) -> Result<Snapshot, Status> {
    let hub = &server.0.hub;
    let revision = match (&query.resume, query.version) {
        (Some(resume), _) => resume.revision,
        (None, Version::Exact(revision)) => revision,
        (None, _) => return Ok(hub.snapshot()),
    };
    hub.snapshot_at(revision).ok_or_else(|| match query.resume {
        Some(_) => Status::expired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter."),
        None => Status::expired(format!("The resourceVersion for the provided list is too old: {revision}")),
    })
}

fn page(kind: &Arc<Kind>, target: &Target, snapshot: &Snapshot, query: ListQuery) -> Result<Page, Status> {
    let selects = !query.labels.is_empty() || !query.fields.is_empty();
    let limit = if query.limit == 0 { usize::MAX } else { query.limit };
    let prefix = kind.resource.prefix(&target.namespace);
    let after = query.resume.as_ref().map(|resume| resume.key.clone());
    // A list of one name is a lookup, not a walk.
    if let (Some(name), false, None) = (query.fields.exact("metadata.name"), target.namespace.is_empty(), &after) {
        let only = snapshot.get(&kind.resource.key(&target.namespace, name)).cloned();
        let matches = crate::handlers::matcher(kind, query.labels.clone(), query.fields.clone())?;
        let items = only.into_iter().filter(|stored| matches(stored)).collect();
        return Ok(Page { revision: snapshot.revision, items, resume: None, remaining: None });
    }
    let matches = crate::handlers::matcher(kind, query.labels, query.fields)?;
    let mut items = Vec::new();
    let mut objects = snapshot.range(&prefix, after.as_deref());
    let mut resume = None;
    let mut remaining = None;
    for (key, stored) in objects.by_ref() {
        if matches(stored) {
            items.push(Arc::clone(stored));
            if items.len() == limit {
                resume = Some(Continue { revision: snapshot.revision, key: key.to_string() });
                break;
            }
        }
    }
    if resume.is_some() {
        let left = objects.count();
        if left == 0 {
            resume = None;
        } else if !selects {
            remaining = Some(left);
        }
    }
    Ok(Page { revision: snapshot.revision, items, resume, remaining })
}

impl Page {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(resume) = &self.resume {
            metadata["continue"] = resume.encode().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
}

fn show_page(server: &Server, kind: &Arc<Kind>, call: &Call, page: &Page) -> Reply {
    let objects = || -> Vec<Value> { page.items.iter().map(|stored| stored.object()).collect() };
    match call.form {
        Form::Table(version) => {
            finish(call, StatusCode::OK, &render_table(server, kind, call, version, &objects(), page.metadata(), true))
        }
        Form::Metadata(version) => {
            let items: Vec<Value> = objects().iter().map(|object| json!({"metadata": object["metadata"]})).collect();
            let list = json!({
                "apiVersion": format!("meta.k8s.io/{version}"), "kind": "PartialObjectMetadataList",
                "metadata": page.metadata(), "items": items,
            });
            finish(call, StatusCode::OK, &list)
        }
        Form::Whole | Form::Aggregated(_) => {
            let plain =
                call.encoding == Encoding::Json && kind.resource.group != "events.k8s.io" && !call.parameters.flag("pretty");
            if plain {
                return reply::json(StatusCode::OK, list_bytes(kind, page).freeze());
            }
            let items: Vec<Value> = objects()
                .into_iter()
                .map(|object| if kind.resource.custom { typed(kind, object) } else { outward(kind, object) })
                .collect();
            let list = json!({
                "apiVersion": kind.resource.api_version(), "kind": kind.resource.list_kind,
                "metadata": page.metadata(), "items": items,
            });
            finish(call, StatusCode::OK, &list)
        }
    }
}

/// Puts the stored bytes of a page together; nothing is parsed.
fn list_bytes(kind: &Kind, page: &Page) -> BytesMut {
    let size: usize = page.items.iter().map(|stored| stored.bytes.len() + 80).sum();
    let mut out = BytesMut::with_capacity(size + 300);
    let resource = &kind.resource;
    let head = format!(
        "{{\"kind\":{:?},\"apiVersion\":{:?},\"metadata\":{},\"items\":[",
        resource.list_kind,
        resource.api_version(),
        page.metadata()
    );
    out.extend_from_slice(head.as_bytes());
    let prefix = if resource.custom { type_prefix(kind) } else { "{".to_owned() };
    for (index, stored) in page.items.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b",");
        }
        push_object(&mut out, &prefix, &stored.bytes);
    }
    out.extend_from_slice(b"]}");
    out
}
