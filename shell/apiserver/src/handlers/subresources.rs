//! Subresources: status, scale, binding, eviction, log, exec and its kin, proxy, finalize, token.

use std::sync::Arc;

use api::json;
use api::status::{Status, Subject};
use http::StatusCode;
use kinds::builtin::Part;
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::ownership::Writer;
use registry::query;
use registry::state::{Current, Stored};
use serde_json::{Value, json};

use crate::handlers::write::{self, Next};
use crate::handlers::{apply, body, check_node_token, eviction, read};
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
        ("status", _) => write::patch_part(server, kind, Part::Status, target, call).await,
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
    let node = json::text(binding, &["target", "name"]);
    if node.is_empty() {
        let path = api::field::Path::root().child("target").child("name");
        let subject = Subject { kind: "Binding".into(), resource: "bindings".into(), name: pod.into(), ..Subject::default() };
        return Err(Status::invalid(&subject, &[api::field::Error::required(&path, "")]));
    }
    let now = api::Timestamp(server.0.clock.now()).to_string();
    let change = |current: &Stored| {
        let mut object = current.object();
        if current.index.deleting {
            return Err(Status::conflict(&subject, format!("pod {pod} is being deleted, cannot be assigned to a host")));
        }
        let assigned = json::text(&object, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return Err(Status::conflict(&subject, format!("pod {pod} is already assigned to node {assigned:?}")));
        }
        json::object_mut(&mut object, &["spec"]).insert("nodeName".into(), node.into());
        for field in ["labels", "annotations"] {
            let wanted = json::object(binding, &["metadata", field]).cloned().unwrap_or_default();
            if !wanted.is_empty() {
                json::object_mut(&mut object, &["metadata", field]).extend(wanted);
            }
        }
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        let status = json::object_mut(&mut object, &["status"]);
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.retain(|other| json::text(other, &["type"]) != "PodScheduled");
            conditions.push(condition);
        }
        let generation = json::int(&object, &["metadata", "generation"]).unwrap_or(0);
        registry::meta::set_generation(&mut object, generation + 1);
        Ok(object)
    };
    server.set_object(pods, namespace, pod, (None, dry_run), change).await?;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(reply::value(StatusCode::CREATED, call.encoding, &success))
}

/// Signs a token for a service account.
fn token(server: &Server, target: &Target, call: &Call) -> Result<Reply, Status> {
    let dry_run = query::dry_run(&call.parameters, "CreateOptions")?;
    let request = body::object(call, true)?.value;
    check_node_token(server, &call.identity, target, &request)?;
    let (snapshot, id) = (server.0.hub.snapshot(), registry::meta::uuid(&mut server.rng()));
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
    let (prepared, stored) = server.update_object(kind, Part::Finalize, "", &target.name, dry_run, change).await?;
    Ok(match stored {
        Some(stored) => read::show_stored(server, kind, call, StatusCode::OK, &stored),
        None => read::show(server, kind, call, StatusCode::OK, prepared.whole()),
    })
}

/// Returns the `Scale` of an object.
fn scale_of(kind: &ServedKind, object: &Value) -> Value {
    if let Some(scale) = kind.custom().and_then(|custom| custom.version.scale.as_ref()?.read(object)) {
        return scale;
    }
    let metadata = |field: &str| object["metadata"][field].clone();
    let number = |path: &[&str]| json::int(object, path).unwrap_or(0);
    let selector = json::at(object, &["spec", "selector"]).cloned().unwrap_or_default();
    // A ReplicationController selects by labels alone.
    let by_labels = kind.resource.is_core("replicationcontrollers");
    let selector = if by_labels { json!({"matchLabels": selector}) } else { selector };
    let selector = kinds::table::label_selector(&selector);
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": metadata("name"), "namespace": metadata("namespace"), "uid": metadata("uid"),
            "resourceVersion": metadata("resourceVersion"), "creationTimestamp": metadata("creationTimestamp"),
        },
        "spec": {"replicas": number(&["spec", "replicas"])},
        "status": {"replicas": number(&["status", "replicas"]), "selector": selector},
    })
}

/// Writes the number of replicas that an object shall have.
fn set_replicas(kind: &ServedKind, object: &mut Value, replicas: i64) {
    match kind.custom().and_then(|custom| custom.version.scale.as_ref()) {
        Some(paths) => paths.write(object, replicas),
        None => drop(json::object_mut(object, &["spec"]).insert("replicas".into(), replicas.into())),
    }
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
    let type_ = if verb == "patch" { Some(write::patch_type(call, false)?) } else { None };
    let sent = if verb == "patch" { body::json(&call.body)?.value } else { body::object(call, true)?.value };
    let change = |current: &Current<'_>| {
        let mut object = current.object();
        let wanted = match type_ {
            Some(type_) => write::apply_patch(type_, &scale_of(kind, &object), &sent, "Scale")?,
            None => sent.clone(),
        };
        let replicas = replicas_of(&wanted, &target.name)?.unwrap_or(0);
        set_replicas(kind, &mut object, replicas);
        let version = json::text(&wanted, &["metadata", "resourceVersion"]).to_owned();
        let claimed = if type_.is_some() { String::new() } else { version };
        json::object_mut(&mut object, &["metadata"]).insert("resourceVersion".into(), claimed.into());
        Ok(Next::by(writer, object, UpdateForm::Patch))
    };
    let (prepared, stored) = server.update_object(kind, Part::Main, &target.namespace, &target.name, dry_run, change).await?;
    let object = stored.map_or(prepared.object, |stored| stored.object());
    Ok(reply::value(StatusCode::OK, call.encoding, &scale_of(kind, &object)))
}

/// Returns the number of replicas that a `Scale` asks for, if it does.
fn replicas_of(scale: &Value, name: &str) -> Result<Option<i64>, Status> {
    let replicas = json::int(scale, &["spec", "replicas"]);
    let Some(negative) = replicas.filter(|replicas| *replicas < 0) else { return Ok(replicas) };
    let path = api::field::Path::root().child("spec").child("replicas");
    let subject =
        Subject { group: "autoscaling".into(), kind: "Scale".into(), resource: "scales".into(), name: name.to_owned() };
    let error = api::field::Error::invalid(&path, negative, "must be greater than or equal to 0");
    Err(Status::invalid(&subject, &[error]))
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
    let (prepared, stored) = server.update_object(kind, Part::Main, &target.namespace, &target.name, dry_run, change).await?;
    let object = stored.map_or(prepared.object, |stored| stored.object());
    Ok(reply::value(StatusCode::OK, call.encoding, &scale_of(kind, &object)))
}
