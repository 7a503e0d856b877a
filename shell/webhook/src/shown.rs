//! The certificate that a replica shows: read from the Secret, replaced while it serves.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use admission::certificates::Validity;
use machine::Time;
use runtime::{Client, Clock, requests};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::certificate::{Contents, Credentials, life};
use crate::secret_path;

/// How often the Secret is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// While there is no certificate: the replica is of no use.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A request that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The certificate that a replica shows; none until the leader has made one.
pub struct Shown {
    clock: Clock,
    current: Mutex<Option<Current>>,
}

struct Current {
    pem: String,
    life: Validity,
    key: Arc<CertifiedKey>,
}

impl Shown {
    /// Starts without a certificate.
    pub fn new(clock: Clock) -> Arc<Shown> {
        Arc::new(Shown { clock, current: Mutex::new(None) })
    }

    /// Returns whether there is a certificate that is good now: only then does the replica take part.
    pub fn is_ready(&self) -> bool {
        self.until().is_some_and(|until| self.clock.now() < until)
    }

    /// Returns until when the certificate is good.
    pub fn until(&self) -> Option<Time> {
        self.with(|current| current.as_ref().map(|current| current.life.until))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Option<Current>) -> T) -> T {
        work(&mut self.current.lock().expect("no code panics while it holds the certificate"))
    }

    /// Follows the Secret until told to stop.
    pub async fn follow(self: Arc<Shown>, client: Client, namespace: String, stop: CancellationToken) {
        loop {
            match requests::get_opt::<Value>(&client, &secret_path(&namespace), TIMEOUT).await {
                Ok(secret) => self.take(secret.unwrap_or_default()),
                Err(error) => tracing::debug!(%error, "the Secret of the webhook cannot be read"),
            }
            let again = if self.is_ready() { LOOK_EVERY } else { LOOK_AGAIN };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(again) => {}
            }
        }
    }

    /// Shows what the Secret holds. What cannot be used is told, and the certificate before stays.
    fn take(&self, secret: Value) {
        let Some(server) = Contents::read(&secret).server else { return };
        if self.with(|current| current.as_ref().is_some_and(|current| current.pem == server.certificate)) {
            return;
        }
        match (certified(&server), life(&server.certificate)) {
            (Ok(key), Some(life)) => {
                self.with(|current| *current = Some(Current { pem: server.certificate, life, key }));
                tracing::info!(until = %api::Timestamp(life.until), "the webhook shows a new certificate");
            }
            (Err(error), _) => tracing::warn!(%error, "the certificate in the Secret of the webhook cannot be used"),
            (Ok(_), None) => tracing::warn!("the certificate in the Secret of the webhook cannot be read"),
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Shown")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.with(|current| current.as_ref().map(|current| Arc::clone(&current.key)))
    }
}

fn certified(credentials: &Credentials) -> Result<Arc<CertifiedKey>, String> {
    let text = |error: &dyn fmt::Display| error.to_string();
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).map_err(|error| text(&error))?;
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(chain.map_err(|error| text(&error))?, key, &provider);
    certified.map(Arc::new).map_err(|error| text(&error))
}
