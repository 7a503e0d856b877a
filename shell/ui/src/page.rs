//! The page: a small HTTP server on this machine alone, which only reads.
//!
//! Whoever can read the address with its token can look. The token stands in the fragment, which browsers do not send; the page
//! shows it with each request. Host and Origin are checked, so that no other page can ask through somebody's browser.

mod access;
mod answers;
mod assets;
mod stream;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::AskDetail;
use crate::shared::Shared;
use access::Token;
use answers::answer;

/// A client that does not finish its headers in this time is let go.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at once; a browser takes six.
const CONNECTIONS_MAX: usize = 128;

/// What the page shows beside the board.
#[derive(Clone)]
pub struct PageConfig {
    /// Where the API is, for people.
    pub cluster: String,
    /// Of this program.
    pub version: String,
    /// Who says more about an object.
    pub ask_detail: AskDetail,
}

/// A page that listens.
pub struct Page {
    listener: TcpListener,
    site: Arc<Site>,
}

/// What answers are made from.
struct Site {
    token: Token,
    /// This very server: a revision of another one means nothing here.
    instance: String,
    config: PageConfig,
    shared: Shared,
}

impl Page {
    /// Begins to listen; the address must be one of this machine alone.
    pub async fn bind(address: SocketAddr, config: PageConfig, shared: Shared) -> io::Result<Page> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other(format!("{address} is not a loopback address; the page is for this machine alone")));
        }
        let listener = TcpListener::bind(address).await?;
        let (token, instance) = (Token::random()?, Token::random()?.text().to_owned());
        Ok(Page { listener, site: Arc::new(Site { token, instance, config, shared }) })
    }

    /// Returns the address to open, with its token.
    pub fn url(&self) -> String {
        let address = self.listener.local_addr().unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        format!("http://{address}/#{}", self.site.token.text())
    }

    /// Serves until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let (tasks, places) = (TaskTracker::new(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        loop {
            let place = Arc::clone(&places).acquire_owned();
            let place = tokio::select! {
                () = stop.cancelled() => break,
                place = place => place.expect("the semaphore is never closed"),
            };
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Out of file descriptors, most likely: waiting a moment is all that helps.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (site, stop) = (Arc::clone(&self.site), stop.clone());
            tasks.spawn(async move {
                stop.run_until_cancelled(connection(site, stream)).await;
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

async fn connection(site: Arc<Site>, stream: TcpStream) {
    // Small answers must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(answer(&site, &request).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "connection of the page ended");
    }
}
