//! Requests to the API: one timeout each, JSON in and out.

use std::time::Duration;

use api::{Verb, Write, WriteError};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The first wait before the API is asked again, doubled up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(200);
/// The longest wait before the API is asked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Reads something.
pub(crate) async fn get(client: &Client, path: &str, timeout: Duration) -> Result<Value, kube::Error> {
    call(client, Method::GET, path, "application/json", Vec::new(), timeout).await
}

/// Sends a JSON body; a PATCH is a merge patch.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
    timeout: Duration,
) -> Result<Value, kube::Error> {
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    call(client, method, path, content_type, bytes(body), timeout).await
}

/// Sends a strategic merge patch.
pub(crate) async fn strategic(client: &Client, path: &str, patch: &Value, timeout: Duration) -> Result<Value, kube::Error> {
    call(client, Method::PATCH, path, "application/strategic-merge-patch+json", bytes(patch), timeout).await
}

/// Sends what a core wants written.
pub(crate) async fn write(client: &Client, write: &Write, timeout: Duration) -> Result<(), WriteError> {
    let path = path_of(write);
    let sent = match &write.verb {
        Verb::Create(object) => {
            let folder = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder);
            send(client, Method::POST, folder, object, timeout).await
        }
        Verb::Merge(patch) => send(client, Method::PATCH, &path, patch, timeout).await,
        Verb::Strategic(patch) => strategic(client, &path, patch, timeout).await,
        Verb::Delete { uid } => delete(client, &path, uid, None, timeout).await,
    };
    sent.map(drop).map_err(|error| write_error(&error))
}

/// Deletes an object, if it still is the one with this uid.
pub(crate) async fn delete(
    client: &Client,
    path: &str,
    uid: &str,
    grace_seconds: Option<i64>,
    timeout: Duration,
) -> Result<Value, kube::Error> {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if !uid.is_empty() {
        options["preconditions"] = json!({"uid": uid});
    }
    if let Some(seconds) = grace_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    send(client, Method::DELETE, path, &options, timeout).await
}

/// Returns the path of what a core wants written.
pub(crate) fn path_of(write: &Write) -> String {
    let root = if write.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", write.group) };
    let scope = if write.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", write.namespace) };
    let rest = if write.subresource.is_empty() { String::new() } else { format!("/{}", write.subresource) };
    format!("{root}/{}{scope}/{}/{}{rest}", write.version, write.plural, write.name)
}

fn bytes(body: &Value) -> Vec<u8> {
    serde_json::to_vec(body).expect("a JSON value serializes")
}

async fn call(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
    timeout: Duration,
) -> Result<Value, kube::Error> {
    let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content_type);
    let request = request.body(body).map_err(kube::Error::HttpError)?;
    match tokio::time::timeout(timeout, client.request(request)).await {
        Ok(answer) => answer,
        Err(late) => Err(kube::Error::Service(Box::new(late))),
    }
}

/// Returns the HTTP status that the API answered with, if it answered.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Returns what an error means to a core.
pub(crate) fn write_error(error: &kube::Error) -> WriteError {
    let kube::Error::Api(status) = error else { return WriteError::Failed };
    match status.code {
        404 => WriteError::NotFound,
        409 if status.reason == "AlreadyExists" => WriteError::AlreadyExists,
        409 => WriteError::Conflict,
        400 | 422 => WriteError::Invalid,
        _ => WriteError::Failed,
    }
}

/// Asks until the API answers, with growing pauses; `None`: told to stop.
pub(crate) async fn until_answered<T, F: Future<Output = Result<T, kube::Error>>>(
    stop: &CancellationToken,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Option<Result<T, kube::Error>> {
    let mut pause = PAUSE;
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return None,
            asked = ask() => asked,
        };
        match asked {
            Err(error) if code(&error).is_none_or(|code| code >= 500 || code == 429) => {
                tracing::warn!(what, %error, "the API does not answer; trying again");
            }
            answered => return Some(answered),
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Lease, Pod};

    #[test]
    fn paths_are_those_of_the_api() {
        let to = |write: Write| path_of(&write);
        assert_eq!(
            to(Write::to::<Pod>("shop", "web", Verb::Merge(json!({}))).status()),
            "/api/v1/namespaces/shop/pods/web/status"
        );
        let lease = Write::to::<Lease>("kube-node-lease", "n", Verb::Merge(json!({})));
        assert_eq!(to(lease), "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n");
        let node = Write::to::<api::Node>("", "n", Verb::Merge(json!({})));
        assert_eq!(to(node), "/api/v1/nodes/n");
    }
}
