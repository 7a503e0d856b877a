//! How an API is reached: its address, whom we trust to be it, and who we are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::credentials::{Auth, Authorization};
use super::dial::PROTOCOLS;
use super::exec::PluginError;
use crate::tls::{system_authorities, tls_with_authorities, tls_without_verification};

/// A server that cannot be connected to in this time is away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why it is not known how to reach an API.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is something else.
    #[error("this is no kubeconfig: {0}")]
    NotKubeconfig(String),
    /// Nothing says which cluster is meant.
    #[error("it has no current-context; `kubectl config use-context NAME` sets one")]
    NoContext,
    /// Something refers to what is not there.
    #[error("it has no {what} {name:?}")]
    Missing {
        /// A context, a cluster or a user.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something is wrong.
    #[error("{field}: {why}")]
    Invalid {
        /// What.
        field: String,
        /// Why.
        why: String,
    },
    /// Something that others understand.
    #[error("{field} is not supported; {instead}")]
    NotSupported {
        /// What.
        field: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// There is no service account.
    #[error("{0}")]
    NotInCluster(String),
    /// A plugin gives no credentials.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl ConfigError {
    pub(super) fn invalid(field: impl ToString, why: impl ToString) -> ConfigError {
        ConfigError::Invalid { field: field.to_string(), why: why.to_string() }
    }
}

/// Whose certificates a server may show.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those of the authorities that this machine trusts.
    System,
    /// Those of these authorities.
    Authorities(Vec<CertificateDer<'static>>),
    /// Any.
    Everything,
}

/// How an API is reached.
#[derive(Clone)]
pub struct Config {
    /// Where it is.
    pub cluster_url: Uri,
    /// The namespace of the context.
    pub default_namespace: String,
    /// Whose certificates it may show.
    pub trust: Trust,
    /// The name that its certificate must have, where that is not the host of the address.
    pub tls_server_name: Option<String>,
    /// How long a connection may take to be there.
    pub connect_timeout: Duration,
    /// What requests say who sends them.
    pub user_agent: Option<String>,
    pub(super) auth: Auth,
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Credentials are nobody's business.
        out.debug_struct("Config").field("cluster_url", &self.cluster_url).finish_non_exhaustive()
    }
}

impl Config {
    /// Returns how to reach a server as nobody.
    pub fn new(cluster_url: Uri) -> Config {
        Config {
            cluster_url,
            default_namespace: "default".to_owned(),
            trust: Trust::System,
            tls_server_name: None,
            connect_timeout: CONNECT_TIMEOUT,
            user_agent: None,
            auth: Auth::default(),
        }
    }

    /// Returns how a pod reaches the API of its cluster: as its service account.
    pub fn incluster() -> Result<Config, ConfigError> {
        let variable = |name: &str| std::env::var(name).ok();
        Config::of_service_account(variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"), SERVICE_ACCOUNT)
    }

    pub(super) fn of_service_account(
        host: Option<String>,
        port: Option<String>,
        folder: impl AsRef<Path>,
    ) -> Result<Config, ConfigError> {
        let (Some(host), Some(port)) = (host, port) else {
            let why = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
            return Err(ConfigError::NotInCluster(why.to_owned()));
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let url = format!("https://{host}:{port}");
        let url = url.parse().map_err(|_| ConfigError::NotInCluster(format!("{url} is no address of an API")))?;
        let folder = folder.as_ref();
        let mut config = Config::new(url);
        config.trust = Trust::Authorities(certificates("the authority of the cluster", &read(&folder.join("ca.crt"))?)?);
        let token = folder.join("token");
        read(&token)?;
        config.auth.authorization = Authorization::TokenFile { path: token, first: None };
        if let Ok(namespace) = read(&folder.join("namespace")) {
            config.default_namespace = String::from_utf8_lossy(&namespace).trim().to_owned();
        }
        Ok(config)
    }

    /// Returns the same without anything that its holder could be imitated with: it still shows a certificate.
    pub fn without_tokens(&self) -> Config {
        let auth = Auth { certificate: self.auth.certificate.clone(), ..Auth::default() };
        Config { auth, ..self.clone() }
    }

    pub(super) fn is_https(&self) -> bool {
        self.cluster_url.scheme() != Some(&http::uri::Scheme::HTTP)
    }
}

/// A certificate that says who we are, with those that lead to its authority, and its key.
pub(super) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientCertificate {
    pub(super) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<ClientCertificate, ConfigError> {
        let chain = certificates("client-certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| ConfigError::invalid("client-key", error))?;
        Ok(ClientCertificate { chain, key })
    }
}

/// Returns how TLS is spoken.
pub(super) fn tls(trust: &Trust, certificate: Option<&ClientCertificate>) -> Result<Arc<ClientConfig>, ConfigError> {
    let builder = match trust {
        Trust::Everything => tls_without_verification(),
        Trust::System => {
            let instead = "name one in the kubeconfig with certificate-authority";
            let none = || ConfigError::invalid("no certificates of authorities are found on this machine", instead);
            tls_with_authorities(system_authorities().ok_or_else(none)?)
        }
        Trust::Authorities(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                let added = roots.add(authority.clone());
                added.map_err(|error| ConfigError::invalid("certificate-authority", error))?;
            }
            tls_with_authorities(roots)
        }
    };
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => builder
            .with_client_auth_cert(certificate.chain.clone(), certificate.key.clone_key())
            .map_err(|error| ConfigError::invalid("client-certificate", error))?,
    };
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

/// Reads certificates, PEM; there must be one.
pub(super) fn certificates(field: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| ConfigError::invalid(field, error))?;
    if read.is_empty() { Err(ConfigError::invalid(field, "there is no certificate in it")) } else { Ok(read) }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::File { path: path.to_owned(), source })
}
