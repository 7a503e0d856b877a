//! A connection that lets others have their turn, however much it has to say.
//!
//! Whoever serves a connection goes on as long as there is something to read or room to write. Without a pause, thirty clients
//! that send as fast as they can keep the async workers for a tenth of a second a round, and probes and heartbeats wait.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read and written before others have their turn: encrypted or decrypted in about a tenth of a millisecond.
const SLICE: usize = 64 << 10;

/// A connection that pauses after every slice.
#[derive(Debug)]
pub(crate) struct Fair<S> {
    stream: S,
    moved: usize,
}

impl<S> Fair<S> {
    pub(crate) fn new(stream: S) -> Fair<S> {
        Fair { stream, moved: 0 }
    }

    /// Does one read or write, unless others have to have their turn first.
    fn turn<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(&mut S, &mut Context<'_>) -> Poll<io::Result<T>>,
        length: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if self.moved >= SLICE {
            self.moved = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let done = act(&mut self.stream, cx);
        match &done {
            Poll::Ready(Ok(done)) => self.moved += length(done),
            // Whoever waits for the other side lets others have their turn.
            _ => self.moved = 0,
        }
        done
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Fair<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.turn(
            cx,
            |stream, cx| Pin::new(stream).poll_read(cx, buffer).map_ok(|()| buffer.filled().len() - before),
            |length| *length,
        );
        read.map_ok(drop)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Fair<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.turn(cx, |stream, cx| Pin::new(stream).poll_write(cx, bytes), |length| *length)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.turn(cx, |stream, cx| Pin::new(stream).poll_write_vectored(cx, slices), |length| *length)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn others_have_their_turn_after_every_slice() {
        let (mut sender, receiver) = tokio::io::duplex(8 * SLICE);
        sender.write_all(&[7; 4 * SLICE]).await.unwrap();
        let mut fair = Fair::new(receiver);
        let (mut buffer, mut pauses) = (vec![0; SLICE / 4], 0);
        for _ in 0..16 {
            // The first poll says whether this read had to wait.
            let first = poll_fn(|cx| {
                let mut room = ReadBuf::new(&mut buffer);
                Poll::Ready(Pin::new(&mut fair).poll_read(cx, &mut room).is_ready())
            })
            .await;
            if !first {
                pauses += 1;
                fair.read_exact(&mut buffer).await.unwrap();
            }
        }
        assert_eq!(pauses, 3, "after the first, the second and the third slice");
        for _ in 0..4 {
            fair.write_all(&buffer).await.unwrap();
        }
        let mut back = vec![0; SLICE];
        sender.read_exact(&mut back).await.unwrap();
        assert!(back.iter().all(|byte| *byte == 7), "nothing is lost");
    }
}
