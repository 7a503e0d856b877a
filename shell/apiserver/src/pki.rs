//! The server's own certificates: an authority made at first start, a server certificate, client certificates per role.
//!
//! Everything lies below `pki/` of the data directory, readable by its owner only. The server certificate is made anew at
//! every start and while the server runs (see `renewal`), so it is always fresh; the authority stays.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use registry::authz;

/// How long the authority is good.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long the server's and the clients' certificates are good.
pub(crate) const LEAF_LIFE: Duration = Duration::from_secs(365 * 86_400);
/// Clocks of clients may be behind ours by this much.
const BACKDATE: Duration = Duration::from_secs(3_600);

/// Why certificates cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A certificate cannot be made or read.
    #[error("{path}: {error}; remove the folder to make new certificates (old kubeconfigs then stop working)")]
    Certificate {
        /// Which file.
        path: String,
        /// Why.
        error: rcgen::Error,
    },
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// A role that credentials are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// May do everything.
    Admin,
    /// May do everything but read secrets.
    Controllers,
    /// May read everything but secrets.
    Viewer,
    /// The agent of a node.
    Node(String),
}

impl Role {
    fn subject(&self) -> (String, &'static str) {
        match self {
            Role::Admin => ("lifesign-admin".to_owned(), authz::MASTERS),
            Role::Controllers => ("lifesign-controllers".to_owned(), authz::CONTROLLERS),
            Role::Viewer => ("lifesign-viewer".to_owned(), authz::VIEWERS),
            Role::Node(name) => (format!("{}{name}", authz::NODE_USER), authz::NODES),
        }
    }

    /// Returns the user name of the role.
    pub fn user(&self) -> String {
        self.subject().0
    }
}

/// The authority of a data directory.
pub struct Authority {
    folder: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Opens the authority of a data directory, made if it is not there.
    pub fn open(data_dir: &Path) -> Result<Authority, PkiError> {
        let folder = data_dir.join("pki");
        let (certificate_path, key_path) = (folder.join("ca.crt"), folder.join("ca.key"));
        let bad_file = |path: &Path| {
            let path = path.display().to_string();
            move |error| PkiError::File { path, error }
        };
        let bad = |path: &Path| {
            let path = path.display().to_string();
            move |error| PkiError::Certificate { path, error }
        };
        if !certificate_path.exists() || !key_path.exists() {
            let key = KeyPair::generate().map_err(bad(&key_path))?;
            let certificate = authority_params().self_signed(&key).map_err(bad(&certificate_path))?;
            runtime::files::write_private(&key_path, key.serialize_pem().as_bytes()).map_err(bad_file(&key_path))?;
            runtime::files::write_private(&certificate_path, certificate.pem().as_bytes())
                .map_err(bad_file(&certificate_path))?;
        }
        let certificate = std::fs::read_to_string(&certificate_path).map_err(bad_file(&certificate_path))?;
        let key =
            KeyPair::from_pem(&std::fs::read_to_string(&key_path).map_err(bad_file(&key_path))?).map_err(bad(&key_path))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(bad(&certificate_path))?;
        Ok(Authority { folder, certificate, issuer })
    }

    /// Returns the certificate of the authority, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Makes credentials for a role.
    pub fn client(&self, role: &Role) -> Result<Credentials, PkiError> {
        let (user, group) = role.subject();
        let mut params = leaf_params(&user, Some(group));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// Makes a server certificate for these names and addresses.
    pub fn server(&self, names: &[String], addresses: &[IpAddr]) -> Result<Credentials, PkiError> {
        let mut params = leaf_params("lifesign-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in names {
            if let Ok(name) = name.as_str().try_into() {
                params.subject_alt_names.push(SanType::DnsName(name));
            }
        }
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Result<Credentials, PkiError> {
        let bad = |error| PkiError::Certificate { path: self.folder.display().to_string(), error };
        let key = KeyPair::generate().map_err(bad)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(bad)?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("lifesign", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    set_life(&mut params, AUTHORITY_LIFE);
    params
}

fn leaf_params(common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(common_name, organization);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    set_life(&mut params, LEAF_LIFE);
    params
}

fn name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn set_life(params: &mut CertificateParams, life: Duration) {
    let now = std::time::SystemTime::now();
    params.not_before = (now - BACKDATE).into();
    params.not_after = (now + life).into();
}
