//! What is in flight: requests and bytes, in total and of each identity.
//!
//! A request holds its permit until the last byte of its answer has left, so that a client that asks and does not read
//! has used up its own share and nobody else's. Bytes are those of bodies, of the values made of them, and of answers that
//! were made for one client; what is sent out of the store is shared and costs nothing. The parts of this process are
//! counted and never refused: they are few, and the plane does not work without them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use api::status::Status;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::reply::Body;

/// What may be in flight at once; more is told to come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
    /// Of one identity: less than all, so that one that is out of hand locks out nobody but itself.
    pub(crate) requests_of_one: usize,
    pub(crate) bytes_of_one: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { requests: 1_000, bytes: 48 << 20, requests_of_one: 400, bytes_of_one: 24 << 20 }
    }
}

/// Bytes that every request has for itself: small requests go on when large ones have used up the rest.
const FREE_BYTES: usize = 16 << 10;

/// Counts what is in flight; clones count together.
#[derive(Clone, Default)]
pub(crate) struct Load {
    limits: Limits,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    all: Use,
    by_user: BTreeMap<String, Use>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    requests: usize,
    bytes: usize,
}

/// The place of one request; dropping it gives everything back.
pub(crate) struct Permit {
    load: Load,
    user: String,
    /// Whether it is refused nothing.
    own: bool,
    bytes: usize,
}

impl Load {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("no code panics while it holds the counts")
    }

    /// Lets a request in; `own`: it comes from this process.
    pub(crate) fn enter(&self, user: &str, own: bool) -> Result<Permit, Status> {
        let mut counts = self.counts();
        let of_one = counts.by_user.get(user).copied().unwrap_or_default();
        if !own && (counts.all.requests >= self.limits.requests || of_one.requests >= self.limits.requests_of_one) {
            return Err(Status::too_many_requests("too many requests at once, please try again later"));
        }
        counts.all.requests += 1;
        counts.by_user.entry(user.to_owned()).or_default().requests += 1;
        Ok(Permit { load: self.clone(), user: user.to_owned(), own, bytes: 0 })
    }
}

impl Permit {
    /// Makes the request hold `bytes` more.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Status> {
        let charged = |held: usize| held.saturating_sub(FREE_BYTES);
        let more = charged(self.bytes + bytes) - charged(self.bytes);
        let mut counts = self.load.counts();
        let limits = self.load.limits;
        let of_one = counts.by_user.get(&self.user).copied().unwrap_or_default();
        if !self.own && (counts.all.bytes + more > limits.bytes || of_one.bytes + more > limits.bytes_of_one) {
            return Err(Status::too_many_requests("too many bytes are in flight, please try again later"));
        }
        counts.all.bytes += more;
        counts.by_user.entry(self.user.clone()).or_default().bytes += more;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives the bytes back, but not the place.
    pub(crate) fn settle(&mut self) {
        let bytes = std::mem::take(&mut self.bytes).saturating_sub(FREE_BYTES);
        let mut counts = self.load.counts();
        counts.all.bytes -= bytes;
        if let Some(of_one) = counts.by_user.get_mut(&self.user) {
            of_one.bytes -= bytes;
        }
    }

    /// Returns the body that holds the permit until it has been sent, or given up.
    pub(crate) fn hold(self, body: Body) -> Body {
        http_body_util::BodyExt::boxed_unsync(Held { body, _permit: self })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.settle();
        let mut counts = self.load.counts();
        counts.all.requests -= 1;
        if let Some(of_one) = counts.by_user.get_mut(&self.user) {
            of_one.requests -= 1;
            if *of_one == Use::default() {
                counts.by_user.remove(&self.user);
            }
        }
    }
}

/// A body and the permit of its request.
struct Held {
    body: Body,
    _permit: Permit,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Load {
        let limits = Limits { requests: 4, bytes: 100 << 10, requests_of_one: 3, bytes_of_one: 60 << 10 };
        Load { limits, ..Load::default() }
    }

    #[test]
    fn one_identity_gets_its_share_and_not_more() {
        let load = small();
        let mut held: Vec<Permit> = (0..3).map(|_| load.enter("a", false).unwrap()).collect();
        assert_eq!(load.enter("a", false).err().map(|status| status.code), Some(429));
        held.push(load.enter("b", false).unwrap());
        assert!(load.enter("c", false).is_err(), "all places are taken");
        assert!(load.enter("a", true).is_ok(), "the parts of this process always get one");
        held.clear();
        assert!(load.counts().by_user.is_empty() && load.counts().all == Use::default());
    }

    #[test]
    fn bytes_are_charged_above_what_is_free_and_given_back() {
        let load = small();
        let mut a = load.enter("a", false).unwrap();
        a.charge(FREE_BYTES).unwrap();
        assert_eq!(load.counts().all.bytes, 0);
        a.charge(60 << 10).unwrap();
        assert!(a.charge(1).is_err());
        let mut b = load.enter("b", false).unwrap();
        assert!(b.charge(FREE_BYTES + (50 << 10)).is_err(), "all bytes together are bounded too");
        b.charge(FREE_BYTES).unwrap();
        drop(a);
        b.charge(50 << 10).unwrap();
        drop(b);
        assert_eq!(load.counts().all, Use::default());
    }

    #[tokio::test]
    async fn a_body_holds_the_permit_until_it_is_sent() {
        use http_body_util::BodyExt;
        let load = small();
        let body = load.enter("a", false).unwrap().hold(crate::reply::full("text"));
        assert_eq!(load.counts().all.requests, 1);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "text");
        assert_eq!(load.counts().all.requests, 0);
    }
}
