//! How a connection comes to be: TCP, TLS, and the HTTP that the server chooses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{Body, Config, ConfigError};

/// What a server that speaks HTTP/2 calls it.
const H2: &[u8] = b"h2";
/// What is offered to servers, the first one first.
pub(super) const PROTOCOLS: [&[u8]; 2] = [H2, b"http/1.1"];
/// A connection over which nothing came for this long is asked whether it still lives, ...
const PING_AFTER: Duration = Duration::from_secs(10);
/// ... and has ended if there is no answer by then.
const PONG_WITHIN: Duration = Duration::from_secs(5);
/// What a server may send of one answer before it is read, ...
const STREAM_WINDOW: u32 = 1 << 20;
/// ... and of all: who does not read does not stop the others.
const CONNECTION_WINDOW: u32 = 64 << 20;

/// Nobody answers at the address of an API.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address} cannot be reached: {why}")]
pub struct Unreachable {
    /// Where: `https://10.0.0.1:6443`.
    pub address: String,
    /// What happened.
    pub why: String,
}

/// Makes connections to one server.
pub(super) struct Dialer {
    /// For people.
    address: String,
    host: String,
    port: u16,
    /// Whom the certificate of the server must name; `None`: it shows none.
    server_name: Option<ServerName<'static>>,
    within: Duration,
}

/// A connection that was just made.
pub(super) enum Dialed {
    Http1(http1::SendRequest<Body>),
    Http2(Http2),
}

/// An HTTP/2 connection; clones are the same one.
#[derive(Clone)]
pub(super) struct Http2 {
    pub(super) sender: http2::SendRequest<Body>,
    state: Arc<State>,
}

/// What is known about a connection.
struct State {
    made: Instant,
    /// When something last came, in milliseconds since it was made.
    heard: AtomicU64,
    stalled: AtomicBool,
}

impl Http2 {
    /// Returns whether new requests may go over it.
    pub(super) fn is_usable(&self) -> bool {
        !self.sender.is_closed() && !self.state.stalled.load(Ordering::Relaxed)
    }

    /// Takes it that somebody waited in vain since then: if nothing at all has come, new requests go another way. Those under way
    /// stay, until a ping shows that they wait for nothing.
    pub(super) fn waited_since(&self, since: Instant) {
        let since = since.saturating_duration_since(self.state.made);
        if Duration::from_millis(self.state.heard.load(Ordering::Relaxed)) < since {
            self.state.stalled.store(true, Ordering::Relaxed);
        }
    }
}

impl Dialer {
    pub(super) fn new(config: &Config) -> Result<Dialer, ConfigError> {
        let url = &config.cluster_url;
        let invalid = || ConfigError::invalid("server", format!("{url} is no address like https://10.0.0.1:6443"));
        let host = url.host().ok_or_else(invalid)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_u16().unwrap_or(if config.is_https() { 443 } else { 80 });
        let name = config.tls_server_name.clone().unwrap_or_else(|| host.clone());
        let unnamed = || ConfigError::invalid("tls-server-name", format!("no certificate names {name:?}"));
        let server_name = config.is_https().then(|| ServerName::try_from(name.clone()).map_err(|_| unnamed())).transpose()?;
        let address = url.to_string().trim_end_matches('/').to_owned();
        Ok(Dialer { address, host, port, server_name, within: config.connect_timeout })
    }

    pub(super) async fn dial(&self, tls: Option<Arc<ClientConfig>>) -> Result<Dialed, Unreachable> {
        let dialed = tokio::time::timeout(self.within, self.try_dial(tls)).await;
        let dialed = dialed.unwrap_or_else(|_| Err(io::Error::other(format!("no connection within {:?}", self.within))));
        dialed.map_err(|error| self.unreachable(crate::chain(&error)))
    }

    pub(super) fn unreachable(&self, why: String) -> Unreachable {
        Unreachable { address: self.address.clone(), why }
    }

    async fn try_dial(&self, tls: Option<Arc<ClientConfig>>) -> io::Result<Dialed> {
        let stream = self.connect().await?;
        stream.set_nodelay(true)?;
        let Some((tls, name)) = tls.zip(self.server_name.clone()) else { return http1(stream).await };
        let stream = tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(H2) { http2(stream).await } else { http1(stream).await }
    }

    /// Connects to the first address of the host that answers; one that does not takes no time from the others.
    async fn connect(&self) -> io::Result<TcpStream> {
        let addresses: Vec<_> = tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect();
        let share = self.within / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        let mut last = io::Error::other("the name has no address");
        for address in addresses {
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::Error::other(format!("no connection to {address} within {share:?}")),
            }
        }
        Err(last)
    }
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> io::Result<Dialed> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(run(connection));
    Ok(Dialed::Http1(sender))
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> io::Result<Dialed> {
    let state = Arc::new(State { made: Instant::now(), heard: AtomicU64::new(0), stalled: AtomicBool::new(false) });
    let heard = Heard { stream, state: Arc::clone(&state) };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        // A connection that new requests avoid counts as idle, although a watch may still wait for it.
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(heard)).await.map_err(io::Error::other)?;
    tokio::spawn(run(connection));
    Ok(Dialed::Http2(Http2 { sender, state }))
}

/// Moves the bytes of a connection, until nobody has a use for it any more.
async fn run(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(error = crate::chain(&error), "a connection to the API ended");
    }
}

/// A stream that knows when something last came.
struct Heard<S> {
    stream: S,
    state: Arc<State>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        let since = u64::try_from(self.state.made.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.state.heard.store(since, Ordering::Relaxed);
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
