//! The parts of a process as named tasks: one that ends unasked is told by name and reason, never missed.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::future::Future;
use std::time::Duration;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// For tests: the part that this variable names panics a moment after its start.
const FAULT_SWITCH: &str = "LIFESIGN_FAULT";
/// That moment.
const FAULT_AFTER: Duration = Duration::from_millis(300);

/// Why a part has ended.
#[derive(Debug)]
pub enum Why<E> {
    /// It returned.
    Returned,
    /// It gave up.
    Failed(E),
    /// It panicked, with this message.
    Panicked(String),
}

/// A part that has ended.
#[derive(Debug)]
pub struct Ended<E> {
    /// Its name.
    pub part: &'static str,
    /// Why.
    pub why: Why<E>,
}

impl<E: Display> Display for Ended<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ended unasked: ", self.part)?;
        match &self.why {
            Why::Returned => out.write_str("it returned"),
            Why::Failed(error) => error.fmt(out),
            Why::Panicked(message) => write!(out, "it panicked: {message}"),
        }
    }
}

/// Parts that run; those that still do are aborted when this is dropped.
pub struct Tasks<E> {
    set: JoinSet<Result<(), E>>,
    running: HashMap<Id, (&'static str, AbortHandle)>,
}

impl<E> Default for Tasks<E> {
    fn default() -> Tasks<E> {
        Tasks { set: JoinSet::new(), running: HashMap::new() }
    }
}

impl<E: Send + 'static> Tasks<E> {
    /// Starts a part.
    pub fn spawn(&mut self, part: &'static str, work: impl Future<Output = Result<(), E>> + Send + 'static) {
        let faulty = std::env::var(FAULT_SWITCH).is_ok_and(|named| named == part);
        let handle = self.set.spawn(async move {
            if !faulty {
                return work.await;
            }
            tokio::select! {
                ended = work => ended,
                () = tokio::time::sleep(FAULT_AFTER) => panic!("{FAULT_SWITCH} names it"),
            }
        });
        self.running.insert(handle.id(), (part, handle));
    }

    /// Returns the next part that ends; waits for ever if none runs.
    pub async fn ended(&mut self) -> Ended<E> {
        let Some(ended) = self.set.join_next_with_id().await else { return std::future::pending().await };
        let (id, why) = match ended {
            Ok((id, Ok(()))) => (id, Why::Returned),
            Ok((id, Err(error))) => (id, Why::Failed(error)),
            Err(error) => (error.id(), died(error)),
        };
        let (part, _) = self.running.remove(&id).expect("every task was started by `spawn`");
        Ended { part, why }
    }

    /// Returns whether a part of this name runs.
    pub fn is_running(&self, part: &str) -> bool {
        self.running.values().any(|(name, _)| *name == part)
    }

    /// Drops what a part does, wherever it is.
    pub fn abort(&self, part: &str) {
        self.running.values().filter(|(name, _)| *name == part).for_each(|(_, handle)| handle.abort());
    }

    /// Waits until all have ended; what has not by then is dropped.
    pub async fn finish(&mut self, within: Duration) {
        let all = async { while self.set.join_next().await.is_some() {} };
        if tokio::time::timeout(within, all).await.is_err() {
            self.set.shutdown().await;
        }
        self.running.clear();
    }
}

fn died<E>(error: JoinError) -> Why<E> {
    match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            Why::Panicked(text.unwrap_or_else(|| "without a message".to_owned()))
        }
        Err(_) => Why::Panicked("it was dropped".to_owned()),
    }
}

/// Returns an error with everything behind it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn message_of(work: impl Future<Output = Result<(), &'static str>> + Send + 'static) -> String {
        let mut tasks = Tasks::default();
        tasks.spawn("steady", std::future::pending());
        tasks.spawn("weak", work);
        let ended = tasks.ended().await.to_string();
        assert!(tasks.is_running("steady") && !tasks.is_running("weak"));
        tasks.finish(Duration::ZERO).await;
        ended
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_ends_is_told_by_name_and_reason() {
        assert_eq!(message_of(async { Ok(()) }).await, "weak ended unasked: it returned");
        assert_eq!(message_of(async { Err("no disk") }).await, "weak ended unasked: no disk");
        assert_eq!(message_of(async { panic!("broken {}", 1) }).await, "weak ended unasked: it panicked: broken 1");
    }

    #[tokio::test(start_paused = true)]
    async fn parts_that_do_not_end_in_time_are_dropped() {
        let dropped = std::sync::Arc::new(());
        let (held, mut tasks) = (std::sync::Arc::clone(&dropped), Tasks::<()>::default());
        tasks.spawn("stuck", async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        });
        tasks.finish(Duration::from_secs(1)).await;
        assert_eq!(std::sync::Arc::strong_count(&dropped), 1);
    }
}
