//! `/metrics` of a command, and whether it is well: plain HTTP, for a scraper and a kubelet beside it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use runtime::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::error::Failure;

/// What is served; the format of the agent's metrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A client that does not finish its headers in this time is let go.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// More than a few scrapers at a time are a mistake; the oldest wait, the others are not accepted yet.
const CONNECTIONS_MAX: usize = 64;

/// Says whether the process may be sent requests.
pub(crate) type Ready = Arc<dyn Fn() -> bool + Send + Sync>;

/// Metrics that are served until this is dropped.
pub(crate) struct Serving {
    address: SocketAddr,
    tasks: Tasks<Infallible>,
}

impl Serving {
    /// Begins to serve.
    pub(crate) async fn start(address: SocketAddr, registry: Registry, ready: Ready) -> Result<Serving, Failure> {
        let bad = |error| Failure::usage(format!("--metrics-addr {address}: {error}")).hint("port 0 picks a free one");
        let listener = TcpListener::bind(address).await.map_err(bad)?;
        let address = listener.local_addr().map_err(bad)?;
        let mut tasks = Tasks::default();
        tasks.spawn("metrics", accept(listener, Arc::new(registry), ready));
        Ok(Serving { address, tasks })
    }

    /// Waits until they are no longer served, which should not happen.
    pub(crate) async fn ended(&mut self) -> Failure {
        Failure::bug(self.tasks.ended().await)
    }

    /// Returns where they are served.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, registry: Arc<Registry>, ready: Ready) -> Result<(), Infallible> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, Arc::clone(&registry), Arc::clone(&ready)))),
                Err(error) => {
                    // Out of file descriptors, most likely: waiting a moment is all that helps.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, registry: Arc<Registry>, ready: Ready) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &registry, &ready);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection ended");
    }
}

fn answer(method: &Method, path: &str, registry: &Registry, ready: &Ready) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let (status, kind, text) = match (method, path) {
        (&Method::GET, "/metrics") => {
            let mut text = String::new();
            // Writing to a text cannot fail.
            let _ = encode(&mut text, registry);
            (StatusCode::OK, OPENMETRICS, text)
        }
        (&Method::GET, "/healthz") => (StatusCode::OK, TEXT, "ok".to_owned()),
        (&Method::GET, "/readyz") if ready() => (StatusCode::OK, TEXT, "ok".to_owned()),
        (&Method::GET, "/readyz") => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "the webhook has no certificate yet\n".to_owned()),
        (&Method::GET, _) => (StatusCode::NOT_FOUND, TEXT, "404 page not found\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is answered here\n".to_owned()),
    };
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    answer.body(Full::new(text.into())).expect("these headers are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_health_are_served_and_nothing_else() {
        let registry = Registry::default();
        let ready: Ready = Arc::new(|| true);
        let code = |method: Method, path: &str| answer(&method, path, &registry, &ready).status().as_u16();
        assert_eq!(code(Method::GET, "/metrics"), 200);
        assert_eq!(code(Method::GET, "/healthz"), 200);
        assert_eq!(code(Method::GET, "/readyz"), 200);
        let waits: Ready = Arc::new(|| false);
        assert_eq!(answer(&Method::GET, "/readyz", &registry, &waits).status().as_u16(), 503);
        assert_eq!(code(Method::GET, "/"), 404);
        assert_eq!(code(Method::POST, "/metrics"), 405);
    }
}
