//! Questions that are answered and not stored: who is it, may they, and bindings.

use std::sync::Arc;

use api::json;
use api::status::{Status, Subject};
use http::StatusCode;
use registry::authz::{self, Identity};
use registry::kind::ServedKind;
use registry::query;
use registry::reviews::{self, Question};
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
        "SelfSubjectReview" => json!({"userInfo": reviews::user_info(&call.identity)}),
        "SelfSubjectAccessReview" => access(server, &call.identity, &object),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let namespace = kind.resource.namespaced.then_some(target.namespace.as_str());
            access(server, &reviews::subject_of(&object, &kind.resource.subject(""), namespace)?, &object)
        }
        "TokenReview" => {
            let (token, audiences) = reviews::token_of(&object, &kind.resource.subject(""))?;
            reviews::token(server.known_by(token, &audiences).as_ref())
        }
        _ => {
            let catalog = server.catalog();
            let served = catalog.kinds().iter().map(|kind| kind.resource.as_ref());
            reviews::rules(&call.identity, json::text(&object, &["spec", "namespace"]), served)
        }
    };
    let mut object = typed(kind, object);
    object["status"] = status;
    Ok(reply::warn(reply::value(StatusCode::CREATED, call.encoding, &object), &warnings))
}

/// Says whether an identity may, as the check of a real request would.
fn access(server: &Server, identity: &Identity, review: &Value) -> Value {
    let question = reviews::question(review);
    let (decision, known) = match &question {
        Question::Resource(ask) => {
            let subject =
                Subject { group: ask.group.into(), resource: ask.resource.into(), name: ask.name.into(), ..Subject::default() };
            let served = |kind: &Arc<ServedKind>| kind.resource.plural == ask.resource && kind.resource.group == ask.group;
            (permit_ask(server, identity, ask, &subject), server.catalog().kinds().iter().any(served))
        }
        Question::Path { verb, path } => (authz::authorize_path(identity, verb, path), true),
    };
    reviews::access(&decision, &question, known)
}
