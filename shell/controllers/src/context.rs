//! What every controller is given.

use kube::Client;
use runtime::{Clock, EventWriter, Informers, Writer};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What every controller is given.
pub struct Context {
    /// The API.
    pub client: Client,
    /// What follows the API.
    pub informers: Informers,
    /// Writes in the name of the controller.
    pub writer: Writer,
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
    /// Tells once that everything was seen.
    pub(crate) fn tell_synced(&mut self) {
        if let Some(tell) = self.synced.take() {
            // Whoever asked may have lost interest.
            let _ = tell.send(());
        }
    }
}
