//! Carrying out one write of a slice, and what its answer means.

use std::sync::Arc;

use api::ObjectMeta;
use endpoints::controller::{Answer, Failure, Input, Op, Write};
use http::Method;
use kube::Client;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::requests::{delete, send};

/// What is read of a slice that was written: the rest is known.
#[derive(Deserialize)]
struct Written {
    metadata: ObjectMeta,
}

/// Performs a write when a permit is free; returns its answer.
pub(super) async fn perform(client: Client, permits: Arc<Semaphore>, write: Write) -> Input {
    let _permit = permits.acquire().await.expect("the semaphore is never closed");
    let answer = match request(&client, &write).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(service = %write.service.name, namespace = %write.service.namespace, %error, "slice not written");
            Answer::Failed(failure(&error))
        }
    };
    Input::Answered { write: write.id, answer }
}

async fn request(client: &Client, write: &Write) -> Result<Answer, kube::Error> {
    let folder = format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", write.service.namespace);
    let written = |written: Written| Answer::Written(Box::new(written.metadata));
    match &write.op {
        Op::Create { body } => send(client, Method::POST, &folder, "application/json", body.to_vec()).await.map(written),
        Op::Update { name, body } => {
            send(client, Method::PUT, &format!("{folder}/{name}"), "application/json", body.to_vec()).await.map(written)
        }
        Op::Delete { name, uid } => delete(client, &format!("{folder}/{name}"), uid).await.map(|()| Answer::Deleted),
    }
}

fn failure(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else { return Failure::Other(error.to_string()) };
    let terminating = |details: &kube::core::response::StatusDetails| {
        details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    };
    match (status.code, status.reason.as_str()) {
        (409, "Conflict") => Failure::Conflict,
        (404, _) => Failure::NotFound,
        (403, _) if status.details.as_ref().is_some_and(terminating) => Failure::NamespaceTerminating,
        _ => Failure::Other(status.message.clone()),
    }
}
