//! Serving over TLS: HTTP/1.1 and HTTP/2 on one port.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
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
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{PeerIdentity, certificate_identity};
use crate::renewal::ShownCertificate;
use crate::reply;
use crate::server::Server;

/// A client that does not finish its TLS handshake in this time is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that does not finish its request line and headers in this time is let go.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Open requests finish within this time when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests that one connection may have open at once.
const STREAMS_MAX: u32 = 2_000;
/// The largest header block.
const HEADERS_MAX: u32 = 64 << 10;

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

/// Serves until told to stop, then lets open requests finish.
pub async fn serve(server: Server, listener: TcpListener, tls: Arc<rustls::ServerConfig>, stop: CancellationToken) {
    let acceptor = TlsAcceptor::from(tls);
    let connections = TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: waiting a moment is all that helps.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        connections.spawn(connection(server.clone(), acceptor.clone(), stream, peer, stop.clone()));
    }
    server.stop();
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were still open after the time to drain");
    }
}

fn header_bytes<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    target + request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
}

async fn connection(server: Server, acceptor: TlsAcceptor, stream: TcpStream, peer: SocketAddr, stop: CancellationToken) {
    // Small answers must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake timed out"),
    };
    let identity =
        stream.get_ref().1.peer_certificates().and_then(|chain| certificate_identity(chain.first()?)).map(PeerIdentity);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let server = server.clone();
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        async move {
            // HTTP/2 counts them itself.
            if header_bytes(&request) > HEADERS_MAX as usize {
                let code = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                return Ok::<_, Infallible>(reply::text(code, format!("headers are limited to {HEADERS_MAX} bytes\n")));
            }
            Ok(server.handle(request).await)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(512 << 10);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX).max_header_list_size(HEADERS_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
