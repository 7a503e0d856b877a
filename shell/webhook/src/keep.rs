//! The leader's part: certificates are in the Secret, and the webhook configurations trust them.

use std::time::Duration;

use admission::certificates::{Rotation, Stored, step};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use runtime::{Client, Clock, RequestError, requests};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::certificate::{Contents, Credentials};
use crate::{CONFIGURATION, secret_path};

/// How often Secret and configurations are looked at: somebody may have applied other ones. There is no right to watch them.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a failure, and while a change is under way.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A request that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The kinds of configurations.
const KINDS: [&str; 2] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

/// Why certificates cannot be kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("{0}")]
    Api(#[from] RequestError),
    #[error("the Secret {0} does not exist: apply `lifesign install` again")]
    NoSecret(String),
    #[error("a certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
}

/// Keeps the certificates good and trusted until told to stop; to be run by the leader alone.
pub async fn keep(client: Client, clock: Clock, namespace: String, stop: CancellationToken) {
    let mut last_error = String::new();
    loop {
        let again = match look(&client, &clock, &namespace).await {
            Ok(Rotation::Keep) => {
                last_error.clear();
                LOOK_EVERY
            }
            Ok(_) => LOOK_AGAIN,
            Err(error) => {
                // Once: it may go on for hours.
                if error.to_string() != last_error {
                    last_error = error.to_string();
                    tracing::warn!(%error, "the certificates of the webhook cannot be kept; trying again");
                }
                LOOK_AGAIN
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(again) => {}
        }
    }
}

/// Looks once and does one step; returns which.
async fn look(client: &Client, clock: &Clock, namespace: &str) -> Result<Rotation, KeepError> {
    let path = secret_path(namespace);
    let secret: Option<Value> = requests::get_opt(client, &path, TIMEOUT).await?;
    let secret = secret.ok_or_else(|| KeepError::NoSecret(format!("{namespace}/{}", crate::NAME)))?;
    let mut contents = Contents::read(&secret);
    let mut configurations = Vec::new();
    for kind in KINDS {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{CONFIGURATION}");
        // One that is not installed needs no certificate.
        if let Some(configuration) = requests::get_opt::<Value>(client, &path, TIMEOUT).await? {
            configurations.push((path, configuration));
        }
    }
    let now = clock.now();
    let stored = Stored {
        authority: contents.authority.as_ref().and_then(Credentials::life),
        next: contents.next.as_ref().and_then(Credentials::life),
        server: contents
            .authority
            .as_ref()
            .zip(contents.server.as_ref())
            .and_then(|(authority, server)| authority.has_signed(&server.certificate).then(|| server.life()).flatten()),
        next_is_trusted: contents
            .next
            .as_ref()
            .is_some_and(|next| configurations.iter().all(|(_, found)| trusts(found, &next.certificate))),
    };
    let step = step(&stored, now);
    if change(&mut contents, step, namespace, now)? {
        let version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        patch(client, &path, "application/merge-patch+json", &contents.patch(version)).await?;
        tracing::info!(step = ?step, "the certificates of the webhook were changed");
    }
    let bundle = STANDARD.encode(contents.bundle());
    for (path, configuration) in configurations {
        let operations = trust(&configuration, &bundle);
        if !operations.is_empty() {
            patch(client, &path, "application/json-patch+json", &operations.into()).await?;
            tracing::info!(path, "the webhook configuration trusts the present authority");
        }
    }
    Ok(step)
}

/// Carries a step out; returns whether something changed.
fn change(contents: &mut Contents, step: Rotation, namespace: &str, now: machine::Time) -> Result<bool, rcgen::Error> {
    match step {
        Rotation::Keep => return Ok(false),
        Rotation::Begin => {
            let authority = Credentials::authority(now)?;
            let server = authority.server(namespace, now)?;
            *contents = Contents { authority: Some(authority), server: Some(server), ..Contents::default() };
        }
        Rotation::MakeNext => contents.next = Some(Credentials::authority(now)?),
        Rotation::Promote => {
            contents.old = contents.authority.take().map(|authority| authority.certificate);
            contents.authority = contents.next.take();
            contents.server = sign(contents, namespace, now)?;
        }
        Rotation::Renew => {
            contents.server = sign(contents, namespace, now)?;
            contents.old = None;
        }
    }
    Ok(true)
}

fn sign(contents: &Contents, namespace: &str, now: machine::Time) -> Result<Option<Credentials>, rcgen::Error> {
    contents.authority.as_ref().map(|authority| authority.server(namespace, now)).transpose()
}

/// Returns the webhooks of a configuration, with their places.
fn webhooks(configuration: &Value) -> impl Iterator<Item = (usize, &Value)> {
    configuration["webhooks"].as_array().into_iter().flatten().enumerate()
}

/// Returns whether every webhook of a configuration trusts a certificate.
fn trusts(configuration: &Value, certificate: &str) -> bool {
    webhooks(configuration).all(|(_, webhook)| {
        let bundle = webhook["clientConfig"]["caBundle"].as_str().and_then(|text| STANDARD.decode(text).ok());
        bundle.and_then(|bytes| String::from_utf8(bytes).ok()).is_some_and(|bundle| bundle.contains(certificate))
    })
}

/// Returns the operations after which every webhook trusts a bundle; each makes sure that it hits the webhook that was seen.
fn trust(configuration: &Value, bundle: &str) -> Vec<Value> {
    let mut operations = Vec::new();
    for (index, webhook) in webhooks(configuration) {
        if webhook["clientConfig"]["caBundle"] != bundle {
            operations.push(json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": webhook["name"]}));
            operations.push(json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle}));
        }
    }
    operations
}

async fn patch(client: &Client, path: &str, content_type: &str, patch: &Value) -> Result<(), RequestError> {
    // The name keeps these fields apart from what `kubectl apply` owns.
    let uri = format!("{path}?fieldManager=lifesign-webhook");
    requests::send(client, Method::PATCH, &uri, content_type, patch.to_string().into_bytes(), TIMEOUT).await.map(drop)
}
