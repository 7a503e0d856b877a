//! Asking the API until it answers.

use std::time::Duration;

use api::{WriteError, WriteFailure};
use machine::BackOff;
use runtime::RequestError;
use tokio_util::sync::CancellationToken;

/// The waits before the API is asked again.
const WAITS: BackOff = BackOff { first: Duration::from_millis(200), last: Duration::from_secs(10) };

/// An error after which asking again may help.
pub(crate) trait Unanswered: std::fmt::Display {
    /// Returns whether the API did not answer, or could not.
    fn is_unanswered(&self) -> bool;
}

impl Unanswered for RequestError {
    fn is_unanswered(&self) -> bool {
        RequestError::is_unanswered(self)
    }
}

impl Unanswered for WriteFailure {
    fn is_unanswered(&self) -> bool {
        self.error == WriteError::Failed
    }
}

/// Asks until the API answers, with growing pauses; `None`: told to stop.
pub(crate) async fn until_answered<T, E: Unanswered, F: Future<Output = Result<T, E>>>(
    stop: &CancellationToken,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Option<Result<T, E>> {
    let mut failures = 0;
    loop {
        match stop.run_until_cancelled(ask()).await? {
            Err(error) if error.is_unanswered() => {
                tracing::warn!(what, %error, "the API does not answer; trying again");
            }
            answered => return Some(answered),
        }
        failures += 1;
        stop.run_until_cancelled(tokio::time::sleep(WAITS.after(failures))).await?;
    }
}
