//! Questions that are answered and not stored: who am I, may I, and bindings.

use std::sync::Arc;

use api::json;
use api::status::Status;
use http::StatusCode;
use registry::authz::{self, Ask};
use registry::kind::ServedKind;
use registry::query;
use serde_json::{Value, json};

use crate::handlers::{body, subresources, write};
use crate::reply::{self, Reply, typed};
use crate::request::Target;
use crate::server::{Call, Server};

/// Answers a POST to a kind that is not stored.
pub(crate) async fn create(server: &Server, kind: &Arc<ServedKind>, target: &Target, call: &Call) -> Result<Reply, Status> {
    let validation = query::field_validation(&call.parameters, "CreateOptions")?;
    let read = body::object(call, true)?;
    let (object, warnings) = write::decode_object(kind, target, read, validation)?;
    let answered = match kind.resource.kind.as_str() {
        "Binding" => {
            let pod = json::text(&object, &["metadata", "name"]).to_owned();
            return subresources::bind(server, &target.namespace, &pod, &object, call).await;
        }
        "SelfSubjectReview" => with_status(object, json!({"userInfo": user_info(call)})),
        "SelfSubjectAccessReview" => {
            let status = access(server, call, &object);
            with_status(object, status)
        }
        _ => {
            let namespace = json::text(&object, &["spec", "namespace"]).to_owned();
            with_status(object, rules(server, call, &namespace))
        }
    };
    let shown = reply::value(StatusCode::CREATED, call.encoding, &typed(kind, answered));
    Ok(reply::warn(shown, &warnings))
}

fn with_status(mut object: Value, status: Value) -> Value {
    object["status"] = status;
    object
}

fn user_info(call: &Call) -> Value {
    let identity = &call.identity;
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

fn access(server: &Server, call: &Call, object: &Value) -> Value {
    let text = |field: &str| json::text(object, &["spec", "resourceAttributes", field]);
    if json::at(object, &["spec", "resourceAttributes"]).is_none() {
        let path = json::text(object, &["spec", "nonResourceAttributes", "path"]);
        let verb = json::text(object, &["spec", "nonResourceAttributes", "verb"]);
        let all = call.identity.is_in(authz::MASTERS);
        let open = verb == "get" && OPEN_PATHS.iter().any(|known| path.starts_with(known));
        return json!({"allowed": all || open});
    }
    let ask = Ask {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        selects_node: None,
        selects_name: None,
    };
    let known =
        server.catalog().kinds().iter().any(|kind| kind.resource.plural == ask.resource && kind.resource.group == ask.group);
    match authz::authorize(&call.identity, &ask) {
        Ok(_) => json!({"allowed": true}),
        Err(status) if known => json!({"allowed": false, "reason": status.message}),
        Err(_) => json!({"allowed": false, "reason": "no such resource is served"}),
    }
}
