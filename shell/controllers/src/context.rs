//! What every controller is given.

use kube::Client;
use runtime::{Clock, EventWriter};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What every controller is given.
pub struct Context {
    /// The API.
    pub client: Client,
    /// The clock.
    pub clock: Clock,
    /// Writes events in the name of the controller.
    pub events: EventWriter,
    /// Cancelled when the controller is to end.
    pub stop: CancellationToken,
    /// To be told when the controller has seen everything once.
    pub synced: Option<oneshot::Sender<()>>,
}

impl Context {
    /// Returns a context whose events come from `component` on `host`, and what is told when the controller is synced.
    pub fn new(
        client: &Client,
        clock: &Clock,
        component: &str,
        host: &str,
        stop: CancellationToken,
    ) -> (Context, oneshot::Receiver<()>) {
        let events = EventWriter::start(client.clone(), clock.clone(), component, host);
        let (sender, receiver) = oneshot::channel();
        (Context { client: client.clone(), clock: clock.clone(), events, stop, synced: Some(sender) }, receiver)
    }

    /// Tells once that everything was seen.
    pub(crate) fn tell_synced(&mut self) {
        if let Some(tell) = self.synced.take() {
            // Whoever asked may have lost interest.
            let _ = tell.send(());
        }
    }
}
