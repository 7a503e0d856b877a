//! The parts of a plane: each is watched, and one that ends unasked ends them all.
//!
//! Told to stop, parts stop in the order in which they were started backwards, so that what the last ones have to say is still
//! heard. After a fault nobody waits: the agent lets go of its pods, which go on and are found by the next start.

use std::future::Future;
use std::time::Duration;

use runtime::{Ended, Tasks, Why};
use tokio_util::sync::CancellationToken;

use crate::error::Failure;

/// After a fault each part gets so long to stop.
const AFTER_A_FAULT: Duration = Duration::from_millis(250);

/// How a part stops.
struct Part {
    name: &'static str,
    stop: CancellationToken,
    /// How long it may take; `None`: as long as it wants, it has its own limits.
    within: Option<Duration>,
}

/// Parts that run.
#[derive(Default)]
pub(crate) struct Parts {
    tasks: Tasks<Failure>,
    parts: Vec<Part>,
}

impl Parts {
    /// Starts a part; it stops before those that were started earlier.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        stop: CancellationToken,
        within: Option<Duration>,
        work: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) {
        self.tasks.spawn(name, work);
        self.parts.push(Part { name, stop, within });
    }

    /// Runs until told to stop, or until a part ends unasked; then stops all. `meanwhile` goes on beside it.
    pub(crate) async fn run(mut self, stop: &CancellationToken, meanwhile: impl Future<Output = ()>) -> Result<(), Failure> {
        let mut meanwhile = std::pin::pin!(async {
            meanwhile.await;
            std::future::pending::<()>().await;
        });
        let mut failure = tokio::select! {
            biased; // an agent without pods ends as soon as it is told
            () = stop.cancelled() => None,
            ended = self.tasks.ended() => Some(failure(ended)),
            () = &mut meanwhile => None,
        };
        while let Some(part) = self.parts.pop() {
            part.stop.cancel();
            let within = if failure.is_some() { Some(AFTER_A_FAULT) } else { part.within };
            let late = tokio::time::sleep(within.unwrap_or(Duration::MAX));
            let mut late = std::pin::pin!(late);
            while self.tasks.is_running(part.name) {
                tokio::select! {
                    ended = self.tasks.ended() => {
                        // Parts that share a token are told together and end in any order.
                        let asked = std::iter::once(&part).chain(&self.parts).any(|asked| asked.name == ended.part && asked.stop.is_cancelled());
                        if !asked || !matches!(ended.why, Why::Returned) {
                            failure.get_or_insert(self::failure(ended));
                        }
                    }
                    () = &mut late => {
                        self.tasks.abort(part.name);
                        break;
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

fn failure(ended: Ended<Failure>) -> Failure {
    match ended.why {
        Why::Failed(failure) => failure.about(ended.part),
        _ => Failure::bug(&ended).hint("pods go on running: `lifesign up` on the same data directory takes them over"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn parts_that_share_a_token_may_end_in_any_order() {
        let (stop, shared) = (CancellationToken::new(), CancellationToken::new());
        let mut parts = Parts::default();
        for (name, seconds) in [("quick", 0), ("slow", 1)] {
            let asked = shared.clone();
            parts.start(name, shared.clone(), None, async move {
                asked.cancelled().await;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(())
            });
        }
        stop.cancel();
        assert!(parts.run(&stop, std::future::pending()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_ends_unasked_is_named() {
        let (stop, other) = (CancellationToken::new(), CancellationToken::new());
        let mut parts = Parts::default();
        let asked = other.clone();
        parts.start("first", other, None, async move {
            asked.cancelled().await;
            Ok(())
        });
        parts.start("second", CancellationToken::new(), None, async { Ok(()) });
        let failure = parts.run(&stop, std::future::pending()).await.unwrap_err();
        assert!(failure.to_string().contains("second"), "{failure}");
    }
}
