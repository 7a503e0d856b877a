//! Who the endpoint is, and who asks it.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use crate::config::{AgentError, AgentTls};

/// The group that may do everything; Kubernetes.
const MASTERS: &str = "system:masters";
/// The groups that may read everything but secrets, and so but logs.
const READERS: [&str; 2] = ["lifesign:viewers", "lifesign:controllers"];

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Nobody known.
    Stranger,
    /// Somebody who may read what is no secret.
    Reader,
    /// An administrator, or the API server.
    Admin,
}

/// Returns who shows a certificate; it was verified by TLS.
pub(super) fn caller(certificate: &[u8]) -> Caller {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else { return Caller::Stranger };
    let groups: Vec<&str> = certificate.subject().iter_organization().filter_map(|name| name.as_str().ok()).collect();
    if groups.contains(&MASTERS) {
        Caller::Admin
    } else if groups.iter().any(|group| READERS.contains(group)) {
        Caller::Reader
    } else {
        Caller::Stranger
    }
}

/// Returns the TLS settings of the endpoint.
pub(crate) fn server_config(tls: &AgentTls, node: &str) -> Result<Arc<rustls::ServerConfig>, AgentError> {
    let bad = |error: &dyn std::fmt::Display| AgentError::Tls(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&error))?;
    let builder = if tls.client_ca.is_empty() {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(tls.client_ca.as_bytes()) {
            roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
        builder.with_client_cert_verifier(verifier.build().map_err(|error| bad(&error))?)
    };
    let (certificate, key) = match &tls.certificate {
        Some(given) => given.clone(),
        None => own_certificate(node).map_err(|error| bad(&error))?,
    };
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().map_err(|error| bad(&error))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| bad(&error))?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| bad(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Makes a certificate of our own: it is the clients that prove themselves here.
fn own_certificate(node: &str) -> Result<(String, String), rcgen::Error> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), node.to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_known_by_their_groups() {
        let of = |groups: &[&str]| {
            let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
            for group in groups {
                params.distinguished_name.push(rcgen::DnType::OrganizationName, *group);
            }
            let key = rcgen::KeyPair::generate().unwrap();
            caller(params.self_signed(&key).unwrap().der())
        };
        assert_eq!(of(&["system:masters"]), Caller::Admin);
        assert_eq!(of(&["lifesign:viewers"]), Caller::Reader);
        assert_eq!(of(&["system:nodes"]), Caller::Stranger);
        assert_eq!(caller(b"nonsense"), Caller::Stranger);
    }

    #[test]
    fn an_endpoint_has_a_certificate_of_its_own_or_the_given_one() {
        assert!(server_config(&AgentTls::default(), "n1").is_ok());
        let (certificate, key) = own_certificate("n1").unwrap();
        let given = AgentTls { client_ca: certificate.clone(), certificate: Some((certificate, key)) };
        assert!(server_config(&given, "n1").is_ok());
        let broken = AgentTls {
            client_ca: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n".to_owned(),
            certificate: None,
        };
        assert!(matches!(server_config(&broken, "n1"), Err(AgentError::Tls(_))));
    }
}
