//! Reading: one object, or a list of them.

use std::sync::Arc;
use std::time::Duration;

use api::status::Status;
use http::StatusCode;
use kinds::table;
use registry::kind::ServedKind;
use registry::query::{self, Continue, ListQuery, Version};
use registry::state::{Snapshot, Stored};
use serde_json::{Value, json};

use crate::listing::{Listing, Out};
use crate::negotiate::{Encoding, Form};
use crate::reply::{self, Reply, type_prefix, typed};
use crate::request::Target;
use crate::server::{Call, Server};

/// How long a request for a version that is ahead waits for it.
const VERSION_PATIENCE: Duration = Duration::from_secs(3);

/// Answers with one object.
pub(crate) async fn get(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
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
pub(crate) fn show_stored(
    server: &Server,
    kind: &Arc<ServedKind>,
    call: &Call,
    code: StatusCode,
    stored: &Arc<Stored>,
) -> Reply {
    let plain = call.form == Form::Whole && call.encoding == Encoding::Json && !call.parameters.flag("pretty");
    if plain && !kind.is_shown_otherwise() {
        let body = Listing::stored("", type_prefix(kind), vec![Arc::clone(stored)], "").boxed();
        return reply::shared(reply::reply(code, "application/json", body));
    }
    show(server, kind, call, code, readable(call.form, stored))
}

/// Returns an object to be shown; tables leave out who owns what, because nobody reads it there.
pub(crate) fn readable(form: Form, stored: &Stored) -> Value {
    if matches!(form, Form::Table(_)) { stored.object() } else { stored.whole() }
}

/// Shows an object in the form that the client wants.
pub(crate) fn show(server: &Server, kind: &Arc<ServedKind>, call: &Call, code: StatusCode, object: Value) -> Reply {
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

/// Returns an object as its group and version shows it.
pub(crate) fn outward(kind: &ServedKind, object: Value) -> Value {
    kind.outward(object)
}

/// Returns the metadata of an object alone.
pub(crate) fn metadata_only(version: &str, object: &Value) -> Value {
    json!({"apiVersion": format!("meta.k8s.io/{version}"), "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
}

/// Returns the table of some objects.
pub(crate) fn render_table(
    server: &Server,
    kind: &Arc<ServedKind>,
    call: &Call,
    version: &str,
    objects: &[Value],
    metadata: Value,
    columns: bool,
) -> Value {
    let include = table::Include::parse(call.parameters.text("includeObject")).unwrap_or_default();
    let now = server.0.clock.now();
    let own = kind.custom().map(|custom| custom.version.columns.columns());
    let all = own.unwrap_or_else(|| table::columns(&kind.resource.kind));
    let mut shown = if columns { table::Table::new(version, include, all) } else { table::Table::continued(version, include) };
    for object in objects {
        push_row(kind, &mut shown, object.clone(), now);
    }
    shown.finish(metadata)
}

fn push_row(kind: &ServedKind, table: &mut table::Table, object: Value, now: machine::Time) {
    let object = typed(kind, object);
    let row = match kind.custom() {
        Some(custom) => custom.version.columns.row(&object, now),
        None => table::row(&kind.resource.kind, &object, now),
    };
    table.push(row, &object);
}

/// One page of a list.
struct Page {
    revision: u64,
    items: Vec<Arc<Stored>>,
    resume: Option<Continue>,
    remaining: Option<usize>,
}

/// Answers with a list.
pub(crate) async fn list(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let query = query::list_query(&call.parameters)?;
    if let Version::NotOlderThan(wanted) | Version::Exact(wanted) = query.version {
        wait_for(server, wanted).await?;
    }
    let snapshot = snapshot_for(server, &query)?;
    let page = page(kind, target, &snapshot, query)?;
    show_page(server, kind, call, page)
}

fn snapshot_for(server: &Server, query: &ListQuery) -> Result<Snapshot, Status> {
    let hub = &server.0.hub;
    let revision = match (&query.resume, query.version) {
        (Some(Continue { revision: 0, .. }), _) => return Ok(hub.snapshot()),
        (Some(resume), _) => resume.revision,
        (None, Version::Exact(revision)) => revision,
        (None, _) => return Ok(hub.snapshot()),
    };
    hub.snapshot_at(revision).ok_or_else(|| match &query.resume {
        Some(resume) => Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
             continue parameter, or use the continue token in this response to get the rest of the list as it is by then, which is \
             not consistent with what came before.",
        )
        .with_continue(resume.in_any_state().encode()),
        None => Status::expired(format!("The resourceVersion for the provided list is too old: {revision}")),
    })
}

fn page(kind: &Arc<ServedKind>, target: &Target, snapshot: &Snapshot, query: ListQuery) -> Result<Page, Status> {
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

/// The largest page that is made as a whole, in bytes of what is stored; forms that no program asks for are made so.
const WHOLE_PAGE_MAX: usize = 4 << 20;

fn show_page(server: &Server, kind: &Arc<ServedKind>, call: &Call, page: Page) -> Result<Reply, Status> {
    let streams = call.encoding == Encoding::Json && !call.parameters.flag("pretty");
    if !streams && page.items.iter().map(|stored| stored.size()).sum::<usize>() > WHOLE_PAGE_MAX {
        return Err(Status::too_large(
            "the list is too large for this form: ask for pages (limit=100), or for JSON without pretty=true",
        ));
    }
    let (header, rows) = header(kind, call, &page);
    let mut item = item_renderer(server, kind, call);
    if !streams {
        let mut list = header;
        list[rows] = page.items.iter().map(|stored| item(readable(call.form, stored))).collect();
        return Ok(finish(call, StatusCode::OK, &list));
    }
    let text = header.to_string();
    let head = format!("{},\"{rows}\":[", text.strip_suffix('}').expect("a header is an object with members"));
    let plain = matches!(call.form, Form::Whole | Form::Aggregated(_)) && !kind.is_shown_otherwise();
    let listing = if plain {
        let prefix = if kind.resource.custom { type_prefix(kind) } else { "{".to_owned() };
        Listing::stored(&head, prefix, page.items, "]}")
    } else {
        let form = call.form;
        let render = move |stored: &Stored, out: &mut Out| out.copy(item(readable(form, stored)).to_string().as_bytes());
        Listing::new(&head, page.items, "]}", Box::new(render))
    };
    Ok(reply::shared(reply::reply(StatusCode::OK, "application/json", listing.boxed())))
}

/// Returns a list without its items, and the name of the member that they go into.
fn header(kind: &ServedKind, call: &Call, page: &Page) -> (Value, &'static str) {
    match call.form {
        Form::Table(version) => {
            let own = kind.custom().map(|custom| custom.version.columns.columns());
            let columns = own.unwrap_or_else(|| table::columns(&kind.resource.kind));
            let mut header = table::Table::new(version, table::Include::default(), columns).finish(page.metadata());
            header.as_object_mut().expect("a table is an object").remove("rows");
            (header, "rows")
        }
        Form::Metadata(version) => {
            let type_ = format!("meta.k8s.io/{version}");
            (json!({"apiVersion": type_, "kind": "PartialObjectMetadataList", "metadata": page.metadata()}), "items")
        }
        Form::Whole | Form::Aggregated(_) => {
            let (version, name) = (kind.resource.api_version(), &kind.resource.list_kind);
            (json!({"apiVersion": version, "kind": name, "metadata": page.metadata()}), "items")
        }
    }
}

/// Returns what makes one item of a list out of a stored object.
fn item_renderer(server: &Server, kind: &Arc<ServedKind>, call: &Call) -> impl FnMut(Value) -> Value + Send + 'static {
    let (kind, form) = (Arc::clone(kind), call.form);
    let include = table::Include::parse(call.parameters.text("includeObject")).unwrap_or_default();
    let now = server.0.clock.now();
    move |object| match form {
        Form::Table(version) => {
            let mut one = table::Table::continued(version, include);
            push_row(&kind, &mut one, object, now);
            one.finish(Value::Null)["rows"][0].take()
        }
        Form::Metadata(_) => json!({"metadata": object["metadata"]}),
        Form::Whole | Form::Aggregated(_) if kind.resource.custom => typed(&kind, object),
        Form::Whole | Form::Aggregated(_) => outward(&kind, object),
    }
}
