//! `lifesign serve`: a small server for examples, demos and tests, with the habits that matter for health.
//!
//! It listens late, fails after a while, goes on serving after SIGTERM, or any of these together, and says on standard output
//! when it listens: `LISTEN <microseconds since the epoch>`.

mod answers;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use processes::state::wall;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::AgentTls;
use crate::endpoint::tls::server_config;
use answers::Answers;

/// Requests under way at the end get this long to finish.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// What is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// HTTP/1.1 over TLS, with a certificate made at the start.
    Https,
    /// Connections are accepted and closed.
    Tcp,
    /// The gRPC health service.
    Grpc,
}

/// How the server behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// Where it listens.
    pub address: IpAddr,
    /// The port; 0: any.
    pub port: u16,
    /// What is spoken.
    pub protocol: Protocol,
    /// How long after the start it begins to listen.
    pub listen_after: Duration,
    /// How long it goes on serving after SIGTERM.
    pub drain: Duration,
    /// How long after it began to listen it fails: HTTP 503, `NOT_SERVING`, or no listener.
    pub fail_after: Option<Duration>,
    /// The status of HTTP answers; below 400 the gRPC service is `SERVING`.
    pub status: u16,
    /// Whether every connection and every request is a line on standard output.
    pub log: bool,
}

impl Default for ServeConfig {
    fn default() -> ServeConfig {
        ServeConfig {
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 8080,
            protocol: Protocol::Http,
            listen_after: Duration::ZERO,
            drain: Duration::ZERO,
            fail_after: None,
            status: 200,
            log: false,
        }
    }
}

impl ServeConfig {
    /// Returns the address of the pod, or all addresses outside of one.
    pub fn default_address() -> IpAddr {
        let pod_ip = std::env::var("POD_IP").ok().and_then(|ip| ip.parse().ok());
        pod_ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into())
    }
}

/// Serves until SIGTERM or SIGINT, and then for the time of the drain.
pub async fn run(config: ServeConfig) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::pin!(stop);
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = tokio::time::sleep(config.listen_after) => {}
    }
    let server = Server::bind(config).await?;
    // Tests and measurements read this line: one write, at once. Nobody reading it is no reason to fail.
    let _ = writeln!(io::stdout(), "LISTEN {}", wall().as_micros());
    server.run(stop).await;
    Ok(())
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    config: ServeConfig,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Server {
    /// Begins to listen.
    pub async fn bind(config: ServeConfig) -> io::Result<Server> {
        // Before it listens, so that the first client does not wait for it.
        let tls = if config.protocol == Protocol::Https { Some(tls()?) } else { None };
        Ok(Server { listener: TcpListener::bind((config.address, config.port)).await?, config, tls })
    }

    /// Returns where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, and then for the time of the drain; requests under way are finished.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { listener, config, tls } = self;
        let connections = TaskTracker::new();
        let closing = CancellationToken::new();
        let draining = Arc::new(AtomicBool::new(false));
        let fails_at = config.fail_after.map(|after| Instant::now() + after);
        let answers = Answers { status: config.status, fails_at, draining: draining.clone(), log: config.log };
        let mut listener = Some(listener);
        // Nothing to drain means nothing to wait for.
        let end = async {
            stop.await;
            draining.store(true, Ordering::Relaxed);
            tokio::time::sleep(config.drain).await;
        };
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => break,
                () = at(fails_at), if config.protocol == Protocol::Tcp && listener.is_some() => listener = None,
                accepted = accept(listener.as_ref()) => if let Ok((stream, _)) = accepted {
                    answers.note("CONNECTION");
                    connections.spawn(connection(stream, config.protocol, tls.clone(), answers.clone(), closing.clone()));
                } else {
                    // Out of descriptors, most likely: asking again at once would change nothing.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                },
            }
        }
        drop(listener);
        closing.cancel();
        connections.close();
        // A client that never finishes its request is not waited for.
        let _ = tokio::time::timeout(FINISH_TIMEOUT, connections.wait()).await;
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Returns TLS settings with a certificate that was just made.
fn tls() -> io::Result<Arc<rustls::ServerConfig>> {
    let config = server_config(&AgentTls::default(), "lifesign-serve").map_err(io::Error::other)?;
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Serves one connection, over TLS if there are settings for it.
async fn connection(
    stream: TcpStream,
    protocol: Protocol,
    tls: Option<Arc<rustls::ServerConfig>>,
    answers: Answers,
    closing: CancellationToken,
) {
    // Small answers must not wait for each other.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, protocol, answers, closing).await,
        Some(tls) => {
            let shaken = tokio::select! {
                shaken = TlsAcceptor::from(tls).accept(stream) => shaken,
                () = closing.cancelled() => return,
            };
            if let Ok(stream) = shaken {
                serve(stream, protocol, answers, closing).await;
            }
        }
    }
}

/// Answers on one connection; when the server closes, the request under way is finished.
async fn serve<S>(stream: S, protocol: Protocol, answers: Answers, closing: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    // Errors are the client's: it went away, or spoke something else.
    match protocol {
        Protocol::Tcp => {}
        Protocol::Http | Protocol::Https => {
            let service = hyper::service::service_fn(move |request| answers.clone().http(request));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(io, service);
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        }
        Protocol::Grpc => {
            let service = hyper::service::service_fn(move |request| answers.clone().grpc(request));
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service);
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        }
    }
}
