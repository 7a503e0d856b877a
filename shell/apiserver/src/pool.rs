//! Where work goes that grows with what clients send or ask for: decoding, patching, judging, encoding.
//!
//! The async workers also serve probes, heartbeats and health. A large request is polled outside of them, and only so many
//! at once; what is small is not worth the way. So work that takes long, for whatever reason, makes other large requests
//! wait, and nothing else. The largest writes have one thread of their own, one after the other: the allocator keeps some of what
//! was freed for every thread that has ever needed it.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::ready;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;
use tokio_util::task::AbortOnDropHandle;

/// Work on at most so many bytes stays where it is: it takes less than a millisecond.
const SMALL_MAX: usize = 16 << 10;
/// What is written above this is worked on by one thread, one at a time: ten thousand items take some ten megabytes each time
/// they are copied, and they are decoded, merged, judged and compared with who owns them.
const SHARED_MAX: usize = 128 << 10;

/// Bounds how much work goes on outside of the async workers.
#[derive(Clone)]
pub(crate) struct Pool {
    places: Arc<Semaphore>,
    large: Arc<LargeWrites>,
}

struct LargeWrites {
    place: Semaphore,
    thread: OwnThreads,
}

/// Threads for one kind of work, which then never stands before other work in the queue of an async worker. They are started when
/// there is something to do.
pub(crate) struct OwnThreads {
    name: &'static str,
    count: usize,
    runtime: OnceLock<Runtime>,
}

impl OwnThreads {
    pub(crate) fn new(name: &'static str, count: usize) -> OwnThreads {
        OwnThreads { name, count, runtime: OnceLock::new() }
    }

    /// Runs work on the threads; it ends when this is dropped.
    pub(crate) async fn run<F>(&self, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // A runtime of one thread has no workers to keep free; it is for tests, under a clock that stands still.
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return work.await;
        }
        let start = || Builder::new_multi_thread().worker_threads(self.count).thread_name(self.name).enable_all().build();
        let runtime = self.runtime.get_or_init(|| start().expect("a thread can be started"));
        match AbortOnDropHandle::new(runtime.spawn(work)).await {
            Ok(output) => output,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Drop for OwnThreads {
    fn drop(&mut self) {
        // Whoever drops this may be an async worker, which must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Default for Pool {
    fn default() -> Pool {
        // More would only take turns.
        Pool::new(cores())
    }
}

/// Returns how many things can be worked on at the same time.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Pool {
    fn new(count: usize) -> Pool {
        let large = LargeWrites { place: Semaphore::new(1), thread: OwnThreads::new("large-writes", 1) };
        Pool { places: Arc::new(Semaphore::new(count)), large: Arc::new(large) }
    }

    /// Runs work on `bytes` bytes, of which `written` come from the client. A place is taken while the work runs, not while it
    /// waits for something itself.
    pub(crate) async fn run<F>(&self, bytes: usize, written: usize, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // A runtime of one thread has no workers to keep free; it is for tests, under a clock that stands still.
        if bytes <= SMALL_MAX || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return work.await;
        }
        if written > SHARED_MAX {
            let _place = self.large.place.acquire().await.expect("the semaphore is never closed");
            return self.large.thread.run(work).await;
        }
        let mut places = PollSemaphore::new(Arc::clone(&self.places));
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
        let pool = Pool::new(2);
        let (began, has_begun) = mpsc::channel();
        let ends: Vec<mpsc::Sender<()>> = (0..2)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                let (pool, began) = (pool.clone(), began.clone());
                runtime.spawn(async move {
                    pool.run(SMALL_MAX + 1, 0, async move {
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
        runtime.spawn(async move { third.run(SMALL_MAX + 1, 0, async move { waiting.send("third").unwrap() }).await });
        let small = runtime.block_on(runtime.spawn(async move { pool.run(1, 0, async { 7 }).await })).unwrap();
        assert_eq!(small, 7);
        assert!(has_begun.try_recv().is_err(), "no more than two large ones at once");
        drop(ends);
        assert_eq!(has_begun.recv_timeout(patience), Ok("third"));
        runtime.shutdown_background();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_large_when_written_is_worked_on_alone() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (pool, at_once, most) = (Pool::new(2), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = |written: usize| {
            let (pool, at_once, most) = (pool.clone(), Arc::clone(&at_once), Arc::clone(&most));
            tokio::spawn(async move {
                let work = async move {
                    most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(1));
                    at_once.fetch_sub(1, Ordering::SeqCst);
                };
                pool.run(SHARED_MAX + 1, written, work).await;
            })
        };
        for work in (0..20).map(|_| work(SHARED_MAX + 1)).collect::<Vec<_>>() {
            work.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(pool.places.available_permits(), 2);
    }
}
