//! A client of a Kubernetes API: requests in, answers out, in process or over the network.
//!
//! In process a request is a call: no task, no buffer, no copy. Over the network all requests share one HTTP/2 connection, so that a
//! write more at the same time costs no TLS handshake; with a server that speaks HTTP/1.1 alone each has a connection while it lasts.
//! A request that was not sent because its connection had ended goes over another one; one that was sent is never repeated: only
//! the caller knows whether it may be.

mod body;
mod config;
mod connection;
mod credentials;
mod dial;
mod exec;
mod kubeconfig;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::{Body as HttpBody, Bytes};
use tower::ServiceExt;

pub use body::Body;
pub use config::{Config, ConfigError, Trust};
use connection::{Connections, Failed};
use credentials::Credentials;
use dial::{Dialer, Unreachable};
pub use kubeconfig::Kubeconfig;

/// A connection that has just been made may have ended as well, when the server restarts; after so many there is another reason.
const CONNECTIONS_MAX: usize = 3;

/// Why a request has no answer, or an answer no end.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no connection.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The connection ended under the request; nobody knows whether it was done.
    #[error("the connection broke: {}", crate::chain(.0))]
    Broken(hyper::Error),
    /// Who we are cannot be shown.
    #[error(transparent)]
    Credentials(#[from] ConfigError),
    /// The path cannot be asked for.
    #[error("{0} is no path of an API")]
    Path(String),
    /// What a service in process says.
    #[error(transparent)]
    Service(tower::BoxError),
}

type Call = dyn Fn(Request<Body>) -> BoxFuture<'static, Result<Response<Body>, ClientError>> + Send + Sync;

/// A client; clones share its connection.
#[derive(Clone)]
pub struct Client(Arc<Transport>);

enum Transport {
    Service(Box<Call>),
    Network(Network),
}

impl Client {
    /// Returns a client of a service in process.
    pub fn new<S, B>(service: S) -> Client
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<tower::BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let call = move |request| {
            let answer = service.clone().oneshot(request);
            let answer = async { answer.await.map(|answer| answer.map(Body::of_service)) };
            answer.map(|answer| answer.map_err(|error| ClientError::Service(error.into()))).boxed()
        };
        Client(Arc::new(Transport::Service(Box::new(call))))
    }

    /// Returns a client with a connection of its own to the same API, for what must not wait for others.
    pub fn separate(&self) -> Client {
        match &*self.0 {
            Transport::Service(_) => self.clone(),
            Transport::Network(network) => Client(Arc::new(Transport::Network(network.separate()))),
        }
    }

    /// Sends a request; its URI is the path and the query. The answer is there when its head is.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Body>, ClientError> {
        match &*self.0 {
            Transport::Service(call) => call(request).await,
            Transport::Network(network) => network.send(request).await,
        }
    }
}

impl TryFrom<Config> for Client {
    type Error = ConfigError;

    /// Returns a client of an API over the network; nothing is connected yet.
    fn try_from(config: Config) -> Result<Client, ConfigError> {
        let dialer = Arc::new(Dialer::new(&config)?);
        let mut headers = config.auth.impersonate.clone();
        if let Some(agent) = &config.user_agent {
            let invalid = |_| ConfigError::invalid("the name of this client", "no header can have it");
            headers.push((http::header::USER_AGENT, HeaderValue::from_str(agent).map_err(invalid)?));
        }
        let prefix = config.cluster_url.path().trim_end_matches('/').to_owned();
        let credentials = Credentials::new(&config)?;
        let place = Place { url: config.cluster_url, prefix, headers, credentials };
        Ok(Client(Arc::new(Transport::Network(Network { place: Arc::new(place), connections: Connections::new(dialer) }))))
    }
}

/// An API over the network, through connections of our own.
struct Network {
    place: Arc<Place>,
    connections: Connections,
}

/// Where the API is, and who we are there.
struct Place {
    url: Uri,
    /// What stands before every path.
    prefix: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    credentials: Credentials,
}

impl Network {
    fn separate(&self) -> Network {
        Network { place: Arc::clone(&self.place), connections: self.connections.separate() }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, ClientError> {
        let shown = self.place.credentials.current().await?;
        *request.uri_mut() = self.place.uri(request.uri())?;
        for (name, value) in &self.place.headers {
            request.headers_mut().append(name, value.clone());
        }
        if let Some(authorization) = &shown.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let mut connections = 1;
        let answer = loop {
            let connection = self.connections.acquire(shown.tls.as_ref()).await?;
            match connection.send(request).await {
                Ok(answer) => break answer,
                Err(Failed::NotSent(again, _)) if connections < CONNECTIONS_MAX => {
                    connections += 1;
                    request = *again;
                }
                Err(Failed::NotSent(_, error) | Failed::Broken(error)) => return Err(ClientError::Broken(error)),
            }
        };
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.place.credentials.refused(&shown).await;
        }
        Ok(answer)
    }
}

impl Place {
    /// Returns where a path is.
    fn uri(&self, asked: &Uri) -> Result<Uri, ClientError> {
        let path = asked.path_and_query().map_or("/", |path| path.as_str());
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query = Some(match self.prefix.as_str() {
            "" => asked.path_and_query().cloned().unwrap_or_else(|| http::uri::PathAndQuery::from_static("/")),
            prefix => format!("{prefix}{path}").parse().map_err(|_| ClientError::Path(path.to_owned()))?,
        });
        Uri::from_parts(parts).map_err(|_| ClientError::Path(path.to_owned()))
    }
}
