//! Answers that are made while they are sent: a list of any length takes the memory of one chunk.
//!
//! Objects stay in the store and are rendered when the client has room for them; large ones are not even copied.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use registry::state::Stored;

use crate::reply::Body;

/// What is sent at once; objects that are larger are sent from where they are stored. Two frames of HTTP/2 hold just as much.
pub(crate) const CHUNK: usize = 32 << 10;

/// Takes pieces of an answer and makes chunks of them.
#[derive(Default)]
pub(crate) struct Out {
    open: BytesMut,
    ready: VecDeque<Bytes>,
}

impl Out {
    /// Returns room for an answer of so many bytes.
    fn with_capacity(bytes: usize) -> Out {
        Out { open: BytesMut::with_capacity(bytes.min(CHUNK)), ready: VecDeque::new() }
    }

    /// Appends bytes. Chunks are full to the last byte: a frame for the few that are left would cost as much as a full one.
    pub(crate) fn copy(&mut self, mut bytes: &[u8]) {
        while self.open.len() + bytes.len() >= CHUNK {
            let (now, later) = bytes.split_at(CHUNK - self.open.len());
            self.open.extend_from_slice(now);
            self.flush();
            self.open.reserve(CHUNK);
            bytes = later;
        }
        self.open.extend_from_slice(bytes);
    }

    /// Appends a stored object that follows what stands for its opening brace.
    pub(crate) fn object(&mut self, prefix: &str, stored: &Stored) {
        // A stored object has at least `metadata`, so what follows the brace is never empty.
        self.copy(prefix.as_bytes());
        if stored.size() < CHUNK {
            let mut skip = 1;
            return stored.write(|piece| {
                self.copy(&piece[skip..]);
                skip = 0;
            });
        }
        let bytes = Bytes::from_owner(Arc::clone(&stored.bytes));
        self.flush();
        if stored.owners.is_empty() {
            return self.ready.push_back(bytes.slice(1..));
        }
        self.ready.push_back(bytes.slice(1..stored.gap()));
        stored.write_owners(|piece| self.copy(piece));
        self.flush();
        self.ready.push_back(bytes.slice(stored.gap()..));
    }

    fn flush(&mut self) {
        if !self.open.is_empty() {
            self.ready.push_back(self.open.split().freeze());
        }
    }
}

type Render = Box<dyn FnMut(&Stored, &mut Out) + Send>;

/// A body made of stored objects.
pub(crate) struct Listing {
    items: std::vec::IntoIter<Arc<Stored>>,
    render: Render,
    first: bool,
    tail: Option<&'static str>,
    out: Out,
    /// How many bytes are left, if that is known.
    left: Option<u64>,
}

impl Listing {
    /// Returns the body of `head`, the objects with commas between them, and `tail`.
    pub(crate) fn new(head: &str, items: Vec<Arc<Stored>>, tail: &'static str, render: Render) -> Listing {
        Listing::begin(head, Out::default(), items, tail, render)
    }

    fn begin(head: &str, mut out: Out, items: Vec<Arc<Stored>>, tail: &'static str, render: Render) -> Listing {
        out.copy(head.as_bytes());
        Listing { items: items.into_iter(), render, first: true, tail: Some(tail), out, left: None }
    }

    /// Returns the body of objects as they are stored.
    pub(crate) fn stored(head: &str, prefix: String, items: Vec<Arc<Stored>>, tail: &'static str) -> Listing {
        let commas = items.len().saturating_sub(1);
        let objects: usize = items.iter().map(|stored| prefix.len() + stored.size() - 1).sum();
        let length = head.len() + commas + objects + tail.len();
        let render = Box::new(move |stored: &Stored, out: &mut Out| out.object(&prefix, stored));
        Listing { left: Some(length as u64), ..Listing::begin(head, Out::with_capacity(length), items, tail, render) }
    }

    pub(crate) fn boxed(self) -> Body {
        self.boxed_unsync()
    }

    fn next(&mut self) -> Option<Bytes> {
        while self.out.ready.is_empty() {
            if let Some(stored) = self.items.next() {
                if !std::mem::replace(&mut self.first, false) {
                    self.out.copy(b",");
                }
                (self.render)(&stored, &mut self.out);
            } else {
                let tail = self.tail.take()?;
                self.out.copy(tail.as_bytes());
                self.out.flush();
            }
        }
        self.out.ready.pop_front()
    }
}

impl http_body::Body for Listing {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let chunk = self.next();
        if let (Some(left), Some(chunk)) = (&mut self.left, &chunk) {
            *left -= chunk.len() as u64;
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.tail.is_none() && self.out.ready.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use serde_json::{Value, json};

    fn items(sizes: &[usize]) -> Vec<Arc<Stored>> {
        sizes
            .iter()
            .enumerate()
            .map(|(n, size)| {
                Arc::new(Stored::new(7, json!({"metadata": {"name": format!("o{n}")}, "data": {"k": "x".repeat(*size)}})))
            })
            .collect()
    }

    #[tokio::test]
    async fn a_list_is_whole_however_it_is_cut() {
        let owned = |stored: &Stored| {
            let entry = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2026-11-16T00:00:00Z",
                               "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}});
            let managers = apply::Managers::decode(&json!([entry, entry])).unwrap();
            Arc::new(Stored::owned(7, stored.object(), apply::Packed::new(&managers)))
        };
        for sizes in [vec![], vec![1], vec![10; 5_000], vec![CHUNK, 1, 3 * CHUNK, CHUNK - 90, 2]] {
            let listing = Listing::stored("{\"items\":[", "{".to_owned(), items(&sizes), "]}");
            let length = listing.size_hint().exact().unwrap();
            let bytes = listing.collect().await.unwrap().to_bytes();
            assert_eq!(bytes.len() as u64, length);
            let with_owners = items(&sizes).iter().map(|stored| owned(stored)).collect();
            let listing = Listing::stored("{\"items\":[", "{".to_owned(), with_owners, "]}");
            let length = listing.size_hint().exact().unwrap();
            let longer = listing.collect().await.unwrap().to_bytes();
            assert_eq!(longer.len() as u64, length);
            let list: Value = serde_json::from_slice(&longer).unwrap();
            assert!(
                list["items"].as_array().unwrap().iter().all(|item| item["metadata"]["managedFields"][0]["manager"] == "m")
            );
            let list: Value = serde_json::from_slice(&bytes).unwrap();
            let lengths: Vec<usize> =
                list["items"].as_array().unwrap().iter().map(|item| item["data"]["k"].as_str().unwrap().len()).collect();
            assert_eq!(lengths, sizes);
        }
    }

    #[tokio::test]
    async fn what_is_not_read_is_not_made() {
        let all = items(&[100; 10_000]);
        let mut listing = Listing::stored("[", "{".to_owned(), all.clone(), "]");
        let first = listing.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() < 2 * CHUNK, "{}", first.len());
        assert!(listing.out.open.len() + listing.out.ready.iter().map(Bytes::len).sum::<usize>() < 2 * CHUNK);
        let large = items(&[10 * CHUNK]);
        let mut listing = Listing::stored("[", "{".to_owned(), large.clone(), "]");
        listing.frame().await.unwrap().unwrap();
        let second = listing.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(second.as_ptr(), large[0].bytes[1..].as_ptr(), "a large object is sent from where it is");
    }
}
