//! Serving over TLS: HTTP/1.1 and HTTP/2 on one port.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{PeerIdentity, certificate_identity};
use crate::connections::{Caps, Connection, Connections};
use crate::fair::Fair;
use crate::pool::{OwnThreads, cores};
use crate::renewal::ShownCertificate;
use crate::reply;
use crate::server::Server;

/// A client that does not finish its TLS handshake in this time is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that does not finish its request line and headers in this time is let go.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Open requests finish within this time when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing goes on ends after this time; clients open another when they need one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The same for a connection that never said who it is.
const STRANGER_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a connection is asked whether its client is still there, and how long the client has to answer.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection that is told to end has so long for what it is at.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// At most one warning about connections in this time.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Requests that one connection may have open at once.
const STREAMS_MAX: u32 = 2_000;
/// What a stranger may send before somebody reads it, in bytes: of one request, and of a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The largest header block.
const HEADERS_MAX: u32 = 64 << 10;
/// What one HTTP/1.1 connection may buffer each way, in bytes: headers that are a little too large are still read, and refused.
const BUFFER_MAX: usize = HEADERS_MAX as usize + (16 << 10);
/// What one HTTP/2 answer may have made and not sent yet, in bytes. Clients that do not read make each of their answers hold it.
const SEND_BUFFER_MAX: usize = 64 << 10;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TlsError(String);

pub(crate) fn tls_error(error: &dyn std::fmt::Display) -> TlsError {
    TlsError(error.to_string())
}

/// Returns the TLS settings of a server that knows clients by certificates of an authority, and takes strangers too.
pub fn tls_config(authority: &str, shown: Arc<ShownCertificate>) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let bad = tls_error;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| bad(&error))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Says something at most every so often, and how often it was left unsaid.
#[derive(Default)]
struct Warnings {
    last: Option<tokio::time::Instant>,
    unsaid: u64,
}

impl Warnings {
    /// Returns how many were left unsaid before this one; `None`: this one is left unsaid too.
    fn admit(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < WARN_EVERY) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(tokio::time::Instant::now());
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// Serves until told to stop, then lets open requests finish.
///
/// What comes over the network has threads of its own: however much it is, probes, heartbeats and controllers of this process do
/// not wait behind it for a worker.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = listener.into_std()?;
    let network = OwnThreads::new("network", cores());
    network.run(async move { accept(server, TcpListener::from_std(listener)?, tls, stop).await }).await
}

async fn accept(
    server: Server,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    // Hundreds of strangers at once must not make a client that is there already wait for their cryptography.
    let handshakes = Arc::new(OwnThreads::new("tls-handshakes", 1));
    let acceptor = TlsAcceptor::from(tls);
    let tasks = TaskTracker::new();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = Connections::new(Caps::of(files));
    let mut warnings = Warnings::default();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: waiting a moment is all that helps.
                    if let Some(unsaid) = warnings.admit() {
                        tracing::warn!(%error, unsaid, "cannot accept a connection");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        match connections.enter(peer.ip().to_canonical()) {
            Some(place) => {
                // Small answers must not wait for more to come.
                let _ = stream.set_nodelay(true);
                let (acceptor, handshakes) = (acceptor.clone(), Arc::clone(&handshakes));
                let visitor = place.visitor();
                let handshake = async move {
                    // Who only connects costs nothing but the connection.
                    stream.peek(&mut [0]).await?;
                    visitor.has_spoken();
                    handshakes.run(acceptor.accept(Fair::new(stream))).await
                };
                tasks.spawn(connection(server.clone(), handshake, peer, place, stop.clone()));
            }
            None => {
                if let Some(unsaid) = warnings.admit() {
                    tracing::warn!(%peer, unsaid, "refused a connection: there are too many");
                }
            }
        }
    }
    server.stop();
    tasks.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, tasks.wait()).await.is_err() {
        tracing::warn!(open = tasks.len(), "connections were still open after the time to drain");
    }
    Ok(())
}

fn header_bytes<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    target + request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
}

async fn connection(
    server: Server,
    handshake: impl Future<Output = std::io::Result<TlsStream<Fair<TcpStream>>>>,
    peer: SocketAddr,
    place: Connection,
    stop: CancellationToken,
) {
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake);
    let stream = tokio::select! {
        () = place.leave.cancelled() => return,
        done = handshake => match done {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%peer, "TLS handshake timed out"),
        },
    };
    let identity =
        stream.get_ref().1.peer_certificates().and_then(|chain| certificate_identity(chain.first()?)).map(PeerIdentity);
    let visitor = place.visitor();
    if identity.is_some() {
        visitor.make_known();
    }
    let requests = visitor.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let server = server.clone();
        let activity = requests.begin();
        request.extensions_mut().insert(requests.clone());
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        async move {
            // HTTP/2 counts them itself.
            let reply = if header_bytes(&request) > HEADERS_MAX as usize {
                let code = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                reply::text(code, format!("headers are limited to {HEADERS_MAX} bytes\n"))
            } else {
                server.handle(request).await
            };
            // A request goes on until its answer has left: the body owns the activity.
            Ok::<_, Infallible>(reply.map(|body| {
                body.map_err(move |error| {
                    let _ = &activity;
                    error
                })
            }))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(BUFFER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        .max_send_buf_size(SEND_BUFFER_MAX)
        .max_header_list_size(HEADERS_MAX);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        () = async { tokio::select! {
            () = place.leave.cancelled() => {}
            () = visitor.idle(IDLE_TIMEOUT, STRANGER_IDLE_TIMEOUT) => {}
        } } => {
            served.as_mut().graceful_shutdown();
            match tokio::time::timeout(LEAVE_TIMEOUT, served).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn warnings_come_at_most_every_so_often() {
        let mut warnings = Warnings::default();
        assert_eq!(warnings.admit(), Some(0));
        assert!((0..1_000).all(|_| warnings.admit().is_none()));
        tokio::time::sleep(WARN_EVERY).await;
        assert_eq!(warnings.admit(), Some(1_000));
    }
}
