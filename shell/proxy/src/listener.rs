//! One listener: it is open while there is an endpoint behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::service::ServicePort;
use api::write::reference;
use api::{Event, EventType, ObjectReference, Service, Verb, Write};
use machine::BackOff;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::Shared;
use super::backends::{Backends, Picker};
use super::connection::carry;
use super::plan::{Planned, moved, name};

/// The annotation with the port that a port is served at, by its name.
const ANNOTATION: &str = "lifesign.dev/port-";
/// The reason of the event for a port that is served elsewhere.
const MOVED: &str = "ServicePortMoved";
/// The reason of the event for a port that cannot be served.
const FAILED: &str = "FailedToServePort";
/// The waits before an address is tried again.
const RETRY: BackOff = BackOff { first: Duration::from_millis(50), last: Duration::from_secs(5) };
/// The wait when no connection can be accepted, for want of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a listener says about its Service.
#[derive(Clone, Debug)]
pub(super) struct ServicePortInfo {
    service: ObjectReference,
    /// Namespace and name of the Service.
    key: String,
    annotation: String,
    /// What the annotation says.
    annotated: Option<String>,
    port: String,
}

impl ServicePortInfo {
    pub(super) fn new(service: &Service, planned: &Planned) -> ServicePortInfo {
        let metadata = &service.metadata;
        let annotation = format!("{ANNOTATION}{}", name(&planned.port));
        ServicePortInfo {
            service: reference::<Service>(&metadata.namespace, &metadata.name, &metadata.uid),
            key: metadata.key(),
            annotated: metadata.annotations.get(&annotation).cloned(),
            annotation,
            port: name(&planned.port),
        }
    }

    fn event(&self, type_: EventType, reason: &'static str, message: String) -> Event {
        Event { object: self.service.clone(), type_, reason, message }
    }

    /// Returns the request that makes the annotation right; `None`: it is.
    pub(super) fn correction(&self, bound: Option<u16>) -> Option<Write> {
        let wanted = bound.map(|port| port.to_string());
        let patch = json!({"metadata": {"uid": self.service.uid, "annotations": {&self.annotation: wanted}}});
        let write = || Write::to::<Service>(&*self.service.namespace, &*self.service.name, Verb::Merge(patch));
        (wanted != self.annotated).then(write)
    }
}

/// A listener; it closes when this is dropped.
pub(super) struct Listener {
    port: ServicePort,
    backends: watch::Sender<Arc<Backends>>,
    #[cfg(test)]
    pub(super) listening: watch::Receiver<Option<SocketAddr>>,
}

impl Listener {
    /// Opens a listener for a port.
    pub(super) fn open(
        address: SocketAddr,
        port: ServicePort,
        info: ServicePortInfo,
        backends: Backends,
        shared: Arc<Shared>,
    ) -> Listener {
        let (sender, receiver) = watch::channel(Arc::new(backends));
        let (listening, reported) = watch::channel(None);
        let acceptor = Acceptor { address, info, shared: Arc::clone(&shared), picker: Arc::default(), listening };
        shared.tasks.spawn(async move {
            let stop = acceptor.shared.stop.clone();
            stop.run_until_cancelled(acceptor.run(receiver)).await;
        });
        #[cfg(not(test))]
        drop(reported);
        Listener {
            port,
            backends: sender,
            #[cfg(test)]
            listening: reported,
        }
    }

    /// Returns whether the listener is for this port.
    pub(super) fn is_for(&self, port: &ServicePort) -> bool {
        (&self.port.name, self.port.port) == (&port.name, port.port)
    }

    /// Changes where new connections go.
    pub(super) fn update(&self, backends: Backends) {
        self.backends.send_if_modified(|current| {
            let another = **current != backends;
            if another {
                *current = Arc::new(backends);
            }
            another
        });
    }
}

/// Who accepts connections.
struct Acceptor {
    address: SocketAddr,
    info: ServicePortInfo,
    shared: Arc<Shared>,
    picker: Arc<Picker>,
    /// Where it listens now.
    listening: watch::Sender<Option<SocketAddr>>,
}

impl Acceptor {
    async fn run(mut self, mut backends: watch::Receiver<Arc<Backends>>) {
        // Without endpoints nothing listens: the kernel refuses at once.
        while backends.wait_for(|backends| !backends.addresses.is_empty()).await.is_ok() {
            // The last value outlives the Service.
            if backends.has_changed().is_err() {
                return;
            }
            if let Some(listener) = self.bind(&mut backends).await {
                self.listening.send_replace(listener.local_addr().ok());
                self.accept(listener, &mut backends).await;
                self.listening.send_replace(None);
            }
        }
    }

    /// Binds the address, trying again while there are endpoints.
    async fn bind(&mut self, backends: &mut watch::Receiver<Arc<Backends>>) -> Option<TcpListener> {
        let (mut failures, mut reported) = (0, false);
        loop {
            let error = match runtime::listen(self.address) {
                Ok(listener) => {
                    self.annotate(None);
                    return Some(listener);
                }
                Err(error) => error,
            };
            let elsewhere = moved(self.address).filter(|_| error.kind() == std::io::ErrorKind::PermissionDenied);
            if let Some(elsewhere) = elsewhere
                && let Ok(listener) = runtime::listen(elsewhere)
            {
                self.tell_moved(elsewhere);
                return Some(listener);
            }
            if !reported {
                reported = true;
                let message = format!("Port {} cannot be served at {}: {error}", self.info.port, self.address);
                self.shared.events.record(self.info.event(EventType::Warning, FAILED, message));
            }
            let empty = backends.wait_for(|backends| backends.addresses.is_empty());
            failures += 1;
            if tokio::time::timeout(RETRY.after(failures), empty).await.is_ok() {
                return None;
            }
        }
    }

    fn tell_moved(&mut self, elsewhere: SocketAddr) {
        let text = format!(
            "Port {} is served at {elsewhere}: this process may not bind ports below 1024; run as root or choose a higher port",
            self.info.port
        );
        self.shared.events.record(self.info.event(EventType::Normal, MOVED, text));
        self.annotate(Some(elsewhere.port()));
    }

    /// Says on the Service where a port is served, if it is not where it should be.
    fn annotate(&mut self, elsewhere: Option<u16>) {
        let Some(write) = self.info.correction(elsewhere) else { return };
        self.info.annotated = elsewhere.map(|port| port.to_string());
        let writer = self.shared.writer.clone();
        self.shared.tasks.spawn(async move {
            if let Err(error) = writer.perform(&write).await {
                tracing::warn!(service = write.name, %error, "the Service does not say where its port is served");
            }
        });
    }

    /// Takes connections until there is no endpoint for them.
    async fn accept(&self, listener: TcpListener, backends: &mut watch::Receiver<Arc<Backends>>) {
        loop {
            let accepted = tokio::select! {
                biased;
                // Also when the Service is gone.
                _ = backends.wait_for(|backends| backends.addresses.is_empty()) => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((client, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            self.shared.connections.count(&self.info.key);
            let permits = Arc::clone(&self.shared.permits);
            let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
            let (stop, drains) = (self.shared.stop.clone(), self.shared.drains.clone());
            let carried = carry(client, peer, backends.clone(), Arc::clone(&self.picker), drains);
            self.shared.tasks.spawn(async move {
                stop.run_until_cancelled(carried).await;
                drop(permit);
            });
        }
    }
}
