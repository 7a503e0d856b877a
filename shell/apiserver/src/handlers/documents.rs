//! Documents about the server itself: versions, discovery, OpenAPI.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::status::Status;
use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HOST, IF_NONE_MATCH, LOCATION, VARY};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kinds::resource::Resource;
use registry::discovery::Root;
use registry::openapi::v2;
use registry::{discovery as documents, openapi};
use serde_json::{Value, json};

use crate::backup::Backup;
use crate::catalog::Catalog;
use crate::negotiate::{Encoding, Form};
use crate::reply::{self, Reply};
use crate::request::Discovery;
use crate::server::{Call, Server};

/// The version of Kubernetes whose API this is.
const MINOR: &str = "36";

/// Documents that were made once and are kept until the served kinds change.
#[derive(Default)]
pub(crate) struct Documents(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    generation: u64,
    openapi: BTreeMap<String, (String, Bytes)>,
    /// Of version 2: made when somebody asks, with the generation that it is of.
    v2: Option<(u64, Bytes)>,
}

fn git_version() -> String {
    format!("v1.{MINOR}.0+lifesign.{}", env!("CARGO_PKG_VERSION"))
}

/// Answers `/configz`: the values that the server really uses, whoever asked for which.
pub(crate) fn configz(server: &Server) -> Reply {
    let (not_ready, unreachable) = server.0.settings.tolerations.get();
    let used = json!({"kube-apiserver": {
        "defaultNotReadyTolerationSeconds": not_ready, "defaultUnreachableTolerationSeconds": unreachable,
    }});
    reply::value(StatusCode::OK, Encoding::Json, &used)
}

/// Answers `/version`.
pub(crate) fn version() -> Reply {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = json!({
        "major": "1", "minor": MINOR, "gitVersion": git_version(),
        "gitCommit": "unknown", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": format!("{}/{arch}", std::env::consts::OS),
    });
    reply::value(StatusCode::OK, Encoding::Json, &version)
}

/// Answers discovery.
pub(crate) fn discovery(server: &Server, what: &Discovery, call: &Call) -> Result<Reply, Status> {
    let catalog = server.catalog();
    let resources: Vec<Arc<Resource>> = catalog.kinds().iter().map(|kind| Arc::clone(&kind.resource)).collect();
    let missing = || Status::no_such_resource();
    let document = match (what, call.form) {
        (Discovery::Core, Form::Aggregated(version)) => return Ok(aggregated(call, &resources, Root::Core, version)),
        (Discovery::Groups, Form::Aggregated(version)) => return Ok(aggregated(call, &resources, Root::Groups, version)),
        (Discovery::Core, _) => documents::core_versions(call.header(HOST)),
        (Discovery::Groups, _) => documents::group_list(&resources),
        (Discovery::Group(group), _) => documents::group(&resources, group).ok_or_else(missing)?,
        (Discovery::Resources { group, version }, _) => {
            documents::resource_list(&resources, group, version).ok_or_else(missing)?
        }
    };
    Ok(reply::value(StatusCode::OK, call.encoding, &document))
}

fn aggregated(call: &Call, resources: &[Arc<Resource>], root: Root, version: &str) -> Reply {
    let bytes = serde_json::to_vec(&documents::aggregated(resources, root, version)).expect("a JSON value serializes");
    let etag = documents::etag(&bytes);
    let not_modified = call.header(IF_NONE_MATCH) == etag;
    let (code, body) = if not_modified { (StatusCode::NOT_MODIFIED, Bytes::new()) } else { (StatusCode::OK, bytes.into()) };
    let answer = reply::reply(code, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", reply::full(body));
    reply::header(reply::header(answer, ETAG, &etag), VARY, "Accept")
}

impl Documents {
    /// Returns the hash and bytes of every OpenAPI document, by its path below `/openapi/v3`.
    fn openapi(&self, catalog: &Catalog) -> BTreeMap<String, (String, Bytes)> {
        let mut kept = self.0.lock().expect("no code panics while it holds the documents");
        if kept.openapi.is_empty() || kept.generation != catalog.generation {
            kept.openapi = openapi_documents(catalog);
            kept.generation = catalog.generation;
        }
        kept.openapi.clone()
    }

    /// Returns the document of version 2.
    fn openapi_v2(&self, catalog: &Catalog) -> Bytes {
        let mut kept = self.0.lock().expect("no code panics while it holds the documents");
        match &kept.v2 {
            Some((generation, bytes)) if *generation == catalog.generation => bytes.clone(),
            _ => {
                let bytes = openapi_v2_document(catalog);
                kept.v2 = Some((catalog.generation, bytes.clone()));
                bytes
            }
        }
    }
}

fn served(catalog: &Catalog) -> Vec<openapi::Served<'_>> {
    catalog
        .kinds()
        .iter()
        .map(|kind| openapi::Served { resource: &kind.resource, schema: kind.custom().map(|custom| &custom.version.open_api) })
        .collect()
}

