//! Stopping: the first signal asks, the second one insists.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Failure;

/// Returns a token that is cancelled by the first Ctrl-C or SIGTERM; a second one ends the process at once.
pub(crate) fn stop_on_signal() -> Result<CancellationToken, Failure> {
    stop_and_say(|| "stopping; once more to stop at once".to_owned(), || None)
}

/// The same, with the words for either signal.
pub(crate) fn stop_and_say(
    first: impl Fn() -> String + Send + 'static,
    second: impl Fn() -> Option<String> + Send + 'static,
) -> Result<CancellationToken, Failure> {
    let bad = |error| Failure::bug(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(bad)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(bad)?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        for round in 0..2 {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if round == 0 {
                eprintln!("{}", first());
                token.cancel();
            }
        }
        if let Some(words) = second() {
            eprintln!("{words}");
        }
        std::process::exit(130);
    });
    Ok(stop)
}
