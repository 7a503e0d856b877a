//! The one deadline of an attempt, which also notices when it is we who are late.
//!
//! A timeout says nothing about the target if this process was not run for half of the time. So the wait is
//! cut into steps, and the worst delay of a wake-up is remembered. An attempt that is answered within the first step, nearly
//! every one, pays for a single timer.

use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::Instant;

/// Steps into which the wait is cut: a pause of half the timeout is seen up to a sixteenth of it.
const STEPS: u32 = 16;
/// Shorter steps would cost more than they tell.
const STEP_MIN: Duration = Duration::from_millis(5);

/// The deadline of one attempt.
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    step: Duration,
    next: Instant,
    lag: Duration,
}

impl Deadline {
    /// Starts the attempt now.
    pub fn after(timeout: Duration) -> Deadline {
        let now = Instant::now();
        let step = (timeout / STEPS).max(STEP_MIN);
        let at = now + timeout;
        Deadline { at, step, next: at.min(now + step), lag: Duration::ZERO }
    }

    /// Waits until the time is up and returns the worst delay of a wake-up. May be dropped and called again.
    pub async fn passed(&mut self) -> Duration {
        loop {
            // Whatever the budget of the task: an attempt that always has something to read must still find its end.
            unconstrained(tokio::time::sleep_until(self.next)).await;
            let now = Instant::now();
            self.lag = self.lag.max(now - self.next);
            if now >= self.at {
                return self.lag;
            }
            self.next = self.at.min(now + self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pause_of_this_process_is_noticed() {
        let timeout = Duration::from_millis(200);
        let mut deadline = Deadline::after(timeout);
        let mut waiting = std::pin::pin!(deadline.passed());
        // Polled once, so that the first step is under way; then the only thread is held up.
        assert!(futures_now(waiting.as_mut()).await.is_none());
        let held_up = std::time::Instant::now();
        while held_up.elapsed() < timeout * 3 / 4 {
            std::hint::spin_loop();
        }
        let lag = waiting.await;
        assert!(lag * 2 >= timeout, "{lag:?}");
    }

    #[tokio::test]
    async fn an_attempt_that_always_has_something_to_do_still_ends() {
        let begun = std::time::Instant::now();
        let busy = async {
            while begun.elapsed() < Duration::from_secs(10) {
                tokio::task::consume_budget().await;
            }
        };
        let mut deadline = Deadline::after(Duration::from_millis(20));
        tokio::select! {
            biased;
            () = busy => panic!("the deadline was not looked at"),
            _ = deadline.passed() => {}
        }
    }

    /// Polls once.
    async fn futures_now<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match future.as_mut().poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
