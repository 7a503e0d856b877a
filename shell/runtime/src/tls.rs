//! Whom we speak TLS with: who has a certificate of an authority that is trusted; or whoever is there, for probes, which ask whether
//! somebody answers and not who it is, and for agents, which make their own certificates and to which it is we who must prove ourselves.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier};

/// Where systems keep the certificates of the authorities that they trust: Debian and Alpine, Fedora, openSUSE, BSD.
const SYSTEM_AUTHORITIES: [&str; 4] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"];

/// Returns the authorities that this machine trusts: those of `$SSL_CERT_FILE`, else those of the system; `None`: there are none.
pub(crate) fn system_authorities() -> Option<RootCertStore> {
    let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let files = named.into_iter().chain(SYSTEM_AUTHORITIES.iter().map(Into::into));
    files.into_iter().find_map(|file| {
        let mut roots = RootCertStore::empty();
        // One of many that cannot be read is no reason to trust none.
        let read = CertificateDer::pem_file_iter(file).ok()?;
        roots.add_parsable_certificates(read.filter_map(Result::ok));
        (!roots.is_empty()).then_some(roots)
    })
}

/// Returns the beginning of a configuration that takes certificates of these authorities.
pub(crate) fn tls_with_authorities(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    builder(Arc::new(rustls::crypto::ring::default_provider())).with_root_certificates(roots)
}

fn builder(provider: Arc<CryptoProvider>) -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions")
}

/// Returns the beginning of a configuration that takes whatever certificate the server shows.
pub fn tls_without_verification() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    builder(Arc::clone(&provider)).dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
}

/// Believes every certificate. Signatures are not looked at: made with the key of a certificate that anybody could make, they
/// prove nothing.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
