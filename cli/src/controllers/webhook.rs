//! The admission webhook beside the controllers: every replica serves it, the leader keeps its certificates.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use runtime::{Client, Clock};
use tokio_util::sync::CancellationToken;
use webhook::{Metrics, Shown};

use crate::error::Failure;
use crate::metrics::Ready;

/// What the leader does for the certificates.
pub(super) type Keep = Box<dyn FnOnce(Client, CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The webhook of this replica.
pub(super) struct Webhook {
    shown: Arc<Shown>,
    clock: Clock,
    namespace: String,
}

impl Webhook {
    /// Begins to serve; without a certificate every handshake fails until there is one.
    pub(super) async fn start(
        address: SocketAddr,
        namespace: &str,
        client: &Client,
        clock: &Clock,
        registry: &mut Registry,
        stop: &CancellationToken,
    ) -> Result<Webhook, Failure> {
        let bad = |error| Failure::usage(format!("--webhook {address}: {error}")).hint("port 0 picks a free one");
        let listener = runtime::listen(address).map_err(bad)?;
        eprintln!("webhook on https://{}{}", listener.local_addr().map_err(bad)?, webhook::PATH);
        let shown = Shown::new(clock.clone());
        tokio::spawn(webhook::serve(listener, Arc::clone(&shown), Metrics::register(registry), stop.clone()));
        tokio::spawn(Arc::clone(&shown).follow(client.clone(), namespace.to_owned(), stop.clone()));
        Ok(Webhook { shown, clock: clock.clone(), namespace: namespace.to_owned() })
    }

    /// Returns what says whether this replica takes part.
    pub(super) fn ready(&self) -> Ready {
        let shown = Arc::clone(&self.shown);
        Arc::new(move || shown.is_ready())
    }

    /// Returns what keeps the certificates, for whoever leads.
    pub(super) fn certificates(&self) -> Keep {
        let (clock, namespace) = (self.clock.clone(), self.namespace.clone());
        Box::new(move |client, stop| Box::pin(webhook::keep(client, clock, namespace, stop)))
    }
}
