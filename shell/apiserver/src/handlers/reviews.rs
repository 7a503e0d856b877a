//! Questions that are answered and not stored: who is it, may they, and bindings.

use std::sync::Arc;

use api::field::{Error, Path};
use api::json;
use api::status::{Status, Subject};
use http::StatusCode;
use registry::authz::{self, Ask, Identity};
use registry::kind::ServedKind;
use registry::query;
use serde_json::{Value, json};

use crate::handlers::{body, permit_ask, subresources, write};
use crate::negotiate::Form;
use crate::reply::{self, Reply, typed};
use crate::request::Target;
use crate::server::{Call, Server};

/// Answers a POST to a kind that is not stored.
pub(crate) async fn create(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    // There are no rows or metadata of what is not stored.
    if matches!(call.form, Form::Table(_) | Form::Metadata(_)) {
        return Err(Status::not_acceptable());
    }
    let validation = query::field_validation(&call.parameters, "CreateOptions")?;
    let read = body::object(call, true)?;
    let (object, warnings) = write::decode_object(kind, target, read, validation)?;
    let status = match kind.resource.kind.as_str() {
        "Binding" => {
            let pod = json::text(&object, &["metadata", "name"]).to_owned();
            return subresources::bind(server, &target.namespace, &pod, &object, call).await;
        }
        "SelfSubjectReview" => json!({"userInfo": user_info(&call.identity)}),
        "SelfSubjectAccessReview" => access(server, &call.identity, &object),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => access(server, &subject_of(kind, target, &object)?, &object),
        "TokenReview" => token(server, kind, &object)?,
        _ => {
            let namespace = json::text(&object, &["spec", "namespace"]).to_owned();
            rules(server, call, &namespace)
        }
    };
    let shown = reply::value(StatusCode::CREATED, call.encoding, &typed(kind, with_status(object, status)));
    Ok(reply::warn(shown, &warnings))
}

/// Returns whom a review is about.
fn subject_of(kind: &Arc<ServedKind>, target: &Target, object: &Value) -> Result<Identity, Status> {
    let text = |path: &[&str]| json::text(object, path).to_owned();
    let groups = json::items(object, &["spec", "groups"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let identity = Identity { user: text(&["spec", "user"]), groups: groups.collect(), uid: text(&["spec", "uid"]) };
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    if identity.user.is_empty() && identity.groups.is_empty() {
        errors.push(Error::invalid(&spec.child("user"), "", "at least one of user or group must be specified"));
    }
    let of_resource = json::at(object, &["spec", "resourceAttributes"]).is_some();
    if of_resource == json::at(object, &["spec", "nonResourceAttributes"]).is_some() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(Error::invalid(&spec.child("resourceAttributes"), Value::Null, detail));
    }
    let namespace = json::text(object, &["spec", "resourceAttributes", "namespace"]);
    if kind.resource.namespaced && namespace != target.namespace {
        let path = spec.child("resourceAttributes").child("namespace");
        errors.push(Error::invalid(&path, namespace, format!("must match metadata.namespace: {}", target.namespace)));
    }
    if errors.is_empty() { Ok(identity) } else { Err(Status::invalid(&kind.resource.subject(""), &errors)) }
}

/// Says who a token stands for.
fn token(server: &Server, kind: &Arc<ServedKind>, object: &Value) -> Result<Value, Status> {
    let token = json::text(object, &["spec", "token"]);
    if token.is_empty() {
        let path = Path::new("spec").child("token");
        return Err(Status::invalid(&kind.resource.subject(""), &[Error::required(&path, "")]));
    }
    let wanted = json::items(object, &["spec", "audiences"]);
    let ours = wanted.is_empty() || wanted.iter().any(|audience| audience == registry::tokens::ISSUER);
    Ok(match server.identity_of(token).filter(|_| ours) {
        Some(identity) => {
            let mut status = json!({"authenticated": true, "user": user_info(&identity)});
            if !wanted.is_empty() {
                status["audiences"] = json!([registry::tokens::ISSUER]);
            }
            status
        }
        None => json!({"authenticated": false, "user": {}, "error": "the token is not one of this server, or no longer"}),
    })
}

fn with_status(mut object: Value, status: Value) -> Value {
    object["status"] = status;
    object
}

fn user_info(identity: &Identity) -> Value {
    let mut info = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        info["uid"] = identity.uid.clone().into();
    }
    info
}

/// What everybody who is known may read besides resources.
const OPEN_PATHS: [&str; 7] = ["/api", "/apis", "/version", "/healthz", "/livez", "/readyz", "/openapi"];

fn rules(server: &Server, call: &Call, namespace: &str) -> Value {
    let catalog = server.catalog();
    let served = catalog.kinds().iter().map(|kind| kind.resource.as_ref());
    let row = |rule: authz::Rule| json!({"verbs": rule.verbs, "apiGroups": [rule.group], "resources": rule.resources});
    let resources: Vec<Value> = authz::rules(&call.identity, namespace, served).into_iter().map(row).collect();
    let paths = if call.identity.is_in(authz::MASTERS) {
        json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}])
    } else {
        let below = OPEN_PATHS.iter().flat_map(|path| [(*path).to_owned(), format!("{path}/*")]);
        json!([{"verbs": ["get"], "nonResourceURLs": below.collect::<Vec<_>>()}])
    };
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if call.identity.node().is_some() {
        status["incomplete"] = true.into();
        status["evaluationError"] = "a node may do more with its own objects and those of its pods".into();
    }
    status
}

/// Says whether an identity may, as the check of a real request would.
fn access(server: &Server, identity: &Identity, object: &Value) -> Value {
    let text = |field: &str| json::text(object, &["spec", "resourceAttributes", field]);
    if json::at(object, &["spec", "resourceAttributes"]).is_none() {
        let path = json::text(object, &["spec", "nonResourceAttributes", "path"]);
        let verb = json::text(object, &["spec", "nonResourceAttributes", "verb"]);
        let all = identity.is_in(authz::MASTERS);
        let open = verb == "get" && OPEN_PATHS.iter().any(|known| path.starts_with(known));
        return json!({"allowed": all || open});
    }
    let requirements = json::items(object, &["spec", "resourceAttributes", "fieldSelector", "requirements"]);
    let selects = |key: &str| {
        let exact = requirements
            .iter()
            .find(|requirement| json::text(requirement, &["key"]) == key && json::text(requirement, &["operator"]) == "In")?;
        match json::items(exact, &["values"]) {
            [only] => only.as_str(),
            _ => None,
        }
    };
    let ask = Ask {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        selects_node: selects("spec.nodeName"),
        selects_name: selects("metadata.name"),
    };
    let subject = Subject {
        group: ask.group.to_owned(),
        resource: ask.resource.to_owned(),
        name: ask.name.to_owned(),
        ..Subject::default()
    };
    let known =
        server.catalog().kinds().iter().any(|kind| kind.resource.plural == ask.resource && kind.resource.group == ask.group);
    match permit_ask(server, identity, &ask, &subject) {
        Ok(()) => json!({"allowed": true}),
        Err(status) if known => json!({"allowed": false, "reason": status.message}),
        Err(_) => json!({"allowed": false, "reason": "no such resource is served"}),
    }
}
