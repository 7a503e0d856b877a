//! The certificate that the server shows, made anew before it expires while the server goes on serving.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use runtime::Clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::pki::{Credentials, LEAF_LIFE, PkiError};
use crate::serve::{TlsError, tls_error};

/// How often the age of the certificate is looked at; a suspended machine must not sleep past the end of its life.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);

/// The certificate that a server shows; it can be replaced at any time.
pub struct ShownCertificate(RwLock<Arc<CertifiedKey>>);

impl ShownCertificate {
    /// Starts with these credentials.
    pub fn new(credentials: &Credentials) -> Result<Arc<ShownCertificate>, TlsError> {
        Ok(Arc::new(ShownCertificate(RwLock::new(certified(credentials)?))))
    }

    /// Shows other credentials from the next handshake on.
    pub fn replace(&self, credentials: &Credentials) -> Result<(), TlsError> {
        *self.0.write().expect("no code panics while it holds the certificate") = certified(credentials)?;
        Ok(())
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().expect("no code panics while it holds the certificate"))
    }
}

impl fmt::Debug for ShownCertificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ShownCertificate")
    }
}

impl ResolvesServerCert for ShownCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

fn certified(credentials: &Credentials) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| tls_error(&error))?;
    let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).map_err(|error| tls_error(&error))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map(Arc::new).map_err(|error| tls_error(&error))
}

/// Makes the certificate anew whenever two thirds of its life are over; runs for ever.
pub async fn renew(shown: Arc<ShownCertificate>, clock: Clock, make: impl Fn() -> Result<Credentials, PkiError>) {
    let mut due = clock.now() + LEAF_LIFE * 2 / 3;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if clock.now() < due {
            continue;
        }
        let made = make().map_err(|error| error.to_string());
        match made.and_then(|credentials| shown.replace(&credentials).map_err(|error| error.to_string())) {
            Ok(()) => {
                tracing::info!("the server certificate was renewed");
                due = clock.now() + LEAF_LIFE * 2 / 3;
            }
            Err(error) => tracing::error!(error, "the server certificate cannot be renewed; trying again in an hour"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Authority;
    use machine::Time;

    #[tokio::test(start_paused = true)]
    async fn the_certificate_is_another_one_after_two_thirds_of_its_life() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(folder.path()).unwrap();
        let make = move || authority.server(&["localhost".to_owned()], &[]);
        let shown = ShownCertificate::new(&make().unwrap()).unwrap();
        let first = shown.current();
        let clock = Clock::starting_at(Time::from_secs(1_000));
        tokio::spawn(renew(Arc::clone(&shown), clock.clone(), make));
        let third = LEAF_LIFE / 3;
        tokio::time::sleep(third * 2 - LOOK_EVERY).await;
        assert!(Arc::ptr_eq(&first, &shown.current()), "too early");
        tokio::time::sleep(LOOK_EVERY * 3).await;
        let second = shown.current();
        assert_ne!(first.cert, second.cert);
        tokio::time::sleep(third * 2 + LOOK_EVERY).await;
        assert_ne!(second.cert, shown.current().cert, "and again");
    }
}
