//! Where work goes that grows with what clients send or ask for: decoding, patching, judging, encoding.
//!
//! The async workers also serve probes, heartbeats and health. A large request is polled outside of them, and only so many
//! at once; what is small is not worth the way. So work that takes long, for whatever reason, makes other large requests
//! wait, and nothing else.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::ready;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// Work on at most so many bytes stays where it is: it takes less than a millisecond.
const SMALL_MAX: usize = 16 << 10;

/// Bounds how much work goes on outside of the async workers.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Semaphore>);

impl Default for Pool {
    fn default() -> Pool {
        // As many as there are cores: more would only take turns.
        Pool(Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from))))
    }
}

impl Pool {
    /// Runs work on `bytes` bytes. A place is taken while the work runs, not while it waits for something itself.
    pub(crate) async fn run<F: Future>(&self, bytes: usize, work: F) -> F::Output {
        // A runtime of one thread has no workers to keep free; it is for tests, under a clock that stands still.
        if bytes <= SMALL_MAX || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return work.await;
        }
        let mut places = PollSemaphore::new(Arc::clone(&self.0));
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let _place = ready!(places.poll_acquire(cx)).expect("the semaphore is never closed");
            tokio::task::block_in_place(|| work.as_mut().poll(cx))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn work_that_never_ends_leaves_the_workers_alone() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let pool = Pool(Arc::new(Semaphore::new(2)));
        let (began, has_begun) = mpsc::channel();
        let ends: Vec<mpsc::Sender<()>> = (0..2)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                let (pool, began) = (pool.clone(), began.clone());
                runtime.spawn(async move {
                    pool.run(SMALL_MAX + 1, async move {
                        began.send("long").unwrap();
                        let _ = ended.recv();
                    })
                    .await;
                });
                end
            })
            .collect();
        let patience = Duration::from_secs(20);
        assert_eq!((has_begun.recv_timeout(patience), has_begun.recv_timeout(patience)), (Ok("long"), Ok("long")));
        // The only worker answers small requests, and a third large one waits.
        let (third, waiting) = (pool.clone(), began.clone());
        runtime.spawn(async move { third.run(SMALL_MAX + 1, async { waiting.send("third").unwrap() }).await });
        let small = runtime.block_on(runtime.spawn(async move { pool.run(1, async { 7 }).await })).unwrap();
        assert_eq!(small, 7);
        assert!(has_begun.try_recv().is_err(), "no more than two large ones at once");
        drop(ends);
        assert_eq!(has_begun.recv_timeout(patience), Ok("third"));
        runtime.shutdown_background();
    }
}
