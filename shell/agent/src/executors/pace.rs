//! What a target may send in answer to one request, and how long it may keep a worker of the runtime busy with it.
//!
//! Whoever is probed decides how much arrives and how fast. Reading goes on as long as there is something to read, so without a
//! pause one target could keep a worker, and everything that waits for it, as long as it likes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// All that may arrive on a connection: headers, interim answers, trailers, the frames of TLS and HTTP/2. The parts that
/// matter have smaller limits of their own.
const ANSWER_MAX: usize = 1 << 20;
/// What is taken before others have their turn: even as records of one byte it is decrypted and parsed in well under a millisecond.
const SLICE: usize = 16 << 10;
/// What a read counts at least: one of a single byte is a system call too.
const READ_MIN: usize = 128;
/// What is said of a target that sends more than it may.
pub(super) const TOO_LONG: &str = "the answer is longer than 1 MiB";

/// Counts what arrives on a connection.
#[derive(Debug, Default)]
pub(super) struct Pace {
    received: usize,
    slice: usize,
}

impl Pace {
    /// Counts a read; returns whether the connection may go on.
    pub(super) fn count(&mut self, length: usize) -> bool {
        self.received = self.received.saturating_add(length);
        self.slice += length.max(READ_MIN);
        self.received <= ANSWER_MAX
    }

    /// Returns whether others must have their turn before the next read; asked again, they have had it.
    pub(super) fn must_yield(&mut self) -> bool {
        let full = self.slice >= SLICE;
        if full {
            self.slice = 0;
        }
        full
    }
}

/// A connection that keeps the pace whatever reads from it.
#[derive(Debug)]
pub(super) struct Paced {
    stream: TcpStream,
    pace: Pace,
}

impl Paced {
    pub(super) fn new(stream: TcpStream, pace: Pace) -> Paced {
        Paced { stream, pace }
    }
}

impl AsyncRead for Paced {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.pace.must_yield() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let length = buffer.filled().len() - before;
        Poll::Ready(if self.pace.count(length) { Ok(()) } else { Err(io::Error::other(TOO_LONG)) })
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_their_turn_after_a_slice_of_bytes_or_of_reads() {
        let mut pace = Pace::default();
        assert!(pace.count(SLICE - 1) && !pace.must_yield());
        assert!(pace.count(1) && pace.must_yield() && !pace.must_yield());
        let reads = (0..).take_while(|_| pace.count(1) && !pace.must_yield()).count();
        assert_eq!(reads + 1, SLICE / READ_MIN);
    }

    #[test]
    fn an_answer_has_an_end() {
        let mut pace = Pace::default();
        assert!(pace.count(ANSWER_MAX));
        assert!(!pace.count(1));
    }
}
