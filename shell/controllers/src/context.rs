//! What every controller is given.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use runtime::{Client, Clock, EventWriter, Events, Informers, WatchEvent, Writer};
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

/// How a machine is told of an object that is there, and of one that is gone.
pub(crate) type Telling<O, I> = (fn(O) -> I, fn(O) -> I);

/// Returns what happens to the objects of a kind as a machine is told it; `wrap` says of which kind they are.
pub(crate) fn facts<T, O, I>(
    events: Events<T>,
    wrap: fn(Arc<T>) -> O,
    (applied, deleted): Telling<O, I>,
    synced: impl Fn() -> I + Send + 'static,
) -> BoxStream<'static, I>
where
    T: Send + Sync + 'static,
    O: 'static,
    I: Send + 'static,
{
    let input = move |seen: WatchEvent<T>| {
        let fact = seen.input(|object| applied(wrap(object)), |object| deleted(wrap(object)), || Some(synced()));
        std::future::ready(fact)
    };
    events.filter_map(input).boxed()
}
