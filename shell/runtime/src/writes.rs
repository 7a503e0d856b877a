//! Sending what cores want written.

use std::time::Duration;

use api::write::Verb;
use api::{Write, WriteError};
use http::Method;
use http::header::CONTENT_TYPE;
use kube::Client;
use serde_json::{Value, json};

/// A write that gets no answer in this time has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a request and returns the object that the server answered with; a deletion has none.
pub async fn perform(client: &Client, write: &Write) -> Result<Option<Value>, WriteError> {
    let Ok(request) = request(write) else { return Err(WriteError::Invalid) };
    let answer = tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await.map_err(|_| WriteError::Failed)?;
    match answer {
        Ok(object) => Ok((!matches!(write.verb, Verb::Delete { .. })).then_some(object)),
        Err(kube::Error::Api(status)) => Err(match (status.code, status.reason.as_str()) {
            (404, _) => WriteError::NotFound,
            (409, "AlreadyExists") => WriteError::AlreadyExists,
            (409, _) => WriteError::Conflict,
            (400 | 422, _) => {
                tracing::warn!(kind = write.kind, name = write.name, error = %status.message, "write refused");
                WriteError::Invalid
            }
            _ => WriteError::Failed,
        }),
        Err(error) => {
            tracing::debug!(kind = write.kind, name = write.name, %error, "write failed");
            Err(WriteError::Failed)
        }
    }
}

fn request(write: &Write) -> Result<http::Request<Vec<u8>>, http::Error> {
    let root = if write.group.is_empty() {
        format!("/api/{}", write.version)
    } else {
        format!("/apis/{}/{}", write.group, write.version)
    };
    let namespace = if write.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", write.namespace) };
    let collection = format!("{root}{namespace}/{}", write.plural);
    let mut object = format!("{collection}/{}", write.name);
    if !write.subresource.is_empty() {
        object.push('/');
        object.push_str(write.subresource);
    }
    let (method, path, content_type, body) = match &write.verb {
        Verb::Create(body) => (Method::POST, collection, "application/json", body.clone()),
        Verb::Merge(body) => (Method::PATCH, object, "application/merge-patch+json", body.clone()),
        Verb::Strategic(body) => (Method::PATCH, object, "application/strategic-merge-patch+json", body.clone()),
        Verb::Delete { uid } => {
            let options = if uid.is_empty() { json!({}) } else { json!({"preconditions": {"uid": uid}}) };
            (Method::DELETE, object, "application/json", options)
        }
    };
    let bytes = serde_json::to_vec(&body).expect("a JSON value serializes");
    http::Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type).body(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_go_to_their_place() {
        let patch = Write::to::<api::Pod>("ns", "p", Verb::Strategic(json!({"status": {}}))).status();
        let sent = request(&patch).unwrap();
        assert_eq!((sent.method(), sent.uri().path()), (&Method::PATCH, "/api/v1/namespaces/ns/pods/p/status"));
        assert_eq!(sent.headers()[CONTENT_TYPE], "application/strategic-merge-patch+json");
        let create = request(&Write::to::<api::Lease>("ns", "l", Verb::Create(json!({})))).unwrap();
        assert_eq!(create.uri().path(), "/apis/coordination.k8s.io/v1/namespaces/ns/leases");
        let delete = request(&Write::to::<api::Node>("", "n", Verb::Delete { uid: "u".into() })).unwrap();
        assert_eq!(delete.body().as_slice(), br#"{"preconditions":{"uid":"u"}}"#);
    }
}
