//! A client that works only as long as somebody may act: behind it, nothing leaves after leadership is lost.
//!
//! Tasks that are told to stop may be slow to hear it. So the permission is asked where requests leave: each one before it is
//! sent, by the clock, and those under way are dropped when the fence closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use machine::Time;
use tokio_util::sync::CancellationToken;

use crate::{Body, Client, Clock};

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not sent: this process does not lead any more")]
pub struct NotLeading;

/// Permission to act, until an instant that can be moved.
#[derive(Clone, Debug)]
pub struct Fence {
    clock: Clock,
    /// In microseconds.
    until: Arc<AtomicI64>,
    closed: CancellationToken,
}

impl Fence {
    /// Returns a fence that lets nothing pass yet.
    pub fn new(clock: Clock) -> Fence {
        Fence { clock, until: Arc::new(AtomicI64::new(i64::MIN)), closed: CancellationToken::new() }
    }

    /// Lets requests pass until then.
    pub fn open_until(&self, until: Time) {
        self.until.store(until.as_micros(), Ordering::Release);
    }

    /// Lets nothing pass from now on, and drops what is under way.
    pub fn close(&self) {
        self.until.store(i64::MIN, Ordering::Release);
        self.closed.cancel();
    }

    fn is_open(&self) -> bool {
        self.clock.now().as_micros() < self.until.load(Ordering::Acquire)
    }

    /// Returns a client whose requests pass the fence.
    pub fn client(&self, inner: &Client) -> Client {
        let (fence, inner) = (self.clone(), inner.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (fence, inner) = (fence.clone(), inner.clone());
            async move {
                if !fence.is_open() {
                    return Err(tower::BoxError::from(NotLeading));
                }
                tokio::select! {
                    biased;
                    () = fence.closed.cancelled() => Err(NotLeading.into()),
                    answer = inner.send(request) => answer.map_err(Into::into),
                }
            }
        });
        Client::new(service)
    }
}
