//! Watches and requests as controllers use them: lists that say where they begin and end, one timeout for every request.

use std::time::Duration;

use futures::{Stream, StreamExt};
use http::Method;
use kube::Client;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use runtime::{Obj, objects};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One request may take this long; then nobody knows what became of it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The patch by which lists of conditions are merged by type.
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Watches a kind in all namespaces for ever, reconnecting with back-off; interruptions are logged.
pub(crate) fn watch<T>(client: &Client) -> impl Stream<Item = Event<Obj<T>>> + Send + use<T>
where
    T: api::Kind + Clone + DeserializeOwned + Send + Sync + 'static,
{
    watcher::watcher(objects::<T>(client, ""), watcher::Config::default()).default_backoff().filter_map(|event| {
        let event = event.inspect_err(|error| tracing::warn!(kind = T::KIND, %error, "watch interrupted; trying again"));
        std::future::ready(event.ok())
    })
}

/// Sends a body and reads the answer.
pub(crate) async fn send<A: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
) -> Result<A, kube::Error> {
    let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content_type);
    let request = request.body(body).map_err(kube::Error::HttpError)?;
    match tokio::time::timeout(REQUEST_TIMEOUT, client.request(request)).await {
        Ok(answer) => answer,
        Err(late) => Err(kube::Error::Service(Box::new(late))),
    }
}

/// Sends a JSON value and ignores what the answer says beside that it was done.
pub(crate) async fn send_json(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<(), kube::Error> {
    let bytes = serde_json::to_vec(body).expect("a JSON value serializes");
    send::<Value>(client, method, path, content_type, bytes).await.map(drop)
}

/// Deletes an object if it still is the one with this uid.
pub(crate) async fn delete(client: &Client, path: &str, uid: &str) -> Result<(), kube::Error> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    send_json(client, Method::DELETE, path, "application/json", &options).await
}