fn openapi_documents(catalog: &Catalog) -> BTreeMap<String, (String, Bytes)> {
    let served = served(catalog);
    let document = |(group, version): (&str, &str)| {
        let document = openapi::document(group, version, &served, &git_version());
        let bytes: Bytes = serde_json::to_vec(&document).expect("a JSON value serializes").into();
        (openapi::root(group, version), (openapi::hash(&bytes), bytes))
    };
    openapi::versions(&served).into_iter().map(document).collect()
}

fn openapi_v2_document(catalog: &Catalog) -> Bytes {
    let served = served(catalog);
    let each = |(group, version)| openapi::document(group, version, &served, &git_version());
    let documents: Vec<Value> = openapi::versions(&served).into_iter().map(each).collect();
    serde_json::to_vec(&v2::document(&documents, &git_version())).expect("a JSON value serializes").into()
}

/// Answers `/openapi/v3` and the documents below it.
pub(crate) fn openapi(server: &Server, path: &str, call: &Call) -> Result<Reply, Status> {
    let all = server.0.documents.openapi(&server.catalog());
    if path.is_empty() {
        let hashes = all.iter().map(|(path, (hash, _))| (path.clone(), hash.clone())).collect();
        let bytes = serde_json::to_vec(&openapi::index(&hashes)).expect("a JSON value serializes");
        let etag = documents::etag(&bytes);
        if call.header(IF_NONE_MATCH) == etag {
            return Ok(reply::header(reply::json(StatusCode::NOT_MODIFIED, Bytes::new()), ETAG, &etag));
        }
        return Ok(reply::header(reply::json(StatusCode::OK, bytes), ETAG, &etag));
    }
    let (hash, bytes) = all.get(path).ok_or_else(Status::no_such_resource)?;
    let asked = call.parameters.text("hash");
    if !asked.is_empty() && asked != hash {
        let answer = reply::json(StatusCode::MOVED_PERMANENTLY, Bytes::new());
        return Ok(reply::header(answer, LOCATION, &format!("/openapi/v3/{path}?hash={hash}")));
    }
    let mut answer = reply::header(reply::json(StatusCode::OK, bytes.clone()), ETAG, &format!("\"{hash}\""));
    if !asked.is_empty() {
        answer = reply::header(answer, CACHE_CONTROL, "public, immutable");
        answer = reply::header(answer, EXPIRES, &in_a_year(server));
        answer = reply::header(answer, VARY, "Accept-Encoding, Accept");
    }
    Ok(answer)
}

/// Answers `/openapi/v2`.
pub(crate) fn openapi_v2(server: &Server, call: &Call) -> Reply {
    if call.header(ACCEPT).contains("+protobuf") {
        return reply::reply(StatusCode::OK, v2::PROTOBUF, reply::full(Bytes::from(v2::protobuf(&git_version()))));
    }
    let bytes = server.0.documents.openapi_v2(&server.catalog());
    let etag = documents::etag(&bytes);
    if call.header(IF_NONE_MATCH) == etag {
        return reply::header(reply::json(StatusCode::NOT_MODIFIED, Bytes::new()), ETAG, &etag);
    }
    reply::header(reply::json(StatusCode::OK, bytes), ETAG, &etag)
}

/// Returns the date of HTTP a year from now.
fn in_a_year(server: &Server) -> String {
    let year = std::time::Duration::from_secs(365 * 86_400);
    let seconds = (server.0.clock.now() + year).as_secs();
    let days = seconds.div_euclid(86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days.rem_euclid(7) as usize];
    let stamp = api::Timestamp(machine::Time::from_secs(seconds)).to_string();
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = stamp.get(5..7).and_then(|month| month.parse::<usize>().ok()).unwrap_or(1);
    let (year, day, time) = (&stamp[..4], &stamp[8..10], &stamp[11..19]);
    format!("{weekday}, {day} {} {year} {time} GMT", months[month - 1])
}

/// Answers `/debug/backup`: all objects, secrets among them.
pub(crate) fn backup(server: &Server) -> Reply {
    let pieces = Backup::of(server.0.hub.snapshot()).map(|piece| Ok(Frame::data(Bytes::from(piece))));
    let body = StreamBody::new(futures::stream::iter(pieces)).boxed_unsync();
    reply::shared(reply::reply(StatusCode::OK, "application/json-lines", body))
}
