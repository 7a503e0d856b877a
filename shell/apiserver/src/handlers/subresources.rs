//! Subresources: status, scale, binding, eviction, log, exec and its kin, proxy, finalize, token.

use std::sync::Arc;

use api::json;
use api::status::Status;
use http::StatusCode;
use kinds::builtin::Part;
use registry::binding::Binding;
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::Writer;
use registry::query;
use registry::scale::{replicas_of, scale_of, set_replicas};
use registry::state::{Current, Stored};
use serde_json::{Value, json};

use crate::handlers::patch;
use crate::handlers::write::{self, Next};
use crate::handlers::{apply, body, eviction, read};
use crate::reply::{self, Reply};
use crate::request::Target;
use crate::server::{Call, Server};

/// Answers a request for a subresource.
pub(crate) async fn handle(
    server: &Server,
    kind: &Arc<ServedKind>,
    target: &Target,
    call: &Call,
    verb: &str,
) -> Result<Reply, Status> {
    let subject = kind.resource.subject(&target.name);
    let name = target.subresource.as_str();
    let known = kind.resource.subresource(name).ok_or_else(Status::no_such_resource)?;
    if !known.verbs.contains(&verb) {
        return Err(Status::method_not_allowed(&subject, verb));
    }
    match (name, verb) {
        ("status", "get") => read::get(server, kind, target, call).await,
        ("status", "update") => write::replace_part(server, kind, Part::Status, target, call).await,
        ("status", _) => patch::patch_part(server, kind, Part::Status, target, call).await,
        ("scale", _) => scale(server, kind, target, call, verb).await,
        ("binding", _) => {
            let read = body::object(call, true)?;
            bind(server, &target.namespace, &target.name, &read.value, call).await
        }
        ("eviction", _) => eviction::evict(server, kind, target, call).await,
        ("log", _) => crate::logs::log(server, target, call).await,
        ("exec" | "attach" | "portforward", _) => crate::tunnel::tunnel(server, target, call).await,
        ("proxy", _) => crate::logs::proxy(server, target, call).await,
        ("token", _) => token(server, target, call),
        ("finalize", _) => finalize(server, kind, target, call).await,
        _ => Err(Status::no_such_resource()),
    }
}

/// Binds a pod to a node, once.
pub(crate) async fn bind(server: &Server, namespace: &str, pod: &str, binding: &Value, call: &Call) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "CreateOptions")?;
    let catalog = server.catalog();
    let pods = catalog.find("", "v1", "pods").expect("pods are built in");
    let subject = pods.resource.subject(pod);
    let binding = Binding::read(binding, pod)?;
    let now = api::Timestamp(server.0.clock.now());
    let change = |current: &Stored| binding.bind(current.object(), current.index.deleting, &subject, now);
    server.set_object(pods, namespace, pod, (None, dry_run), change).await?;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(reply::value(StatusCode::CREATED, call.encoding, &success))
}

/// Signs a token for a service account.
fn token(server: &Server, target: &Target, call: &Call) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "CreateOptions")?;
    let request = body::object(call, true)?.value;
    let (snapshot, id) = (server.0.hub.snapshot(), registry::meta::uuid(&mut server.rng()));
    registry::authz::check_node_token(&call.identity, &target.namespace, &target.name, &request, &snapshot)?;
    let granted = registry::tokens::grant(&target.namespace, &target.name, &request, &snapshot, server.0.clock.now(), &id)?;
    let mut answer = granted.answer;
    let signed = if dry_run { Some(String::new()) } else { server.0.signer.sign(&granted.claims) };
    answer["status"]["token"] = signed.ok_or_else(|| Status::internal("the system has no randomness"))?.into();
    Ok(reply::value(StatusCode::CREATED, call.encoding, &answer))
}

/// Replaces the finalizers of a namespace.
async fn finalize(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "UpdateOptions")?;
    let wanted = body::object(call, true)?.value;
    let finalizers = json::at(&wanted, &["spec", "finalizers"]).cloned().unwrap_or_else(|| json!([]));
    let version = json::text(&wanted, &["metadata", "resourceVersion"]).to_owned();
    let manager = write::manager(call, "UpdateOptions")?;
    let writer = Writer { manager: &manager, subresource: "finalize" };
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        json::object_mut(&mut object, &["spec"]).insert("finalizers".into(), finalizers.clone());
        let metadata = json::object_mut(&mut object, &["metadata"]);
        metadata.insert("resourceVersion".into(), version.clone().into());
        Ok(Next::by(writer, object, UpdateForm::Replace))
    };
    let written = server.update_object(kind, Part::Finalize, "", &target.name, dry_run, change).await?;
    Ok(written.object.show(server, kind, call, StatusCode::OK))
}

async fn scale(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call, verb: &str) -> Result<Reply, Status> {
    if verb == "get" {
        let snapshot = server.0.hub.snapshot();
        let stored = snapshot
            .get(&kind.resource.key(&target.namespace, &target.name))
            .ok_or_else(|| Status::not_found(&kind.resource.subject(&target.name)))?;
        return Ok(reply::value(StatusCode::OK, call.encoding, &scale_of(kind, &stored.object())));
    }
    if verb == "patch" && body::media_type(call) == apply::MEDIA_TYPE {
        return apply_scale(server, kind, target, call).await;
    }
    let dry_run = query::dry_run(&call.parameters, "UpdateOptions")?;
    let manager = write::manager(call, "UpdateOptions")?;
    let writer = Writer { manager: &manager, subresource: "scale" };
    let type_ = if verb == "patch" { Some(patch::patch_type(call, false)?) } else { None };
    let sent = if verb == "patch" { body::json(&call.body)?.value } else { body::object(call, true)?.value };
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        let wanted = match type_ {
            Some(type_) => patch::apply_patch(type_, scale_of(kind, &object), &sent, "Scale")?,
            None => sent.clone(),
        };
        let replicas = replicas_of(&wanted, &target.name)?.unwrap_or(0);
        set_replicas(kind, &mut object, replicas);
        let version = json::text(&wanted, &["metadata", "resourceVersion"]).to_owned();
        let claimed = if type_.is_some() { String::new() } else { version };
        json::object_mut(&mut object, &["metadata"]).insert("resourceVersion".into(), claimed.into());
        Ok(Next::by(writer, object, UpdateForm::Patch))
    };
    let written = server.update_object(kind, Part::Main, &target.namespace, &target.name, dry_run, change).await?;
    Ok(reply::value(StatusCode::OK, call.encoding, &scale_of(kind, &written.object.whole())))
}

/// Applies a `Scale`: what it says is applied to the object itself, as an owner of its own.
async fn apply_scale(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "PatchOptions")?;
    let mut config = apply::read(call, "autoscaling/v1", "Scale")?;
    let replicas = replicas_of(&config.value, &target.name)?;
    config.value = json!({
        "apiVersion": kind.resource.api_version(), "kind": kind.resource.kind, "metadata": {"name": target.name},
    });
    if let Some(replicas) = replicas {
        set_replicas(kind, &mut config.value, replicas);
    }
    let writer = Writer { manager: &config.manager, subresource: "scale" };
    let change = |current: &Current<'_>| apply::applied(server, kind, Part::Main, target, current, &config, writer);
    let written = server.update_object(kind, Part::Main, &target.namespace, &target.name, dry_run, change).await?;
    Ok(reply::value(StatusCode::OK, call.encoding, &scale_of(kind, &written.object.whole())))
}
