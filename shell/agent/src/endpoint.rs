//! The agent's endpoint: logs, streams into pods, metrics, what the probes do. Over HTTPS, or over plain HTTP for this machine alone.
//!
//! Clients prove themselves with a certificate of the cluster's authority: administrators (as which the API server comes)
//! get everything, other known readers everything but logs and streams, strangers only `/healthz`. On a cluster of others they bring a
//! token, and its API says who may read.

mod answers;
pub(crate) mod review;
mod streams;
pub(crate) mod tls;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;
use crate::supervisor::Message;
use answers::answer;
use review::Reviewer;
pub(crate) use tls::server_config;
use tls::{Caller, caller};

/// A client that does not finish its handshake in this time is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that does not finish its headers in this time is let go.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Answers under way may take this long when the agent stops; followers of logs are cut off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What answers are made from.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) metrics: Arc<Metrics>,
    /// Who says who may read; `None`: certificates do.
    reviewer: Option<Arc<Reviewer>>,
    /// Connections, also those that became streams.
    connections: TaskTracker,
    /// Ends them.
    cut_off: CancellationToken,
}

impl Endpoint {
    pub(crate) fn new(messages: mpsc::Sender<Message>, metrics: Arc<Metrics>) -> Endpoint {
        let (connections, cut_off) = (TaskTracker::new(), CancellationToken::new());
        Endpoint { messages, metrics, reviewer: None, connections, cut_off }
    }

    /// Returns the same endpoint, which has the API of the cluster say who may read.
    pub(crate) fn reviewed_by(mut self, reviewer: Option<Reviewer>) -> Endpoint {
        self.reviewer = reviewer.map(Arc::new);
        self
    }

    /// Serves until told to stop; without `tls` whoever can connect is a reader, so only this machine should.
    pub(crate) async fn serve(self, listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>, stop: CancellationToken) {
        let acceptor = tls.map(TlsAcceptor::from);
        let (connections, cut_off) = (self.connections.clone(), self.cut_off.clone());
        loop {
            let stream = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: waiting a moment is all that helps.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let (this, acceptor, cut_off) = (self.clone(), acceptor.clone(), cut_off.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = cut_off.cancelled() => {}
                    () = this.connection(acceptor, stream) => {}
                }
            });
        }
        connections.close();
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await;
        cut_off.cancel();
        connections.wait().await;
    }

    async fn connection(self, acceptor: Option<TlsAcceptor>, stream: TcpStream) {
        let Some(acceptor) = acceptor else { return self.answer_all(Caller::Reader, stream).await };
        let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => return tracing::debug!("TLS handshake timed out"),
        };
        let chain = stream.get_ref().1.peer_certificates();
        let caller = chain.and_then(|chain| chain.first()).map_or(Caller::Stranger, |certificate| caller(certificate));
        self.answer_all(caller, stream).await;
    }

    /// Returns who asks, or the answer to somebody who may not; how the endpoint is may be known by everybody.
    async fn reviewed(&self, caller: Caller, request: &Request<Incoming>) -> Result<Caller, (StatusCode, &'static str)> {
        let Some(reviewer) = self.reviewer.as_ref().filter(|_| request.uri().path() != answers::HEALTH) else {
            return Ok(caller);
        };
        reviewer.judge(request.headers(), request.uri().path()).await.refusal().map_or(Ok(Caller::Reader), Err)
    }

    /// Answers the requests of one connection.
    async fn answer_all(self, caller: Caller, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request: Request<Incoming>| {
            let this = self.clone();
            async move {
                let caller = match this.reviewed(caller, &request).await {
                    Ok(caller) => caller,
                    Err((code, why)) => return Ok(answers::text(code, why)),
                };
                Ok::<_, Infallible>(match streams::is_stream(request.uri().path()) {
                    true => streams::answer(&this, caller, request).await,
                    false => answer(&this, caller, request.method(), request.uri()).await,
                })
            }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}
