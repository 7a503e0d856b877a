//! Who we are, as it is at the moment: tokens expire, files change, plugins are asked again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::config::{self, ClientCertificate};
use super::exec::{Issued, Plugin};
use super::{Config, ConfigError, Trust};

/// How often a file with a token is read again; that of a service account is replaced when a fifth of its hour is left.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// Who we are, as it is configured.
#[derive(Clone, Default)]
pub(super) struct Auth {
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) authorization: Authorization,
    /// Headers that ask to be treated as somebody else.
    pub(super) impersonate: Vec<(HeaderName, HeaderValue)>,
}

/// What every request says.
#[derive(Clone, Default)]
pub(super) enum Authorization {
    #[default]
    None,
    Token(String),
    /// A file with a token, and the one to use while it cannot be read.
    TokenFile {
        path: PathBuf,
        first: Option<String>,
    },
    Basic {
        username: String,
        password: String,
    },
    Exec(Arc<Plugin>),
}

/// What is shown to the server at the moment.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) authorization: Option<HeaderValue>,
    /// `None`: the server is spoken to without TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// Knows what to show.
pub(super) struct Credentials {
    /// What is shown unless a plugin says otherwise.
    configured: Shown,
    trust: Trust,
    source: Source,
}

/// Where a token comes from that changes.
enum Source {
    Fixed,
    File { path: PathBuf, read: Mutex<(Option<Instant>, Option<HeaderValue>)> },
    Plugin { plugin: Arc<Plugin>, shown: Mutex<Option<(Arc<Issued>, Shown)>> },
}

impl Credentials {
    pub(super) fn new(config: &Config) -> Result<Credentials, ConfigError> {
        let tls = match config.is_https() {
            true => Some(config::tls(&config.trust, config.auth.certificate.as_deref())?),
            false => None,
        };
        let mut authorization = None;
        let source = match &config.auth.authorization {
            Authorization::None => Source::Fixed,
            Authorization::Token(token) => {
                authorization = Some(bearer(token)?);
                Source::Fixed
            }
            Authorization::Basic { username, password } => {
                let encoded = STANDARD.encode(format!("{username}:{password}"));
                authorization = Some(secret(&format!("Basic {encoded}"))?);
                Source::Fixed
            }
            Authorization::TokenFile { path, first } => {
                let first = first.as_deref().map(bearer).transpose()?;
                Source::File { path: path.clone(), read: Mutex::new((None, first)) }
            }
            Authorization::Exec(plugin) => Source::Plugin { plugin: Arc::clone(plugin), shown: Mutex::new(None) },
        };
        Ok(Credentials { configured: Shown { authorization, tls }, trust: config.trust.clone(), source })
    }

    /// Returns what to show now.
    pub(super) async fn current(&self) -> Result<Shown, ConfigError> {
        match &self.source {
            Source::Fixed => Ok(self.configured.clone()),
            Source::File { path, read } => {
                let mut read = read.lock().await;
                if read.0.is_none_or(|at| at.elapsed() >= READ_AGAIN) {
                    match tokio::fs::read_to_string(path).await {
                        Ok(token) => read.1 = Some(bearer(token.trim())?),
                        // It is being replaced, or gone: the last one is as good as it was.
                        Err(error) if read.1.is_some() => {
                            tracing::warn!(path = %path.display(), %error, "the token cannot be read again; the last one is used");
                        }
                        Err(source) => return Err(ConfigError::File { path: path.clone(), source }),
                    }
                    read.0 = Some(Instant::now());
                }
                Ok(Shown { authorization: read.1.clone(), ..self.configured.clone() })
            }
            Source::Plugin { plugin, shown } => {
                let issued = plugin.issued().await?;
                let mut shown = shown.lock().await;
                match &*shown {
                    Some((of, shown)) if Arc::ptr_eq(of, &issued) => Ok(shown.clone()),
                    _ => Ok(shown.insert((Arc::clone(&issued), self.shown(&issued)?)).1.clone()),
                }
            }
        }
    }

    /// Takes it that the server does not believe what it was shown: next time the source is asked again.
    pub(super) async fn refused(&self, used: &Shown) {
        match &self.source {
            Source::Fixed => {}
            Source::File { read, .. } => read.lock().await.0 = None,
            Source::Plugin { plugin, shown } => {
                // Others may have got something newer meanwhile.
                let newest = shown.lock().await;
                if newest.as_ref().is_some_and(|(_, newest)| newest.authorization == used.authorization) {
                    plugin.forget().await;
                }
            }
        }
    }

    /// Returns what to show with what a plugin has issued.
    fn shown(&self, issued: &Issued) -> Result<Shown, ConfigError> {
        let mut shown = self.configured.clone();
        if let Some(token) = &issued.token {
            shown.authorization = Some(bearer(token)?);
        }
        if let (Some(certificate), true) = (&issued.certificate, shown.tls.is_some()) {
            shown.tls = Some(config::tls(&self.trust, Some(certificate))?);
        }
        Ok(shown)
    }
}

fn bearer(token: &str) -> Result<HeaderValue, ConfigError> {
    if token.is_empty() {
        return Err(ConfigError::invalid("token", "it is empty"));
    }
    secret(&format!("Bearer {token}"))
}

/// Returns a header that is not shown in logs.
fn secret(text: &str) -> Result<HeaderValue, ConfigError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| ConfigError::invalid("token", "no header can have it"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(authorization: Authorization) -> Credentials {
        let mut config = Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        config.auth.authorization = authorization;
        Credentials::new(&config).unwrap()
    }

    async fn shown(credentials: &Credentials) -> String {
        let shown = credentials.current().await.unwrap().authorization.unwrap();
        assert!(shown.is_sensitive());
        shown.to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_password_is_shown_as_basic_authentication() {
        let basic = Authorization::Basic { username: "aladdin".into(), password: "opensesame".into() };
        assert_eq!(shown(&credentials(basic)).await, "Basic YWxhZGRpbjpvcGVuc2VzYW1l");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_with_a_token_is_read_again_every_minute_and_when_the_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let credentials = credentials(Authorization::TokenFile { path: path.clone(), first: None });
        assert_eq!(shown(&credentials).await, "Bearer one");
        std::fs::write(&path, "two\n").unwrap();
        tokio::time::advance(READ_AGAIN / 2).await;
        assert_eq!(shown(&credentials).await, "Bearer one");
        tokio::time::advance(READ_AGAIN / 2).await;
        assert_eq!(shown(&credentials).await, "Bearer two");
        std::fs::write(&path, "three\n").unwrap();
        credentials.refused(&credentials.current().await.unwrap()).await;
        assert_eq!(shown(&credentials).await, "Bearer three");
        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(READ_AGAIN).await;
        assert_eq!(shown(&credentials).await, "Bearer three", "the last one is used while there is none");
    }

    #[tokio::test]
    async fn a_file_that_was_never_there_is_named_unless_there_is_another_token() {
        let file = |first: Option<&str>| Authorization::TokenFile { path: "/no/token".into(), first: first.map(str::to_owned) };
        let error = credentials(file(None)).current().await.err().unwrap().to_string();
        assert!(error.starts_with("/no/token: "), "{error}");
        assert_eq!(shown(&credentials(file(Some("first")))).await, "Bearer first");
    }
}
